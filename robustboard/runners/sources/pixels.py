"""Delivers pixels: from one array in memory, or by decoding image files when they are asked for."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from robustboard.errors import CellError
from robustboard.runners.sources.cache import ABSENT, Cache, Views
from robustboard.runners.sources.decoding import strict_pillow
from robustboard.runners.sources.fitting import View, WrongSize
from robustboard.runners.sources.stored import EncodedImages, Pixels, digest_of

MAX_WORKERS = 8
"""Threads that decode files; their number never changes a pixel."""

CHUNK = 64
"""Encoded files that are held in memory at a time."""

IN_MEMORY = 256 * 2**20
"""Bytes up to which a fixed-size set of image files is held as one array."""

Floats = npt.NDArray[np.float32]
Content = Literal["pixels", "files"]


class Images(Protocol):
    """All images of a set; rows are those of the source."""

    @property
    def content(self) -> Content:
        """What the digests are of: decoded pixels or the bytes of files."""

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1], C order."""

    def prepare(self, rows: Sequence[int]) -> None:
        """Begin to make ready what `pixels` will be asked for next; changes no pixel."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayImages:
    """A fixed-size set as one uint8 array (n, h, w, c)."""

    array: Pixels
    levels: int
    """The stored value that stands for 1.0."""

    @property
    def content(self) -> Content:
        """Decoded pixels."""
        return "pixels"

    def prepare(self, rows: Sequence[int]) -> None:
        """Nothing to do."""

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1]: stored values divided by the number of levels."""
        return floats(self.array[np.asarray(rows, np.int64)], self.levels)

    def digests(self) -> list[bytes]:
        """SHA-256 of each image's size, levels and values."""
        return [content_digest(image, self.levels) for image in self.array]


