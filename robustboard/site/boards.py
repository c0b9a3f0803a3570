"""What pages say of one board: values for templates, no markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import Board, Row
from robustboard.leaderboard.cells import CellView
from robustboard.leaderboard.entries import Column
from robustboard.leaderboard.statistics import shades
from robustboard.registry.entries import ModelEntry
from robustboard.site import numerals
from robustboard.site.charts import LineChart, Series, line_chart
from robustboard.site.controls import HEAT_STEPS, Choices, Facets, choices, facets, places
from robustboard.site.curves import BUDGET_AXIS, curves

MAX_NAMED = 6
"""Models that the sentence on the first place names."""
LEAST_PLACES = 3
"""A curve through fewer says no more than the table."""
CURVE_MODELS = 6
"""Lines that a chart of several models can carry and still be read."""


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell of a board with its shade."""

    view: CellView
    shade: int | None
    doubted: bool = False
    """Whether a sanity flag says that the number is not to be believed."""
    folded: bool = False
    """Whether its column is left out at first."""


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of a board with its cells as shown."""

    row: Row
    cells: tuple[ShownCell, ...]
    facets: Facets
    places: tuple[str, ...]
    """Place of each cell in its column, for sorting."""


@dataclass(frozen=True, slots=True)
class Group:
    """A heading over neighbouring columns."""

    title: str | None
    span: int
    main: int
    """How many of its columns the page opens with."""


@dataclass(frozen=True, slots=True)
class ShownBoard:
    """A board with all that its page says."""

    board: Board
    rows: tuple[ShownRow, ...]
    groups: tuple[Group, ...]
    first: FirstPlace
    reasons: tuple[str, ...]
    """Why cells have no number or an odd one, a line each."""
    curves: tuple[LineChart, ...]
    """Accuracy over budgets, the protocol that orders the board first."""
    opening: LineChart | None
    """The first of the curves, of ranked models without doubts alone: what the front page shows."""
    choices: Choices

    @property
    def folds(self) -> bool:
        """Whether the page opens with fewer columns than there are."""
        return any(column.folded for column in self.board.entry.columns)

    @property
    def position(self) -> dict[str, int]:
        """Column → its place among all."""
        return {column.id: place for place, column in enumerate(self.board.entry.columns)}

    @property
    def column_groups(self) -> tuple[tuple[str, tuple[Column, ...]], ...]:
        """Columns under their headings, those without one under `Other`; in the order of the table."""
        found: dict[str, list[Column]] = {}
        for column in self.board.entry.columns:
            found.setdefault(column.group or "Other", []).append(column)
        return tuple((title, tuple(columns)) for title, columns in found.items())

    @property
    def measured(self) -> bool:
        """Whether any row has a number; failures alone do not fill a board."""
        return any(row.provenance for row in self.board.rows)


@dataclass(frozen=True, slots=True)
class FirstPlace:
    """Who stands first, for a sentence."""

    rows: tuple[Row, ...]
    """The models to name; all that share the place, or the first few of them."""
    others: int
    """How many more share it."""
    ranked: int
    column: str

    @property
    def text(self) -> str:
        """The sentence without links."""
        if not self.rows:
            return "No model is ranked here yet."
        names = [row.name for row in self.rows]
        if self.ranked == 1:
            return f"{names[0]} is the only ranked model."
        if len(names) == 1:
            return f"{names[0]} is first by {self.column}: no other model's interval reaches it."
        shown = [*names, numerals.plural(self.others, "other")] if self.others else names
        return f"{numerals.listed(shown)} share first place by {self.column}: they cannot be told apart."


def first_place(board: Board, column: str | None = None) -> FirstPlace:
    """Who shares the first place of a board; `column` renames the column that orders it."""
    leaders = board.leaders
    shown = leaders if len(leaders) <= MAX_NAMED else leaders[: MAX_NAMED - 1]
    title = column or board.entry.order_column.title
    return FirstPlace(shown, len(leaders) - len(shown), len(board.ranked), title)


def show_board(
    board: Board, benchmarks: Mapping[str, BenchmarkEntry], models: Mapping[str, ModelEntry]
) -> ShownBoard:
    """Shades, places, headings and sentences of a board."""
    columns, orders = [], []
    for place, column in enumerate(board.entry.columns):
        views = [row.cells[place] for row in board.rows if column.id not in row.flagged.doubted]
        margins = [view.margin for view in views if view.margin is not None]
        columns.append(iter(shades([view.value for view in views], margins or [0.0], HEAT_STEPS)))
        trusted = [None if column.id in row.flagged.doubted else row.cells[place].value for row in board.rows]
        orders.append(places(trusted, board.directions[place]))
    rows = []
    for number, row in enumerate(board.rows):
        cells = []
        for column, found, view in zip(board.entry.columns, columns, row.cells, strict=True):
            doubted = column.id in row.flagged.doubted
            cells.append(ShownCell(view, None if doubted else next(found), doubted, column.folded))
        here = tuple(order[number] for order in orders)
        rows.append(ShownRow(row, tuple(cells), facets(row, models[row.model]), here))
    sound = [row for row in board.ranked if not row.flagged.flags]
    return ShownBoard(
        board=board,
        rows=tuple(rows),
        groups=_groups(board.entry.columns),
        first=first_place(board),
        reasons=_reasons(board),
        curves=_board_curves(board, benchmarks, board.rows),
        opening=next(iter(_board_curves(board, benchmarks, sound)), None),
        choices=choices([row.facets for row in rows]),
    )


def _groups(columns: Sequence[Column]) -> tuple[Group, ...]:
    if all(column.group is None for column in columns):
        return ()
    found: list[Group] = []
    for column in columns:
        if found and found[-1].title == column.group and column.group is not None:
            found[-1] = Group(column.group, found[-1].span + 1, found[-1].main + (not column.folded))
        else:
            found.append(Group(column.group, 1, int(not column.folded)))
    return tuple(found)


def _reasons(board: Board) -> tuple[str, ...]:
    found: dict[str, list[str]] = {}
    for row in board.rows:
        for column, view in zip(board.entry.columns, row.cells, strict=True):
            if view.status not in ("ok", "not run"):
                found.setdefault(f"{column.title}, {view.status}: {view.reason}", []).append(row.name)
        for note in (*row.notes, *_doubts(row)):
            found.setdefault(note, []).append(row.name)
    return tuple(f"{text} ({numerals.listed(names)})" for text, names in found.items())


def _doubts(row: Row) -> Iterator[str]:
    """What sanity flags say of a row, a line each."""
    for each in row.flagged.worst:
        yield f"Flagged, {each.flag.name}: {each.flag.reason}"
    known = row.flagged.known
    if known is not None:
        value = f"{numerals.value(known.score)} % under {known.benchmark}"
        yield f"Worst known number, which counts for the rank: {value}"


def _board_curves(
    board: Board, benchmarks: Mapping[str, BenchmarkEntry], rows: Sequence[Row]
) -> tuple[LineChart, ...]:
    """Accuracy over budgets for the first of some rows: a figure a protocol and kind with several budgets.

    The protocol that orders the board comes first. The legend says which models' numbers are in doubt.
    """
    order = board.entry.order_column
    columns = [column for column in (order, *board.entry.columns) if column.derive is None]
    where = list(dict.fromkeys((column.benchmark, column.dataset) for column in columns))
    found: list[LineChart] = []
    for benchmark, dataset in where:
        place = next(
            number
            for number, column in enumerate(board.entry.columns)
            if column.derive is None and (column.benchmark, column.dataset) == (benchmark, dataset)
        )
        lines: dict[str, list[Series]] = {}
        for row in rows:
            result = row.cells[place].result
            name = f"{row.name}, doubted" if row.flagged.flags else row.name
            for one in curves(result) if result is not None else []:
                lines.setdefault(one.name, []).append(Series(name, one.points, f"m/{row.model}.html"))
        for kind, series in lines.items():
            first = series[:CURVE_MODELS]
            if max(len(one.points) for one in first) >= LEAST_PLACES:
                name = benchmarks[benchmark].name + (f", {kind}" if len(lines) > 1 else "")
                title = f"Accuracy on {board.entry.name} under {name}, in %"
                found.append(line_chart(title, BUDGET_AXIS, first))
    return tuple(found)
