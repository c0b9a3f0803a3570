"""Accuracy under a shift over clean accuracy, both in logit scale, with the line that foretells it.

In this scale the line is straight, and the height of a model above it is its effective robustness
(Taori et al. 2020, figure 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustboard.benchmarks.effective_robustness import Fit, PiecewiseFit, logit
from robustboard.leaderboard.board import Board
from robustboard.leaderboard.cells import CellView
from robustboard.leaderboard.derived import Derived, Point, is_standard
from robustboard.leaderboard.entries import Column
from robustboard.leaderboard.fits import FittedOn
from robustboard.registry.catalog import Catalog
from robustboard.registry.reported import Reported, share
from robustboard.runners.record import Score
from robustboard.site import numerals
from robustboard.site.charts import LEFT, MARKERS, RIGHT, STYLES, Tick

HEIGHT, TOP, BOTTOM = 380, 12, 332
"""Height of the canvas, and both ends of the y axis, in pixels."""
PADDING = 0.06
"""Room on each side of the outermost marks, as a share of the axis."""
MIN_SPAN = 0.3
"""Least width of an axis in logits, so that one model alone has one."""
X_GAP, Y_GAP = 9.0, 26.0
"""Least distance of labels, in percent of the width and in pixels."""
ENOUGH_TICKS = 5
MAX_SERIES = 6
"""Models with a mark of their own; beyond, marks stand for two kinds of training."""
KINDS = ("Trained in the ordinary way", "Other training")
TAILS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
STEPS = (10, 20, 50, 100, 200, 500, 1000, 10_000)
"""Candidates for ticks: multiples of 1/10, 1/20 and so on, the first that gives enough."""


@dataclass(frozen=True, slots=True)
class LogitAxis:
    """A range of logits."""

    start: float
    end: float

    @classmethod
    def around(cls, logits: Sequence[float]) -> LogitAxis:
        """A range that holds all values with some room; 10 to 90 % where there is none."""
        low, high = (min(logits), max(logits)) if logits else (-2.2, 2.2)
        missing = max(MIN_SPAN - (high - low), 0.0) / 2
        room = PADDING * max(high - low, MIN_SPAN) + missing
        return cls(low - room, high + room)

    def along(self, value: float) -> float:
        """Where a logit stands, from 0 to 1; outside the range beyond."""
        return (value - self.start) / (self.end - self.start)

    def ticks(self) -> tuple[float, ...]:
        """Round shares inside the range."""
        found: list[float] = []
        for step in STEPS:
            tails = TAILS if step < 100 else ()  # noqa: PLR2004 - percents hold the tails already
            shares = np.union1d(np.arange(1, step) / step, tails)
            logits = logit(shares)
            found = shares[(logits >= self.start) & (logits <= self.end)].tolist()
            if len(found) >= ENOUGH_TICKS:
                break
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Dot:
    """A model on the canvas: x in percent of the width, y in pixels, with the ends of both whiskers."""

    x: float
    y: float
    left: float
    right: float
    low: float
    high: float
    text: str
    """Shown when a pointer rests on it."""


@dataclass(frozen=True, slots=True)
class DotSeries:
    """Dots of one look."""

    name: str
    link: str | None
    style: int
    marker: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight part of a line; x in percent, y in pixels."""

    x1: float
    y1: float
    x2: float
    y2: float
    beyond: bool = False
    """Whether no fitted model stands there."""


@dataclass(frozen=True, slots=True)
class ReportedDots:
    """Accuracies that a source reports, drawn faintly."""

    source: str
    name: str
    fitted: tuple[tuple[float, float], ...]
    """Places of models that the line goes through."""
    others: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class ScatterRow:
    """One model in the table of the same numbers."""

    name: str
    link: str
    clean: Score
    shifted: Score
    foretold: float | None
    """What the line says, a share."""
    effective: CellView


