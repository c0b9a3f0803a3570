"""MNIST's IDX format (yann.lecun.com/exdb/mnist), plain or gzip."""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from robustboard.errors import CellError, FailureKind
from robustboard.registry.entries import FilePin, IdxData
from robustboard.runners.sources.places import check_pins, find_data, need_native_size
from robustboard.runners.sources.stored import Pixels, Request, Stored, StoredLabels, row_ids

UNSIGNED_BYTE = 0x08
"""Third byte of the magic number: the type of the values."""

GZIP = b"\x1f\x8b"


def read_idx(source: IdxData, request: Request) -> Stored:
    """Images and labels of two IDX files; hashes are of the decompressed bytes.

    Where the entry names NAME.gz, a plain NAME is taken as well, and the other way round. Raises
    CellError for an absent, damaged or unexpected file.
    """
    size = need_native_size(request)
    count = request.entry.size
    images = _read(source.images, (count, size, size), request)
    labels = _read(source.labels, (count,), request)
    return Stored(
        ids=row_ids(len(images), count),
        labels=StoredLabels([int(label) for label in labels]),
        images=images[..., np.newaxis],
        origin=f"IDX files {source.images.path} and {source.labels.path}",
    )


def _read(pin: FilePin, shape: tuple[int, ...], request: Request) -> Pixels:
    other = pin.path.removesuffix(".gz") if pin.path.endswith(".gz") else f"{pin.path}.gz"
    path = find_data(pin.path, request.workspace, alternatives=(other,))
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP
        data = _content(path, shape, pin.path, zipped=zipped)
    except (OSError, EOFError, zlib.error) as error:
        raise CellError("decode", f"{pin.path}: cannot be read: {error}; fetch the file again") from error
    check_pins(pin.path, len(data), hashlib.sha256(data).hexdigest(), request, pin.sha256)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def _content(path: Path, shape: tuple[int, ...], name: str, *, zipped: bool) -> bytes:
    """Decompressed bytes: the header, checked, and no more than it announces."""
    start = 4 + 4 * len(shape)
    with path.open("rb") as raw:
        file: BinaryIO = gzip.GzipFile(fileobj=raw) if zipped else raw  # type: ignore[assignment] # a BinaryIO in all but name
        header = file.read(start)
        magic = struct.pack(">HBB", 0, UNSIGNED_BYTE, len(shape))
        if header[:4] != magic:
            raise CellError(
                "decode",
                f"{name}: expected an IDX file of bytes in {len(shape)} dimensions"
                f" (magic {magic.hex()}), got {header[:4].hex() or 'an empty file'}",
            )
        if len(header) < start:
            raise CellError("decode", f"{name}: cut short inside its header")
        found = struct.unpack(f">{len(shape)}I", header[4:])
        if found != shape:
            more: FailureKind = "missing" if found[0] < shape[0] else "labels"
            raise CellError(
                more if found[1:] == shape[1:] else "decode",
                f"{name}: expected {_times(shape)} values by size and native_size of the entry,"
                f" got {_times(found)}",
            )
        wanted = math.prod(shape)
        body = file.read(wanted + 1)
    if len(body) != wanted:
        got = "more" if len(body) > wanted else str(len(body))
        raise CellError("decode", f"{name}: expected {wanted} values after the header, got {got}")
    return header + body


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
