"""Where marks go: plain geometry for the SVG templates, rounded so that every build gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

LEFT, RIGHT = 10.0, 97.0
"""Left and right end of the plot, in percent of the width: charts stretch, their text does not."""
HEIGHT, TOP, BOTTOM = 270, 12, 222
"""Height of the canvas, and both ends of the y axis, in pixels."""
MIN_LABEL_GAP = 13.0
"""Between labels of the x axis, in percent of the width: room for 8/255 on a phone."""
MARKERS = ("circle", "square", "triangle", "diamond")
STYLES = 6
"""Series styles in the stylesheet."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval at one place; shares of 1."""

    x: float
    value: float
    low: float
    high: float
    label: str
    """The place in words: `clean`, `1/10`."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart."""

    name: str
    points: tuple[Point, ...]
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on the canvas with the ends of its whisker; x in percent, the rest in pixels."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """A series on the canvas."""

    name: str
    link: str | None
    style: int
    marker: str
    marks: tuple[Mark, ...]

    @property
    def segments(self) -> tuple[tuple[Mark, Mark], ...]:
        """Neighbouring points."""
        return tuple(pairwise(self.marks))


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick with its label; no label where it would touch its neighbour's."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Accuracy over something, from 0 to 100 %."""

    title: str
    x_title: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    columns: tuple[str, ...]
    """Headings of the table with the same numbers."""
    rows: tuple[tuple[str, tuple[Point | None, ...]], ...]
    """Name of each series with its points, None where it has none at a heading."""
    left: float = LEFT
    right: float = RIGHT
    bottom: int = BOTTOM
    height: int = HEIGHT


def line_chart(title: str, x_title: str, series: Sequence[Series]) -> LineChart:
    """Lay out lines over a linear axis from 0; the y axis is 0 to 100 %."""
    places = sorted({(point.x, point.label) for one in series for point in one.points})
    largest = max((x for x, _ in places), default=1.0) or 1.0

    def across(x: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * x / largest, 2)

    def down(share: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * share, 1)

    lines = []
    for number, one in enumerate(series):
        marks = tuple(Mark(across(p.x), down(p.value), down(p.low), down(p.high)) for p in one.points)
        style, marker = number % STYLES, MARKERS[number % len(MARKERS)]
        lines.append(Line(one.name, one.link, style, marker, marks))
    return LineChart(
        title=title,
        x_title=x_title,
        lines=tuple(lines),
        x_ticks=_thinned([(across(x), label) for x, label in places]),
        y_ticks=tuple(Tick(down(share / 4), f"{25 * share}") for share in range(5)),
        columns=tuple(label for _, label in places),
        rows=tuple((one.name, _by_place(one, places)) for one in series),
    )


def _by_place(one: Series, places: Sequence[tuple[float, str]]) -> tuple[Point | None, ...]:
    found = {(point.x, point.label): point for point in one.points}
    return tuple(found.get(place) for place in places)


def _thinned(places: Sequence[tuple[float, str]]) -> tuple[Tick, ...]:
    """Ticks at all places; labels only where there is room, the last one always."""
    ticks: list[Tick] = []
    free = float("-inf")
    last = places[-1][0] if places else 0.0
    for at, label in places:
        room = at >= free and (at == last or last - at >= MIN_LABEL_GAP)
        if room:
            free = at + MIN_LABEL_GAP
        ticks.append(Tick(at, label if room else ""))
    return tuple(ticks)


@dataclass(frozen=True, slots=True)
class Whisker:
    """One interval on a horizontal axis; positions in percent of its width."""

    at: float
    low: float
    high: float
    band: tuple[float, float] | None
    """Start and width of the middle half of all models."""

    @property
    def length(self) -> float:
        """Width of the interval."""
        return round(self.high - self.low, 2)


@dataclass(frozen=True, slots=True)
class Axis:
    """The range that whiskers of one column share."""

    start: float
    end: float

    @classmethod
    def around(cls, lows: Sequence[float], highs: Sequence[float]) -> Axis:
        """A round range that holds all intervals, in steps of 5 points within 0 to 100 %."""
        if not lows:
            return cls(0.0, 1.0)
        start = np.floor(min(lows) * 20 - 1e-9) / 20
        end = np.ceil(max(highs) * 20 + 1e-9) / 20
        start, end = max(0.0, float(start)), min(1.0, float(end))
        return cls(start, end) if end > start else cls(0.0, 1.0)

    def place(self, share: float) -> float:
        """Position of a share in percent of the width."""
        return round(100 * (share - self.start) / (self.end - self.start), 2)

    def whisker(
        self, value: float, low: float, high: float, middle: tuple[float, float] | None = None
    ) -> Whisker:
        """A value with its interval, and the middle half of all models where it is known."""
        band = None
        if middle is not None:
            first, last = (min(max(self.place(edge), 0.0), 100.0) for edge in middle)
            band = (first, round(last - first, 2))
        return Whisker(self.place(value), self.place(low), self.place(high), band)

    @property
    def labels(self) -> tuple[str, str]:
        """Both ends in percent."""
        return (f"{self.start * 100:.0f}", f"{self.end * 100:.0f}")


UNIT_AXIS = Axis(0.0, 1.0)


def middle_half(values: Sequence[float]) -> tuple[float, float] | None:
    """First and third quartile; None for fewer than four values."""
    if len(values) < 4:  # noqa: PLR2004 - quarters need four
        return None
    first, third = np.percentile(np.asarray(values, np.float64), [25, 75])
    return float(first), float(third)
