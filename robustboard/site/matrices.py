"""Heat maps as tables: corruptions by severity of one model, models by corruption of one benchmark.

A table whose cells are shaded is a heat map that can be read aloud, copied and printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustboard.benchmarks.entries import BenchmarkEntry, Corruption
from robustboard.leaderboard.board import Board
from robustboard.leaderboard.cells import CellView
from robustboard.leaderboard.statistics import shades
from robustboard.runners.record import Result
from robustboard.site.controls import HEAT_STEPS

METRIC = "corruption_accuracy"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One cell: a number with its shade, or nothing where the run has no such condition."""

    view: CellView | None
    shade: int | None


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One line of a heat map."""

    name: str
    link: str | None
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A heat map; shades are comparable over all of it."""

    title: str
    corner: str
    """What the rows are."""
    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


def by_severity(result: Result, benchmark: BenchmarkEntry) -> Matrix | None:
    """Corruptions down, severities and their mean across; None for other protocols."""
    procedure = benchmark.procedure
    if not isinstance(procedure, Corruption):
        return None
    severities = [str(severity) for severity in procedure.severities]
    conditions = [[*(f"{name} {each}" for each in severities), name] for name in procedure.corruptions]
    columns = (*(f"severity {each}" for each in severities), "mean")
    names = [(_words(name), None) for name in procedure.corruptions]
    views = _views(result)
    found = [[views.get(each) for each in line] for line in conditions]
    return _shaded(f"{benchmark.name}, accuracy in %", "Corruption", columns, names, found)


def by_model(board: Board, benchmark: BenchmarkEntry) -> Matrix | None:
    """Models of a board of one column down, corruptions across; None for other protocols.

    Accuracies are means over severities.
    """
    procedure = benchmark.procedure
    rows = [(row, row.cells[0].result) for row in board.rows]
    measured = [(row, result) for row, result in rows if result is not None]
    if not isinstance(procedure, Corruption) or not measured:
        return None
    names = [(row.name, f"m/{row.model}.html") for row, _ in measured]
    views = [_views(result) for _, result in measured]
    found = [[each.get(name) for name in procedure.corruptions] for each in views]
    columns = tuple(_words(name) for name in procedure.corruptions)
    return _shaded(
        f"{benchmark.name}, accuracy in % as a mean over severities", "Model", columns, names, found
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _views(result: Result) -> Mapping[str, CellView]:
    return {
        score.condition: CellView("ok" if score.value is not None else "undefined", score, None, result)
        for score in result.scores
        if score.metric == METRIC
    }


def _shaded(
    title: str,
    corner: str,
    columns: tuple[str, ...],
    names: Sequence[tuple[str, str | None]],
    found: Sequence[Sequence[CellView | None]],
) -> Matrix:
    flat = [view for line in found for view in line]
    margins = [view.margin for view in flat if view is not None and view.margin is not None]
    steps = iter(shades([None if v is None else v.value for v in flat], margins or [0.0], HEAT_STEPS))
    rows = [
        MatrixRow(name, link, tuple(MatrixCell(view, next(steps)) for view in line))
        for (name, link), line in zip(names, found, strict=True)
    ]
    return Matrix(title, corner, columns, tuple(rows))
