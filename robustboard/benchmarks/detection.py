"""Telling images of no known class from the others: anomaly scores, AUROC, AUPR, FPR95. No torch here.

Conventions differ between papers by several points, so each function names its own. `outside` are
the anomaly scores of out-of-distribution images and `inside` those of the in-distribution images;
higher means more anomalous. Unless said otherwise the positives are the images outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating[Any]]
Positive = Literal["out", "in"]
RECALL = 0.95


@dataclass(frozen=True, slots=True)
class _Points:
    """Counts at every distinct threshold, the strictest first."""

    true: npt.NDArray[np.float64]
    false: npt.NDArray[np.float64]

    @property
    def recall(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.true / self.true[-1])

    @property
    def precision(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.true / (self.true + self.false))


def _points(inside: Values, outside: Values, positive: Positive = "out") -> _Points:
    if not len(inside) or not len(outside):
        raise ValueError(
            f"expected images of both kinds, got {len(inside)} inside and {len(outside)} outside"
        )
    scores = np.concatenate([outside, inside]).astype(np.float64)
    if not np.isfinite(scores).all():
        raise ValueError("expected finite anomaly scores")
    flags = np.concatenate([np.ones(len(outside), bool), np.zeros(len(inside), bool)])
    if positive == "in":
        scores, flags = -scores, ~flags
    order = np.argsort(-scores, kind="stable")
    scores, flags = scores[order], flags[order]
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    true = np.cumsum(flags)[last].astype(np.float64)
    return _Points(true, last + 1 - true)


def auroc(inside: Values, outside: Values) -> float:
    """Area under the ROC curve: the chance that an image outside scores higher, ties counting half.

    Raises ValueError when one of the sets is empty or a score is not finite, as all functions here do.
    """
    points = _points(inside, outside)
    true = np.concatenate([[0.0], points.true]) / points.true[-1]
    false = np.concatenate([[0.0], points.false]) / points.false[-1]
    return float(np.trapezoid(true, false))


def average_precision(inside: Values, outside: Values, *, positive: Positive = "out") -> float:
    """Step-wise area under precision over recall: the sum of (R_k - R_{k-1}) P_k over distinct thresholds.

    The AUPR of Hendrycks et al. 2021, "Natural Adversarial Examples", with positive `out`.
    """
    points = _points(inside, outside, positive)
    gains = np.diff(points.recall, prepend=0.0)
    return float(np.sum(gains * points.precision))


def trapezoid_aupr(inside: Values, outside: Values, *, positive: Positive = "out") -> float:
    """Area under precision over recall by straight lines between thresholds, from (0, 1) on.

    The AUPR-in and AUPR-out of OpenOOD (Yang et al. 2022). Larger than the step-wise area where
    precision falls.
    """
    points = _points(inside, outside, positive)
    end = int(np.searchsorted(points.true, points.true[-1])) + 1
    recall = np.concatenate([[0.0], points.recall[:end]])
    precision = np.concatenate([[1.0], points.precision[:end]])
    return float(np.trapezoid(precision, recall))


def fpr_at_recall(
    inside: Values,
    outside: Values,
    *,
    rule: Literal["closest", "first"] = "closest",
    positive: Positive = "out",
    recall: float = RECALL,
) -> float:
    """Share of the negatives called positive where the recall of the positives is 95 %.

    Args:
        inside: (n,) anomaly scores.
        outside: (m,) anomaly scores.
        rule: closest: the distinct threshold whose recall is nearest to the wanted one, the higher
            recall on a tie; of several with that recall the loosest, but the strictest where it is 1
            (the code of Hendrycks et al. 2019, "Deep Anomaly Detection with Outlier Exposure");
            first: the strictest threshold that reaches it (OpenOOD).
        positive: Whose recall is held; `in` is the convention of Liang et al. 2018 (ODIN).
        recall: Wanted recall, in (0, 1].
    """
    points = _points(inside, outside, positive)
    found = points.recall
    if rule == "first":
        chosen = int(np.argmax(found >= recall))
    else:
        gap = np.abs(found - recall)
        best = found[np.flatnonzero(gap == gap.min())].max()
        same = np.flatnonzero(found == best)
        chosen = int(same[0] if best == 1 else same[-1])
    return float(points.false[chosen] / points.false[-1])


SCORES = ("msp", "max-logit", "energy", "entropy")
"""Anomaly scores that a run holds."""


def anomaly(
    name: str, *, confidence: Values, max_logit: Values, energy: Values, entropy: Values
) -> npt.NDArray[np.float64]:
    """(n,) anomaly scores from the outputs of n images.

    msp: minus the largest softmax share (Hendrycks and Gimpel 2017). max-logit: minus the largest
    logit (Hendrycks et al. 2022). energy: minus log(sum of exp of the logits) (Liu et al. 2020).
    entropy: of the softmax shares. Raises ValueError for another name.
    """
    found: dict[str, npt.NDArray[np.float64]] = {
        "msp": -confidence.astype(np.float64),
        "max-logit": -max_logit.astype(np.float64),
        "energy": -energy.astype(np.float64),
        "entropy": entropy.astype(np.float64),
    }
    if name not in found:
        raise ValueError(f"expected one of {', '.join(SCORES)}, got {name}")
    return found[name]
