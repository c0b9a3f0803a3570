"""What pages say of one board, one benchmark and one model: values for templates, no markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from robustboard.benchmarks.entries import CLEAN, AttackSetting, BenchmarkEntry, Ladder
from robustboard.leaderboard.board import Board, CellView, Measured, Row, build_board
from robustboard.leaderboard.entries import BoardEntry, Column
from robustboard.leaderboard.statistics import shades
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result, Score
from robustboard.site import numerals
from robustboard.site.charts import (
    UNIT_AXIS,
    Axis,
    LineChart,
    Point,
    Series,
    Whisker,
    line_chart,
    middle_half,
)

HEAT_STEPS = 7
MAX_NAMED = 6
"""Models that the sentence on the first place names."""
CURVE_METRICS = ("robust_accuracy", "noise_accuracy")
CURVE_MODELS = 6
"""Lines that a chart of several models can carry and still be read."""


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell of a board with its shade."""

    view: CellView
    shade: int | None


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of a board with its cells as shown."""

    row: Row
    cells: tuple[ShownCell, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A heading over neighbouring columns."""

    title: str | None
    span: int


@dataclass(frozen=True, slots=True)
class ShownBoard:
    """A board with all that its page says."""

    board: Board
    rows: tuple[ShownRow, ...]
    groups: tuple[Group, ...]
    first: FirstPlace
    reasons: tuple[str, ...]
    """Why cells have no number or an odd one, a line each."""
    curve: LineChart | None


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


def show_board(board: Board, benchmarks: Mapping[str, BenchmarkEntry]) -> ShownBoard:
    """Shades, headings and sentences of a board."""
    columns = []
    for place in range(len(board.entry.columns)):
        views = [row.cells[place] for row in board.rows]
        margins = [view.margin for view in views if view.margin is not None]
        columns.append(shades([view.value for view in views], margins or [0.0], HEAT_STEPS))
    rows = tuple(
        ShownRow(row, tuple(ShownCell(view, columns[place][index]) for place, view in enumerate(row.cells)))
        for index, row in enumerate(board.rows)
    )
    return ShownBoard(
        board=board,
        rows=rows,
        groups=_groups(board.entry.columns),
        first=first_place(board),
        reasons=_reasons(board),
        curve=_board_curve(board, benchmarks),
    )


def _groups(columns: Sequence[Column]) -> tuple[Group, ...]:
    if all(column.group is None for column in columns):
        return ()
    found: list[Group] = []
    for column in columns:
        if found and found[-1].title == column.group and column.group is not None:
            found[-1] = Group(column.group, found[-1].span + 1)
        else:
            found.append(Group(column.group, 1))
    return tuple(found)


def _reasons(board: Board) -> tuple[str, ...]:
    found: dict[str, list[str]] = {}
    for row in board.rows:
        for column, view in zip(board.entry.columns, row.cells, strict=True):
            if view.status not in ("ok", "not run"):
                found.setdefault(f"{column.title}, {view.status}: {view.reason}", []).append(row.name)
        for note in row.notes:
            found.setdefault(note, []).append(row.name)
    return tuple(f"{text} ({numerals.listed(names)})" for text, names in found.items())


def _board_curve(board: Board, benchmarks: Mapping[str, BenchmarkEntry]) -> LineChart | None:
    """Accuracy over budgets of the benchmark that orders the board, for its first models."""
    place = board.order_index
    series: list[Series] = []
    for row in board.rows:
        result = row.cells[place].result
        found = curves(result) if result is not None else []
        if found and len(series) < CURVE_MODELS:
            series.append(Series(row.name, found[0].points, f"m/{row.model}.html"))
    if not series or all(len(one.points) < 2 for one in series):  # noqa: PLR2004 - a line needs two points
        return None
    name = benchmarks[board.entry.order_column.benchmark].name
    return line_chart(f"Accuracy on {board.entry.name} under {name}, in %", BUDGET_AXIS, series)


BUDGET_AXIS = "budget, as a share of the pixel range"


def curves(result: Result) -> list[Series]:
    """Accuracy over budgets, a line for each norm or kind of noise; the clean accuracy stands at 0."""
    clean = [s for s in result.scores if s.metric == "clean_accuracy" and s.condition == CLEAN]
    found: dict[str, list[Point]] = {}
    for score in result.scores:
        kind, _, budget = score.condition.partition(" ")
        if score.metric not in CURVE_METRICS or not budget or score.value is None:
            continue
        found.setdefault(kind, []).append(_point(score, float(Fraction(budget)), budget))
    start = [_point(score, 0.0, CLEAN) for score in clean if score.value is not None]
    return [
        Series(kind, tuple(sorted((*start, *points), key=lambda point: point.x)))
        for kind, points in found.items()
    ]


