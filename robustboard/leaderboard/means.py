"""Means over several columns of a board, for models that have them all, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustboard.benchmarks.metrics import METRICS
from robustboard.leaderboard.cells import CellView, Measured
from robustboard.leaderboard.derived import NAMES, Derived
from robustboard.leaderboard.entries import BoardEntry, Column
from robustboard.leaderboard.pairs import Shares, bootstrap_sum
from robustboard.leaderboard.statistics import SeedSpread, across_seeds
from robustboard.registry.entries import ModelEntry
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import shares
from robustboard.runners.record import Score

METRIC = NAMES["mean"]


def mean_of(column: Column, entry: BoardEntry, models: Sequence[ModelEntry], measured: Measured) -> Derived:
    """The cells of a mean: its value where every part is whole and current, else how many are.

    Columns on the same images are drawn together, those on others on their own. Where per-image outcomes
    are missing the interval runs from the mean of the lower ends to that of the upper ones, which is wider.
    """
    parts = [part for name in column.of for part in entry.columns if part.id == name]
    return Derived({model.id: _cell(column, parts, model.id, measured) for model in models})


def _cell(column: Column, parts: Sequence[Column], model: str, measured: Measured) -> CellView:
    cells = [Cell(model, part.benchmark, part.dataset) for part in parts]
    views = [measured.view(cell, part.score) for cell, part in zip(cells, parts, strict=True)]
    if all(view.status == "not run" for view in views):
        return CellView("not run", None, "nobody has run any part of it", None)
    odd = [
        f"{part.title} is {view.status}" for part, view in zip(parts, views, strict=True) if not _good(view)
    ]
    if odd:
        reason = f"{len(parts) - len(odd)} of {len(parts)}: {', '.join(odd)}"
        n = max((view.score.n for view in views if view.score is not None), default=0)
        return CellView("undefined", _score(column, n, reason=reason), reason, None)
    scores = [view.score for view in views if view.score is not None]
    value = float(np.mean([score.value for score in scores]))
    n = min(score.n for score in scores)
    ends = [view.bounds or (value, value) for view in views]
    wide = float(np.mean([low for low, _ in ends])), float(np.mean([high for _, high in ends]))
    drawn = _joint(cells, scores, measured)
    if drawn is None:
        return CellView("ok", _score(column, n, value, wide, interval="ends-95"), None, None)
    low, high = bootstrap_sum(drawn)
    if low == high:
        return CellView("ok", _score(column, n, value, wide, interval="ends-95"), None, None)
    reach = min(low, value), max(high, value)
    return CellView("ok", _score(column, n, value, reach, interval="bootstrap-95"), None, None)


def _good(view: CellView) -> bool:
    """Whether a part can be averaged: a whole, current share of which more is better."""
    score = view.score
    return view.status == "ok" and score is not None and score.unit == "share" and score.direction == "higher"


def _joint(cells: Sequence[Cell], scores: Sequence[Score], measured: Measured) -> list[Shares] | None:
    """What each image gives to the mean, an array a set of images; None where an outcome is missing."""
    sets: dict[str, Shares] = {}
    for cell, score in zip(cells, scores, strict=True):
        outcomes = measured.outcomes.get(cell)
        given = shares(outcomes.flags(), score.metric, score.condition) if outcomes is not None else None
        if outcomes is None or given is None or not given.size:
            return None
        sets[outcomes.samples] = sets.get(outcomes.samples, np.zeros(given.size)) + given / len(cells)
    return list(sets.values())


def _score(
    column: Column,
    n: int,
    value: float | None = None,
    ends: tuple[float, float] | None = None,
    *,
    interval: str = "none",
    reason: str | None = None,
) -> Score:
    return Score.model_validate(
        {
            "metric": METRIC,
            "condition": " ".join(column.of),
            "value": value,
            "low": ends[0] if ends else None,
            "high": ends[1] if ends else None,
            "n": n,
            "unit": METRICS[METRIC].unit,
            "direction": METRICS[METRIC].direction,
            "interval": interval,
            "status": "undefined" if value is None else "ok",
            "reason": reason,
        }
    )


@dataclass(frozen=True, slots=True)
class SeedRow:
    """Several trainings of one recipe on a board."""

    name: str
    models: tuple[str, ...]
    spreads: tuple[SeedSpread | None, ...]
    """By column; None where fewer than two of them have a whole, current number."""


def seed_rows(entry: BoardEntry, cells: Mapping[str, Sequence[CellView]]) -> tuple[SeedRow, ...]:
    """A row for each group of trainings that the board declares, from the cells of its models."""
    found = []
    for group in entry.seeds:
        here = [cells[name] for name in group.models if name in cells]
        spreads = []
        for place in range(len(entry.columns)):
            values = [
                row[place].value for row in here if row[place].status == "ok" and row[place].value is not None
            ]
            spreads.append(across_seeds([v for v in values if v is not None]) if len(values) > 1 else None)
        found.append(SeedRow(group.name, group.models, tuple(spreads)))
    return tuple(found)
