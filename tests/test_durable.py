"""Files are whole or absent, the first writer wins, and nothing is left lying about."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustboard import durable
from robustboard.errors import DiskFullError, StoreError

FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    durable.write(path, b"old")
    durable.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["file"]


def test_publish_never_replaces_and_says_whether_the_bytes_are_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert durable.publish(path, b"first")
    assert durable.publish(path, b"first")
    assert not durable.publish(path, b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_publish_without_hard_links_still_never_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert durable.publish(tmp_path / "file", b"first")
    assert not durable.publish(tmp_path / "file", b"second")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("put", [durable.write, durable.publish])
def test_a_failed_flush_keeps_the_old_state_and_names_the_file(
    put: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may refuse at the flush: that commit is over, nothing half-written is left."""
    assert callable(put)
    old = tmp_path / "old"
    durable.write(old, b"old")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    for path in (old, tmp_path / "new"):
        if put is durable.publish and path == old:
            continue
        with pytest.raises(StoreError, match=rf"{path.name}: cannot write: Input/output error"):
            put(path, b"new")
    assert names(tmp_path) == ["old"]
    assert old.read_bytes() == b"old"


@pytest.mark.parametrize("put", [durable.write, durable.publish])
def test_no_room_says_how_much_is_needed_and_free(
    put: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(put)

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DiskFullError, match=r"new: no room on the disk: 5 bytes needed, \d+ free") as caught:
        put(tmp_path / "new", b"bytes")
    assert caught.value.exit_code == 3
    assert names(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_what_is_stored_and_goes_on_once_there_is_room(small_disk: Path) -> None:
    """E4: on a real file system of 160 KB."""
    data = os.urandom(50_000)
    stored = 0
    while True:
        try:
            durable.publish(small_disk / f"file{stored}", data)
        except DiskFullError:
            break
        stored += 1
    assert 2 <= stored <= 3
    assert names(small_disk) == [f"file{number}" for number in range(stored)]
    assert all((small_disk / name).read_bytes() == data for name in names(small_disk))
    (small_disk / "file0").unlink()
    assert durable.publish(small_disk / f"file{stored}", data)


def test_sweep_deletes_leftovers_of_dead_writers_only(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    prefix = durable._mark().removesuffix(f"{os.getpid()}-")
    dead, alive, foreign = f"{prefix}{child.pid}-0123", f"{prefix}{os.getpid()}-0123", ".partial-other-1-0123"
    for name in (dead, alive, foreign, "file"):
        (tmp_path / name).write_bytes(b"")
    assert durable.sweep(tmp_path) == 1
    assert names(tmp_path) == sorted([alive, foreign, "file"])
    assert durable.sweep(tmp_path / "absent") == 0


def test_quarantine_keeps_every_damaged_file(tmp_path: Path) -> None:
    kept = []
    for content in (b"one", b"two"):
        (tmp_path / "file").write_bytes(content)
        kept.append(durable.quarantine(tmp_path / "file", tmp_path / "quarantine", "file"))
    assert [path.read_bytes() for path in kept] == [b"one", b"two"]
    assert not (tmp_path / "file").exists()


def test_remove_of_an_absent_file_is_nothing(tmp_path: Path) -> None:
    durable.remove(tmp_path / "file")
    durable.write(tmp_path / "file", b"")
    durable.remove(tmp_path / "file")
    assert names(tmp_path) == []


def _publish_many(folder: str, content: bytes, count: int) -> None:
    for number in range(count):
        durable.publish(Path(folder) / f"shared{number}", content)
        durable.write(Path(folder) / f"mine-{content[:1].decode()}{number}", content)


def test_two_writers_at_once_leave_whole_files_of_one_of_them(tmp_path: Path) -> None:
    """B065: 100 times at the same moment; both sets are there, every file is whole."""
    contents = [b"A" * 5_000, b"B" * 5_000]
    writers = [FORK.Process(target=_publish_many, args=(str(tmp_path), c, 100)) for c in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(names(tmp_path)) == 300
    for number in range(100):
        assert (tmp_path / f"shared{number}").read_bytes() in contents
        for content in contents:
            assert (tmp_path / f"mine-{content[:1].decode()}{number}").read_bytes() == content


def _hold(folder: str, seconds: float) -> None:
    with durable.exclusive(Path(folder)):
        (Path(folder) / "held").write_bytes(b"")
        time.sleep(seconds)


def test_a_killed_holder_of_a_lock_blocks_nobody(tmp_path: Path) -> None:
    """B065: a remaining lock does not block the next run."""
    holder = FORK.Process(target=_hold, args=(str(tmp_path), 60.0))
    holder.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    holder.kill()
    holder.join()
    started = time.monotonic()
    with durable.exclusive(tmp_path):
        assert time.monotonic() - started < 5


def test_a_lock_keeps_another_process_waiting(tmp_path: Path) -> None:
    waiter = FORK.Process(target=_hold, args=(str(tmp_path), 0.0))
    with durable.exclusive(tmp_path):
        waiter.start()
        waiter.join(0.5)
        assert waiter.is_alive()
        assert not (tmp_path / "held").exists()
    waiter.join(10)
    assert waiter.exitcode == 0


def test_a_file_that_can_be_made_again_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    durable.replace(path, b"old")
    durable.replace(path, b"new")
    assert path.read_bytes() == b"new"

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(DiskFullError):
        durable.replace(path, b"newer")
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert path.read_bytes() == b"new"
