"""Delivers pixels: from one array in memory, or by decoding image files when they are asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec
from robustboard.runners.sources.decoding import decode, strict_pillow
from robustboard.runners.sources.fitting import fit
from robustboard.runners.sources.stored import EncodedImages, Pixels

MAX_WORKERS = 8
"""Threads that decode files; their number never changes a pixel."""

CHUNK = 64
"""Files that are held in memory at a time."""

Floats = npt.NDArray[np.float32]
Content = Literal["pixels", "files"]


class Images(Protocol):
    """All images of a set; rows are those of the source."""

    content: ClassVar[Content]
    """What the digests are of: decoded pixels or the bytes of files."""

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1], C order."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayImages:
    """A fixed-size set as one uint8 array (n, h, w, c)."""

    content: ClassVar[Content] = "pixels"
    array: Pixels
    levels: int
    """The stored value that stands for 1.0."""

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1]: stored values divided by the number of levels."""
        return _floats(self.array[np.asarray(rows, np.int64)], self.levels)

    def digests(self) -> list[bytes]:
        """SHA-256 of each image's size, levels and values."""
        height, width, channels = self.array.shape[1:]
        head = f"robustboard.pixels/1 {height} {width} {channels} {self.levels}\n".encode("ascii")
        return [hashlib.sha256(head + image.tobytes()).digest() for image in self.array]


class FileImages:
    """Image files, decoded on demand; only those of one call are in memory."""

    content: ClassVar[Content] = "files"

    def __init__(
        self, files: EncodedImages, name: Callable[[int], str], channels: int, spec: InputSpec
    ) -> None:
        """Take a source of encoded files and the view that the model wants."""
        self.files = files
        self.name = name
        self.channels = channels
        self.spec = spec
        self.digests: dict[int, bytes] = {}

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, size, size) in [0, 1]: decoded, resized and cropped to the model's input.

        Raises CellError for a damaged file, and for one that is not what it was at `digest`.
        """
        size = self.spec.size
        found = np.empty((len(rows), size, size, self.channels), np.uint8)
        for place, (row, image) in enumerate(self._decoded(rows, check=True)):
            if isinstance(image, CellError):
                raise image
            view = fit(image, self.spec, self.name(row))
            found[place] = np.asarray(view).reshape(size, size, self.channels)
        return _floats(found, 255)

    def digest(self, count: int, damaged: dict[int, str]) -> None:
        """Remember the SHA-256 of each file, except the damaged ones."""
        for row in range(count):
            if row not in damaged:
                self.digests[row] = hashlib.sha256(self.files.read(row)).digest()

    def damaged(self, count: int) -> dict[int, str]:
        """Rows whose file cannot be decoded, with the reasons; decodes every file once."""
        found: dict[int, str] = {}
        for row, image in self._decoded(range(count)):
            try:
                if isinstance(image, CellError):
                    raise image
                fit(image, self.spec, self.name(row))
            except CellError as error:
                found[row] = _only_damage(error)
        return found

    def to_array(self, count: int, size: int, *, skip_damaged: bool) -> tuple[ArrayImages, dict[int, str]]:
        """All images at their stored size, which must be `size` by `size`, and the damaged rows."""
        array = np.zeros((count, size, size, self.channels), np.uint8)
        damaged: dict[int, str] = {}
        for row, image in self._decoded(range(count)):
            if isinstance(image, CellError):
                if not skip_damaged:
                    raise image
                damaged[row] = _only_damage(image)
            elif image.size != (size, size):
                raise CellError(
                    "decode",
                    f"{self.name(row)}: expected {size} x {size} pixels as the entry's native_size says,"
                    f" got {image.width} x {image.height}",
                )
            else:
                array[row] = np.asarray(image).reshape(size, size, self.channels)
        return ArrayImages(array, 255), damaged

    def _decoded(
        self, rows: Sequence[int], *, check: bool = False
    ) -> Iterator[tuple[int, Image.Image | CellError]]:
        """Each row's image, or why it cannot be had, in order."""
        workers = min(MAX_WORKERS, os.cpu_count() or 1)
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            data = [self._read(row, check=check) for row in chunk]
            with strict_pillow(), ThreadPoolExecutor(workers) as pool:
                images = list(pool.map(self._decode, chunk, data))
            yield from zip(chunk, images, strict=True)

    def _read(self, row: int, *, check: bool) -> bytes | CellError:
        try:
            data = self.files.read(row)
        except CellError as error:
            return error
        if check and hashlib.sha256(data).digest() != self.digests[row]:
            return CellError(
                "hash-mismatch", f"{self.name(row)}: changed since the set was loaded; run again"
            )
        return data

    def _decode(self, row: int, data: bytes | CellError) -> Image.Image | CellError:
        if isinstance(data, CellError):
            return data
        try:
            return decode(data, self.name(row), self.channels)
        except CellError as error:
            return error


def with_channels(array: Pixels, channels: int, name: Callable[[int], str]) -> Pixels:
    """The array (n, h, w, c) with the wanted number of channels.

    Grey is repeated to three. Three become one only where they are equal everywhere: CellError names
    the first image that has colours.
    """
    if array.shape[3] == channels:
        return array
    if array.shape[3] == 1:
        return np.repeat(array, channels, axis=3)
    coloured = (array != array[..., :1]).any(axis=(1, 2, 3))
    if coloured.any():
        row = int(np.argmax(coloured))
        raise CellError(
            "decode", f"{name(row)}: expected a grey image (channels 1 in the entry), got colours"
        )
    return np.ascontiguousarray(array[..., :1])


def _floats(values: Pixels, levels: int) -> Floats:
    planes = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    return planes.astype(np.float32) / np.float32(levels)


def _only_damage(error: CellError) -> str:
    """The reason of a damaged image. Raises the error where it is about something else."""
    if error.kind != "decode":
        raise error
    return error.reason
