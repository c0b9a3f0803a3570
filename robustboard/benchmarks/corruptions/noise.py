"""Noise: values change independently of each other, channel by channel."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import pdtr

from robustboard.benchmarks.corruptions.compiled import compiled
from robustboard.benchmarks.corruptions.setting import Doubles, Floats, Pixels, Setting

LEVELS = 256
HALF = LEVELS // 2
RANGE = 2**32
"""Of the draws of shot noise."""
GUIDE_SHIFT = 24
"""A draw's upper bits that look up where its search begins."""


@compiled
def _add(image: Pixels, draws: Floats, fixed: float, relative: float) -> Pixels:
    out = np.empty_like(image)
    source, noise, target = image.ravel(), draws.ravel(), out.ravel()
    fixed32, relative32 = np.float32(fixed), np.float32(relative)
    for index in range(source.size):
        level = np.float32(source[index])
        value = level + (fixed32 + relative32 * level) * noise[index]
        target[index] = np.uint8(min(max(value, np.float32(0)), np.float32(255)))
    return out


def gaussian_noise(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """X + c z, z standard normal. Draws: float32, one a value. Equal to the original to +-1."""
    (deviation,) = setting.values
    draws = generator.standard_normal(image.shape, dtype=np.float32)
    return _add(image, draws, 255 * deviation, 0.0)


def speckle_noise(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """X + c x z, z standard normal. Draws: float32, one a value. Equal to the original to +-1."""
    (deviation,) = setting.values
    draws = generator.standard_normal(image.shape, dtype=np.float32)
    return _add(image, draws, 0.0, deviation)


@compiled
def _replace(image: Pixels, chosen: Floats, side: Pixels, share: float) -> Pixels:
    out = np.empty_like(image)
    source, target = image.ravel(), out.ravel()
    hits, sides, limit = chosen.ravel(), side.ravel(), np.float32(share)
    for index in range(source.size):
        extreme = np.uint8(255) if sides[index] < HALF else np.uint8(0)
        target[index] = extreme if hits[index] <= limit else source[index]
    return out


def impulse_noise(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """A share of the values turns 0 or 255, each with probability 1/2.

    Draws: float32 uniform, one a value for whether, then uint8, one a value for which; a lower half is white.
    Equal to the original.
    """
    (share,) = setting.values
    chosen = generator.random(image.shape, dtype=np.float32)
    side = generator.integers(0, LEVELS, image.shape, dtype=np.uint8)
    return _replace(image, chosen, side, share)


@lru_cache(maxsize=32)
def _counts(photons: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16], Pixels]:
    """How to turn draws into counts: (256, k) limits, (256, 256) first guesses, (k,) levels of counts.

    A draw r in [0, 2^32) of level v gives the smallest count whose Poisson distribution function is at
    least (r + 1/2) / 2^32: the first with limits[v, count] >= r. Counts beyond `photons` are all white.
    """
    counts = np.arange(int(photons) + 1)
    means: Doubles = np.arange(LEVELS)[:, None] / 255 * photons
    limits = np.floor(pdtr(counts[None, :], means) * RANGE - 0.5).astype(np.int64)
    limits[:, -1] = RANGE
    starts = np.arange(LEVELS, dtype=np.int64) << GUIDE_SHIFT
    guesses = np.stack([np.searchsorted(row, starts) for row in limits]).astype(np.uint16)
    levels = (np.clip(counts / photons, 0, 1) * 255).astype(np.uint8)
    return limits, guesses, levels


@compiled
def _count(
    image: Pixels,
    draws: npt.NDArray[np.uint32],
    limits: npt.NDArray[np.int64],
    guesses: npt.NDArray[np.uint16],
    levels: Pixels,
) -> Pixels:
    out = np.empty_like(image)
    source, bits, target = image.ravel(), draws.ravel(), out.ravel()
    for index in range(source.size):
        level, draw = source[index], np.int64(bits[index])
        count = np.int64(guesses[level, draw >> GUIDE_SHIFT])
        while limits[level, count] < draw:
            count += 1
        target[index] = levels[count]
    return out


def shot_noise(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Poisson counts of mean c x, divided by c.

    Draws: uint32, one a value, turned into counts by the inverse distribution function. Equal to the original
    for the same counts.
    """
    (photons,) = setting.values
    draws = generator.integers(0, RANGE, image.shape, dtype=np.uint32)
    return _count(image, draws, *_counts(photons))
