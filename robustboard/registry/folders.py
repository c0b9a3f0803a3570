"""Folders of content files: every file read, every fault collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from robustboard import yamls
from robustboard.errors import ContentError, Problem, WorkspaceError, echo
from robustboard.fields import ID_RULE, is_entry_id
from robustboard.workspace import Workspace

SUFFIX = ".yaml"
E = TypeVar("E", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Found(Generic[E]):
    """An entry with the document that it was read from, so that later complaints find their line."""

    entry: E
    node: yamls.Mapping
    name: str

    def problem(self, location: tuple[int | str, ...], message: str) -> Problem:
        """A complaint about the field at a location such as ("training", "overlap", "cifar10")."""
        line, dotted = yamls.locate(self.node, location)
        return Problem(self.name, line, dotted, message)


@dataclass(slots=True)
class Folder(Generic[E]):
    """What a folder holds: sound entries by id, the ids of all files, and the faults."""

    entries: dict[str, Found[E]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    """Ids of broken files too: a reference to one of them is no second fault."""
    problems: list[Problem] = field(default_factory=list)


def read_folder(
    workspace: Workspace,
    path: Path,
    choose: Callable[[yamls.Mapping], type[E]],
    *,
    limits: yamls.Limits = yamls.ENTRY,
    besides: frozenset[str] = frozenset({"README.md"}),
) -> Folder[E]:
    """Read every YAML file of a folder, in the order of names.

    `choose` says by the parsed document which type it must be. `besides` names the files that may lie
    there without being entries; names that start with a dot are passed over unless they end like an
    entry. An absent folder is an empty one: the caller knows which must be there.
    """
    found: Folder[E] = Folder()
    name = workspace.show(path)
    if path.is_symlink():
        found.problems.append(Problem(name, 1, "", "expected a folder, got a link"))
        return found
    if not path.is_dir():
        return found
    for file in sorted(path.iterdir()):
        shown = f"{name}/{file.name}".encode("unicode_escape").decode("ascii")
        hidden = file.name.startswith(".") and not file.name.endswith((SUFFIX, ".yml"))
        if hidden or file.name in besides:
            continue
        wrong = _wrong_name(file)
        if wrong:
            found.problems.append(Problem(shown, 1, "", wrong))
            continue
        found.ids.add(file.stem)
        try:
            node = yamls.parse(yamls.read_bytes(file, shown, limits), shown, limits)
            entry = yamls.build(node, choose(node), shown, file.stem)
            found.entries[file.stem] = Found(entry, node, shown)
        except ContentError as error:
            found.problems.extend(error.problems)
    return found


def _wrong_name(file: Path) -> str | None:
    """Why a file's name cannot be an entry's; None when it can."""
    if file.suffix != SUFFIX:
        return f"expected files named ID{SUFFIX} here, got {echo(file.name)}"
    if is_entry_id(file.stem):
        return None
    twin = file.with_name(f"{file.stem.casefold()}{SUFFIX}")
    beside = f" beside {echo(twin.name)}" if twin != file and twin.exists() else ""
    return f"expected {ID_RULE} before {SUFFIX}, got {echo(file.stem)}{beside}"


def need_folder(workspace: Workspace, path: Path) -> None:
    """Raise WorkspaceError when a content folder is absent: absent is never empty."""
    if not path.is_dir():
        raise WorkspaceError(f"{workspace.show(path)}: expected a folder, found none in {workspace.content}")


def by_id(folder: Folder[E]) -> Mapping[str, E]:
    """The sound entries, in the order of ids."""
    return {key: found.entry for key, found in sorted(folder.entries.items())}
