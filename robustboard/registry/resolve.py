"""What an entry's source is right now: commit, sizes and hashes, from disk or through the Hub."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Literal, cast

from robustboard.errors import CellError, LockError
from robustboard.registry.companions import CorruptedArrays, CorruptedFolders, parts
from robustboard.registry.entries import (
    DatasetEntry,
    FilePin,
    FileWeights,
    FolderData,
    HubData,
    HubWeights,
    IdxData,
    LockedEntry,
    LockedFile,
    NpzData,
    PackageWeights,
    ParquetData,
    SklearnDigits,
)
from robustboard.registry.generators import HubFolder
from robustboard.registry.lock import Lockable, key_of

FindData = Callable[[str], Path]
"""A relative data path → where it lies on this machine. Raises CellError that says where it was sought."""
ResolveHub = Callable[[Literal["model", "dataset"], HubWeights | HubData | HubFolder], LockedEntry]
"""A Hub source → its commit and its files; `unresolved` means the newest commit."""

DIGITS = "sklearn/datasets/data/digits.csv.gz"
GZIP = b"\x1f\x8b"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Resolver:
    """Reads sources; the ways to data folders and to the Hub are handed in."""

    find: FindData
    hub: ResolveHub | None = None

    def resolve(self, entry: Lockable) -> LockedEntry | None:
        """The lock's line for an entry; None for weights that are trained here, views and no weights.

        Raises LockError when the source is absent or its content is not what the entry says.
        """
        source = entry.source
        if isinstance(source, HubWeights | HubData | HubFolder):
            locked = self._from_hub(entry, source)
        elif isinstance(source, PackageWeights):
            locked = _from_package(entry, source)
        elif isinstance(source, SklearnDigits):
            locked = _digits()
        elif isinstance(source, FolderData):
            size, sha256 = digest_folder(self._place(entry, source.path))
            locked = LockedEntry(files=(LockedFile(path=source.path, size=size, sha256=sha256),))
        elif isinstance(source, FileWeights):
            locked = self._from_files(entry, (FilePin(path=source.path, sha256=source.sha256),))
        elif isinstance(source, IdxData):
            locked = self._from_files(entry, (source.images, source.labels), unpack=True)
        elif isinstance(source, ParquetData):
            locked = self._from_files(entry, source.files)
        elif isinstance(source, NpzData):
            locked = self._from_files(entry, (source.file,))
        elif isinstance(source, CorruptedArrays | CorruptedFolders):
            locked = self._corrupted(entry, source)
        else:
            return None
        return locked

    def _corrupted(self, entry: Lockable, source: CorruptedArrays | CorruptedFolders) -> LockedEntry:
        """A file of arrays, or a folder of one corruption and severity, is checked by itself."""
        if isinstance(source, CorruptedArrays):
            names = sorted({name for corruption in source.corruptions for name in source.files(corruption)})
            found = [(name, *digest_file(self._place(entry, name))) for name in names]
        else:
            names = [source.folder(*part) for part in parts(source)]
            found = [(name, *digest_folder(self._place(entry, name))) for name in names]
        return LockedEntry(
            files=tuple(LockedFile(path=name, size=size, sha256=sha256) for name, size, sha256 in found)
        )

    def _from_hub(self, entry: Lockable, source: HubWeights | HubData | HubFolder) -> LockedEntry:
        if self.hub is None:
            raise LockError(f"{key_of(entry)}: {source.repo} lies on the Hub, which this call may not ask")
        return self.hub("dataset" if isinstance(entry, DatasetEntry) else "model", source)

    def _place(self, entry: Lockable, path: str) -> Path:
        try:
            return self.find(path)
        except CellError as error:
            raise LockError(f"{key_of(entry)}: {error.reason}") from error

    def _from_files(self, entry: Lockable, pins: tuple[FilePin, ...], *, unpack: bool = False) -> LockedEntry:
        files = []
        for pin in pins:
            size, sha256 = digest_file(self._place(entry, pin.path), unpack=unpack)
            _compare(entry, pin, sha256)
            files.append(LockedFile(path=pin.path, size=size, sha256=sha256))
        return LockedEntry(files=tuple(files))


def _compare(entry: Lockable, pin: FilePin, sha256: str) -> None:
    if sha256 != pin.sha256:
        raise LockError(f"{key_of(entry)}: {pin.path}: expected SHA-256 {pin.sha256}, got {sha256}")


def _from_package(entry: Lockable, source: PackageWeights) -> LockedEntry:
    path, version = package_file(source.distribution, source.path)
    size, sha256 = digest_file(path)
    _compare(entry, FilePin(path=source.path, sha256=source.sha256), sha256)
    return LockedEntry(version=version, files=(LockedFile(path=source.path, size=size, sha256=sha256),))


def _digits() -> LockedEntry:
    """No version: every scikit-learn ships the same numbers, and the hash is of the unpacked table."""
    path, _ = package_file("scikit-learn", DIGITS)
    size, sha256 = digest_file(path, unpack=True)
    return LockedEntry(files=(LockedFile(path=DIGITS, size=size, sha256=sha256),))


def package_file(distribution: str, path: str) -> tuple[Path, str]:
    """Where a file of an installed distribution lies, and the distribution's version.

    Raises LockError when the distribution or the file is absent, with the command that installs it.
    """
    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        raise LockError(
            f"the Python package {distribution} is not installed; run: pip install {distribution}"
        ) from None
    place = Path(str(found.locate_file(path)))
    if not place.is_file():
        raise LockError(f"the Python package {distribution} {found.version} holds no file {path}")
    return place, found.version


def digest_file(path: Path, *, unpack: bool = False) -> tuple[int, str]:
    """Size in bytes and SHA-256 of a file; of the unpacked bytes where `unpack` is set and it is gzip.

    Raises LockError when the file cannot be read to its end.
    """
    digest = hashlib.sha256()
    size = 0
    try:
        with _opened(path, unpack=unpack) as file:
            while chunk := file.read(CHUNK):
                size += len(chunk)
                digest.update(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise LockError(f"{path}: expected a readable file, got {error}") from error
    return size, digest.hexdigest()


def _opened(path: Path, *, unpack: bool) -> BinaryIO:
    with path.open("rb") as file:
        packed = unpack and file.read(len(GZIP)) == GZIP
    return cast("BinaryIO", gzip.open(path)) if packed else path.open("rb")


def digest_folder(folder: Path) -> tuple[int, str]:
    """Bytes in all files below a folder, and the SHA-256 of its list of files.

    The list holds one line `SHA-256, two spaces, path` a file, sorted by path, as `sha256sum` prints
    it. Raises LockError for an empty or unreadable folder, and for links in it.
    """
    if not folder.is_dir():
        raise LockError(f"{folder}: expected a folder, got a file")
    lines = []
    total = 0
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        if path.is_symlink():
            raise LockError(f"{path}: expected files and folders only, got a link")
        if path.is_file():
            size, sha256 = digest_file(path)
            total += size
            lines.append(f"{sha256}  {path.relative_to(folder).as_posix()}\n")
    if not lines:
        raise LockError(f"{folder}: expected files in the folder, got none")
    return total, hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
