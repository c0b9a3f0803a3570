"""Members of tar and zip files from strangers, read where they lie: nothing is ever unpacked to disk.

Only regular files with plain relative names count. Links, devices, sparse files, names that climb
out or occur twice, encryption, and numbers of members or bytes beyond all reason are refused.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from robustboard import durable
from robustboard.errors import CellError, echo
from robustboard.runners.sources.decoding import MAX_BYTES

MOST_MEMBERS = 500_000
"""Members of one archive."""

LARGEST_HEADER = 2**20
"""Bytes of a tar member's own description; PAX headers of gigabytes are bombs."""

LARGEST_DIRECTORY = 12 * 2**20
"""Bytes of a zip file's list of members: about 120,000 of them."""

MOST_SWOLLEN = 100
"""Times that an archive may grow; images hardly shrink, so even 10 would be odd."""

SMALL = 64 * 2**20
"""Bytes that an archive may grow to whatever its size."""

LONGEST_NAME = 300
CHUNK = 2**20
END_OF_ZIP = b"PK\x05\x06"
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of an archive."""

    path: str
    size: int
    read: Callable[[], bytes]
    """Its bytes. Raises CellError where they are damaged or more than an image can have."""


class Archive:
    """An open archive and its members, in stored order."""

    def __init__(self, path: Path, name: str, scratch: Path) -> None:
        """Open a file that was checked against the lock.

        Args:
            path: Where it lies.
            name: Its name in messages.
            scratch: A folder on a disk with room, for what a .tar.gz unpacks to; no name stays there.

        Raises:
            CellError: decode, naming the archive and the member.
        """
        self.name = name
        self.members: list[Member] = []
        self.file: IO[bytes] = path.open("rb")
        self.zip: zipfile.ZipFile | None = None
        try:
            if name.lower().endswith(".zip"):
                self._take(self._zip(path.stat().st_size))
            else:
                self._unpack(path.stat().st_size, scratch)
                self._take(self._tar())
        except CellError:
            self.close()
            raise
        except Exception as error:  # readers fed with damaged bytes raise whatever comes
            self.close()
            told = " ".join(str(error).split())[:120] or type(error).__name__
            raise self._refused(f"not an archive that can be read: {told}") from error

    def close(self) -> None:
        """Give the file back."""
        if self.zip is not None:
            self.zip.close()
        self.file.close()

    def _refused(self, why: str) -> CellError:
        return CellError("decode", f"{self.name}: {why}")

    def _take(self, members: Iterator[Member]) -> None:
        seen: set[str] = set()
        for member in members:
            if member.path in seen:
                raise self._refused(f"member {echo(member.path)} occurs twice")
            seen.add(member.path)
            self.members.append(member)

    def _check_name(self, path: str) -> str:
        parts = path.removesuffix("/").split("/")
        if (
            not path.isprintable()
            or len(path) > LONGEST_NAME
            or "\\" in path
            or ":" in parts[0]
            or any(part in ("", "..") for part in parts)
        ):
            raise self._refused(f"member {echo(path)}: expected a plain relative name")
        return "/".join(part for part in parts if part != ".")

    # tar

    def _unpack(self, size: int, scratch: Path) -> None:
        """Put what a gzip file holds into a nameless file, as only such a one can be read out of order."""
        packed = self.file.read(len(GZIP)) == GZIP
        self.file.seek(0)
        if not packed:
            return
        plain, most, total = durable.scratch(scratch), max(SMALL, MOST_SWOLLEN * size), 0
        try:
            with gzip.open(self.file) as unpacked:
                while chunk := unpacked.read(CHUNK):
                    total += len(chunk)
                    if total > most:
                        raise self._refused(f"grows to more than {most} bytes")
                    durable.append(plain, chunk)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            plain.close()
            raise self._refused(f"damaged: {error}") from error
        except CellError:
            plain.close()
            raise
        plain.flush()
        plain.seek(0)
        self.file.close()
        self.file = plain

    def _tar(self) -> Iterator[Member]:
        end = os.fstat(self.file.fileno()).st_size
        guarded = _Guarded(self.file, self.name)
        with tarfile.open(fileobj=guarded, mode="r:") as tar:
            count = 0
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # public, and or it keeps them all
                count += 1
                if count > MOST_MEMBERS:
                    raise self._refused(f"expected at most {MOST_MEMBERS} members")
                path = self._check_name(member.name)
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    raise self._refused(f"member {echo(path)}: expected files and folders only")
                # Sizes are signed in a tar: one below 0 would lead back to what was read.
                if member.size < 0 or member.offset_data + member.size > end:
                    raise self._refused(f"member {echo(path)}: the archive is cut short")
                yield Member(path, member.size, self._tar_reader(path, member.offset_data, member.size))

    def _tar_reader(self, path: str, offset: int, size: int) -> Callable[[], bytes]:
        def read() -> bytes:
            self._check_size(path, size)
            data = os.pread(self.file.fileno(), size, offset)
            if len(data) != size:
                raise self._refused(f"member {echo(path)}: the archive is cut short")
            return data

        return read

    def _check_size(self, path: str, size: int) -> None:
        if size > MAX_BYTES:
            raise self._refused(f"member {echo(path)}: expected at most {MAX_BYTES} bytes, got {size}")

    # zip

    def _zip(self, size: int) -> Iterator[Member]:
        self._check_directory(size)
        self.zip = zipfile.ZipFile(self.file)
        total = 0
        for info in self.zip.infolist():
            path = self._check_name(info.filename)
            total += info.file_size
            if total > max(SMALL, MOST_SWOLLEN * size):
                raise self._refused(f"grows to more than {MOST_SWOLLEN} times its size")
            if info.is_dir():
                continue
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise self._refused(f"member {echo(path)}: expected files and folders only")
            if info.flag_bits & 1:
                raise self._refused(f"member {echo(path)}: expected no encryption")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._refused(f"member {echo(path)}: expected it stored or deflated")
            yield Member(path, info.file_size, self._zip_reader(self.zip, path, info))

    def _check_directory(self, size: int) -> None:
        """The list of members is read whole by the library: refuse one that would not fit."""
        start = max(size - (22 + 65_535), 0)
        self.file.seek(start)
        tail = self.file.read()
        place = tail.rfind(END_OF_ZIP)
        if place >= 0 and len(tail) - place >= 22:  # noqa: PLR2004 - the record's length (APPNOTE 4.3.16)
            (listed,) = struct.unpack_from("<I", tail, place + 12)
            # 0xffffffff says that ZIP64 counts: then there are too many members anyway.
            if listed > LARGEST_DIRECTORY:
                raise self._refused("lists more members than a zip of images can have; use .tar")
        self.file.seek(0)

    def _zip_reader(self, zipped: zipfile.ZipFile, path: str, info: zipfile.ZipInfo) -> Callable[[], bytes]:
        def read() -> bytes:
            self._check_size(path, info.file_size)
            try:
                with zipped.open(info) as file:
                    data = file.read(info.file_size + 1)
            except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                raise self._refused(f"member {echo(path)}: damaged: {error}") from error
            if len(data) != info.file_size:
                raise self._refused(f"member {echo(path)}: expected {info.file_size} bytes, got {len(data)}")
            return data

        return read


class _Guarded(io.RawIOBase):
    """A file of which nobody reads much at once: tarfile reads headers whole, however long they say to be."""

    def __init__(self, file: BinaryIO | IO[bytes], name: str) -> None:
        super().__init__()
        self.file = file
        self.name_in_messages = name

    def read(self, size: int = -1) -> bytes:
        """At most LARGEST_HEADER bytes; CellError when more are asked for."""
        if not 0 <= size <= LARGEST_HEADER:
            raise CellError("decode", f"{self.name_in_messages}: a header of a member is too long")
        return self.file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As the file."""
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        """As the file."""
        return self.file.tell()
