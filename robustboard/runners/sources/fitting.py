"""An image as the model takes it: resized and cropped by the one rule of timm and torchvision."""

from __future__ import annotations

import math

from PIL import Image

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec, Interpolation
from robustboard.runners.sources.decoding import MAX_PIXELS

RESAMPLING: dict[Interpolation, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


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
