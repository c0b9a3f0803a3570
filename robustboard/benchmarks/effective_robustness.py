"""Accuracy under a shift beyond what clean accuracy foretells. No torch here.

Taori et al. 2020, "Measuring Robustness to Natural Distribution Shifts in Image Classification",
section 2: over standard models the logit of accuracy under a shift is close to a line in the logit
of clean accuracy; effective robustness is the height above that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MIN_MODELS = 3
"""Fewer points leave nothing to judge a line by."""


def logit(share: npt.ArrayLike, n: npt.ArrayLike | None = None) -> npt.NDArray[np.float64]:
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
        return float(1 / (1 + np.exp(-(self.slope * logit(clean, n) + self.intercept))))


def fit_line(clean: Sequence[float], shifted: Sequence[float], n: Sequence[int] | None = None) -> Fit:
    """Least squares of logit(shifted) on logit(clean).

    Args:
        clean: Clean accuracies of standard models, shares.
        shifted: Their accuracies under the shift, in the same order.
        n: Test images behind each, to clip accuracies of 0 and 1; absent: none is clipped.

    Raises ValueError for fewer than three models, or when all clean accuracies are equal.
    """
    x, y = logit(clean, n), logit(shifted, n)
    if x.shape != y.shape or x.ndim != 1 or len(x) < MIN_MODELS:
        raise ValueError(f"expected at least {MIN_MODELS} pairs of accuracies, got {x.shape} and {y.shape}")
    dx, dy = x - x.mean(), y - y.mean()
    spread = float(dx @ dx)
    if spread == 0:
        raise ValueError("expected clean accuracies that differ")
    slope = float(dx @ dy) / spread
    vertical = float(dy @ dy)
    r = float(dx @ dy) / np.sqrt(spread * vertical) if vertical > 0 else 0.0
    return Fit(slope, float(y.mean() - slope * x.mean()), float(r), len(x))


def effective_robustness(clean: float, shifted: float, fit: Fit) -> float:
    """Accuracy under the shift less what the line foretells from clean accuracy, as a difference of shares.

    rho in the paper. Raises ValueError for a clean accuracy of 0 or 1.
    """
    return shifted - fit.expected(clean)


def relative_robustness(shifted: float, base_shifted: float) -> float:
    """What an intervention adds to its base model under the shift, as a difference of shares (tau)."""
    return shifted - base_shifted