@dataclass(frozen=True, slots=True)
class Scatter:
    """One figure of a board's page."""

    id: str
    title: str
    description: str
    x_title: str
    line: str
    """What the line is, or why there is none: a sentence."""
    series: tuple[DotSeries, ...]
    strokes: tuple[Stroke, ...]
    equal: tuple[Stroke, ...]
    """Where accuracy under the shift equals clean accuracy."""
    reported: ReportedDots | None
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    rows: tuple[ScatterRow, ...]
    left: float = LEFT
    right: float = RIGHT
    top: int = TOP
    bottom: int = BOTTOM
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class _Canvas:
    x: LogitAxis
    y: LogitAxis

    def across(self, value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * min(max(self.x.along(value), 0.0), 1.0), 2)

    def down(self, value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * min(max(self.y.along(value), 0.0), 1.0), 1)

    def stroke(self, fit: Fit, start: float, end: float, *, beyond: bool = False) -> Iterator[Stroke]:
        """The part of a line between two logits of clean accuracy that lies on the canvas."""
        start, end = max(start, self.x.start), min(end, self.x.end)
        if fit.slope != 0:
            edges = sorted((at - fit.intercept) / fit.slope for at in (self.y.start, self.y.end))
            start, end = max(start, edges[0]), min(end, edges[1])
        elif not self.y.start <= fit.intercept <= self.y.end:
            return
        if start < end:
            first, last = (fit.slope * at + fit.intercept for at in (start, end))
            yield Stroke(
                self.across(start), self.down(first), self.across(end), self.down(last), beyond=beyond
            )


def scatters(board: Board, catalog: Catalog, reported: Mapping[str, Reported]) -> tuple[Scatter, ...]:
    """A figure for each column of effective robustness that has anything to draw."""
    found = []
    for place, column in enumerate(board.entry.columns):
        if column.derive != "effective-robustness":
            continue
        derived = board.derived[column.id]
        told = _told(derived, reported)
        if derived.points or told:
            cells = {row.model: row.cells[place] for row in board.rows}
            found.append(_scatter(column, derived, told, catalog=catalog, cells=cells, reported=reported))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Told:
    """A reported model: both accuracies as logits."""

    clean: float
    shifted: float
    fitted: bool


def _told(derived: Derived, reported: Mapping[str, Reported]) -> list[_Told]:
    """Reported accuracies behind a published fit; those of 0 and 1 have no place in this scale."""
    entry = derived.fit.entry if derived.fit is not None else None
    if entry is None or entry.fitted_on is None or entry.fitted_on.source not in reported:
        return []
    on: FittedOn = entry.fitted_on
    values: dict[str, dict[str, float]] = {}
    tables: dict[str, str | None] = {}
    for score in reported[on.source].scores:
        value = share(score)
        if score.dataset in (on.clean, on.shifted) and value is not None and 0 < value < 1:
            values.setdefault(score.model, {})[score.dataset] = float(logit(value))
            tables[score.model] = score.table
    return [
        _Told(
            found[on.clean],
            found[on.shifted],
            (on.table is None or tables[model] == on.table) and model not in entry.excluded,
        )
        for model, found in sorted(values.items())
        if len(found) == len({on.clean, on.shifted})
    ]


def _logits(score: Score) -> tuple[float, float, float]:
    """Value, low and high, clipped by half an image."""
    value = score.value or 0.0
    ends = (value, value if score.low is None else score.low, value if score.high is None else score.high)
    found = logit(ends, score.n)
    return float(found[0]), float(found[1]), float(found[2])


def _scatter(
    column: Column,
    derived: Derived,
    told: Sequence[_Told],
    *,
    catalog: Catalog,
    cells: Mapping[str, CellView],
    reported: Mapping[str, Reported],
) -> Scatter:
    # In the order of rows, so that a model looks as it does in the page's other charts.
    points = sorted(derived.points, key=lambda point: list(cells).index(point.model))
    clean = [logit for point in derived.points for logit in _logits(point.clean)]
    shifted = [logit for point in derived.points for logit in _logits(point.shifted)]
    canvas = _Canvas(
        LogitAxis.around([*clean, *(one.clean for one in told)]),
        LogitAxis.around([*shifted, *(one.shifted for one in told)]),
    )
    clean_name = catalog.datasets[derived.clean or column.dataset].name
    condition = column.score.partition("@")[2] if column.score is not None else ""
    under = f", {condition}," if condition not in ("", "clean") else ""
    title = f"Accuracy on {catalog.datasets[column.dataset].name}{under} over clean accuracy"
    return Scatter(
        id=column.id,
        title=title,
        description=_description(derived, told),
        x_title=f"clean accuracy on {clean_name}, in %",
        line=_line_text(derived),
        series=_series(points, catalog, canvas),
        strokes=tuple(_strokes(derived, canvas)),
        equal=tuple(canvas.stroke(Fit(1.0, 0.0, 1.0, 0), float("-inf"), float("inf"))),
        reported=_faint(derived, told, canvas, reported),
        x_ticks=_ticks(canvas.x, canvas.across, X_GAP),
        y_ticks=_ticks(canvas.y, canvas.down, Y_GAP),
        rows=tuple(_row(point, catalog, cells[point.model]) for point in points),
    )


