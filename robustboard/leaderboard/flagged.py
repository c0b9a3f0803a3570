"""What sanity flags do to the rows of a board: shown, ranked by the worst known number, or not ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robustboard.benchmarks.entries import Cascade
from robustboard.leaderboard.cells import CellView, Measured
from robustboard.leaderboard.entries import BoardEntry, Column
from robustboard.leaderboard.flags import RELATIVE, Raised, concerns
from robustboard.runners.flags import percent
from robustboard.runners.keys import Cell
from robustboard.runners.record import Score

RANDOM = "its answers change from pass to pass"


@dataclass(frozen=True, slots=True)
class Known:
    """A number that stands for a flagged row, and the protocol that gave it."""

    score: Score
    benchmark: str

    def as_data(self) -> dict[str, Any]:
        """As JSON values."""
        fields = ("metric", "condition", "value", "low", "high")
        return {"benchmark": self.benchmark, **{name: getattr(self.score, name) for name in fields}}


@dataclass(frozen=True, slots=True)
class Flagged:
    """What flags say of one row."""

    flags: tuple[Raised, ...] = ()
    """Those that cast doubt on a number of the row, in the order of columns; each one once."""
    known: Known | None = None
    """What ranks the row instead of its own number; None where nothing lower is known."""
    unranked: str | None = None
    """Why the flags keep the row from being ranked."""
    doubted: frozenset[str] = frozenset()
    """Ids of the columns whose number is not to be believed."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the flags, each once."""
        return tuple(dict.fromkeys(each.flag.name for each in self.flags))

    @property
    def worst(self) -> tuple[Raised, ...]:
        """Of each name the flag that went farthest."""
        found: dict[str, Raised] = {}
        for each in self.flags:
            if each.flag.name not in found or each.flag.value > found[each.flag.name].flag.value:
                found[each.flag.name] = each
        return tuple(found.values())

    @property
    def text(self) -> str:
        """All in one phrase for a plain table; empty without flags."""
        if not self.flags:
            return ""
        words = ", ".join(self.names)
        if self.known is not None and self.known.score.value is not None:
            words += f"; worst known {percent(self.known.score.value)} ({self.known.benchmark})"
        return f"! {words}"

    def as_data(self) -> dict[str, Any]:
        """As JSON values."""
        flags = [
            {"benchmark": each.cell.benchmark, "dataset": each.cell.dataset, **each.flag.model_dump()}
            for each in self.flags
        ]
        return {"flags": flags, "ranked_by": self.known.as_data() if self.known else None}


def judge_row(
    entry: BoardEntry,
    model: str,
    cells: Sequence[CellView],
    raised_here: Sequence[Raised],
    measured: Measured,
) -> Flagged:
    """What the flags of one model do to its row."""
    if not raised_here:
        return Flagged()
    found: dict[Raised, None] = {}
    doubted: set[str] = set()
    for column, view in zip(entry.columns, cells, strict=True):
        if column.derive is not None or view.score is None:
            continue
        cell = Cell(model, column.benchmark, column.dataset)
        known_here = vouched(raised_here, cell, measured)
        here = concerns(known_here, column.dataset, view.score.metric, view.score.condition)
        if averages(column, measured):
            here = tuple(each for each in here if each.flag.name != "non-deterministic")
        found.update(dict.fromkeys(here))
        lower = worst_known(model, column, view, measured) if here else None
        if lower is not None or any(_absolute(each, cell) for each in here):
            doubted.add(column.id)
    doubted |= {column.id for column in entry.columns if doubted & set(column.of)}
    order = entry.order_column
    view = cells[entry.columns.index(order)]
    random = any(
        each.flag.name == "non-deterministic" and each.cell.dataset == order.dataset
        for each in vouched(raised_here, Cell(model, order.benchmark, order.dataset), measured)
    )
    unranked = f"{order.title}: {RANDOM}" if random and not averages(order, measured) else None
    known = worst_known(model, order, view, measured) if order.id in doubted else None
    return Flagged(tuple(found), known, unranked, frozenset(doubted))


def vouched(raised_here: Sequence[Raised], cell: Cell, measured: Measured) -> tuple[Raised, ...]:
    """Flags that may speak of a cell: its own, and those of results that may rank.

    A result that anybody handed in, or that was found to be wrong, doubts nothing but itself.
    """
    trust = measured.trust
    return tuple(
        each for each in raised_here if each.cell == cell or each.cell not in trust or trust[each.cell].ranked
    )


def _absolute(each: Raised, cell: Cell) -> bool:
    """Whether a flag doubts a cell's number even where no lower one is known."""
    if each.flag.condition is None:
        return True
    return each.cell == cell and each.flag.name not in RELATIVE


def averages(column: Column, measured: Measured) -> bool:
    """Whether the column's protocol judges by the mean of several passes."""
    entry = measured.benchmarks.get(column.benchmark)
    return entry is not None and isinstance(entry.procedure, Cascade) and entry.procedure.average_over > 1


def worst_known(model: str, column: Column, view: CellView, measured: Measured) -> Known | None:
    """The lowest number below the cell's own that any whole, current result gives at its norm and budget.

    Attacks, cascades, handed-in images and worst cases count, and for Linf the worst of several draws
    of uniform noise, which stays inside the budget.
    """
    own = view.score
    if own is None or own.value is None or own.metric != "robust_accuracy":
        return None
    norm, _, budget = own.condition.partition(" ")
    wanted = {("robust_accuracy", own.condition)}
    if norm == "linf":
        wanted.add(("noise_accuracy_worst", f"uniform {budget}"))
    known = [
        Known(score, cell.benchmark)
        for cell, result in measured.results.items()
        if cell.model == model and cell.dataset == column.dataset
        if result.complete and cell not in measured.outdated
        for score in result.scores
        if (score.metric, score.condition) in wanted and score.value is not None and score.value < own.value
    ]
    return min(known, key=lambda each: (each.score.value or 0.0, each.benchmark), default=None)
