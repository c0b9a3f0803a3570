"""The power fails at any moment: what was acknowledged is there, what is there is whole.

The operations of one run are recorded, and every state that a disk may then show is built: names
in a folder that was not flushed may be there or not, bytes of a file that was not flushed may be
missing.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from robustboard import durable
from robustboard.errors import StoreError
from robustboard.runners.store import Store
from tests.runners.small import Made, files

MEMORY = Path("/dev/shm")
Kind = Literal["create", "mkdir", "link", "rename", "unlink", "flush", "flush folder", "acknowledge"]


@dataclass(frozen=True)
class Operation:
    """One thing that happened; paths are relative to the recorded folder."""

    kind: Kind
    path: str
    target: str = ""
    data: bytes = b""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: the disk is simulated here, a real one only slows."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path))
    yield folder
    shutil.rmtree(folder)


class Recorder:
    """Writes down what is done to one folder."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.log: list[Operation] = []
        fsync, link, real_mkdir, real_replace, real_unlink = (
            os.fsync,
            os.link,
            Path.mkdir,
            Path.replace,
            Path.unlink,
        )

        def flush(handle: int) -> None:
            fsync(handle)
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                self.note("flush folder", path)
            else:
                self.note("create", path, data=path.read_bytes())
                self.note("flush", path)

        def linked(source: Path, target: Path) -> None:
            link(source, target)
            self.note("link", source, target)

        def mkdir(path: Path, **options: Any) -> None:
            real_mkdir(path, **options)
            self.note("mkdir", path)

        def renamed(path: Path, target: Path) -> Path:
            done = real_replace(path, target)
            self.note("rename", path, target)
            return done

        def unlink(path: Path, **options: Any) -> None:
            there = path.exists()
            real_unlink(path, **options)
            if there:
                self.note("unlink", path)

        patch.setattr(os, "fsync", flush)
        patch.setattr(os, "link", linked)
        patch.setattr(Path, "mkdir", mkdir)
        patch.setattr(Path, "replace", renamed)
        patch.setattr(Path, "unlink", unlink)

    def note(self, kind: Kind, path: Path, target: Path | None = None, data: bytes = b"") -> None:
        """One more operation."""
        there = target.relative_to(self.root).as_posix() if target is not None else ""
        self.log.append(Operation(kind, path.relative_to(self.root).as_posix(), there, data))

    def acknowledge(self, what: str) -> None:
        """The program told somebody that this is stored."""
        self.log.append(Operation("acknowledge", what))


@dataclass
class File:
    """A file without its name."""

    data: bytes
    flushed: bool = False


@dataclass
class Folder:
    """Names that are on the disk for sure, and changes that may or may not be."""

    names: dict[str, Any] = field(default_factory=dict)
    pending: list[tuple[str, Any]] = field(default_factory=list)

    def now(self) -> dict[str, Any]:
        """What programs see while the power is on."""
        return self.after(range(len(self.pending)))

    def after(self, kept: Any) -> dict[str, Any]:
        """The names when these of the pending changes reached the disk."""
        names = dict(self.names)
        for place in kept:
            name, content = self.pending[place]
            if content is None:
                names.pop(name, None)
            else:
                names[name] = content
        return names


class Disk:
    """A file system that forgets what was not flushed."""

    def __init__(self, log: list[Operation]) -> None:
        self.root = Folder()
        self.acknowledged: list[str] = []
        for operation in log:
            self.apply(operation)

    def folder(self, path: str) -> Folder:
        found = self.root
        for part in Path(path).parts:
            found = found.now()[part]
        return found

    def apply(self, operation: Operation) -> None:
        path, target = Path(operation.path), Path(operation.target)
        if operation.kind == "acknowledge":
            self.acknowledged.append(operation.path)
            return
        if operation.kind == "flush folder":
            folder = self.folder(operation.path)
            folder.names, folder.pending = folder.now(), []
            return
        parent = self.folder(path.parent.as_posix())
        if operation.kind == "mkdir":
            parent.pending.append((path.name, parent.now().get(path.name) or Folder()))
        elif operation.kind == "create":
            parent.pending.append((path.name, File(operation.data)))
        elif operation.kind == "flush":
            parent.now()[path.name].flushed = True
        elif operation.kind == "unlink":
            parent.pending.append((path.name, None))
        else:
            content = parent.now()[path.name]
            self.folder(target.parent.as_posix()).pending.append((target.name, content))
            if operation.kind == "rename":
                parent.pending.append((path.name, None))

    def write(self, to: Path, luck: random.Random | None, *, all_kept: bool) -> None:
        """Build what may be there after the failure: nothing pending, all of it, or what luck decides."""
        self._write(self.root, to, luck, all_kept=all_kept)

    def _write(self, folder: Folder, to: Path, luck: random.Random | None, *, all_kept: bool) -> None:
        to.mkdir(parents=True, exist_ok=True)
        places = range(len(folder.pending))
        kept = [p for p in places if (luck.random() < 0.5 if luck else all_kept)]
        for name, content in folder.after(kept).items():
            if isinstance(content, Folder):
                self._write(content, to / name, luck, all_kept=all_kept)
                continue
            data = content.data
            if not content.flushed and not all_kept:
                data = data[: luck.randrange(len(data) + 1)] if luck else b""
            (to / name).write_bytes(data)


