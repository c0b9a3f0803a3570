"""Blur."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.corruptions import filters
from robustboard.benchmarks.corruptions.compiled import compiled
from robustboard.benchmarks.corruptions.setting import Doubles, Floats, Pixels, Setting, cut

TRUNCATE = 4.0
"""Sigmas at which a Gaussian ends, as in scikit-image."""


def _gaussian(image: Pixels, sigma: float) -> Pixels:
    """Smoothed in float64 and cut as the original does, tolerance and all left out."""
    weights = filters.gaussian_weights(sigma, TRUNCATE)
    smooth = filters.gaussian(image / 255.0, weights)
    return (np.clip(smooth, 0, 1) * 255).astype(np.uint8)


def gaussian_blur(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """A Gaussian, border replicated. No draws. Byte-equal to the original, which scikit-image computes."""
    del generator
    (sigma,) = setting.values
    return _gaussian(image, sigma)


@compiled
def _shuffle(image: Pixels, steps: npt.NDArray[np.int8], reach: int, passes: int) -> None:
    height, width, channels = image.shape
    position = 0
    for _ in range(passes):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                right, down = steps[position]
                position += 1
                for channel in range(channels):
                    image[row, column, channel] = image[row + down, column + right, channel]


def glass_blur(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Smoothed, pixels replaced in turn by a random near one, smoothed again.

    Byte-equal to the original for the same draws. The original means to swap two pixels, but its assignment
    goes through views, so that the second keeps its value: the pixel is overwritten, and so it is here.
    Pixels are visited from bottom right to top left, each pass over the outcome of the last.

    Draws: int8 pairs (right, down) in [-reach, reach), one a visited pixel.
    """
    sigma, reach, passes = setting.values[0], int(setting.values[1]), int(setting.values[2])
    glass = _gaussian(image, sigma)
    visited = max(image.shape[0] - 2 * reach, 0) * max(image.shape[1] - 2 * reach, 0)
    steps = generator.integers(-reach, reach, (passes * visited, 2), dtype=np.int8)
    _shuffle(glass, steps, reach, passes)
    return _gaussian(glass, sigma)


def defocus_blur(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """A disk with a soft edge, border mirrored. No draws. float32 inside; equal to the original to +-1."""
    del generator
    radius, softness = setting.values
    blurred = cv2.filter2D(image.astype(np.float32), -1, filters.disk(radius, softness))
    return cut(np.asarray(blurred, dtype=np.float32).reshape(image.shape))


def motion_blur(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Smeared along a line at a random angle of at most 45 degrees, on one side.

    The original calls ImageMagick; kernel, border and rounding follow it. Draws: one uniform angle.
    """
    radius, sigma = setting.values
    return filters.motion(image, radius, sigma, generator.uniform(-45, 45))


@lru_cache(maxsize=32)
def _zooms(size: int, end: float, step: float) -> tuple[npt.NDArray[np.int64], Floats]:
    axes = [filters.zoom_axis(size, float(factor)) for factor in np.arange(1, end, step)]
    lower: list[npt.NDArray[np.int64]] = [axis[0] for axis in axes]
    shares: list[Doubles] = [axis[1] for axis in axes]
    return np.stack(lower), np.stack(shares).astype(np.float32)


def zoom_blur(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """The mean of the image and of its linear zooms about the middle. No draws.

    The original zooms with scipy.ndimage and assumes a square; here both axes are cut alike. float32 inside;
    equal to the original to +-1.
    """
    del generator
    end, step = setting.values
    return filters.zooms(image, *_zooms(image.shape[0], end, step), *_zooms(image.shape[1], end, step))
