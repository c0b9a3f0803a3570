"""Accuracy over budgets of one result, and its interval as a whisker."""

from __future__ import annotations

from fractions import Fraction

from robustboard.benchmarks.entries import CLEAN
from robustboard.leaderboard.cells import CellView
from robustboard.runners.record import Result, Score
from robustboard.site.charts import Axis, Point, Series, Whisker

BUDGET_AXIS = "budget, as a share of the pixel range"
SHARES = {"share": 1.0, "percent": 100.0}
"""Units that an axis of shares can show → what makes a share of them."""
CURVE_METRICS = ("robust_accuracy", "noise_accuracy")


def curves(result: Result) -> list[Series]:
    """Accuracy over budgets, a line for each norm or kind of noise; the clean accuracy stands at 0."""
    clean = [s for s in result.scores if s.metric == "clean_accuracy" and s.condition == CLEAN]
    found: dict[str, list[Point]] = {}
    for score in result.scores:
        kind, _, budget = score.condition.partition(" ")
        if score.metric not in CURVE_METRICS or not budget or score.value is None:
            continue
        found.setdefault(kind, []).append(_point(score, float(Fraction(budget)), budget))
    start = [_point(score, 0.0, CLEAN) for score in clean if score.value is not None]
    return [
        Series(kind, tuple(sorted((*start, *points), key=lambda point: point.x)))
        for kind, points in found.items()
    ]


def _point(score: Score, x: float, label: str) -> Point:
    value = score.value or 0.0
    low, high = (value, value) if score.low is None or score.high is None else (score.low, score.high)
    return Point(x, value, low, high, label)


def whisker(view: CellView, axis: Axis, middle: tuple[float, float] | None = None) -> Whisker | None:
    """A cell's interval on an axis of shares; None where it has none to draw there, as an mCE above 100 %."""
    if view.value is None or view.bounds is None or view.score is None or view.score.unit not in SHARES:
        return None
    scale = SHARES[view.score.unit]
    value, low, high = (each / scale for each in (view.value, *view.bounds))
    if scale != 1 and not 0 <= low <= high <= 1:
        return None
    half = None if middle is None else (middle[0] / scale, middle[1] / scale)
    return axis.whisker(value, low, high, half)