def _point(score: Score, x: float, label: str) -> Point:
    value = score.value or 0.0
    low, high = (value, value) if score.low is None or score.high is None else (score.low, score.high)
    return Point(x, value, low, high, label)


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
            Place(row, view, _whisker(view, axis)) for row, view in zip(board.rows, views, strict=True)
        )
        headline = next((view.result.headline for view in views if view.result is not None), "")
        if places:
            found.append(BenchmarkTable(dataset, headline, axis, places, first_place(board, benchmark.name)))
    return tuple(found)


def _whisker(view: CellView, axis: Axis, middle: tuple[float, float] | None = None) -> Whisker | None:
    if view.value is None or view.bounds is None or view.score is None or view.score.unit != "share":
        return None
    return axis.whisker(view.value, *view.bounds, middle)


@dataclass(frozen=True, slots=True)
class ModelCell:
    """One result of a model, or why there is none."""

    cell: Cell
    benchmark: BenchmarkEntry
    view: CellView
    whisker: Whisker | None


@dataclass(frozen=True, slots=True)
class ModelDataset:
    """All results of a model on one dataset."""

    dataset: DatasetEntry
    cells: tuple[ModelCell, ...]
    curve: LineChart | None
    command: str

    @property
    def weights(self) -> tuple[str, ...]:
        """SHA-256 of the weights of these results; one, unless they were measured at different times."""
        results = (cell.view.result for cell in self.cells)
        return tuple(dict.fromkeys(r.key.weights_sha256 for r in results if r is not None))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a model stands on one board."""

    board: Board
    row: Row


@dataclass(frozen=True, slots=True)
class ModelStandings:
    """All that was measured of one model."""

    model: ModelEntry
    datasets: tuple[ModelDataset, ...]
    standings: tuple[Standing, ...]

    @property
    def measured(self) -> int:
        """Number of results."""
        return len(self.results)

    @property
    def results(self) -> tuple[Result, ...]:
        """All results, by dataset and benchmark."""
        views = (cell.view for part in self.datasets for cell in part.cells)
        return tuple(view.result for view in views if view.result is not None)

    @property
    def provenance(self) -> str | None:
        """Where the numbers come from, by their run records; None without any."""
        return ", ".join(sorted({result.status for result in self.results})) or None


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
) -> ModelStandings:
    """Results of a model by dataset; datasets without any result are left out."""
    standings = tuple(Standing(board, row) for board in boards for row in board.rows if row.model == model.id)
    parts = []
    for dataset in catalog.datasets.values():
        if dataset.label_space != model.label_space:
            continue
        cells = []
        for benchmark in benchmarks.values():
            cell = Cell(model.id, benchmark.id, dataset.id)
            covered = benchmark.setting_for(dataset) is not None
            if cell in measured.results or (covered and cell in measured.failures):
                view = measured.view(cell)
                middle = middles.get((benchmark.id, dataset.id))
                cells.append(ModelCell(cell, benchmark, view, _whisker(view, UNIT_AXIS, middle)))
        if cells:
            parts.append(ModelDataset(dataset, tuple(cells), _model_curve(dataset, cells), _command(cells)))
    return ModelStandings(model, tuple(parts), standings)


def _model_curve(dataset: DatasetEntry, cells: Sequence[ModelCell]) -> LineChart | None:
    series: list[Series] = []
    for item in cells:
        found = curves(item.view.result) if item.view.result is not None else []
        for one in found:
            name = item.benchmark.name if len(found) == 1 else f"{item.benchmark.name}, {one.name}"
            series.append(Series(name, one.points))
    if not series:
        return None
    return line_chart(f"Accuracy on {dataset.name} as the perturbation grows, in %", BUDGET_AXIS, series)


def _command(cells: Sequence[ModelCell]) -> str:
    """The command line that measures these cells again."""
    first = cells[0].cell
    chosen = " ".join(f"-b {item.cell.benchmark}" for item in cells)
    return f"robustboard run -m {first.model} {chosen} -d {first.dataset}"


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
