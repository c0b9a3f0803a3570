"""Scores with their intervals, from flags and values an image. No torch here."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks import metrics
from robustboard.runners.record import Score

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Interval = Literal["wilson-95", "normal-95", "bootstrap-95", "none"]
NO_IMAGES = "no image was measured"


def undefined(metric: str, condition: str, n: int, reason: str) -> Score:
    """A score without a value, and why it has none."""
    meaning = metrics.METRICS[metric]
    return Score(
        metric=metric,
        condition=condition,
        value=None,
        low=None,
        high=None,
        n=n,
        unit=meaning.unit,
        direction=meaning.direction,
        status="undefined",
        reason=reason,
    )


def share(metric: str, condition: str, flags: Flags, reason: str = NO_IMAGES) -> Score:
    """The share of True; undefined, with the reason, over no image."""
    n, correct = flags.size, int(np.count_nonzero(flags))
    if n == 0:
        return undefined(metric, condition, 0, reason)
    return _told(metric, condition, correct / n, n=n, bounds=metrics.wilson(correct, n), correct=correct)


def mean(metric: str, condition: str, values: npt.NDArray[np.float64], trials: int) -> Score:
    """The mean of one value in [0, 1] an image, each from `trials` dependent trials."""
    if values.size == 0:
        return undefined(metric, condition, 0, NO_IMAGES)
    return effective(metric, condition, values.size, *metrics.mean_share(values, trials))


def effective(metric: str, condition: str, n: int, value: float, sample_size: float) -> Score:
    """A share over n images whose interval is that of another number of independent trials."""
    low, high = metrics.wilson(value * sample_size, sample_size)
    return _told(metric, condition, value, n=n, bounds=(low, high))


def _told(
    metric: str,
    condition: str,
    value: float,
    *,
    n: int,
    bounds: tuple[float, float] | None,
    correct: int | None = None,
    interval: Interval = "wilson-95",
) -> Score:
    """A defined score with the unit and direction of its metric."""
    meaning = metrics.METRICS[metric]
    low, high = bounds or (None, None)
    return Score(
        metric=metric,
        condition=condition,
        value=value,
        low=low,
        high=high,
        n=n,
        unit=meaning.unit,
        direction=meaning.direction,
        correct=correct,
        interval=interval,
    )


def linear(metric: str, condition: str, values: Floats) -> Score:
    """The mean of one number an image, with the normal interval of a mean over independent images."""
    if values.size == 0:
        return undefined(metric, condition, 0, NO_IMAGES)
    error = float(np.std(values, ddof=1)) / np.sqrt(values.size) if values.size > 1 else None
    return normal(metric, condition, float(np.mean(values)), error=error, n=values.size)


def normal(
    metric: str,
    condition: str,
    value: float,
    *,
    error: float | None,
    n: int,
    interval: Literal["normal-95", "bootstrap-95"] = "normal-95",
) -> Score:
    """A value with the interval of 1.96 standard errors to both sides, cut to [0, 1] for shares.

    Without a standard error, or with none above 0, the score has no interval: nothing is known of
    its doubt.
    """
    if not error:
        return _told(metric, condition, value, n=n, bounds=None, interval="none")
    meaning = metrics.METRICS[metric]
    low, high = value - metrics.Z95 * error, value + metrics.Z95 * error
    low = low if meaning.least is None else max(low, meaning.least)
    high = min(high, 1.0) if meaning.unit == "share" else high
    return _told(metric, condition, value, n=n, bounds=(low, high), interval=interval)
