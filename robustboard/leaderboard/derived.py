"""Numbers that follow from two cells: drop, effective and relative robustness (Taori et al. 2020).

Intervals of differences are Newcombe's hybrid score intervals (Newcombe 1998, "Interval estimation for
the difference between independent proportions", method 10): built from the intervals of both parts.
Where both parts were measured on the same images they are wider than a paired one would be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from robustboard.benchmarks import effective_robustness as lines
from robustboard.benchmarks.effective_robustness import MIN_MODELS, Fit, Line, PiecewiseFit, Resampled
from robustboard.benchmarks.entries import CLEAN
from robustboard.benchmarks.metrics import METRICS
from robustboard.leaderboard.cells import CellView, Measured
from robustboard.leaderboard.entries import Column
from robustboard.leaderboard.fits import OWN, FitEntry
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import ModelEntry
from robustboard.runners.keys import Cell
from robustboard.runners.record import Score

CLEAN_SCORE = f"clean_accuracy@{CLEAN}"
NAMES = {
    "drop": "accuracy_drop",
    "effective-robustness": "effective_robustness",
    "relative-robustness": "relative_robustness",
    "mean": "mean_accuracy",
}
"""What a column derives → the metric's name."""
SEED = 0
"""Of the resampling of an own fit."""


def is_standard(model: ModelEntry) -> bool:
    """Whether a model was trained in the ordinary way: lines are fitted through such models alone.

    One training set, no adversarial training or other intervention, no base that it is compared
    with, no prompts.
    """
    special = (model.adversarial_training, model.intervention, model.base, model.zero_shot)
    return all(part is None for part in special) and len(model.training.datasets) == 1


def undefined(metric: str, shifted: Score, reason: str) -> Score:
    """A derived score without a value."""
    return Score(
        metric=metric,
        condition=shifted.condition,
        value=None,
        low=None,
        high=None,
        n=shifted.n,
        unit=METRICS[metric].unit,
        direction=METRICS[metric].direction,
        interval="none",
        status="undefined",
        reason=reason,
    )


def _ends(score: Score) -> tuple[float, float, float]:
    """Value, low and high of a defined score; the value itself where it has no interval."""
    if score.value is None:
        raise ValueError(f"expected a defined score, got {score.metric}: {score.reason}")
    low, high = score.low, score.high
    return score.value, score.value if low is None else low, score.value if high is None else high


def _made(
    metric: str,
    shifted: Score,
    value: float,
    reach: tuple[float, float],
    interval: Literal["newcombe-95", "bootstrap-95"] = "newcombe-95",
) -> Score:
    """A derived score; `reach` says how far the interval goes below and above the value."""
    below, above = reach
    return Score(
        metric=metric,
        condition=shifted.condition,
        value=value,
        low=max(value - below, -1.0),
        high=min(value + above, 1.0),
        n=shifted.n,
        unit=METRICS[metric].unit,
        direction=METRICS[metric].direction,
        interval=interval,
    )


def drop(clean: Score, shifted: Score) -> Score:
    """Clean accuracy less accuracy under a shift, from two defined shares."""
    (c, c_low, c_high), (s, s_low, s_high) = _ends(clean), _ends(shifted)
    reach = math.hypot(c - c_low, s_high - s), math.hypot(c_high - c, s - s_low)
    return _made("accuracy_drop", shifted, c - s, reach)


def relative(base: Score, shifted: Score) -> Score:
    """Accuracy under a shift less that of the base model, from two defined shares."""
    (b, b_low, b_high), (s, s_low, s_high) = _ends(base), _ends(shifted)
    reach = math.hypot(s - s_low, b_high - b), math.hypot(s_high - s, b - b_low)
    return _made("relative_robustness", shifted, lines.relative_robustness(s, b), reach)


def effective(clean: Score, shifted: Score, line: Line, resampled: Resampled | None = None) -> Score:
    """Accuracy under a shift less what a line foretells from clean accuracy, from two defined shares.

    The interval joins what both accuracies leave open and, for an own fit, what resampling its models
    leaves open of the line; a published line is taken as given. Clean accuracies of 0 and 1 are
    clipped by the number of images.
    """
    (c, c_low, c_high), (s, s_low, s_high) = _ends(clean), _ends(shifted)
    foretold = [line.expected(share, clean.n) for share in (c, c_low, c_high)]
    middle = foretold[0]
    low, high = resampled.interval(c, clean.n) if resampled is not None else (middle, middle)
    reach = (
        math.hypot(s - s_low, max(foretold) - middle, max(high - middle, 0.0)),
        math.hypot(s_high - s, middle - min(foretold), max(middle - low, 0.0)),
    )
    value = lines.effective_robustness(c, s, line, clean.n)
    return _made(
        "effective_robustness", shifted, value, reach, "bootstrap-95" if resampled else "newcombe-95"
    )


