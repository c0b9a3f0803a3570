"""registry/lock.yaml: entry → commit, sizes and hashes of the files behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, RootModel

from robustboard import durable, yamls
from robustboard.errors import ContentError, LockError, Problem
from robustboard.fields import is_entry_id, refuse
from robustboard.registry.companions import ClassesOf
from robustboard.registry.entries import (
    UNRESOLVED,
    DatasetEntry,
    FilePin,
    HubData,
    HubWeights,
    IdxData,
    LockedEntry,
    ModelEntry,
    NpzData,
    PackageWeights,
    ParquetData,
    TrainedWeights,
)
from robustboard.registry.entries import FileWeights as _FileWeights
from robustboard.registry.generators import GeneratorEntry, HubFolder, TrainedUnet, TrainedVq
from robustboard.workspace import Workspace

Kind = Literal["model", "dataset", "generator"]
Lockable = ModelEntry | DatasetEntry | GeneratorEntry
HEADER = "# Written by `robustboard lock`: one line an entry. Correct entries, not this file.\n"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")


def key_of(entry: Lockable) -> str:
    """The entry's name in the lock: model/ID, dataset/ID or generator/ID."""
    kinds = {ModelEntry: "model", DatasetEntry: "dataset", GeneratorEntry: "generator"}
    return f"{kinds[type(entry)]}/{entry.id}"


def _key(value: object) -> str:
    kind, _, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if kind not in get_args(Kind) or not is_entry_id(name):
        raise refuse("model/ID, dataset/ID or generator/ID")
    return f"{kind}/{name}"


class _Lines(RootModel[dict[Annotated[str, BeforeValidator(_key)], LockedEntry]]):
    """The whole file."""


@dataclass(frozen=True, slots=True)
class Lock(Mapping[str, LockedEntry]):
    """What was resolved, by `model/ID`, `dataset/ID` and `generator/ID`."""

    entries: Mapping[str, LockedEntry] = field(default_factory=dict)

    def __getitem__(self, key: str) -> LockedEntry:
        """The line of one key."""
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        """Keys in order."""
        return iter(sorted(self.entries))

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.entries)

    def require(self, kind: Kind, name: str) -> LockedEntry:
        """The line of one entry. Raises LockError that says how to get one."""
        found = self.entries.get(f"{kind}/{name}")
        if found is None:
            raise LockError(
                f"{kind} {name} has no line in registry/lock.yaml, so nobody knows which bytes it means;"
                f" run: robustboard lock {kind}/{name}"
            )
        return found

    def pin(self, entry: Lockable) -> LockedEntry:
        """The line of an entry, which must agree with it.

        Raises LockError when there is none, or when it contradicts the entry's revision or hashes.
        """
        key = key_of(entry)
        kind: Kind = "dataset" if isinstance(entry, DatasetEntry) else "model"
        found = self.require("generator" if isinstance(entry, GeneratorEntry) else kind, entry.id)
        for where, message in contradictions(entry, found):
            raise LockError(f"registry/lock.yaml: {key}: {where}: {message}; run robustboard lock {key}")
        return found

    def replace(self, lines: Mapping[str, LockedEntry | None]) -> Lock:
        """A lock with some lines set, or taken out where the value is None; the others stay."""
        merged = {**self.entries, **lines}
        return Lock({key: value for key, value in merged.items() if value is not None})


def contradictions(entry: Lockable, locked: LockedEntry) -> list[tuple[str, str]]:
    """(field of the lock's line, complaint) for all that the entry itself pins otherwise."""
    source = entry.source
    if isinstance(source, ClassesOf | TrainedWeights | TrainedVq | TrainedUnet) or source is None:
        return [("", f"expected no line, got one: {_lineless(source)}")]
    found: list[tuple[str, str]] = []
    if isinstance(source, HubWeights | HubData | HubFolder):
        wanted = "a commit" if source.revision == UNRESOLVED else f"{source.revision} as in the entry"
        if locked.commit is None or source.revision not in (UNRESOLVED, locked.commit):
            found.append(("commit", f"expected {wanted}, got {locked.commit or 'none'}"))
    elif locked.commit is not None:
        found.append(("commit", f"expected none for a source of kind {source.kind}, got {locked.commit}"))
    hashes = {file.path: file.sha256 for file in locked.files}
    named = source.files if isinstance(source, HubFolder) else ()
    missing = [name for name in named if name not in hashes]
    found += [("files", f"expected {name} as in the entry, got no such file") for name in missing]
    for pin in pins(entry):
        if pin.path not in hashes:
            found.append(("files", f"expected {pin.path} as in the entry, got no such file"))
        elif hashes[pin.path] != pin.sha256:
            found.append(
                ("files", f"expected {pin.sha256} of {pin.path} as in the entry, got {hashes[pin.path]}")
            )
    return found


