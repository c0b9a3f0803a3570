"""What the script of a board works on: places of cells in their columns, facets of rows, and choices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robustboard.leaderboard.board import Row
from robustboard.leaderboard.statistics import Direction
from robustboard.registry.entries import ModelEntry

_FAMILY = re.compile(r"(?:tf_|test_)?([a-z]+?)(?:v?\d|[^a-z]|$)")
SIZES = tuple(step * 10**power for power in range(3, 10) for step in (1, 3))
"""Bounds on the number of parameters that a reader may choose from."""
KEPT_LAST = "-"
HEAT_STEPS = 7
"""Shades of a column, in the stylesheet."""


@dataclass(frozen=True, slots=True)
class Facets:
    """By what a row can be filtered."""

    arch: str
    """Family of the network: `resnet`."""
    data: tuple[str, ...]
    """What it was trained on."""
    parameters: int | None
    """None where no run counted them."""
    status: str
    complete: bool
    """Whether every cell has a number that counts."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen in each filter; empty where all rows are alike."""

    arch: tuple[str, ...]
    data: tuple[str, ...]
    sizes: tuple[int, ...]
    statuses: tuple[str, ...]
    complete: bool

    @property
    def any(self) -> bool:
        """Whether there is anything to filter by."""
        return bool(self.arch or self.data or self.sizes or self.statuses or self.complete)


def family(architecture: str) -> str:
    """`mobilenet` for `tf_mobilenetv3_small_100`: the letters before the first version, size or variant."""
    found = _FAMILY.match(architecture.casefold())
    return found.group(1) if found else architecture.casefold()


def facets(row: Row, model: ModelEntry) -> Facets:
    """By what a row can be filtered."""
    counts = [cell.result.facts.parameters for cell in row.cells if cell.result is not None]
    return Facets(
        family(model.architecture.name),
        model.training.datasets,
        counts[0] if counts else None,
        row.provenance or "not measured",
        all(cell.status == "ok" for cell in row.cells),
    )


def choices(rows: Sequence[Facets]) -> Choices:
    """What splits the rows."""
    known = [row.parameters for row in rows if row.parameters is not None]
    return Choices(
        _several(row.arch for row in rows),
        _several(name for row in rows for name in row.data),
        tuple(size for size in SIZES if any(n <= size for n in known) and any(n > size for n in known)),
        _several(row.status for row in rows),
        len({row.complete for row in rows}) > 1,
    )


def _several(values: Iterable[str]) -> tuple[str, ...]:
    found = tuple(sorted(set(values)))
    return found if len(found) > 1 else ()


def places(values: Sequence[float | None], direction: Direction) -> list[str]:
    """Place of every value in its column, the best first from 0, by unrounded numbers; equal values share it.

    `-` for what stays last however the column is sorted.
    """
    distinct = sorted({value for value in values if value is not None}, reverse=direction != "lower")
    order = {value: str(place) for place, value in enumerate(distinct)}
    return [KEPT_LAST if value is None else order[value] for value in values]
