"""Files that are whole or absent, also after kill -9 and power loss."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

TEMPORARY = ".partial-"


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and flush the parent of each one created."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def write(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a reader sees the old bytes or all the new ones.

    The bytes go to a temporary file beside it, are flushed, renamed over the path, and the
    folder is flushed. The temporary file goes away when anything fails.
    """
    make_folder(path.parent)
    partial = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}-{path.name}")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sweep(folder: Path) -> int:
    """Delete the temporary files that killed writers left in `folder`; how many there were."""
    leftovers = list(folder.glob(f"{TEMPORARY}*")) if folder.is_dir() else []
    for path in leftovers:
        path.unlink(missing_ok=True)
    return len(leftovers)
