"""Attacked images by sample id, as a file holds them, and what is asked of such a file. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from robustboard import jsons
from robustboard.errors import CellError, StoreError, echo
from robustboard.fields import Positive
from robustboard.registry.entries import Norm
from robustboard.yamls import Frozen

LEVELS = 255
"""The stored value of an 8-bit pixel that stands for 1.0."""

TOLERANCE = 1e-6
"""How far rounding may carry a float32 pixel outside [0, 1]; it is clamped."""

MAX_ID = 512
"""Characters of a sample id."""

MAX_MANIFEST = 64 * 1024
"""Bytes."""

MAX_VALUES = 4 * 2**30
"""Bytes of all pixels of a set, which is held in memory: 7,000 float32 images of 224 x 224."""

Encoding = Literal["8-bit", "float32"]
Values = npt.NDArray[np.uint8] | npt.NDArray[np.float32]


class Manifest(Frozen):
    """Where a set comes from, as its maker says. Nothing is believed; what can be checked is."""

    format: Literal["robustboard.images/1"] = "robustboard.images/1"
    made_with: str
    model: str
    benchmark: str
    dataset: str
    condition: str
    """As stored beside predictions: `linf 8/255`."""
    norm: Norm
    budget: Positive
    key_digest: str
    """Of the run that makes the same images."""
    encoding: Encoding
    originals_sha256: str
    """Of ids and contents of the originals, in the order of the set."""
    evaluated: int = Field(ge=0)
    """Images that the model was given; those wrong from the start are not in the set."""
    robust_in_memory: int = Field(ge=0)
    """Of those, right before and after the attack, while the images were still in memory."""
    robust_from_file: int | None = Field(default=None, ge=0)
    """The same count with the images read back from this file; None before that was done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a set must look like, known before its file is opened."""

    images: int
    """In the dataset; a set has at most one attacked image for each."""
    shape: tuple[int, int, int]
    """(c, h, w)."""
    size_of: str
    """What has this height and width, for messages: `the native size of digits`."""

    @property
    def pixels(self) -> int:
        """Values of one image."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def file_bytes(self) -> int:
        """The largest file that a whole set needs: float32, or PNG that did not shrink."""
        return 2**20 + self.images * (4 * self.pixels + 4 * MAX_ID) * 21 // 20

    def values(self, count: int, itemsize: int, name: str) -> int:
        """Bytes of the pixels of `count` images. Raises CellError where they are too many to hold."""
        if not 1 <= count <= self.images:
            raise refused(
                name, f"expected 1 to {self.images} images, as many as the dataset has, got {count}"
            )
        size = count * self.pixels * itemsize
        if size > MAX_VALUES:
            raise refused(
                name, f"expected at most {MAX_VALUES} bytes of pixels, got {size}: make several sets"
            )
        return size


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Attacked images; ids are different from each other, pixels finite and in range."""

    ids: tuple[str, ...]
    values: Values
    """(n, c, h, w): uint8, or float32 in [0, 1]."""
    manifest: Manifest | None

    @property
    def encoding(self) -> Encoding:
        """How the file holds a pixel."""
        return "8-bit" if self.values.dtype == np.uint8 else "float32"

    def pixels(self, rows: Sequence[int]) -> npt.NDArray[np.float32]:
        """float32 (k, c, h, w) in [0, 1]; 8-bit values divided by 255."""
        chosen: npt.NDArray[Any] = self.values[np.asarray(rows, np.intp)]
        if chosen.dtype == np.uint8:
            return chosen.astype(np.float32) / np.float32(LEVELS)
        return chosen.astype(np.float32)


def refused(name: str, reason: str) -> CellError:
    """The error for a file that is not what it should be."""
    return CellError("decode", f"{name}: {reason}")


def in_short(error: BaseException) -> str:
    """The first line of what a library says about damaged bytes, as printable ASCII."""
    lines = str(error).strip().splitlines()
    text = lines[0][:160] if lines else type(error).__name__
    return text.encode("unicode_escape").decode("ascii")


def checked_ids(values: Sequence[object], name: str) -> tuple[str, ...]:
    """Sample ids as text. Raises CellError for one that is no short text or stands twice."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        text = _text(value)
        if text is None or not 1 <= len(text) <= MAX_ID:
            raise refused(
                name, f"row {row}: sample_id: expected text of 1 to {MAX_ID} characters, got {echo(value)}"
            )
        if text in seen:
            raise refused(
                name,
                f"row {row}: sample_id: expected each id once, got {echo(text)} again (first in row"
                f" {seen[text]})",
            )
        seen[text] = row
    return tuple(seen)


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def checked_floats(values: npt.NDArray[np.float32], ids: Sequence[str], name: str) -> npt.NDArray[np.float32]:
    """Pixels clamped to [0, 1]. Raises CellError for one that is not finite or further outside than 1e-6.

    Row by row: a whole set may fill most of the memory.
    """
    for row, image in enumerate(values):
        low, high = float(image.min()), float(image.max())
        if not np.isfinite([low, high]).all():
            raise refused(name, f"row {row} ({echo(ids[row])}): expected finite pixels, got {low} to {high}")
        if low < -TOLERANCE or high > 1 + TOLERANCE:
            raise refused(
                name,
                f"row {row} ({echo(ids[row])}): expected pixels in [0, 1], got {low:.7g} to {high:.7g}"
                + ("; divide by 255" if high > 1 + TOLERANCE and low >= 0 else ""),
            )
        np.clip(image, 0.0, 1.0, out=image)
    return values


def read_manifest(data: bytes | str, name: str) -> Manifest:
    """A manifest from its JSON. Raises CellError with file and field."""
    where = f"{name}: manifest"
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if len(raw) > MAX_MANIFEST:
        raise refused(where, f"expected at most {MAX_MANIFEST} bytes, got {len(raw)}")
    try:
        return jsons.model(jsons.strict(raw, where), Manifest, where)
    except (StoreError, ValidationError) as error:
        raise CellError("decode", in_short(error)) from error


def manifest_bytes(manifest: Manifest) -> bytes:
    """The canonical JSON of a manifest."""
    return jsons.canonical(manifest.model_dump(mode="json"))