class FileImages:
    """Image files, decoded on demand or read from the cache; those of one call and the next are in memory."""

    def __init__(
        self, files: EncodedImages, name: Callable[[int], str], view: View, cache: Cache | None = None
    ) -> None:
        """Take a source of encoded files and how they are to be seen."""
        self.files = files
        self.name = name
        self.view = view
        self.cache = cache
        self.views: Views | None = None
        self.hashes: list[bytes] = []
        self.reading = Lock()
        self.background = ThreadPoolExecutor(1, "robustboard-ahead")
        self.ahead: tuple[list[int], Future[Pixels]] | None = None

    @property
    def content(self) -> Content:
        """Fixed-size sets are compared by pixels, so that the file format does not count."""
        return "pixels" if self.view.spec is None else "files"

    def examine(self, count: int, *, skip_damaged: bool) -> tuple[dict[int, bytes], dict[int, str]]:
        """The digest of each good row's content, and the damaged rows with their reasons.

        Reads every file once; decodes all of a fixed-size set, and all where damage is to be found now.
        Without `skip_damaged`, damage in a set of another kind shows when its pixels are asked for.
        Raises CellError for what cannot be skipped.
        """
        damaged: dict[int, str] = {}
        for row in range(count):
            try:
                self.hashes.append(digest_of(self.files, row))
            except CellError as error:
                damaged[row] = _only_damage(error, skip_damaged=skip_damaged)
                self.hashes.append(ABSENT)
        if self.cache is not None:
            self.views = self.cache.open(self.view, self.hashes)
        contents = {row: digest for row, digest in enumerate(self.hashes) if digest != ABSENT}
        fixed = self.content == "pixels"
        good = list(contents) if fixed or skip_damaged else []
        for start in range(0, len(good), CHUNK):
            rows = good[start : start + CHUNK]
            pixels, errors = self._fill(rows)
            for row, reason in errors.items():
                damaged[row] = _only_damage(reason, skip_damaged=skip_damaged)
                del contents[row]
            if fixed:
                for row, image in zip(rows, pixels, strict=True):
                    if row not in errors:
                        contents[row] = content_digest(image, 255)
        return contents, damaged

    def in_memory(self, good: Sequence[int]) -> ArrayImages | None:
        """All images as one array where that is small; rows that are not good are black."""
        count, size = len(self.hashes), self.view.size
        if count * size * size * self.view.channels > IN_MEMORY:
            return None
        array = np.zeros((count, size, size, self.view.channels), np.uint8)
        for start in range(0, len(good), CHUNK):
            rows = good[start : start + CHUNK]
            array[np.asarray(rows)] = self._checked(rows)
        return ArrayImages(array, 255)

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, size, size) in [0, 1]: decoded, resized and cropped as the view says.

        Raises CellError for a damaged file, and for one that is not what it was at `examine`.
        """
        wanted, ahead = list(rows), self.ahead
        if ahead is None or ahead[0] != wanted:
            return floats(self._checked(wanted), 255)
        self.ahead = None
        return floats(ahead[1].result(), 255)

    def prepare(self, rows: Sequence[int]) -> None:
        """Begin to decode, in the background, what `pixels` will be asked for next."""
        wanted = list(rows)
        if self.ahead is not None:
            if self.ahead[0] == wanted:
                return
            self.ahead[1].cancel()
        self.ahead = (wanted, self.background.submit(self._checked, wanted))

    def _checked(self, rows: Sequence[int]) -> Pixels:
        pixels, errors = self._fill(rows, stop=True)
        for error in errors.values():
            raise error
        return pixels

    def _fill(self, rows: Sequence[int], *, stop: bool = False) -> tuple[Pixels, dict[int, CellError]]:
        """uint8 (k, size, size, channels), and why rows cannot be had; at the first such row with `stop`."""
        size = self.view.size
        pixels = np.empty((len(rows), size, size, self.view.channels), np.uint8)
        views = self.views
        found = np.zeros(len(rows), bool) if views is None else views.get(rows, pixels)
        missing = [place for place in range(len(rows)) if not found[place]]
        errors: dict[int, CellError] = {}
        for place, image in zip(missing, self._decoded([rows[place] for place in missing]), strict=True):
            if isinstance(image, CellError):
                errors[rows[place]] = image
                if stop:
                    break
                continue
            pixels[place] = image
            if views is not None:
                views.put(rows[place], image)
        return pixels, errors

    def _decoded(self, rows: Sequence[int]) -> Iterator[Pixels | CellError]:
        """Each row's image, or why it cannot be had, in order; files are read while others are decoded."""
        if not rows:
            return
        workers = min(MAX_WORKERS, os.cpu_count() or 1)
        waiting: deque[Future[Pixels | CellError]] = deque()
        with strict_pillow(), ThreadPoolExecutor(workers) as pool:
            for row in rows:
                waiting.append(pool.submit(self._one, row, self._read(row)))
                if len(waiting) >= CHUNK:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _bytes(self, row: int) -> bytes:
        # Sources keep a place in their file; the thread that works ahead must not move it.
        with self.reading:
            return self.files.read(row)

    def _read(self, row: int) -> bytes | CellError:
        try:
            data = self._bytes(row)
        except CellError as error:
            return error
        if hashlib.sha256(data).digest() != self.hashes[row]:
            return CellError(
                "hash-mismatch", f"{self.name(row)}: changed since the set was loaded; run again"
            )
        return data

    def _one(self, row: int, data: bytes | CellError) -> Pixels | CellError:
        if isinstance(data, CellError):
            return data
        try:
            return self.view.of(data, self.name(row))
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


def content_digest(image: Pixels, levels: int) -> bytes:
    """SHA-256 of an image (h, w, c) of a fixed-size set: its size, levels and values."""
    height, width, channels = image.shape
    head = f"robustboard.pixels/1 {height} {width} {channels} {levels}\n".encode("ascii")
    return hashlib.sha256(head + image.tobytes()).digest()


def floats(values: Pixels, levels: int) -> Floats:
    """uint8 (k, h, w, c) as float32 (k, c, h, w) in [0, 1]."""
    found = np.empty((len(values), values.shape[3], *values.shape[1:3]), np.float32)
    for image, place in zip(values, found, strict=True):
        # One at a time, so that the reordered bytes stay in the processor's cache.
        planes = np.ascontiguousarray(image.transpose(2, 0, 1))
        np.divide(planes, np.float32(levels), out=place, dtype=np.float32)
    return found


def _only_damage(error: CellError, *, skip_damaged: bool) -> str:
    """The reason of a damaged image that may be left out. Raises the error otherwise."""
    if error.kind != "decode" or isinstance(error, WrongSize) or not skip_damaged:
        raise error
    return error.reason
