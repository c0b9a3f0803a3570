"""Random noise, x' = clip(x + size * draw), one generator an image (specs of the noise protocols)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.seeds import sample_generator

Distribution = Literal["uniform", "gaussian"]
DISTRIBUTIONS: dict[str, Distribution] = {"uniform": "uniform", "gaussian": "gaussian"}
"""Kind of a condition → distribution."""


def perturb(
    images: npt.NDArray[np.float32],
    *,
    distribution: Distribution,
    size: Fraction,
    generators: Sequence[np.random.Generator],
) -> npt.NDArray[np.float32]:
    """Images with independent noise on every pixel and channel, clipped to [0, 1].

    Args:
        images: (n, c, h, w) in [0, 1]; not modified.
        distribution: `uniform` draws from [-1, 1), `gaussian` from the standard normal.
        size: Factor of the draws, in units of the pixel range.
        generators: One an image.
    """
    noisy = np.empty_like(images)
    for image, out, generator in zip(images, noisy, generators, strict=True):
        if distribution == "uniform":
            draw = generator.uniform(-1.0, 1.0, image.shape)
        else:
            draw = generator.standard_normal(image.shape)
        out[...] = np.clip(image + float(size) * draw, 0.0, 1.0)
    return noisy


def noise_generators(key_digest: str, sample_ids: Sequence[str], condition: str) -> list[np.random.Generator]:
    """Generators for one condition such as `uniform 1/10 draw 0`; draws differ between conditions."""
    return [sample_generator(key_digest, sample_id, f"noise {condition}") for sample_id in sample_ids]
