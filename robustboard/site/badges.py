"""Badges for read-me files: model, benchmark, number and where it comes from, in one small drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import Board
from robustboard.leaderboard.cells import Measured
from robustboard.registry.catalog import Catalog
from robustboard.runners.keys import Cell
from robustboard.site import numerals

CHARACTER = 6.3
"""Mean width of a letter at 11 px; textLength makes every text fit whatever the font."""
PADDING = 10
MOST_LETTERS = 60


@dataclass(frozen=True, slots=True)
class Badge:
    """One drawing; `left` and `right` are its two halves."""

    path: str
    left: str
    right: str
    name: str
    """What it says, for those who do not see it."""
    link: str
    """Path of the model's page from the top."""

    def markdown(self, address: str) -> str:
        """The line for a read-me; `address` is where the site stands."""
        alt = f"{self.left}: {self.right}".replace("[", "(").replace("]", ")")
        return f"[![{alt}]({address}{self.path})]({address}{self.link})"

    @property
    def widths(self) -> tuple[int, int]:
        """Pixels of both halves."""
        first, second = (round(CHARACTER * len(text)) + 2 * PADDING for text in (self.left, self.right))
        return first, second


def primary_datasets(boards: Iterable[Board]) -> dict[str, str]:
    """Label space → the first dataset of its first board, whose badges need not name the dataset."""
    found: dict[str, str] = {}
    for board in boards:
        found.setdefault(board.entry.label_space, board.entry.datasets[0])
    return found


def badges(
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    measured: Measured,
    boards: Iterable[Board],
    release: str,
) -> list[Badge]:
    """A badge for every cell with a result: badge/MODEL/BENCHMARK.svg, or BENCHMARK--DATASET.svg.

    The short name is kept for the first dataset of the label space's first board. A number that is not
    whole and current, or doubted by a sanity flag, is not shown; the badge says why instead.
    """
    first = primary_datasets(boards)
    doubted: dict[Cell, set[str | None]] = {}
    for each in (each for several in measured.flags.values() for each in several):
        doubted.setdefault(each.cell, set()).add(each.flag.condition)
    found = []
    for cell in measured.results:
        if cell.model not in catalog.models or cell.dataset not in catalog.datasets:
            continue
        model, dataset = catalog.models[cell.model], catalog.datasets[cell.dataset]
        view = measured.view(cell)
        value: str = view.status
        if view.status == "ok" and view.score is not None:
            percent = " %" if view.score.unit == "share" else ""
            value = (
                f"{numerals.value(view.score)}{percent} {_plus_minus(view.margin, view.score.unit)}".strip()
            )
            if doubted.get(cell, set()) & {None, view.score.condition}:
                value = "flagged, see its page"
        named = f"{benchmarks[cell.benchmark].name}, {dataset.name}"
        short = first.get(dataset.label_space) == cell.dataset
        stem = cell.benchmark if short else f"{cell.benchmark}--{cell.dataset}"
        said = f"{model.name}: {named}: {value} (robustboard {release})"
        left, right = _cut(f"{model.name} · {named}"), _cut(f"{value} · robustboard {release}")
        found.append(Badge(f"badge/{cell.model}/{stem}.svg", left, right, said, f"m/{cell.model}.html"))
    return found


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _plus_minus(margin: float | None, unit: str) -> str:
    return f"±{max(margin * 100, 0.1):.1f}" if margin and unit == "share" else ""