def _lineless(source: ClassesOf | TrainedWeights | TrainedVq | TrainedUnet | None) -> str:
    """Why an entry has nothing to lock."""
    if source is None:
        return "it has no weights"
    if isinstance(source, ClassesOf):
        return f"the images are those of dataset/{source.dataset}"
    return "this project trains the weights from the entry's recipe"


def pins(entry: Lockable) -> tuple[FilePin, ...]:
    """Files whose hashes stand in the entry itself."""
    source = entry.source
    if isinstance(source, HubWeights | HubData | ParquetData):
        return source.files
    if isinstance(source, _FileWeights | PackageWeights):
        return (FilePin(path=source.path, sha256=source.sha256),)
    if isinstance(source, IdxData):
        return (source.images, source.labels)
    return (source.file,) if isinstance(source, NpzData) else ()


def read_lock(workspace: Workspace) -> Lock:
    """The lock of a workspace. Raises ContentError with file and line, LockError when it is absent."""
    _, lock = read_lines(workspace)
    return lock


def read_lines(workspace: Workspace) -> tuple[yamls.Mapping, Lock]:
    """The lock, and its document for complaints that name a line."""
    path = workspace.registry / "lock.yaml"
    name = workspace.show(path)
    if not path.is_symlink() and not path.exists():
        raise LockError(f"{name}: expected the lock of the registry, found none; an empty one holds `{{}}`")
    node = yamls.parse(yamls.read_bytes(path, name, yamls.TABLE), name, yamls.TABLE)
    return node, Lock(yamls.build(node, _Lines, name).root)


def lock_bytes(lock: Lock) -> bytes:
    """The file's content: sorted keys, one line an entry, so that parallel branches merge."""
    lines = [f"{key}: {_flow(_short(lock[key]))}\n" for key in lock]
    return (HEADER + ("".join(lines) or "{}\n")).encode("utf-8")


def _short(entry: LockedEntry) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_defaults=True)


def _flow(value: object) -> str:
    """YAML flow style on one line; texts are quoted unless they are plain words."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def write_lock(workspace: Workspace, lock: Lock) -> None:
    """Replace registry/lock.yaml, whole or not at all.

    Raises LockError, and leaves the file alone, when what would stand there could not be read back.
    """
    path = workspace.registry / "lock.yaml"
    data = lock_bytes(lock)
    try:
        node = yamls.parse(data, workspace.show(path), yamls.TABLE)
        again = yamls.build(node, _Lines, workspace.show(path)).root
    except ContentError as error:
        raise LockError(f"the lock was not written: {error}") from error
    if again != dict(lock.entries):
        raise LockError("the lock was not written: its text would not mean what was resolved")
    durable.write(path, data)


def add_line(workspace: Workspace, key: str, found: LockedEntry | None) -> None:
    """Put one line into registry/lock.yaml as it is now, or take it out; lines of others stay, however new.

    Raises LockError like `write_lock`, and ContentError for a lock that cannot be read.
    """
    with durable.exclusive(workspace.registry):
        write_lock(workspace, read_lock(workspace).replace({key: found}))


def lock_problems(
    workspace: Workspace,
    models: Mapping[str, ModelEntry],
    datasets: Mapping[str, DatasetEntry],
    ids: set[str],
    generators: Mapping[str, GeneratorEntry] = MappingProxyType({}),
) -> list[Problem]:
    """Faults of the lock: unreadable, or at odds with the entries.

    `ids` holds the keys of all entry files, broken ones too.
    """
    path = workspace.registry / "lock.yaml"
    name = workspace.show(path)
    try:
        node, lock = read_lines(workspace)
    except ContentError as error:
        return list(error.problems)
    except LockError as error:
        return [Problem(name, 1, "", str(error).removeprefix(f"{name}: "))]
    entries: dict[str, Lockable] = {key_of(model): model for model in models.values()}
    entries.update({key_of(dataset): dataset for dataset in datasets.values()})
    entries.update({key_of(generator): generator for generator in generators.values()})
    found: list[Problem] = []
    for key in lock:
        line, _ = yamls.locate(node, (key,))
        if key not in ids:
            found.append(
                Problem(name, line, key, "expected an entry of that id, got none: take the line out")
            )
        elif key in entries:
            for where, message in contradictions(entries[key], lock[key]):
                found.append(Problem(name, line, f"{key}.{where}" if where else key, message))
    return found
