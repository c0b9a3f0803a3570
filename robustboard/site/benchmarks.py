"""What pages say of one benchmark: values for templates, no markup."""

from __future__ import annotations

from dataclasses import dataclass

from robustboard.benchmarks.entries import AttackSetting, BenchmarkEntry, Ladder
from robustboard.leaderboard.board import Row, build_board
from robustboard.leaderboard.cells import CellView, Measured
from robustboard.leaderboard.entries import BoardEntry, Column
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry
from robustboard.site import numerals
from robustboard.site.boards import FirstPlace, first_place
from robustboard.site.charts import Axis, Whisker
from robustboard.site.curves import whisker
from robustboard.site.matrices import Matrix, by_model


@dataclass(frozen=True, slots=True)
class Place:
    """One model in the ready-sorted table of a benchmark."""

    row: Row
    view: CellView
    whisker: Whisker | None


@dataclass(frozen=True, slots=True)
class BenchmarkTable:
    """All models of one benchmark on one dataset, best first, by the headline score."""

    dataset: DatasetEntry
    score: str
    """The headline, METRIC@CONDITION."""
    axis: Axis
    places: tuple[Place, ...]
    first: FirstPlace
    matrix: Matrix | None
    """Models by corruption, of protocols that have several."""


def benchmark_tables(
    benchmark: BenchmarkEntry, catalog: Catalog, measured: Measured
) -> tuple[BenchmarkTable, ...]:
    """A table for every dataset on which some model was measured."""
    names = sorted({cell.dataset for cell in measured.results if cell.benchmark == benchmark.id})
    found = []
    for dataset in (catalog.datasets[name] for name in names if name in catalog.datasets):
        column = Column(id="headline", title="headline", benchmark=benchmark.id, dataset=dataset.id)
        entry = BoardEntry(
            id="one-column",
            name="one column",
            summary="one column",
            label_space=dataset.label_space,
            datasets=(dataset.id,),
            columns=(column,),
            order="headline",
        )
        board = build_board(entry, catalog, measured)
        views = [row.cells[0] for row in board.rows]
        intervals = [view.bounds for view in views if view.bounds is not None]
        axis = Axis.around([low for low, _ in intervals], [high for _, high in intervals])
        places = tuple(
            Place(row, view, whisker(view, axis)) for row, view in zip(board.rows, views, strict=True)
        )
        headline = next((view.result.headline for view in views if view.result is not None), "")
        if places:
            first = first_place(board, benchmark.name)
            matrix = by_model(board, benchmark)
            found.append(BenchmarkTable(dataset, headline, axis, places, first, matrix))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Budgets:
    """How a benchmark treats some datasets."""

    covers: str
    budgets: str
    headline: str
    steps: str


def settings_of(benchmark: BenchmarkEntry) -> tuple[Budgets, ...]:
    """The settings of a benchmark, in words."""
    found = []
    for setting in benchmark.procedure.settings:
        spaces = [f"test sets of {name}" for name in setting.label_spaces]
        covers = ", ".join((*setting.datasets, *spaces))
        if not isinstance(setting, Ladder):
            found.append(Budgets(covers, "", "", ""))
            continue
        iterations = ""
        if isinstance(setting, AttackSetting):
            iterations = f"{numerals.plural(setting.steps, 'step')} of {setting.relative_step} of the budget"
        budgets = ", ".join(map(str, setting.budgets))
        found.append(Budgets(covers, budgets, str(setting.headline), iterations))
    return tuple(found)
