"""Two models on the same images: the paired difference, its interval and its test. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from robustboard.leaderboard.statistics import ALPHA, mcnemar

Z = 1.959963984540054
"""97.5 % point of the standard normal distribution."""
RESAMPLES = 10_000
DRAWN = 2_000_000
"""Counts that are drawn at once: bounds memory to some 32 MB, changes no draw."""
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """How two models differ on the same images."""

    images: int
    difference: float
    """Mean over images of what the first gives less what the second gives."""
    low: float
    high: float
    """95 % interval of the difference."""
    p_value: float
    """Two-sided."""
    test: Literal["McNemar", "paired z"]
    """McNemar's exact test where every image is right or wrong, else a normal one of the mean difference."""
    only_a: int | None = None
    """Images that the first alone gets right; None where images count in parts."""
    only_b: int | None = None
    both: int | None = None
    neither: int | None = None


def paired(a: npt.NDArray[np.bool_] | Shares, b: npt.NDArray[np.bool_] | Shares) -> Pairs:
    """Difference, interval and test of two models on the same (n,) images, in the same order.

    Of right and wrong: McNemar's exact test, and the interval of Agresti and Min 2005 ("Simple improved
    confidence intervals for comparing matched proportions"): Wald's after half an image was added to each
    of the four counts. Of means of parts: the normal interval of the mean of the n differences.

    Raises ValueError for unequal or empty arrays.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(f"expected the same images twice, got {first.shape} and {second.shape}")
    n = first.size
    if np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all():
        only_a, only_b = int((first > second).sum()), int((second > first).sum())
        both = int(((first == 1) & (second == 1)).sum())
        low, high = _agresti_min(only_a, only_b, n)
        p_value = mcnemar(only_a, only_b)
        neither = n - both - only_a - only_b
        return Pairs(n, (only_a - only_b) / n, low, high, p_value, "McNemar", only_a, only_b, both, neither)
    gaps = first - second
    mean = float(gaps.mean())
    error = float(gaps.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    if error == 0:
        return Pairs(n, mean, mean, mean, 1.0 if mean == 0 else 0.0, "paired z")
    low, high = max(mean - Z * error, -1.0), min(mean + Z * error, 1.0)
    return Pairs(n, mean, low, high, math.erfc(abs(mean / error) / math.sqrt(2)), "paired z")


def _agresti_min(only_a: int, only_b: int, n: int) -> tuple[float, float]:
    plus, minus, total = only_a + 0.5, only_b + 0.5, n + 2
    middle = (plus - minus) / total
    error = math.sqrt(max(plus + minus - (plus - minus) ** 2 / total, 0.0)) / total
    return max(middle - Z * error, -1.0), min(middle + Z * error, 1.0)


def resampled_mean(values: Shares, *, resamples: int = RESAMPLES, seed: int = 0) -> Shares:
    """(resamples,) means of as many images drawn again with replacement.

    Images with equal values are drawn together: a bootstrap of images is one multinomial draw over the
    distinct values, which costs the same for 100 and for 50,000 images that are right or wrong.
    """
    distinct, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    generator = np.random.default_rng(seed)
    chances, step = counts / values.size, max(DRAWN // distinct.size, 1)
    return np.concatenate(
        [
            generator.multinomial(values.size, chances, size=min(step, resamples - start)) @ distinct
            for start in range(0, resamples, step)
        ]
    ) / np.float64(values.size)


def paired_bootstrap(
    a: npt.NDArray[np.bool_] | Shares,
    b: npt.NDArray[np.bool_] | Shares,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """95 % percentile interval of the mean difference over images drawn again, the same for both models."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape or first.size == 0:
        raise ValueError(f"expected the same images twice, got {first.shape} and {second.shape}")
    means = resampled_mean(first - second, resamples=resamples, seed=seed)
    low, high = np.quantile(means, [ALPHA / 2, 1 - ALPHA / 2])
    return float(low), float(high)


def bootstrap_sum(
    parts: Sequence[Shares], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """95 % percentile interval of the sum of the parts' means; each part's images are drawn on their own.

    A part holds what each image of one test set gives to all columns of that set together, so that columns
    on the same images are drawn together.
    """
    total = np.zeros(resamples)
    for number, values in enumerate(parts):
        total += resampled_mean(values, resamples=resamples, seed=seed + number)
    low, high = np.quantile(total, [ALPHA / 2, 1 - ALPHA / 2])
    return float(low), float(high)
