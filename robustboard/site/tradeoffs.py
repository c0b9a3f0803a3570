"""Which two numbers of a board's models, or of a source's, are drawn over each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import Board, Row
from robustboard.leaderboard.cells import CellView, Measured, percent_text
from robustboard.leaderboard.entries import CLEAN_BENCHMARK
from robustboard.registry.catalog import Catalog
from robustboard.registry.reported import Reported
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.site import numerals
from robustboard.site.plots import Linear, Logarithmic, Plot, Subject, plot
from robustboard.site.published import PublishedTable, tables

CLEAN_METRIC = "clean accuracy"
ROBUST_METRICS = ("autoattack accuracy", "mean corruption accuracy")
"""Metrics of sources, in words, that stand over clean accuracy."""
SHARES = {"%": 100.0, "share of 1": 1.0}
"""Units of sources that are shares → what makes them shares of 1."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a model costs, by the record of a run."""

    id: str
    title: str
    of: Callable[[Result], float | None]
    text: Callable[[float], str]


def _milliseconds(result: Result) -> float | None:
    return 1000 * result.facts.seconds / result.evaluated if result.evaluated else None


def _macs(result: Result) -> float | None:
    return None if result.facts.macs is None else float(result.facts.macs)


def _round(value: float) -> str:
    return numerals.short(round(value))


def _bytes(value: float) -> str:
    return f"{_round(value)}B"


COSTS = (
    Cost("parameters", "parameters", lambda result: float(result.facts.parameters), _round),
    Cost("macs", "multiply-accumulates an image", _macs, _round),
    Cost("time", "milliseconds an image", _milliseconds, lambda value: f"{value:.3g}"),
    Cost("memory", "peak memory of the run", lambda result: float(result.facts.peak_memory_bytes), _bytes),
)
"""From the run that gave the clean accuracy: it passes every image once, unperturbed."""


@dataclass(frozen=True, slots=True)
class TradeOffs:
    """Figures of one board."""

    clean: Plot | None
    """The score that orders the board over clean accuracy."""
    costs: tuple[Plot, ...]
    devices: tuple[str, ...]
    """Where times and memory were measured."""


def trade_offs(
    board: Board, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry], measured: Measured
) -> TradeOffs:
    """Ranked models only; nothing where the board's order is no share of which more is better."""
    column = board.entry.order_column
    pairs = [(row, _share(row, board.order_index)) for row in board.ranked]
    known = [(row, score) for row, score in pairs if score is not None]
    if board.directions[board.order_index] != "higher" or not known:
        return TradeOffs(None, (), ())
    cell = (CLEAN_BENCHMARK, column.clean_cell(catalog, benchmarks)[1])
    views = {row.model: measured.view(Cell(row.model, *cell)) for row, _ in known}
    own = (column.benchmark, column.dataset) == cell
    return TradeOffs(
        None if own else _over_clean(board, known, views),
        tuple(found for cost in COSTS if (found := _over_cost(board, known, views, cost)) is not None),
        tuple(sorted({view.result.facts.device for view in views.values() if view.result is not None})),
    )


def _share(row: Row, order: int) -> float | None:
    """What places the row: of a flagged one the worst known."""
    known = row.flagged.known
    score = row.cells[order].score if known is None else known.score
    return score.value if score is not None and score.unit == "share" else None


def _percent(title: str, value: float) -> str:
    return f"{title} {percent_text(value)} %"


def _over_clean(
    board: Board, known: Sequence[tuple[Row, float]], views: Mapping[str, CellView]
) -> Plot | None:
    title = board.entry.order_column.title
    subjects = [
        Subject(
            row.name, f"m/{row.model}.html", clean, value, _percent("clean", clean), _percent(title, value)
        )
        for row, value in known
        if (clean := views[row.model].value) is not None and views[row.model].status == "ok"
    ]
    if not subjects:
        return None
    return plot(
        "over-clean",
        f"{title} over clean accuracy",
        subjects=subjects,
        x_title="clean accuracy, in %",
        y_title=f"{title}, in %",
        x_scale=Linear.around([each.x for each in subjects]),
        x_better="higher",
    )


