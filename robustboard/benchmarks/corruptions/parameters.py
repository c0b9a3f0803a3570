"""Names, groups and severities of the corruptions (Hendrycks and Dietterich 2019, section 3 and their code).

Cheap to import: a protocol can be checked where the extra `corruptions` is not installed.
"""

from __future__ import annotations

from typing import Literal, get_args

Variant = Literal["imagenet", "cifar"]
"""`imagenet`: the settings for 224 by 224 pixels (ImageNet-C). `cifar`: for 32 by 32 (CIFAR-10-C)."""
Category = Literal["noise", "blur", "weather", "digital"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
SEVERITIES = (1, 2, 3, 4, 5)

CATEGORIES: dict[str, Category] = {
    "gaussian_noise": "noise",
    "shot_noise": "noise",
    "impulse_noise": "noise",
    "defocus_blur": "blur",
    "glass_blur": "blur",
    "motion_blur": "blur",
    "zoom_blur": "blur",
    "snow": "weather",
    "frost": "weather",
    "fog": "weather",
    "brightness": "weather",
    "contrast": "digital",
    "elastic_transform": "digital",
    "pixelate": "digital",
    "jpeg_compression": "digital",
    "speckle_noise": "noise",
    "gaussian_blur": "blur",
    "spatter": "weather",
    "saturate": "digital",
}
"""Name → group: the 15 in the order of the paper, then the 4 extra ones."""
EXTRA = frozenset({"speckle_noise", "gaussian_blur", "spatter", "saturate"})
"""Meant for choosing hyperparameters; they never enter mCE."""

Severities = tuple[
    tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]
]

PARAMETERS: dict[Variant, dict[str, Severities]] = {
    "imagenet": {
        # standard deviation
        "gaussian_noise": ((0.08,), (0.12,), (0.18,), (0.26,), (0.38,)),
        # photons of a white pixel
        "shot_noise": ((60,), (25,), (12,), (5,), (3,)),
        # share of values replaced
        "impulse_noise": ((0.03,), (0.06,), (0.09,), (0.17,), (0.27,)),
        # radius of the disk, sigma of its soft edge
        "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
        # sigma, longest step, passes
        "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
        # radius, sigma
        "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
        # end (exclusive, as numpy.arange rounds it) and step of the zoom factors
        "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
        # mean, deviation, zoom, least flake, radius, sigma, weight of the image
        "snow": (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
        # weights of the image and of the texture
        "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
        # density, decay of the fractal's amplitude a step
        "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
        # added to the value of HSV
        "brightness": ((0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
        # factor of the distance to the mean
        "contrast": ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
        # displacement, sigma of its smoothing, jitter of the affine map, in pixels
        "elastic_transform": (
            (244 * 2, 244 * 0.7, 244 * 0.1),
            (244 * 2, 244 * 0.08, 244 * 0.2),
            (244 * 0.05, 244 * 0.01, 244 * 0.02),
            (244 * 0.07, 244 * 0.01, 244 * 0.02),
            (244 * 0.12, 244 * 0.01, 244 * 0.02),
        ),
        # side of the small image
        "pixelate": ((0.6,), (0.5,), (0.4,), (0.3,), (0.25,)),
        # quality
        "jpeg_compression": ((25,), (18,), (15,), (10,), (7,)),
        # standard deviation
        "speckle_noise": ((0.15,), (0.2,), (0.35,), (0.45,), (0.6,)),
        # sigma
        "gaussian_blur": ((1,), (2,), (3,), (4,), (6,)),
        # mean, deviation, sigma, least liquid, strength or sigma of mud, 0 for water and 1 for mud
        "spatter": (
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ),
        # factor of the saturation of HSV, added to it
        "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    },
    "cifar": {
        "gaussian_noise": ((0.04,), (0.06,), (0.08,), (0.09,), (0.1,)),
        "shot_noise": ((500,), (250,), (100,), (75,), (50,)),
        "impulse_noise": ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
        "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        "snow": (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
        "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        "brightness": ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),
        "contrast": ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
        "elastic_transform": (
            (0, 0, 32 * 0.08),
            (32 * 0.05, 32 * 0.2, 32 * 0.07),
            (32 * 0.08, 32 * 0.06, 32 * 0.06),
            (32 * 0.1, 32 * 0.04, 32 * 0.05),
            (32 * 0.1, 32 * 0.03, 32 * 0.03),
        ),
        "pixelate": ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
        "jpeg_compression": ((80,), (65,), (58,), (50,), (40,)),
        "speckle_noise": ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)),
        "gaussian_blur": ((0.4,), (0.6,), (0.7,), (0.8,), (1,)),
        "spatter": (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    },
}
"""Variant → corruption → settings of severities 1 to 5, in the units of the [0, 1] pixel range or in pixels.

The meaning of each number stands above its row. 244 is what the authors' code has where 224 was meant."""
FROST = "robustboard-frost/1"
"""This project's own frost pictures, as runs with them say; changes when they do, with CODE_VERSION."""
TEXTURE_SCALE: dict[Variant, float] = {"imagenet": 1.0, "cifar": 0.2}
"""Factor by which frost textures are resized before a piece is cut out."""
