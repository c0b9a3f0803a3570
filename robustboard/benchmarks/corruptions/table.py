"""The corruptions by name, and the one function that applies them.

Importing this module compiles nothing, but loads numba, OpenCV and SciPy (the extra `corruptions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustboard.benchmarks.corruptions import blur, digital, noise, weather
from robustboard.benchmarks.corruptions.parameters import (
    CATEGORIES,
    EXTRA,
    PARAMETERS,
    SEVERITIES,
    VARIANTS,
    Category,
    Variant,
)
from robustboard.benchmarks.corruptions.setting import Function, Pixels, Setting
from robustboard.errors import UnknownNameError, UserError, echo


@dataclass(frozen=True, slots=True)
class Corruption:
    """One way to spoil an image."""

    name: str
    category: Category
    extra: bool
    """One of the 4 that never enter mCE."""
    function: Function
    coloured: bool = False
    """Works on hues: a grey image passes as its colour form, and the luma of the result is kept."""
    least: int = 1
    """Smallest height and width in pixels."""


FUNCTIONS: dict[str, Function] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": weather.spatter,
    "saturate": digital.saturate,
}
GREY, COLOUR = 2, 3
"""Dimensions of an array that is a grey image, or one with channels."""
CHANNELS = (1, 3)
COLOURED = frozenset({"saturate"})
LEAST = {"elastic_transform": 3}
"""Its affine map turns a triangle whose sides are a third of the image."""

CORRUPTIONS: dict[str, Corruption] = {
    name: Corruption(name, category, name in EXTRA, FUNCTIONS[name], name in COLOURED, LEAST.get(name, 1))
    for name, category in CATEGORIES.items()
}
"""The 15 of mCE in the order of the paper, then the 4 extra ones."""


def _checked(image: Pixels, corruption: Corruption, severity: int, variant: Variant) -> Pixels:
    """The image as (h, w, c)."""
    name = corruption.name
    found = getattr(image, "dtype", None)
    if found != np.uint8:
        raise UserError(f"{name}: image: expected a uint8 array, got {found or type(image).__name__}")
    pixels = image[..., None] if image.ndim == GREY else image
    if pixels.ndim != COLOUR or pixels.shape[-1] not in CHANNELS:
        raise UserError(f"{name}: image: expected shape (h, w), (h, w, 1) or (h, w, 3), got {image.shape}")
    if min(pixels.shape[:2]) < corruption.least:
        raise UserError(f"{name}: image: expected sides of at least {corruption.least}, got {image.shape}")
    if isinstance(severity, bool) or severity not in SEVERITIES:
        raise UserError(f"{name}: severity: expected an integer from 1 to 5, got {echo(severity)}")
    if variant not in VARIANTS:
        raise UserError(f"{name}: variant: expected {' or '.join(VARIANTS)}, got {echo(variant)}")
    return np.ascontiguousarray(pixels)


def apply(
    name: str,
    image: Pixels,
    severity: int,
    generator: np.random.Generator,
    variant: Variant = "imagenet",
    *,
    textures: Sequence[Pixels] | None = None,
) -> Pixels:
    """One corruption of one image.

    The result depends on the arguments alone: the same image, severity, variant and state of the generator
    give the same bytes. A grey image stays grey: corruptions that act channel by channel treat its one
    channel, colours that are added count by their luma, and `saturate` works on its colour form.

    Args:
        name: One of `CORRUPTIONS`.
        image: uint8 (h, w, 3) RGB, (h, w, 1) or (h, w) grey, at least `least` pixels a side; not modified.
        severity: 1 to 5.
        generator: Where draws come from; advanced.
        variant: Settings for 224 by 224 (`imagenet`) or 32 by 32 (`cifar`) images. Both take any size;
            lengths in pixels do not scale with the image.
        textures: Frost pictures at the variant's scale, from `frosting.read`; by default this project's own.

    Returns:
        A new uint8 array of the image's shape.

    Raises:
        UnknownNameError: There is no such corruption.
        UserError: Type, shape, severity or variant is another than stated.
    """
    if name not in CORRUPTIONS:
        raise UnknownNameError("corruption", name, CORRUPTIONS)
    corruption = CORRUPTIONS[name]
    pixels = _checked(image, corruption, severity, variant)
    setting = Setting(PARAMETERS[variant][name][severity - 1], variant, textures)
    if corruption.coloured and pixels.shape[2] == 1:
        coloured = corruption.function(np.repeat(pixels, 3, axis=2), setting, generator)
        found = np.rint(coloured @ np.array(weather.LUMA)).astype(np.uint8)
    else:
        found = corruption.function(pixels, setting, generator)
    return np.asarray(found, dtype=np.uint8).reshape(image.shape)