def _over_cost(
    board: Board, known: Sequence[tuple[Row, float]], views: Mapping[str, CellView], cost: Cost
) -> Plot | None:
    title = board.entry.order_column.title
    subjects = []
    for row, value in known:
        result = views[row.model].result
        spent = cost.of(result) if result is not None else None
        if spent is not None and spent > 0:
            text = f"{cost.title} {cost.text(spent)}"
            subjects.append(
                Subject(row.name, f"m/{row.model}.html", spent, value, text, _percent(title, value))
            )
    if len({each.x for each in subjects}) < 2:  # noqa: PLR2004 - one cost tells nothing
        return None
    return plot(
        f"over-{cost.id}",
        f"{title} over {cost.title}",
        subjects=subjects,
        x_title=f"{cost.title}, logarithmic",
        y_title=f"{title}, in %",
        x_scale=Logarithmic.around([each.x for each in subjects], cost.text),
        x_better="lower",
    )


def generated_plots(board: Board, catalog: Catalog, measured: Measured) -> tuple[Plot, ...]:
    """FMR over clean accuracy, one figure for each benchmark and dataset of the board that has it."""
    places = {
        (cell.benchmark, cell.dataset, result.headline)
        for cell, result in measured.results.items()
        if cell.dataset in board.entry.datasets and result.headline.startswith("fmr@")
    }
    found = []
    for benchmark, dataset, headline in sorted(places):
        subjects = []
        for row in board.rows:
            view = measured.view(Cell(row.model, benchmark, dataset))
            clean = measured.view(Cell(row.model, CLEAN_BENCHMARK, dataset))
            if view.status == clean.status == "ok" and view.value is not None and clean.value is not None:
                x_text, y_text = _percent("clean", clean.value), f"FMR {view.value:.1f} %"
                link = f"m/{row.model}.html"
                subjects.append(Subject(row.name, link, clean.value, view.value / 100, x_text, y_text))
        if subjects:
            made = plot(
                f"fmr-{benchmark}-{dataset}",
                f"FMR over clean accuracy on {catalog.datasets[dataset].name}, {benchmark}",
                subjects=subjects,
                x_title=f"clean accuracy, in %; {headline.partition('@')[2]}",
                y_title="FMR, in % of clean accuracy",
                x_scale=Linear.around([each.x for each in subjects]),
                x_better="none",
            )
            found += [made] if made is not None else []
    return tuple(found)


def board_reported_plots(board: Board, reported: Mapping[str, Reported]) -> tuple[Plot, ...]:
    """Robust over clean accuracy of what sources report on the board's data."""
    return tuple(
        found
        for view in board.entry.reported
        for number, table in enumerate(tables(reported[view.source]), 1)
        for found in reported_plots(table, f"{view.source}-{number}", view.datasets)
    )


def reported_plots(table: PublishedTable, slug: str, datasets: Collection[str] = ()) -> tuple[Plot, ...]:
    """Robust over clean accuracy as a source reports both for a model; of all datasets, or of some."""
    clean = [n for n, h in enumerate(table.headings) if h.metric == CLEAN_METRIC and h.unit in SHARES]
    if len(clean) != 1:
        return ()
    found = []
    for place, heading in enumerate(table.headings):
        if heading.metric not in ROBUST_METRICS or heading.unit not in SHARES:
            continue
        if datasets and heading.dataset not in datasets:
            continue
        subjects = []
        for row in table.rows:
            x, y = row.values[clean[0]], row.values[place]
            if x is not None and y is not None:
                shares = float(x) / SHARES[table.headings[clean[0]].unit], float(y) / SHARES[heading.unit]
                texts = _percent("clean", shares[0]), _percent(heading.metric, shares[1])
                subjects.append(Subject(row.model, None, *shares, *texts))
        if subjects:
            made = plot(
                f"{slug}-{place}",
                f"{table.title or heading.dataset}: {heading.metric} over clean accuracy",
                subjects=subjects,
                x_title="clean accuracy, in %",
                y_title=f"{heading.metric}, in %",
                x_scale=Linear.around([each.x for each in subjects]),
                x_better="higher",
            )
            found += [made] if made is not None else []
    return tuple(found)
