"""Results → ordered rows: who stands where, how surely, and why a cell has no number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from robustboard.benchmarks.metrics import METRICS
from robustboard.leaderboard.cells import CellView, Measured, cell_text
from robustboard.leaderboard.derived import NAMES, Derived, derive
from robustboard.leaderboard.entries import BoardEntry, Column
from robustboard.leaderboard.facets import Contamination, contamination
from robustboard.leaderboard.fits import FitEntry
from robustboard.leaderboard.flagged import Flagged, judge_row
from robustboard.leaderboard.means import mean_of
from robustboard.leaderboard.statistics import Direction, rank_ranges
from robustboard.registry.catalog import Catalog
from robustboard.runners.keys import Cell
from robustboard.runners.verifications import TIERS, Tier

CONTROL = "a control, not a contender"
"""Why a model that is registered to show that a check works has no rank."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model of a board."""

    model: str
    name: str
    cells: tuple[CellView, ...]
    """In the order of the board's columns."""
    place: int | None
    """By value in the order column, best first; equal values share a place and the next is skipped."""
    ranks: tuple[int, int] | None
    """Best and worst rank that the intervals allow; None for a row that is not ranked."""
    unranked: str | None
    """Why the row has no rank."""
    notes: tuple[str, ...]
    """What a reader must know of the model on this board."""
    flagged: Flagged = field(default_factory=Flagged)
    """Sanity flags that cast doubt on the row's numbers, and what ranks it instead."""

    def standing(self, order: int) -> tuple[float | None, float | None, float | None]:
        """Value and interval that place the row: of a flagged one, the worst known."""
        known = self.flagged.known
        view = self.cells[order] if known is None else CellView("ok", known.score, None, None)
        low, high = view.bounds or (None, None)
        return view.value, low, high

    @property
    def provenance(self) -> Tier | None:
        """The lowest tier among the row's numbers; None for a row without any."""
        found = [cell.provenance for cell in self.cells if cell.provenance is not None]
        return min(found, key=TIERS.index, default=None)


@dataclass(frozen=True, slots=True)
class Board:
    """One table, rows in the order to show."""

    entry: BoardEntry
    directions: tuple[Direction, ...]
    """For each column, which way is better."""
    rows: tuple[Row, ...]
    """Ranked ones first, best first; then the others by value, those without a value last."""
    waiting: tuple[str, ...]
    """Ids of models of the label space that no one has measured yet."""
    derived: Mapping[str, Derived] = field(default_factory=dict)
    """Derived columns by id, with the accuracies and the line behind each."""
    contamination: Mapping[str, Contamination] = field(default_factory=dict)
    """Dataset → how many of the rows' models have seen its test images, or their sources, in training."""

    @property
    def order_index(self) -> int:
        """Position of the column that orders and ranks."""
        return self.entry.columns.index(self.entry.order_column)

    @property
    def ranked(self) -> tuple[Row, ...]:
        """Rows with a rank."""
        return tuple(row for row in self.rows if row.ranks is not None)

    @property
    def leaders(self) -> tuple[Row, ...]:
        """Rows that cannot be told apart from the first place."""
        return tuple(row for row in self.rows if row.ranks is not None and row.ranks[0] == 1)

    def text_rows(self) -> list[tuple[str, ...]]:
        """Cells of a plain text table, in percent; headings are those of `text_headings`."""
        found = [
            (rank_text(row.ranks) or "-", row.model, *(cell_text(cell) for cell in row.cells))
            for row in self.rows
        ]
        if not self.has_flags:
            return found
        return [(*cells, row.flagged.text) for cells, row in zip(found, self.rows, strict=True)]

    def text_headings(self) -> tuple[str, ...]:
        """Headings of a plain text table."""
        flags = ("flags",) if self.has_flags else ()
        return ("rank", "model", *(column.title for column in self.entry.columns), *flags)

    @property
    def has_flags(self) -> bool:
        """Whether a sanity flag casts doubt on any row."""
        return any(row.flagged.flags for row in self.rows)

    def as_data(self) -> dict[str, Any]:
        """The board as JSON values; shares as shares, undefined as null with a reason."""
        columns = zip(self.entry.columns, self.directions, strict=True)
        return {
            "id": self.entry.id,
            "name": self.entry.name,
            "label_space": self.entry.label_space,
            "order": self.entry.order,
            "columns": [{**c.model_dump(mode="json"), "direction": d} for c, d in columns],
            "rows": [
                {
                    "model": row.model,
                    "name": row.name,
                    "place": row.place,
                    "ranks": list(row.ranks) if row.ranks else None,
                    "unranked": row.unranked,
                    "notes": list(row.notes),
                    **row.flagged.as_data(),
                    "cells": {
                        column.id: cell.as_data()
                        for column, cell in zip(self.entry.columns, row.cells, strict=True)
                    },
                }
                for row in self.rows
            ],
            "waiting": list(self.waiting),
            "contamination": {name: found.as_data() for name, found in self.contamination.items()},
            "lines": {name: d.fit.as_data() for name, d in self.derived.items() if d.fit is not None},
        }


