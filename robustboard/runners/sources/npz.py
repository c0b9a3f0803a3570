"""NumPy archives, read without pickle and without trusting their headers."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from robustboard.errors import CellError, suggestion
from robustboard.registry.entries import NpzData
from robustboard.runners.sources.places import check_file, find_data, need_native_size, wrong_count
from robustboard.runners.sources.stored import Request, Stored, StoredLabels, row_ids

DIMENSIONS = (3, 4)
"""(n, h, w) or (n, h, w, c)."""


def read_npz(source: NpzData, request: Request) -> Stored:
    """uint8 images (n, h, w) or (n, h, w, c), c 1 or 3, and integer labels (n,).

    Shapes and types are checked before the values are read. Raises CellError.
    """
    path = find_data(source.file.path, request.workspace)
    name = source.file.path
    check_file(path, name, request, source.file.sha256)
    try:
        images, labels = _arrays(path, source, request)
    except (CellError, MemoryError):
        raise
    except Exception as error:  # readers fed with damaged bytes raise whatever comes
        raise CellError("decode", f"{name}: not a NumPy archive that can be read: {error}") from error
    return Stored(
        ids=row_ids(len(labels), request.entry.size),
        labels=StoredLabels([int(label) for label in labels]),
        images=np.ascontiguousarray(images.reshape(*images.shape[:3], -1)),
        origin=f"NumPy archive {name}",
    )


def _arrays(
    path: Path, source: NpzData, request: Request
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer[Any]]]:
    name, size = source.file.path, need_native_size(request)
    with zipfile.ZipFile(path) as archive:
        shape, kind = _header(archive, source.images, name)
        fits = len(shape) in DIMENSIONS and shape[1:3] == (size, size) and shape[3:] in ((), (1,), (3,))
        if kind != np.dtype(np.uint8) or not fits:
            raise CellError(
                "decode",
                f"{name}: {source.images}: expected uint8 (n, {size}, {size}) or"
                f" (n, {size}, {size}, 1 or 3), got {kind} {shape}",
            )
        count = shape[0]
        shape, kind = _header(archive, source.labels, name)
        if kind.kind not in "iu" or shape != (count,):
            raise CellError(
                "labels",
                f"{name}: {source.labels}: expected whole numbers ({count},), one an image,"
                f" got {kind} {shape}",
            )
        if count != request.entry.size:
            raise wrong_count(name, request.entry.size, count)
        images = _values(archive, source.images)
        labels = _values(archive, source.labels)
    return images, labels


def _header(archive: zipfile.ZipFile, key: str, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    names = [member.removesuffix(".npy") for member in archive.namelist()]
    if key not in names:
        raise CellError(
            "decode",
            f"{name}: expected an array {key}, got {', '.join(sorted(names)[:8])}{suggestion(key, names)}",
        )
    with archive.open(f"{key}.npy") as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = read(file)
    return shape, kind


def _values(archive: zipfile.ZipFile, key: str) -> npt.NDArray[Any]:
    with archive.open(f"{key}.npy") as file:
        array: npt.NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array