@dataclass(frozen=True, slots=True)
class Point:
    """One model's accuracies on both sides of a shift."""

    model: str
    clean: Score
    shifted: Score
    fitted: bool
    """Whether an own fit goes through it; false for all where the fit is a published one."""


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """The line that effective robustness of a column is measured from."""

    line: Fit | PiecewiseFit
    resampled: Resampled | None
    """None for a published fit, which is taken as given."""
    entry: FitEntry | None
    """The published fit; None for an own one."""

    def as_data(self) -> dict[str, Any]:
        """The line as JSON values; `start` is the lowest clean accuracy of a piece of several."""
        pieces = self.line.pieces if isinstance(self.line, PiecewiseFit) else (self.line,)
        starts = self.line.starts if isinstance(self.line, PiecewiseFit) else (None,)
        return {
            "fit": self.entry.id if self.entry is not None else OWN,
            "pieces": [
                {"start": start, "slope": p.slope, "intercept": p.intercept, "r": p.r, "n": p.n}
                for start, p in zip(starts, pieces, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived column: its cells and, for effective robustness, what stands behind them."""

    cells: Mapping[str, CellView]
    """By model."""
    points: tuple[Point, ...] = ()
    """Models measured on both sides, in the order of ids."""
    fit: ColumnFit | None = None
    reason: str | None = None
    """Why there is no line, where effective robustness needs one."""
    clean: str | None = None
    """The dataset of the clean accuracies."""


def derive(
    column: Column,
    models: Sequence[ModelEntry],
    catalog: Catalog,
    measured: Measured,
    fits: Mapping[str, FitEntry],
) -> Derived:
    """The cells of a derived column, for all models of a board.

    A cell is as the one that it is derived from where that is not run, failed or undefined, and keeps
    its status where that is partial or outdated. It is undefined, with the reason, where the other
    part is missing, not whole and current, or over other classes.

    Raises StoreError when a result lacks a score that the column names.
    """
    benchmark, dataset = column.clean_cell(catalog, measured.benchmarks)
    shifted = {
        m.id: measured.view(Cell(m.id, column.benchmark, column.dataset), column.score) for m in models
    }
    if column.derive == "relative-robustness":
        return Derived({m.id: _against_base(column, m, shifted) for m in models})
    clean = {m.id: measured.view(Cell(m.id, benchmark, dataset), CLEAN_SCORE) for m in models}
    # A published fit says itself over which classes its clean accuracy is.
    any_classes = column.fit is not None and column.fit != OWN
    faults = {
        m.id: _fault(f"clean accuracy on {dataset}", shifted[m.id], clean[m.id], any_classes=any_classes)
        for m in models
    }
    if column.derive == "drop":
        return Derived({m: _cell(column, shifted[m], clean[m], faults[m], drop) for m in shifted})
    points = _points(column, models, shifted, clean, faults)
    fit, reason = _line(column, points, fits)
    cells = {}
    for name, view in shifted.items():
        function = partial(effective, line=fit.line, resampled=fit.resampled) if fit else drop
        cells[name] = _cell(column, view, clean[name], faults[name] or reason, function)
    return Derived(cells, points, fit, reason, dataset)


def _against_base(column: Column, model: ModelEntry, shifted: Mapping[str, CellView]) -> CellView:
    view = shifted[model.id]
    if model.base is None or model.base not in shifted:
        return _cell(column, view, view, "the entry names no base to compare it with", relative)
    base = shifted[model.base]
    return _cell(column, view, base, _fault(f"its base {model.base}", view, base), relative)


def _fault(what: str, shifted: CellView, other: CellView, *, any_classes: bool = False) -> str | None:
    """Why two cells cannot be subtracted; None when they can."""
    if other.status != "ok":
        return f"{what} is {other.status}" + (f": {other.reason}" if other.reason else "")
    if any_classes or shifted.result is None or other.result is None:
        return None
    same = shifted.result.key.labels_digest == other.result.key.labels_digest
    return None if same else f"{what} is over other classes"


def _cell(
    column: Column,
    shifted: CellView,
    other: CellView,
    fault: str | None,
    function: Callable[[Score, Score], Score],
) -> CellView:
    """function(other, shifted) as a cell, or why there is none."""
    if shifted.score is None:
        return shifted
    metric = NAMES[column.derive or "drop"]
    if shifted.score.value is None:
        fault = shifted.reason or "undefined"
    elif shifted.score.unit != "share":
        fault = f"{shifted.score.metric} is no share"
    if fault is not None or other.score is None:
        reason = fault or "nothing to compare it with"
        score = undefined(metric, shifted.score, reason)
        return CellView("undefined", score, reason, shifted.result, shifted.standing)
    score = function(other.score, shifted.score)
    return CellView(shifted.status, score, shifted.reason, shifted.result, shifted.standing)


def _points(
    column: Column,
    models: Sequence[ModelEntry],
    shifted: Mapping[str, CellView],
    clean: Mapping[str, CellView],
    faults: Mapping[str, str | None],
) -> tuple[Point, ...]:
    found = []
    for model in models:
        ours, its = shifted[model.id], clean[model.id]
        if ours.status != "ok" or faults[model.id] is not None or ours.score is None or its.score is None:
            continue
        if ours.score.unit == "share":
            fitted = column.fit == OWN and is_standard(model) and model.id not in column.exclude
            found.append(Point(model.id, its.score, ours.score, fitted))
    return tuple(found)


def _line(
    column: Column, points: Sequence[Point], fits: Mapping[str, FitEntry]
) -> tuple[ColumnFit | None, str | None]:
    """The line of a column, or why there is none."""
    if column.fit != OWN:
        entry = fits.get(column.fit or "")
        return (
            (ColumnFit(entry.line, None, entry), None) if entry else (None, f"there is no fit {column.fit}")
        )
    chosen = [point for point in points if point.fitted]
    if len(chosen) < MIN_MODELS:
        wanted = f"a line needs {MIN_MODELS} models trained in the ordinary way and measured on both sides"
        return None, f"{wanted}; here {'is' if len(chosen) == 1 else 'are'} {len(chosen)}"
    clean, shifted = ([_ends(score)[0] for score in side] for side in _sides(chosen))
    n, shifted_n = ([score.n for score in side] for side in _sides(chosen))
    try:
        line = lines.fit_line(clean, shifted, n, shifted_n)
    except ValueError:
        return None, "the models trained in the ordinary way have equal clean accuracies: no line"
    return ColumnFit(line, lines.resample_lines(clean, shifted, n, shifted_n, seed=SEED), None), None


def _sides(points: Sequence[Point]) -> tuple[list[Score], list[Score]]:
    return [point.clean for point in points], [point.shifted for point in points]