def rank_text(ranks: tuple[int, int] | None) -> str:
    """`2-5`, `1`, or nothing for a row without rank."""
    if ranks is None:
        return ""
    best, worst = ranks
    return str(best) if best == worst else f"{best}-{worst}"


def build_board(
    entry: BoardEntry, catalog: Catalog, measured: Measured, fits: Mapping[str, FitEntry] | None = None
) -> Board:
    """The board's rows: every model of its label space that has a result or a failure in it.

    Raises StoreError when a result lacks a score that a column names.
    """
    seen = {cell.model for cell in (*measured.results, *measured.failures)}
    rows, waiting = [], []
    models = [model for model in catalog.models.values() if model.label_space == entry.label_space]
    derived = {
        c.id: mean_of(c, entry, models, measured)
        if c.derive == "mean"
        else derive(c, models, catalog, measured, fits or {})
        for c in entry.columns
        if c.derive
    }
    for model in models:
        cells = tuple(
            derived[column.id].cells[model.id]
            if column.derive
            else measured.view(Cell(model.id, column.benchmark, column.dataset), column.score)
            for column in entry.columns
        )
        if all(cell.status == "not run" for cell in cells):
            if model.id not in seen:
                waiting.append(model.id)
            continue
        notes = tuple(
            f"{name}: test images were in training"
            for name in entry.datasets
            if model.training.overlap.get(name) == "yes"
        )
        flagged = judge_row(entry, model.id, cells, measured.flags.get(model.id, ()), measured)
        reasons = (CONTROL if model.control else None, _why_unranked(entry, cells), flagged.unranked)
        unranked = "; ".join(filter(None, reasons)) or None
        rows.append(Row(model.id, model.name, cells, None, None, unranked, notes, flagged))
    directions = tuple(
        _direction(column, [r.cells[i] for r in rows]) for i, column in enumerate(entry.columns)
    )
    order = entry.columns.index(entry.order_column)
    ordered = tuple(_ordered(rows, order, directions[order]))
    seen_in_training = contamination(entry.datasets, [catalog.models[row.model] for row in ordered])
    return Board(entry, directions, ordered, tuple(sorted(waiting)), derived, seen_in_training)


def _why_unranked(entry: BoardEntry, cells: Sequence[CellView]) -> str | None:
    """What keeps a row from being ranked: any measured cell that is not ok, or the one that orders.

    Derived cells repeat measured ones and may not apply, as relative robustness to a model without base.
    """
    faults = [
        f"{c.title}: {v.status}"
        for c, v in zip(entry.columns, cells, strict=True)
        if v.status != "ok" and (c.derive is None or c.id == entry.order)
    ]
    return "; ".join(faults) or None


def _direction(column: Column, cells: Iterable[CellView]) -> Direction:
    if column.derive is not None:
        return METRICS[NAMES[column.derive]].direction
    if column.score is not None:
        return METRICS[column.score.partition("@")[0]].direction
    found = (cell.score.direction for cell in cells if cell.score is not None)
    return next(found, "higher")


def _ordered(rows: Sequence[Row], order: int, direction: Direction) -> list[Row]:
    """Rows with places and rank ranges, in the order to show; ties in the order of ids."""
    if not rows:
        return []
    standings = [row.standing(order) for row in rows]
    frame = pd.DataFrame(
        {
            "model": [row.model for row in rows],
            "value": pd.Series([value for value, _, _ in standings], dtype=float),
            "low": pd.Series([low for _, low, _ in standings], dtype=float),
            "high": pd.Series([high for _, _, high in standings], dtype=float),
            "ranked": [row.unranked is None and direction != "none" for row in rows],
        }
    )
    ascending = direction == "lower"
    frame = frame.sort_values("model")
    frame = frame.sort_values("value", ascending=ascending, kind="stable", na_position="last")
    good, rest = frame[frame["ranked"]], frame[~frame["ranked"]]
    places = good["value"].rank(method="min", ascending=ascending).astype(int).tolist()
    ranges = rank_ranges(good["low"].tolist(), good["high"].tolist(), direction) if places else []
    ordered = [
        replace(rows[index], place=place, ranks=ranks)
        for index, place, ranks in zip(good.index.tolist(), places, ranges, strict=True)
    ]
    return ordered + [rows[index] for index in rest.index.tolist()]
