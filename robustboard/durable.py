"""Files that are whole or absent, also after kill -9 and power loss.

Two ways to put a file in place: `write` replaces what was there, `publish` never does: the first
writer wins. Both go through a temporary file beside the target, flush it, move it into place in
one step and flush the folder, so that a file that was there once these functions returned is
there, whole, after the power fails. Every call to the operating system that changes the disk
stands in this module.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from robustboard.errors import DiskFullError, StoreError

TEMPORARY = ".partial-"
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@contextmanager
def _told(path: Path, needed: int = 0) -> Iterator[None]:
    """Turn the system's refusals into one line that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFullError(path.as_posix(), needed, _free(path)) from error
        raise StoreError(f"{path.as_posix()}: cannot write: {error.strerror or error}") from error


def _free(path: Path) -> int:
    folder = path
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk. Raises DiskFullError or StoreError."""
    with _told(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and flush the parent of each one created.

    Raises DiskFullError or StoreError when the system refuses.
    """
    missing = []
    existing = folder
    while not existing.exists():
        missing.append(existing)
        existing = existing.parent
    with _told(folder):
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            sync_folder(path.parent)


def _mark() -> str:
    """Start of the names of this process's temporary files."""
    host = "".join(c if c.isalnum() else "_" for c in socket.gethostname())
    return f"{TEMPORARY}{host}-{os.getpid()}-"


@contextmanager
def _flushed(path: Path, data: bytes) -> Iterator[Path]:
    """A temporary file beside `path` with the bytes flushed; gone afterwards, whatever happens."""
    partial = path.with_name(f"{_mark()}{secrets.token_hex(8)}")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a reader sees the old bytes or all the new ones.

    Raises DiskFullError or StoreError; the old bytes then stay.
    """
    make_folder(path.parent)
    with _told(path, len(data)):
        with _flushed(path, data) as partial:
            partial.replace(path)
        sync_folder(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Replace `path` by `data` as `write` does, but without waiting for the disk.

    For files that can be made again: after a power cut the path may hold old, new or no bytes. Its folder has
    to be there. Raises DiskFullError or StoreError.
    """
    partial = path.with_name(f"{_mark()}{secrets.token_hex(8)}")
    with _told(path, len(data)):
        try:
            partial.write_bytes(data)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def publish(path: Path, data: bytes) -> bool:
    """Put `data` at `path` unless a file is there already: the first writer wins.

    Returns whether `path` now holds exactly these bytes, be they ours or an equal writer's. Two
    processes may publish at once without any lock. Raises DiskFullError or StoreError.
    """
    make_folder(path.parent)
    first = False
    with _told(path, len(data)):
        if not path.exists():
            with _flushed(path, data) as partial:
                first = _link(partial, path)
        sync_folder(path.parent)
        return first or path.read_bytes() == data


def _link(partial: Path, path: Path) -> bool:
    """Give the flushed file its name; False when the name is taken."""
    try:
        os.link(partial, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if path.exists():
            return False
        partial.replace(path)
    return True


def open_slots(path: Path, size: int) -> int:
    """Open a file of places to be written in any order, for both; new or cut short, it reads as zeros.

    Nothing of it is flushed: only for what its reader can check and make anew. The descriptor is the
    caller's to close. Raises DiskFullError or StoreError.
    """
    with _told(path, size):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if os.fstat(handle).st_size != size:
                os.ftruncate(handle, size)
            os.utime(handle)
        except OSError:
            os.close(handle)
            raise
    return handle


def write_at(handle: int, data: memoryview, offset: int) -> None:
    """Write all bytes at one place of an open file. Raises OSError."""
    rest = data.cast("B")
    while rest:
        count = os.pwrite(handle, rest, offset)
        rest, offset = rest[count:], offset + count


def remove(path: Path) -> None:
    """Delete a file if it is there, and flush the folder."""
    with _told(path):
        if path.exists():
            path.unlink(missing_ok=True)
            sync_folder(path.parent)


def quarantine(path: Path, folder: Path, name: str) -> Path:
    """Move a damaged file out of the way into `folder`, under a name that is not taken yet."""
    make_folder(folder)
    target = folder / f"{name}.{secrets.token_hex(4)}"
    with _told(path):
        path.replace(target)
        sync_folder(folder)
        sync_folder(path.parent)
    return target


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def sweep(folder: Path) -> int:
    """Delete the temporary files that dead writers of this machine left in `folder`; how many."""
    prefix = _mark().rsplit("-", 2)[0] + "-"
    swept = 0
    for path in folder.glob(f"{prefix}*") if folder.is_dir() else ():
        owner = path.name.removeprefix(prefix).split("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            path.unlink(missing_ok=True)
            swept += 1
    return swept


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the advisory lock of a folder; waits for whoever holds it.

    The lock goes with the process, so a killed holder never blocks the next one. Where the file
    system has no locks the block is entered all the same: locks save double work, `publish` keeps
    it correct.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # Closing alone would leave the lock to a child process that was forked meanwhile.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def scratch(folder: Path) -> BinaryIO:
    """A nameless file on the disk of `folder`, gone with the process. Raises DiskFullError or StoreError."""
    make_folder(folder)
    with _told(folder):
        return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


def append(file: BinaryIO, data: bytes) -> None:
    """Write to a scratch file. Raises DiskFullError or StoreError."""
    with _told(Path("a scratch file"), len(data)):
        file.write(data)
