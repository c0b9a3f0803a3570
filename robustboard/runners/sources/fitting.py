"""An image as the model takes it: resized and cropped by the one rule of timm and torchvision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from PIL import Image

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry, Decoding, InputSpec, Interpolation
from robustboard.runners.sources.decoding import MAX_PIXELS, USUAL, decode
from robustboard.runners.sources.stored import Pixels

RESAMPLING: dict[Interpolation, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class WrongSize(CellError):
    """An image of a fixed-size set has another size: the entry or the file is wrong, not damaged."""


@dataclass(frozen=True, slots=True)
class View:
    """How a file becomes pixels: at the set's own size, or as one model takes it."""

    channels: int
    size: int
    """Height and width of the result."""
    spec: InputSpec | None
    """Resize and crop; None for a fixed-size set, whose files must have that size."""
    border: int = 0
    """Pixels cut off every side first."""
    decoding: Decoding = USUAL

    def of(self, data: bytes, name: str) -> Pixels:
        """One image file as uint8 (size, size, channels). Raises CellError that starts with `name`."""
        image = _without_border(decode(data, name, self.channels, self.decoding), self.border, name)
        if self.spec is not None:
            image = fit(image, self.spec, name)
        elif image.size != (self.size, self.size):
            raise WrongSize(
                "decode",
                f"{name}: expected {self.size} x {self.size} pixels as the entry's native_size says,"
                f" got {image.width} x {image.height}",
            )
        return np.asarray(image).reshape(self.size, self.size, self.channels)

    def rule(self) -> dict[str, str | int]:
        """Everything that shapes the result, for a digest."""
        spec = self.spec
        return {
            "channels": self.channels,
            "size": self.size,
            "fit": "" if spec is None else f"{spec.interpolation} {spec.crop}",
            "border": self.border,
            **self.decoding.model_dump(mode="json"),
        }

    def words(self) -> str:
        """What happens between a file's own size and the result, for the record."""
        cut = f"{self.border} pixels cut off every side; " if self.border else ""
        if self.spec is None:
            size = self.size
            return f"{cut}as stored, {size} x {size}; the model's resize and crop are not applied"
        return cut + fit_rule(self.spec)


def view_of(entry: DatasetEntry, spec: InputSpec) -> View:
    """How a model with this input sees the image files of a dataset.

    A set that was cropped when it was made is not cropped again: its images are brought to the input
    size whole.
    """
    if entry.native_size is not None:
        return View(entry.channels, entry.native_size, None, entry.border, entry.decoding)
    if entry.preprocessing == "crop-only":
        spec = spec.model_copy(update={"crop": Fraction(1)})
    return View(entry.channels, spec.size, spec, entry.border, entry.decoding)


def _without_border(image: Image.Image, border: int, name: str) -> Image.Image:
    if not border:
        return image
    width, height = image.size
    if min(width, height) <= 2 * border:
        raise CellError("decode", f"{name}: {width} x {height} is no larger than its border of {border}")
    return image.crop((border, border, width - border, height - border))


def fit(image: Image.Image, spec: InputSpec, name: str) -> Image.Image:
    """The model's view: shorter side to floor(size / crop), then the centre size by size.

    As timm's and torchvision's evaluation transforms do it (longer side rounded down, offsets
    rounded half to even). An image that already has the wanted size passes unchanged. Raises CellError
    for an image so narrow that it would grow beyond MAX_PIXELS.
    """
    target = math.floor(spec.size / spec.crop)
    short, long = sorted(image.size)
    if short != target:
        longer = int(target * long / short)
        if target * longer > MAX_PIXELS:
            raise CellError(
                "decode",
                f"{name}: {image.width} x {image.height} is too narrow to resize to {target} pixels",
            )
        size = (target, longer) if image.width <= image.height else (longer, target)
        image = image.resize(size, RESAMPLING[spec.interpolation])
    left, top = (round((side - spec.size) / 2) for side in image.size)
    if image.size == (spec.size, spec.size):
        return image
    return image.crop((left, top, left + spec.size, top + spec.size))


def fit_rule(spec: InputSpec) -> str:
    """What `fit` does, in words."""
    target = math.floor(spec.size / spec.crop)
    return (
        f"shorter side to {target} ({spec.interpolation}), centre {spec.size} x {spec.size};"
        " an image of that size passes unchanged"
        if spec.crop == 1
        else f"shorter side to {target} ({spec.interpolation}), centre {spec.size} x {spec.size}"
    )
