"""How well confidence tells whether a prediction is right: pure functions of NumPy arrays. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating[Any]]
Flags = npt.NDArray[np.bool_]

ECE_BINS = 15
"""Bins of equal width (Guo et al. 2017, "On Calibration of Modern Neural Networks")."""
RMS_BIN = 100
"""Images a bin of the RMS calibration error (Hendrycks et al. 2019, "Deep Anomaly Detection")."""


def _check(confidence: Values, correct: Flags) -> None:
    if confidence.shape != correct.shape or confidence.ndim != 1 or not len(confidence):
        raise ValueError(f"expected (n,) arrays, n > 0, got {confidence.shape} and {correct.shape}")


def expected_calibration_error(confidence: Values, correct: Flags, bins: int = ECE_BINS) -> float:
    """Mean gap of confidence and accuracy over bins of equal width, weighted by their images.

    Bins are open on the left and closed on the right, as in Guo et al. 2017, section 2; 0 belongs to
    the first. Raises ValueError without images, as all functions here do.
    """
    _check(confidence, correct)
    place = np.clip(np.ceil(confidence.astype(np.float64) * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=confidence.astype(np.float64) - correct, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidence))


def rms_calibration_error(confidence: Values, correct: Flags, *, paper_compatible: bool = False) -> float:
    """Root of the mean squared gap over bins of 100 images of rising confidence.

    The last bin takes the remainder too. `paper_compatible` repeats the published code, which leaves
    the last bin out, and with it the most confident images (Hendrycks et al. 2021, "Natural
    Adversarial Examples").
    """
    _check(confidence, correct)
    order = np.argsort(confidence, kind="stable")
    sure, right = confidence[order].astype(np.float64), correct[order]
    count = max(len(sure) // RMS_BIN, 1)
    starts = np.arange(count) * RMS_BIN
    sizes = np.diff(starts, append=len(sure))
    gaps = np.add.reduceat(sure - right, starts) / sizes
    squares = sizes * gaps**2
    total = squares[:-1].sum() if paper_compatible else squares.sum()
    return float(np.sqrt(total / len(sure)))


def aurra(confidence: Values, correct: Flags) -> float:
    """Area under accuracy over response rate: the mean, over k, of accuracy on the k surest images.

    Hendrycks et al. 2021, "Natural Adversarial Examples", section 4.
    """
    _check(confidence, correct)
    right = correct[np.argsort(-confidence, kind="stable")]
    return float(np.mean(np.cumsum(right) / np.arange(1, len(right) + 1)))


def brier_score(label_log_share: Values, square_sum: Values) -> float:
    """Mean squared distance of the softmax shares from the one-hot label, summed over classes (Brier 1950).

    From 0 to 2. Args: log of the label's share, and the sum of squared shares, each (n,).
    """
    share = np.exp(label_log_share.astype(np.float64))
    if not len(share):
        raise ValueError("expected images, got none")
    return float(np.mean(square_sum.astype(np.float64) - 2 * share + 1))


def negative_log_likelihood(label_log_share: Values) -> float:
    """Mean of minus the log of the label's share, in nats."""
    if not len(label_log_share):
        raise ValueError("expected images, got none")
    return float(-np.mean(label_log_share.astype(np.float64)))


def best_temperature(temperatures: Sequence[float], losses: Sequence[float]) -> tuple[float, bool]:
    """The temperature of least negative log-likelihood, and whether it lies inside the grid.

    A parabola through the best point of the grid and its neighbours, in log temperature: the loss
    is smooth there, and convex in 1 / temperature (Guo et al. 2017, section 4.2). At an end of
    the grid that end, and False.

    Raises ValueError unless temperatures rise, are above 0, and as many as losses, at least 3.
    """
    grid, values = np.log(np.asarray(temperatures, float)), np.asarray(losses, float)
    if len(grid) != len(values) or len(grid) < 3 or not (np.diff(grid) > 0).all():  # noqa: PLR2004 - a parabola
        raise ValueError("expected at least 3 rising temperatures with a loss each")
    best = int(values.argmin())
    if best in (0, len(grid) - 1):
        return float(np.exp(grid[best])), False
    left, right = grid[best] - grid[best - 1], grid[best + 1] - grid[best]
    down, up = values[best - 1] - values[best], values[best + 1] - values[best]
    bend = down * right + up * left
    shift = (down * right**2 - up * left**2) / (2 * bend) if bend > 0 else 0.0
    return float(np.exp(grid[best] + shift)), True
