"""What pages say of one model: values for templates, no markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robustboard.benchmarks.entries import BenchmarkEntry, External
from robustboard.leaderboard.board import Board, Row
from robustboard.leaderboard.cells import CellView, Measured
from robustboard.leaderboard.entries import Column
from robustboard.leaderboard.flags import Raised
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.runners.flags import MEANINGS
from robustboard.runners.keys import Cell
from robustboard.runners.record import FlagName, Result
from robustboard.runners.verifications import TIERS, Check, Tier
from robustboard.site.charts import UNIT_AXIS, LineChart, Series, Whisker, line_chart, middle_half
from robustboard.site.curves import BUDGET_AXIS, curves, whisker
from robustboard.site.matrices import Matrix, by_severity


@dataclass(frozen=True, slots=True)
class ModelCell:
    """One result of a model, or why there is none."""

    dataset: DatasetEntry
    benchmark: BenchmarkEntry
    view: CellView
    whisker: Whisker | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a model stands on one board."""

    board: Board
    row: Row


@dataclass(frozen=True, slots=True)
class DerivedCell:
    """One derived number of a model, or why there is none."""

    board: Board
    column: Column
    view: CellView


@dataclass(frozen=True, slots=True)
class ModelStandings:
    """All that was measured of one model."""

    model: ModelEntry
    cells: tuple[ModelCell, ...]
    """By dataset, then benchmark."""
    curves: tuple[LineChart, ...]
    """One for each dataset with a protocol that has budgets."""
    standings: tuple[Standing, ...]
    flags: tuple[Raised, ...] = ()
    """Sanity flags of all results, in the order of results."""

    @property
    def flags_by_name(self) -> dict[FlagName, list[Raised]]:
        """Name → the places where that flag was raised."""
        found: dict[FlagName, list[Raised]] = {}
        for each in sorted(self.flags, key=lambda each: list(MEANINGS).index(each.flag.name)):
            found.setdefault(each.flag.name, []).append(each)
        return found

    @property
    def looked_at(self) -> bool:
        """Whether any run looked at the model for sanity flags."""
        return any(result.facts.checks is not None for result in self.results)

    @property
    def derived(self) -> tuple[DerivedCell, ...]:
        """Drop, effective and relative robustness with a number, in the order of boards and columns."""
        return tuple(
            DerivedCell(standing.board, column, view)
            for standing in self.standings
            for column, view in zip(standing.board.entry.columns, standing.row.cells, strict=True)
            if column.derive not in (None, "mean") and view.value is not None
        )

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """Corruptions by severity, one for each protocol that has them."""
        pairs = [(cell.view.result, cell.benchmark) for cell in self.cells]
        found = [by_severity(result, entry) for result, entry in pairs if result is not None]
        return tuple(matrix for matrix in found if matrix is not None)

    @property
    def results(self) -> tuple[Result, ...]:
        """All results, in the order of cells."""
        return tuple(cell.view.result for cell in self.cells if cell.view.result is not None)

    @property
    def checked(self) -> tuple[tuple[ModelCell, Check], ...]:
        """Who checked which result, in the order of cells, oldest first."""
        return tuple(
            (cell, check)
            for cell in self.cells
            if cell.view.standing is not None
            for check in cell.view.standing.checks
        )

    @property
    def provenance(self) -> Tier | None:
        """The lowest tier among the model's results; None without any."""
        found = [cell.view.provenance for cell in self.cells if cell.view.provenance is not None]
        return min(found, key=TIERS.index, default=None)

    @property
    def weights(self) -> tuple[str, ...]:
        """SHA-256 of the weights of these results; one, unless they were measured at different times."""
        return tuple(dict.fromkeys(result.key.weights_sha256 for result in self.results))

    @property
    def preparations(self) -> dict[str, dict[str, str]]:
        """Dataset → what was done to its images between file and network, the last result's word last.

        Handed-in images come from files of their own, and so stand apart.
        """
        found: dict[str, dict[str, str]] = {}
        for cell in self.cells:
            facts = cell.view.result.facts.preparation if cell.view.result is not None else {}
            external = isinstance(cell.benchmark.procedure, External)
            name = f"{cell.dataset.name}, {cell.benchmark.name}" if external else cell.dataset.name
            if facts:
                found.setdefault(name, {}).update(facts)
        return found

    @property
    def command(self) -> str:
        """The command line that measures these cells, or all that fit where there are none."""
        benchmarks = dict.fromkeys(cell.benchmark.id for cell in self.cells)
        datasets = dict.fromkeys(cell.dataset.id for cell in self.cells)
        chosen = [f" -b {name}" for name in benchmarks] + [f" -d {name}" for name in datasets]
        return f"robustboard run -m {self.model.id}{''.join(chosen)}"


Spread = Mapping[tuple[str, str], tuple[float, float] | None]


def spread(measured: Measured) -> Spread:
    """(benchmark, dataset) → first and third quartile of the headline over all whole results."""
    values: dict[tuple[str, str], list[float]] = {}
    for cell in measured.results:
        view = measured.view(cell)
        if view.status == "ok" and view.value is not None:
            values.setdefault((cell.benchmark, cell.dataset), []).append(view.value)
    return {pair: middle_half(found) for pair, found in values.items()}


def model_standings(
    model: ModelEntry,
    *,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    measured: Measured,
    boards: Iterable[Board],
    middles: Spread,
    flags: tuple[Raised, ...] = (),
) -> ModelStandings:
    """Results and failures of a model, by dataset and benchmark; cells that nobody ran are left out."""
    standings = tuple(Standing(board, row) for board in boards for row in board.rows if row.model == model.id)
    cells: list[ModelCell] = []
    charts: list[LineChart] = []
    for dataset in catalog.datasets.values():
        if dataset.label_space != model.label_space:
            continue
        here = []
        for benchmark in benchmarks.values():
            cell = Cell(model.id, benchmark.id, dataset.id)
            covered = benchmark.setting_for(dataset) is not None
            if cell in measured.results or (covered and cell in measured.failures):
                view = measured.view(cell)
                middle = middles.get((benchmark.id, dataset.id))
                here.append(ModelCell(dataset, benchmark, view, whisker(view, UNIT_AXIS, middle)))
        cells += here
        chart = _chart(dataset, here)
        if chart is not None:
            charts.append(chart)
    return ModelStandings(model, tuple(cells), tuple(charts), standings, flags)


def _chart(dataset: DatasetEntry, cells: Sequence[ModelCell]) -> LineChart | None:
    series: list[Series] = []
    for item in cells:
        found = curves(item.view.result) if item.view.result is not None else []
        for one in found:
            name = item.benchmark.name if len(found) == 1 else f"{item.benchmark.name}, {one.name}"
            series.append(Series(name, one.points))
    return line_chart(f"Accuracy on {dataset.name}, in %", BUDGET_AXIS, series) if series else None
