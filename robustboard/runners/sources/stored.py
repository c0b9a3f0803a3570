"""What a source of images hands over, before labels are understood and pixels are delivered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from robustboard.registry.entries import DatasetEntry, LockedEntry
from robustboard.registry.labels import LabelSpace
from robustboard.workspace import Workspace

Pixels = npt.NDArray[np.uint8]
Progress = Callable[[str, float], None]
"""Called with a stage in words and the fraction of it that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a source is asked for."""

    entry: DatasetEntry
    space: LabelSpace
    workspace: Workspace
    locked: LockedEntry | None
    """The dataset's line in the lock, where it has one."""
    streaming: bool = False
    """Fetch shards when they are read and drop them again, for sets that do not fit the disk."""
    progress: Progress | None = None
    """Told of downloads."""


class EncodedImages(Protocol):
    """Image files, read one at a time so that a set may be larger than memory."""

    def read(self, row: int) -> bytes:
        """The bytes of one file. Raises CellError."""


@runtime_checkable
class Digested(Protocol):
    """Image files whose digests are known, so that they need not be read to be told apart."""

    def digest(self, row: int) -> bytes:
        """SHA-256 of the bytes of one file. Raises CellError."""


def digest_of(images: EncodedImages, row: int) -> bytes:
    """SHA-256 of one image file: as it is known, or of its bytes. Raises CellError."""
    if isinstance(images, Digested):
        return images.digest(row)
    return hashlib.sha256(images.read(row)).digest()


@dataclass(frozen=True, slots=True)
class StoredLabels:
    """Labels as they stand in the source, one a row; None where there is none."""

    values: Sequence[int | str | None]
    class_names: tuple[str, ...] | None = None
    """What the whole numbers stand for, where the source says so itself."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything a source knows about its rows, in stored order."""

    ids: tuple[str, ...]
    labels: StoredLabels
    images: Pixels | EncodedImages
    """uint8 (n, h, w, c) with c 1 or 3, or encoded files."""
    origin: str
    """Where the images came from, on one line."""
    groups: tuple[str, ...] | None = None
    """What the source says of each image beside its label, where the entry asks for it."""
    levels: int = 255
    """The stored value that stands for 1.0."""
    names: Callable[[int], str] | None = None
    """Row → what people call it in a message; `row 7` when absent."""

    def name(self, row: int) -> str:
        """What a message calls this row."""
        return self.names(row) if self.names is not None else f"row {row}"


Source = Callable[[Any, Request], Stored]
"""Reads one kind of DataSource. Raises AbsentFile when its files are not here, so that a mirror may step
in, and any other CellError when they are here and wrong."""


def row_ids(count: int, size: int) -> tuple[str, ...]:
    """Row numbers with leading zeros, so that they sort as text; wide enough for the declared size.

    Every kind of source that has rows names them alike: the same images in the same order keep
    their ids, whether read from IDX, NPZ, Parquet or the Hub.
    """
    width = max(5, len(str(size - 1)))
    return tuple(f"{row:0{width}d}" for row in range(count))
