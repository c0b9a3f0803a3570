"""Accuracy under a shift beyond what clean accuracy foretells. No torch here.

Taori et al. 2020, "Measuring Robustness to Natural Distribution Shifts in Image Classification",
section 2: over standard models the logit of accuracy under a shift is close to a line in the logit
of clean accuracy; effective robustness is the height above that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

MIN_MODELS = 3
"""Fewer points leave nothing to judge a line by."""
RESAMPLES = 1000
MAX_DRAWS = 100
"""Times a resample of equal clean accuracies, through which no line goes, is drawn anew."""

Floats = npt.NDArray[np.float64]


def logit(share: npt.ArrayLike, n: npt.ArrayLike | None = None) -> Floats:
    """log(p / (1 - p)); with n, shares are first clipped to [0.5 / n, 1 - 0.5 / n].

    Raises ValueError for shares outside [0, 1], and for 0 or 1 without n.
    """
    found = np.asarray(share, float)
    if ((found < 0) | (found > 1)).any():
        raise ValueError("expected shares in [0, 1]")
    if n is not None:
        edge = 0.5 / np.asarray(n, float)
        found = np.clip(found, edge, 1 - edge)
    if ((found <= 0) | (found >= 1)).any():
        raise ValueError("expected shares above 0 and below 1, or numbers of images to clip them by")
    return np.asarray(np.log(found / (1 - found)))


def logistic(value: npt.ArrayLike) -> Floats:
    """1 / (1 + exp(-value)), the inverse of logit."""
    return np.asarray(1 / (1 + np.exp(-np.asarray(value, float))))


class Line(Protocol):
    """What foretells accuracy under a shift."""

    def expected(self, clean: float, n: int | None = None) -> float:
        """Accuracy under the shift at a clean accuracy; both shares, clipped by n images."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A line in logit space: logit(shifted) = slope * logit(clean) + intercept."""

    slope: float
    intercept: float
    r: float
    """Pearson correlation of the two logits."""
    n: int
    """Models fitted."""

    def expected(self, clean: float, n: int | None = None) -> float:
        """Accuracy under the shift that the line foretells (beta in the paper)."""
        return float(logistic(self.slope * logit(clean, n) + self.intercept))


@dataclass(frozen=True, slots=True)
class PiecewiseFit:
    """Lines for ranges of clean accuracy, such as both sides of the model that filtered ImageNet-A."""

    starts: tuple[float, ...]
    """Lowest clean accuracy of each piece, rising shares; the first piece stands for lower ones too."""
    pieces: tuple[Fit, ...]

    def __post_init__(self) -> None:
        """Raise ValueError unless there is a start for each piece, each above the one before."""
        if len(self.starts) != len(self.pieces) or not self.pieces:
            raise ValueError(f"expected a start a piece, got {len(self.starts)} for {len(self.pieces)}")
        if any(after <= before for before, after in pairwise(self.starts)):
            raise ValueError(f"expected rising starts, got {self.starts}")

    def piece(self, clean: float) -> Fit:
        """The line that stands for a clean accuracy."""
        reached = sum(start <= clean for start in self.starts)
        return self.pieces[max(reached, 1) - 1]

    def expected(self, clean: float, n: int | None = None) -> float:
        """Accuracy under the shift that the piece's line foretells."""
        return self.piece(clean).expected(clean, n)


@dataclass(frozen=True, slots=True)
class Resampled:
    """Lines through resamples of the models of a fit: how far the fit depends on who is in it."""

    slopes: Floats
    """(r,)."""
    intercepts: Floats
    """(r,)."""

    def interval(self, clean: float, n: int | None = None) -> tuple[float, float]:
        """2.5 and 97.5 % points of what the lines foretell at a clean accuracy."""
        foretold = logistic(self.slopes * logit(clean, n) + self.intercepts)
        low, high = np.percentile(foretold, [2.5, 97.5])
        return float(low), float(high)


def fit_line(
    clean: Sequence[float],
    shifted: Sequence[float],
    n: Sequence[int] | None = None,
    shifted_n: Sequence[int] | None = None,
) -> Fit:
    """Least squares of logit(shifted) on logit(clean).

    Args:
        clean: Clean accuracies of standard models, shares.
        shifted: Their accuracies under the shift, in the same order.
        n: Test images behind each, to clip accuracies of 0 and 1; absent: none is clipped.
        shifted_n: Test images behind the accuracies under the shift, where they are others than n.

    Raises ValueError for fewer than three models, or when all clean accuracies are equal.
    """
    x, y = logit(clean, n), logit(shifted, n if shifted_n is None else shifted_n)
    if x.shape != y.shape or x.ndim != 1 or len(x) < MIN_MODELS:
        raise ValueError(f"expected at least {MIN_MODELS} pairs of accuracies, got {x.shape} and {y.shape}")
    if np.ptp(x) == 0:
        raise ValueError("expected clean accuracies that differ")
    dx, dy = x - x.mean(), y - y.mean()
    spread = float(dx @ dx)
    slope = float(dx @ dy) / spread
    vertical = float(dy @ dy)
    r = float(dx @ dy) / np.sqrt(spread * vertical) if vertical > 0 else 0.0
    return Fit(slope, float(y.mean() - slope * x.mean()), float(r), len(x))


def resample_lines(
    clean: Sequence[float],
    shifted: Sequence[float],
    n: Sequence[int] | None = None,
    shifted_n: Sequence[int] | None = None,
    *,
    seed: int = 0,
) -> Resampled:
    """1,000 least-squares lines, each through as many models drawn with replacement.

    A draw of one model alone, or of equal clean accuracies, is repeated. The same seed gives the
    same lines. Arguments and errors are those of fit_line.
    """
    fit_line(clean, shifted, n, shifted_n)
    x, y = logit(clean, n), logit(shifted, n if shifted_n is None else shifted_n)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(x), (RESAMPLES, len(x)))
    for _ in range(MAX_DRAWS):
        flat = np.ptp(x[drawn], axis=1) == 0
        if not flat.any():
            break
        drawn[flat] = generator.integers(0, len(x), (int(flat.sum()), len(x)))
    drawn = drawn[np.ptp(x[drawn], axis=1) > 0]
    dx = x[drawn] - x[drawn].mean(axis=1, keepdims=True)
    slopes = (dx * y[drawn]).sum(axis=1) / (dx**2).sum(axis=1)
    intercepts = y[drawn].mean(axis=1) - slopes * x[drawn].mean(axis=1)
    return Resampled(slopes, intercepts)


def effective_robustness(clean: float, shifted: float, line: Line, n: int | None = None) -> float:
    """Accuracy under the shift less what the line foretells from clean accuracy, as a difference of shares.

    rho in the paper. Raises ValueError for a clean accuracy of 0 or 1 without the number n of images
    that it is clipped by.
    """
    return shifted - line.expected(clean, n)


def relative_robustness(shifted: float, base_shifted: float) -> float:
    """What an intervention adds to its base model under the shift, as a difference of shares (tau)."""
    return shifted - base_shifted