def _description(derived: Derived, told: Sequence[_Told]) -> str:
    measured = numerals.plural(len(derived.points), "measured model")
    return f"{measured}{f' and {len(told)} reported ones' if told else ''}. {_line_text(derived)}"


def _line_text(derived: Derived) -> str:
    if derived.fit is None:
        return f"There is no line: {derived.reason}."
    entry, line = derived.fit.entry, derived.fit.line
    fits = line.pieces if isinstance(line, PiecewiseFit) else (line,)
    lines = "The line goes" if len(fits) == 1 else "The lines go"
    counts = " and ".join(str(fit.n) for fit in fits)
    fit_r = " and ".join(f"{fit.r:.3g}" for fit in fits)
    whose = "models of this board" if entry is None else "published models"
    source = "" if entry is None else f"; {entry.source}"
    return f"{lines} through {counts} {whose} trained in the ordinary way (r = {fit_r}){source}."


def _strokes(derived: Derived, canvas: _Canvas) -> Iterator[Stroke]:
    """The line; dashed where it goes beyond the models that were fitted."""
    if derived.fit is None:
        return
    line, far = derived.fit.line, float("inf")
    if isinstance(line, PiecewiseFit):
        starts = [float(logit(start)) for start in line.starts]
        yield from canvas.stroke(line.pieces[0], -far, starts[0], beyond=True)
        for fit, start, end in zip(line.pieces, starts, [*starts[1:], far], strict=True):
            yield from canvas.stroke(fit, start, end)
    else:
        fitted = [_logits(point.clean)[0] for point in derived.points if point.fitted]
        first, last = min(fitted), max(fitted)
        yield from canvas.stroke(line, -far, first, beyond=True)
        yield from canvas.stroke(line, first, last)
        yield from canvas.stroke(line, last, far, beyond=True)


def _series(points: Sequence[Point], catalog: Catalog, canvas: _Canvas) -> tuple[DotSeries, ...]:
    """A series a model while there are few, else one for each kind of training."""
    if len(points) <= MAX_SERIES:
        return tuple(
            DotSeries(
                catalog.models[point.model].name,
                f"m/{point.model}.html",
                number % STYLES,
                MARKERS[number % len(MARKERS)],
                (_dot(point, catalog, canvas),),
            )
            for number, point in enumerate(points)
        )
    kinds: dict[bool, list[Dot]] = {True: [], False: []}
    for point in points:
        kinds[is_standard(catalog.models[point.model])].append(_dot(point, catalog, canvas))
    return tuple(
        DotSeries(name, None, number, MARKERS[number], tuple(dots))
        for number, (name, dots) in enumerate(zip(KINDS, kinds.values(), strict=True))
        if dots
    )


def _dot(point: Point, catalog: Catalog, canvas: _Canvas) -> Dot:
    (x, left, right), (y, low, high) = _logits(point.clean), _logits(point.shifted)
    values = (numerals.value(score) for score in (point.clean, point.shifted))
    return Dot(
        canvas.across(x),
        canvas.down(y),
        canvas.across(left),
        canvas.across(right),
        canvas.down(low),
        canvas.down(high),
        f"{catalog.models[point.model].name}: clean {next(values)} %, under the shift {next(values)} %",
    )


def _faint(
    derived: Derived, told: Sequence[_Told], canvas: _Canvas, reported: Mapping[str, Reported]
) -> ReportedDots | None:
    entry = derived.fit.entry if derived.fit is not None else None
    if not told or entry is None or entry.fitted_on is None:
        return None
    source = reported[entry.fitted_on.source].source
    places = [(one.fitted, (canvas.across(one.clean), canvas.down(one.shifted))) for one in told]
    return ReportedDots(
        source.id,
        source.name,
        tuple(place for fitted, place in places if fitted),
        tuple(place for fitted, place in places if not fitted),
    )


def _ticks(axis: LogitAxis, place: Callable[[float], float], gap: float) -> tuple[Tick, ...]:
    """Ticks at round percents; labels only where there is room."""
    found: list[Tick] = []
    last = float("inf")
    for value in axis.ticks():
        at = place(float(logit(value)))
        room = abs(at - last) >= gap
        last = at if room else last
        found.append(Tick(at, f"{100 * value:g}" if room else ""))
    return tuple(found)


def _row(point: Point, catalog: Catalog, cell: CellView) -> ScatterRow:
    foretold = None if cell.value is None or point.shifted.value is None else point.shifted.value - cell.value
    name = catalog.models[point.model].name
    return ScatterRow(name, f"m/{point.model}.html", point.clean, point.shifted, foretold, cell)
