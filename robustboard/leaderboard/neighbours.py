"""Models that stand next to each other on a board: are they really apart?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from robustboard.leaderboard.board import Board, Row
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.compare import Bits, Difference, adjusted, compare_cells
from robustboard.runners.keys import Cell


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two ranked models, one right after the other, by the number that orders the board."""

    first: Row
    second: Row
    difference: Difference


def neighbours(board: Board, measured: Measured) -> tuple[Neighbours, ...]:
    """Every ranked model with the next one, tested by pairs where outcomes are at hand.

    p-values are adjusted for the number of pairs (Holm). Nothing where a derived column orders the board,
    or a flag ranks a model by another number.
    """
    column = board.entry.order_column
    ranked = [row for row in board.ranked if row.flagged.known is None]
    if column.derive is not None:
        return ()
    pairs = list(pairwise(ranked))
    found = []
    for first, second in pairs:
        cells = [Cell(row.model, column.benchmark, column.dataset) for row in (first, second)]
        results = [measured.results[cell] for cell in cells]
        bits = Bits(*(measured.outcomes.get(cell) for cell in cells))
        found.append(compare_cells(column.score or results[0].headline, results[0], results[1], bits))
    return tuple(
        Neighbours(first, second, difference)
        for (first, second), difference in zip(pairs, adjusted(found), strict=True)
    )
