"""Places, rank ranges and tests: pure functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Direction = Literal["higher", "lower", "none"]
ALPHA = 0.05
"""Level of every test on the site; intervals are its complement, 95 %."""


def rank_ranges(
    lows: Sequence[float], highs: Sequence[float], direction: Direction = "higher"
) -> list[tuple[int, int]]:
    """Best and worst rank of every model that its interval allows.

    Best is 1 + the number of models whose whole interval is better than mine, worst is n - the
    number whose whole interval is worse. Intervals that touch cannot be told apart. The order of the
    arguments does not matter, and equal intervals get equal ranges.

    Raises ValueError for a column without direction, or when an interval is upside down.
    """
    if direction == "none":
        raise ValueError("a column without direction has no ranks")
    low, high = np.asarray(lows, np.float64), np.asarray(highs, np.float64)
    if low.shape != high.shape or not (low <= high).all():
        raise ValueError("expected as many lower as upper bounds, each lower one at most the upper")
    if direction == "lower":
        low, high = -high, -low
    count = low.size
    better = count - np.searchsorted(np.sort(low), high, side="right")
    worse = np.searchsorted(np.sort(high), low, side="left")
    return [(1 + int(b), count - int(w)) for b, w in zip(better, worse, strict=True)]


def tied(low_a: float, high_a: float, low_b: float, high_b: float) -> bool:
    """Whether two intervals share a point.

    A cautious test: intervals of 95 % that part mean a difference at a level far below 5 %, and
    intervals that overlap a little may still belong to different models.
    """
    return low_a <= high_b and low_b <= high_a


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided p-value of McNemar's exact test, from the images that only one of two models gets right.

    Under equal models each such image falls to either side with probability 1/2 (McNemar 1947; exact
    form as a binomial test). 1 when there is no such image.
    """
    from scipy.stats import binomtest  # noqa: PLC0415 - half a second that only comparisons need

    if only_a + only_b == 0:
        return 1.0
    return float(binomtest(only_a, only_a + only_b, 0.5).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number, in the order given (Holm 1979, step-down).

    Calling those below 5 % clear lets any false one among them pass in 5 % of all tables at most, however
    the tests hang together.
    """
    count = len(p_values)
    adjusted, highest = [0.0] * count, 0.0
    for step, place in enumerate(sorted(range(count), key=lambda each: p_values[each])):
        highest = max(highest, min((count - step) * p_values[place], 1.0))
        adjusted[place] = highest
    return adjusted


@dataclass(frozen=True, slots=True)
class SeedSpread:
    """One number of several models that differ by the seed of their training alone."""

    count: int
    mean: float
    deviation: float
    """Standard deviation between the models, with count - 1."""
    low: float
    high: float
    """95 % interval of the mean of such models, by Student's t."""


def across_seeds(values: Sequence[float]) -> SeedSpread:
    """Mean of trainings that differ by their seed, and how far another training may lie.

    Images are not drawn again here: the interval speaks of training, those of single models of images.
    Raises ValueError for fewer than two values.
    """
    from scipy.stats import t  # noqa: PLC0415 - half a second that only boards with several seeds need

    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        raise ValueError("expected two or more trainings")
    found = np.asarray(values, np.float64)
    mean, deviation = float(found.mean()), float(found.std(ddof=1))
    reach = float(t.ppf(1 - ALPHA / 2, found.size - 1)) * deviation / math.sqrt(found.size)
    return SeedSpread(found.size, mean, deviation, mean - reach, mean + reach)


def margin(value: float, low: float, high: float) -> float:
    """The larger side of an interval, what stands behind ± on pages."""
    return max(value - low, high - value)


def shades(values: Sequence[float | None], margins: Sequence[float], steps: int) -> list[int | None]:
    """A shade from 0 to `steps` - 1 for every value of a column, None where there is none.

    The steps divide the range of the values, or a wider one around its middle where they lie close:
    one step is never narrower than two median margins, so that noise does not look like signal.
    None for all when fewer than two values are there.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:  # noqa: PLR2004 - one value has nothing to be compared with
        return [None] * len(values)
    low, high = min(known), max(known)
    span = max(high - low, 2 * steps * float(np.median(np.asarray(margins, np.float64))))
    if span == 0:
        return [None] * len(values)
    start = (low + high - span) / 2
    return [
        None if value is None else min(max(int((value - start) / span * steps), 0), steps - 1)
        for value in values
    ]
