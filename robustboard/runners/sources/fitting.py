"""An image as the model takes it: resized and cropped by the one rule of timm and torchvision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec, Interpolation
from robustboard.runners.sources.decoding import MAX_PIXELS, decode
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

    def of(self, data: bytes, name: str) -> Pixels:
        """One image file as uint8 (size, size, channels). Raises CellError that starts with `name`."""
        image = decode(data, name, self.channels)
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
        fitted = "" if spec is None else f"{spec.interpolation} {spec.crop}"
        return {"channels": self.channels, "size": self.size, "fit": fitted}


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
