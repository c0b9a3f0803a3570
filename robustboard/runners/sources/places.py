"""Where data files lie on this machine, and whether they are the ones that were pinned."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from robustboard.errors import CellError, LockError
from robustboard.registry.resolve import digest_file
from robustboard.runners.sources.stored import Request
from robustboard.workspace import Workspace

VARIABLE = "ROBUSTBOARD_DATA"
SYSTEM = Path("/usr/share/datasets")

PACKAGES: dict[str, str] = {"fashion-mnist": "dataset-fashion-mnist"}
"""First part of a path → the Debian package that brings it."""


class AbsentFile(CellError):
    """A source's files are not on this machine: the one failure after which a mirror is tried."""

    def __init__(self, reason: str) -> None:
        """Say where the files were sought and how to get them."""
        super().__init__("missing", reason)


def data_folders(workspace: Workspace) -> tuple[Path, ...]:
    """Folders that are searched for data, first to last.

    Those of the variable ROBUSTBOARD_DATA, data/ beside the output, data/ beside the content,
    /usr/share/datasets.
    """
    named = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return tuple(dict.fromkeys([*named, workspace.output / "data", workspace.content / "data", SYSTEM]))


def find_data(path: str, workspace: Workspace, *, alternatives: Iterable[str] = ()) -> Path:
    """The file or folder of that relative path in the first data folder that has it, or an alternative.

    Raises AbsentFile that lists the folders and says how to get the file.
    """
    folders = data_folders(workspace)
    for folder in folders:
        for name in (path, *alternatives):
            found = folder / name
            if found.exists():
                return found
    top = path.split("/", maxsplit=1)[0]
    package = PACKAGES.get(top)
    searched = ", ".join(workspace.show(folder) for folder in folders)
    get = f"apt-get install {package} (Debian, Ubuntu), or " if package else ""
    raise AbsentFile(
        f"{path} is in none of {searched}; {get}set {VARIABLE} to the folder that holds {top}",
    )


def check_file(path: Path, name: str, request: Request, pinned: str | None = None) -> None:
    """Hash a whole file and compare it with its pins, see `check_pins`.

    Raises CellError: `decode` where it cannot be read, `hash-mismatch` where it is another file.
    """
    try:
        size, sha256 = digest_file(path)
    except LockError as error:
        raise CellError("decode", str(error)) from error
    check_pins(name, size, sha256, request, pinned)


def check_pins(name: str, size: int, sha256: str, request: Request, pinned: str | None = None) -> None:
    """Compare one file with the entry's pin and with the lock, where the lock names it.

    Raises CellError of kind `hash-mismatch` that names the file.
    """
    if pinned is not None and sha256 != pinned:
        raise CellError(
            "hash-mismatch",
            f"{name}: expected SHA-256 {pinned} as in the entry {request.entry.id}, got {sha256};"
            " fetch the file again",
        )
    for file in request.locked.files if request.locked is not None else ():
        if file.path == name and (file.size, file.sha256) != (size, sha256):
            raise CellError(
                "hash-mismatch",
                f"{name}: expected {file.size} bytes of SHA-256 {file.sha256} as in registry/lock.yaml,"
                f" got {size} of {sha256}; fetch the file again,"
                f" or run robustboard lock dataset/{request.entry.id} if the new content is wanted",
            )


def wrong_count(name: str, declared: int, found: int) -> CellError:
    """The error for a set that has more or fewer images than its entry says."""
    return CellError(
        "missing" if found < declared else "labels",
        f"{name}: expected {declared} images as the entry's size says, got {found}",
    )


def need_native_size(request: Request) -> int:
    """Height and width of the stored arrays. Raises CellError where the entry names none."""
    size = request.entry.native_size
    if size is None:
        raise CellError(
            "decode",
            f"expected native_size in an entry of kind {request.entry.source.kind}, got none",
        )
    return size
