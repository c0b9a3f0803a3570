"""Rows of a NumPy array on disk, read when they are asked for: no pickle, no trust in headers.

By calls and not through a map of memory: a file cut short by someone else cannot kill the process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from robustboard.errors import CellError
from robustboard.runners.sources.pixels import Content, Floats, content_digest, floats
from robustboard.runners.sources.stored import Pixels

MOST_AXES = 4


@dataclass(frozen=True, slots=True)
class NpyFile:
    """An array in a file whose size is what its header announces."""

    path: Path
    name: str
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    start: int
    """Where the values begin, in bytes."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * self.kind.itemsize

    def rows(self, numbers: Sequence[int]) -> npt.NDArray[Any]:
        """The rows of these numbers, in this order. Raises CellError where the file ends too early."""
        found = np.empty((len(numbers), *self.shape[1:]), self.kind)
        flat = found.view(np.uint8).reshape(len(numbers), self.row_bytes)
        try:
            with self.path.open("rb") as file:
                for place, number in enumerate(numbers):
                    file.seek(self.start + number * self.row_bytes)
                    if file.readinto(memoryview(flat[place])) != self.row_bytes:
                        raise CellError("decode", f"{self.name}: cut short at row {number}")
        except OSError as error:
            raise CellError("decode", f"{self.name}: cannot be read: {error.strerror or error}") from error
        return found


def open_npy(path: Path, name: str) -> NpyFile:
    """The header of a .npy file, checked against the size of the file.

    Raises CellError for a file of another kind, of objects, in column order, or of another size.
    """
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, columns, kind = read(file)
            start, end = file.tell(), file.seek(0, 2)
    except OSError as error:
        raise CellError("decode", f"{name}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # readers fed with damaged bytes raise whatever comes
        raise CellError("decode", f"{name}: not a NumPy array that can be read: {error}") from error
    plain = kind.kind in "iu" and not columns and 1 <= len(shape) <= MOST_AXES and min(shape) >= 1
    if not plain:
        order = ", in column order" if columns else ""
        raise CellError("decode", f"{name}: expected whole numbers in row order, got {kind} {shape}{order}")
    wanted = start + math.prod(shape) * kind.itemsize
    if end != wanted:
        raise CellError("decode", f"{name}: expected {wanted} bytes as its header says, got {end}")
    return NpyFile(path, name, shape, kind, start)


@dataclass(frozen=True, slots=True, eq=False)
class NpyImages:
    """Images in consecutive rows of a file of bytes; only those of one call are in memory."""

    file: NpyFile
    first: int
    """Row of the file where image 0 stands."""
    hashes: list[bytes]
    """Digest of each image, as it was when the set was loaded."""

    @property
    def content(self) -> Content:
        """Pixels: the format of the file does not count."""
        return "pixels"

    def prepare(self, rows: Sequence[int]) -> None:
        """Nothing to do: there is nothing to decode."""

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1]. Raises CellError for an image that changed since it was loaded."""
        images = read_images(self.file, [self.first + row for row in rows])
        for row, image in zip(rows, images, strict=True):
            if content_digest(image, 255) != self.hashes[row]:
                raise CellError(
                    "hash-mismatch",
                    f"{self.file.name}: row {self.first + row} changed since the set was loaded",
                )
        return floats(images, 255)


def read_images(file: NpyFile, rows: Sequence[int]) -> Pixels:
    """uint8 (k, h, w, c): grey images get their one channel as an axis."""
    found: Pixels = file.rows(rows)
    return found.reshape(*found.shape[:3], -1)