OLD, NEW = b"the old result\n", b"a newer and longer result\n"


@pytest.fixture
def recorded(memory: Path, made: Made, monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """A run of two shards, and a result file that is written twice."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files have no names here")
    root = memory / "recorded"
    root.mkdir()
    with monkeypatch.context() as patch:
        recorder = Recorder(root, patch)
        store = Store(root / "runs")
        with store.open(made.plan, made.ids, made.labels) as run:
            for index in list(run.missing):
                run.put(index, made.shard(index), made.facts)
                recorder.acknowledge(f"shard {index}")
            run.commit()
            recorder.acknowledge("run")
        for data in (OLD, NEW):
            durable.write(root / "results" / "net" / "x.json", data)
            recorder.acknowledge(data.decode())
    return recorder.log


@pytest.fixture
def made(made: Made) -> Made:
    """Fewer samples: two shards."""
    return replace(made, ids=made.ids[:15], labels=made.labels[:15])


def faults(
    log: list[Operation], made: Made, memory: Path, reference: dict[str, bytes], lucks: int
) -> tuple[int, list[str]]:
    """How many states were looked at, and what was wrong with them."""
    found, states = [], 0
    for moment in range(len(log) + 1):
        disk = Disk(log[:moment])
        for number, luck in enumerate((None, None, *map(random.Random, range(lucks)))):
            states += 1
            root = memory / "state"
            disk.write(root, luck, all_kept=number == 1)
            where = f"after {moment} of {len(log)}: {log[moment - 1] if moment else 'nothing'}"
            found += [f"{where}: {fault}" for fault in look(root, disk.acknowledged, made, reference)]
            shutil.rmtree(root)
    return states, found


def look(root: Path, acknowledged: list[str], made: Made, reference: dict[str, bytes]) -> list[str]:
    """What is wrong with one state."""
    store, found = Store(root / "runs"), []
    try:
        stored = store.read(made.key.digest)
    except StoreError as error:
        return [f"damaged: {error}"]
    if "run" in acknowledged and stored is None:
        found.append("lost: the run")
    for index in range(2):
        if f"shard {index}" in acknowledged:
            try:
                store.read_shard(made.key.digest, index)
            except StoreError as error:
                found.append(f"lost: {error}")
    path = root / "results" / "net" / "x.json"
    result = path.read_bytes() if path.exists() else b""
    allowed = (
        {NEW}
        if NEW.decode() in acknowledged
        else {OLD, NEW}
        if OLD.decode() in acknowledged
        else {b"", OLD, NEW}
    )
    if result not in allowed:
        found.append(f"lost or torn: result {result!r}")
    made.into(store)
    after = files(store.root / made.key.digest[:2], facts=True)
    leftovers = {name for name in after if durable.TEMPORARY in name}
    if {name: data for name, data in after.items() if name not in leftovers} != reference:
        found.append("other bytes after the next run")
    return found


def finished(memory: Path, made: Made) -> dict[str, bytes]:
    store = Store(memory / "reference" / "runs")
    made.into(store)
    return files(store.root / made.key.digest[:2], facts=True)


def test_no_power_loss_loses_or_damages_anything(recorded: list[Operation], made: Made, memory: Path) -> None:
    """E2: every moment, eight states each."""
    states, found = faults(recorded, made, memory, finished(memory, made), lucks=6)
    assert found == []
    assert states >= 400


MUTANTS: dict[str, Callable[[Operation], bool]] = {
    "files are not flushed": lambda operation: operation.kind != "flush",
    "no folder is flushed": lambda operation: operation.kind != "flush folder",
    "only the innermost folder is flushed": lambda operation: (
        operation.kind != "flush folder" or len(Path(operation.path).parts) > 2
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_flush_that_is_left_out_is_caught(
    recorded: list[Operation], made: Made, memory: Path, mutant: str
) -> None:
    """E2's controls: without one kind of flush something is lost or damaged."""
    log = [operation for operation in recorded if MUTANTS[mutant](operation)]
    assert len(log) < len(recorded)
    _, found = faults(log, made, memory, finished(memory, made), lucks=1)
    assert len(found) > 10
