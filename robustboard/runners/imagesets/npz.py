"""Attacked images in a NumPy archive: sample_id (n,), images (n, c, h, w), and a manifest."""

from __future__ import annotations

import io
import warnings
import zipfile
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from robustboard.errors import CellError, echo
from robustboard.runners.imagesets.image_set import (
    MAX_ID,
    MAX_MANIFEST,
    Asked,
    ImageSet,
    Manifest,
    Values,
    checked_floats,
    checked_ids,
    in_short,
    manifest_bytes,
    read_manifest,
    refused,
)

MAGIC = b"PK\x03\x04"
IDS, IMAGES, MANIFEST = "sample_id", "images", "manifest"
WIDE = 4
"""Bytes of a character in NumPy's text."""

_PACKED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 1


class _Header:
    """Shape, type and place of one array, read and checked before its values."""

    def __init__(self, archive: zipfile.ZipFile, key: str, name: str) -> None:
        """Read the header of the array `key`. Raises CellError where its member is not what it says."""
        self.archive = archive
        self.info = archive.getinfo(f"{key}.npy")
        self.name = f"{name}: {key}"
        if self.info.flag_bits & _ENCRYPTED or self.info.compress_type not in _PACKED:
            raise refused(self.name, "expected a stored or deflated array, got another compression")
        with archive.open(self.info) as member, warnings.catch_warnings():
            warnings.simplefilter("error")  # of headers that only Python 2 wrote
            if npy.read_magic(member) != (1, 0):
                raise refused(self.name, "expected the .npy format 1.0, got another version")
            self.shape, self.fortran, self.kind = npy.read_array_header_1_0(member)
            self.start = member.tell()
        if any(side < 0 for side in self.shape):
            raise refused(self.name, f"expected sizes of at least 0, got {self.shape}")

    def values(self, limit: int) -> npt.NDArray[Any]:
        """The array, once shape and type are known to be right; at most `limit` bytes."""
        count = 1
        for side in self.shape:
            count *= side
        size = count * self.kind.itemsize
        if self.kind.hasobject or size > limit or self.start + size != self.info.file_size:
            raise refused(
                self.name,
                f"expected {size} bytes for {self.kind} {self.shape}, at most {limit},"
                f" got {self.info.file_size - self.start}",
            )
        data = bytearray()
        with self.archive.open(self.info) as member:
            member.read(self.start)
            while len(data) < size:
                part = member.read(min(size - len(data), 2**24))
                if not part:
                    raise refused(self.name, f"expected {size} bytes, got {len(data)}")
                data += part
        flat = np.frombuffer(data, self.kind)
        return flat.reshape(self.shape[::-1]).T if self.fortran else flat.reshape(self.shape)


def read_npz(file: BinaryIO, name: str, asked: Asked) -> ImageSet:
    """The images of an archive; shapes and types are checked before values are read.

    Raises CellError that names file, array and row.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(archive, name, asked)
    except (CellError, MemoryError):
        raise
    except Exception as error:  # readers fed with damaged bytes raise whatever comes
        raise refused(name, f"not a NumPy archive that can be read: {in_short(error)}") from error


def _read(archive: zipfile.ZipFile, name: str, asked: Asked) -> ImageSet:
    members = archive.namelist()
    known = {f"{key}.npy" for key in (IDS, IMAGES, MANIFEST)}
    needed = {f"{key}.npy" for key in (IDS, IMAGES)}
    if len(set(members)) != len(members) or not needed <= set(members) <= known:
        shown = ", ".join(echo(member.removesuffix(".npy")) for member in members[:5])
        raise refused(
            name, f"expected the arrays {IDS}, {IMAGES} and perhaps {MANIFEST}, each once, got {shown}"
        )
    ids = _ids(_Header(archive, IDS, name), asked)
    images = _Header(archive, IMAGES, name)
    if images.kind not in (np.dtype(np.uint8), np.dtype(np.float32)):
        raise refused(images.name, f"expected float32 in [0, 1] or uint8, got {images.kind}")
    if images.shape != (len(ids), *asked.shape):
        raise refused(
            images.name,
            f"expected (n, c, h, w) {_wanted(len(ids), asked)} ({asked.size_of}), got {_seen(images.shape)}",
        )
    size = asked.values(len(ids), images.kind.itemsize, name)
    manifest = _manifest(archive, name) if f"{MANIFEST}.npy" in members else None
    values = images.values(size)
    names = checked_ids(ids.tolist(), name)
    if values.dtype == np.float32:
        values = checked_floats(np.ascontiguousarray(values), names, name)
    return ImageSet(names, values, manifest)


def _wanted(count: int, asked: Asked) -> str:
    return str((count, *asked.shape)).replace(" ", "")


def _seen(shape: tuple[int, ...]) -> str:
    """A shape, with what to do about it where that is plain."""
    text = str(shape).replace(" ", "")
    if len(shape) == len("nhwc") and shape[3] in (1, 3) and shape[1] not in (1, 3):
        return f"{text}; write images.transpose(0, 3, 1, 2)"
    if len(shape) == len("nhw"):
        return f"{text}; write images[:, None]"
    return text


def _ids(header: _Header, asked: Asked) -> npt.NDArray[Any]:
    if header.kind.kind not in "US" or len(header.shape) != 1:
        raise refused(header.name, f"expected text (n,), got {header.kind} {header.shape}")
    if header.kind.itemsize > WIDE * MAX_ID:
        raise refused(header.name, f"expected ids of at most {MAX_ID} characters, got {header.kind}")
    asked.values(header.shape[0], 1, header.name)
    return header.values(asked.images * WIDE * MAX_ID)


def _manifest(archive: zipfile.ZipFile, name: str) -> Manifest:
    header = _Header(archive, MANIFEST, name)
    if header.kind.kind not in "US" or header.shape != ():
        raise refused(header.name, f"expected one text of shape (), got {header.kind} {header.shape}")
    value: bytes | str = header.values(WIDE * MAX_MANIFEST).item()
    return read_manifest(value, name)


def npz_bytes(ids: tuple[str, ...], values: Values, manifest: Manifest) -> bytes:
    """An archive of these images; equal arguments, equal bytes on one version of zlib."""
    text = manifest_bytes(manifest).decode("ascii")
    arrays: dict[str, npt.NDArray[Any]] = {
        IDS: np.array(ids),
        IMAGES: np.ascontiguousarray(values),
        MANIFEST: np.array(text),
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            npy.write_array(member, array, version=(1, 0), allow_pickle=False)
            # ZipInfo has a fixed date, unlike writestr with a name.
            entry = zipfile.ZipInfo(f"{key}.npy")
            archive.writestr(entry, member.getbuffer(), zipfile.ZIP_DEFLATED)
    return sink.getvalue()
