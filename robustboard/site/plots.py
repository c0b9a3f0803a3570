"""Two numbers of every model on a canvas, with the frontier of those that none beats in both.

x is in percent of the width, so that charts stretch; y is in pixels. Labels are pushed apart downwards
and upwards as little as possible, and a thin line leads from a label that moved to its mark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from robustboard.leaderboard.statistics import Direction
from robustboard.site.charts import LEFT, RIGHT, Tick

HEIGHT, TOP, BOTTOM = 340, 26, 292
"""Height of the canvas, and both ends of the y axis, in pixels."""
LABEL_GAP = 15.0
"""Least distance of the base lines of two labels, in pixels."""
MAX_LABELS = 10
LABEL_ALL = 8
"""Up to so many models all have a label; beyond, those on the frontier."""
MAX_TEXT = 24
"""Characters of a label; the whole name stands in the tooltip and in the table."""
X_GAP, Y_GAP = 9.0, 26.0
"""Least distance of tick labels, in percent of the width and in pixels."""
PADDING = 0.06
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)
MOST_TICKS, LEAST_TICKS = 6, 3
DECADE = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))
"""Candidates for ticks of a logarithmic axis, the first that gives enough."""
BELOW, ABOVE = 4.0, 5.0
"""From a mark to the base line of the name at its right, and up to that of a name at its left, in pixels."""
LEADER = 5.0
"""Pixels that a label may move before a line leads to its mark."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One model with both numbers."""

    name: str
    link: str | None
    x: float
    y: float
    x_text: str
    y_text: str


@dataclass(frozen=True, slots=True)
class Linear:
    """Shares of 1, or percents as shares, on a straight axis."""

    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float]) -> Linear:
        """A range that holds all values with some room, at least 2 points wide; inside 0 to 1 if they are."""
        low, high = min(values), max(values)
        room = max(PADDING * (high - low), 0.01)
        start = max(low - room, 0.0) if low >= 0 else low - room
        return cls(start, min(high + room, 1.0) if high <= 1 else high + room)

    def along(self, value: float) -> float:
        """Where a value stands, from 0 to 1."""
        return (value - self.start) / (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Round percents."""
        step = next((s for s in STEPS if (self.end - self.start) / s <= MOST_TICKS), 0.5)
        first, last = math.ceil(self.start / step - 1e-9), math.floor(self.end / step + 1e-9)
        return [(n * step, f"{round(100 * n * step, 6):g}") for n in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Sizes and times, each decade as wide as the next."""

    start: float
    end: float
    text: Callable[[float], str]

    @classmethod
    def around(cls, values: Sequence[float], text: Callable[[float], str]) -> Logarithmic:
        """A range that holds all values, at least a factor of three wide. Values must be above 0."""
        low, high = math.log10(min(values)), math.log10(max(values))
        missing = max(math.log10(3) - (high - low), 0.0) / 2
        room = PADDING * (high - low) + missing + 0.02
        return cls(low - room, high + room, text)

    def along(self, value: float) -> float:
        """Where a value stands, from 0 to 1."""
        return (math.log10(value) - self.start) / (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """1, 2 and 5 of every decade; more of them where the range is short."""
        powers = range(math.floor(self.start), math.ceil(self.end) + 1)
        found: list[float] = []
        for steps in DECADE:
            values = [step * 10.0**power for power in powers for step in steps]
            found = [v for v in values if self.start <= math.log10(v) <= self.end]
            if len(found) >= LEAST_TICKS:
                break
        return [(value, self.text(value)) for value in found]


Scale = Linear | Logarithmic


@dataclass(frozen=True, slots=True)
class Spot:
    """A mark on the canvas."""

    x: float
    y: float
    front: bool
    title: str


@dataclass(frozen=True, slots=True)
class Label:
    """A name beside its mark."""

    text: str
    x: float
    y: float
    anchor: str
    mark: tuple[float, float] | None
    """Where the line from a label that moved ends."""


@dataclass(frozen=True, slots=True)
class Step:
    """A straight part of the frontier, across or upright; what lies below or behind is beaten."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure."""

    id: str
    title: str
    x_title: str
    y_title: str
    spots: tuple[Spot, ...]
    labels: tuple[Label, ...]
    steps: tuple[Step, ...]
    frontier: tuple[Subject, ...]
    """Best in y first; empty where the figure has no frontier."""
    subjects: tuple[Subject, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    left: float = LEFT
    right: float = RIGHT
    top: int = TOP
    bottom: int = BOTTOM
    height: int = HEIGHT


def frontier(subjects: Sequence[Subject], x_better: Direction) -> list[Subject]:
    """Subjects that no other one beats by being at least as good in both numbers and better in one.

    Higher is better in y; best in y first.
    """
    sign = 1.0 if x_better == "higher" else -1.0
    found: list[Subject] = []
    best = -math.inf
    for one in sorted(subjects, key=lambda each: (-each.y, -sign * each.x, each.name)):
        equal = bool(found) and (found[-1].x, found[-1].y) == (one.x, one.y)
        if sign * one.x > best or equal:
            found.append(one)
            best = sign * one.x
    return found


def push_apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places in the same order, at least `gap` apart within [low, high], moved as little as possible.

    Least squares: what is left of each place once its predecessors' gaps are taken off must not fall,
    which is isotonic regression. Where the room is too small, the gap shrinks.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - only pages with labels need it

    if not places:
        return []
    count = len(places)
    gap = min(gap, (high - low) / max(count - 1, 1))
    order = sorted(range(count), key=lambda index: places[index])
    offsets = gap * np.arange(count)
    wanted = np.asarray([places[index] for index in order]) - offsets
    fitted = np.clip(isotonic_regression(wanted).x, low, high - offsets[-1]) + offsets
    found = [0.0] * count
    for index, place in zip(order, fitted.tolist(), strict=True):
        found[index] = round(place, 1)
    return found


def plot(
    ident: str,
    title: str,
    *,
    subjects: Sequence[Subject],
    x_title: str,
    y_title: str,
    x_scale: Scale,
    x_better: Direction,
) -> Plot | None:
    """The figure; None for fewer than two models. No frontier where neither way of x is better."""
    if len(subjects) < 2:  # noqa: PLR2004 - one model has nothing to be compared with
        return None
    y_scale = Linear.around([each.y for each in subjects])

    def across(value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * x_scale.along(value), 2)

    def down(value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * y_scale.along(value), 1)

    front = frontier(subjects, x_better) if x_better != "none" else []
    named = subjects if len(subjects) <= LABEL_ALL else front or subjects
    return Plot(
        id=ident,
        title=title,
        x_title=x_title,
        y_title=y_title,
        spots=tuple(
            Spot(across(s.x), down(s.y), s in front or not front, f"{s.name}: {s.y_text}; {s.x_text}")
            for s in sorted(subjects, key=lambda each: each in front)
        ),
        labels=tuple(_labels(_some(named), across, down)),
        steps=tuple(_steps([(across(s.x), down(s.y)) for s in front])),
        frontier=tuple(front),
        subjects=tuple(sorted(subjects, key=lambda each: (-each.y, each.name))),
        x_ticks=_ticks(x_scale, across, X_GAP),
        y_ticks=_ticks(y_scale, down, Y_GAP),
    )


def _some(subjects: Sequence[Subject]) -> list[Subject]:
    """At most MAX_LABELS, the first and the last among them, the others evenly spread."""
    if len(subjects) <= MAX_LABELS:
        return list(subjects)
    return [subjects[round(n)] for n in np.linspace(0, len(subjects) - 1, MAX_LABELS)]


def _labels(
    subjects: Sequence[Subject], across: Callable[[float], float], down: Callable[[float], float]
) -> list[Label]:
    middle = (LEFT + RIGHT) / 2
    # The stairs come to a mark from the left: a name on that side stands above them.
    wanted = [down(s.y) + (BELOW if across(s.x) < middle else -ABOVE) for s in subjects]
    places = push_apart(wanted, LABEL_GAP, TOP + 4, BOTTOM - 4)
    found = []
    for one, place, best in zip(subjects, places, wanted, strict=True):
        x, y = across(one.x), down(one.y)
        right = x < middle
        moved = abs(place - best) > LEADER
        text = one.name if len(one.name) <= MAX_TEXT else f"{one.name[: MAX_TEXT - 1].rstrip()}…"
        at = round(x + (2.2 if right else -2.2), 2)
        found.append(Label(text, at, place, "start" if right else "end", (x, y) if moved else None))
    return found


def _steps(front: Sequence[tuple[float, float]]) -> list[Step]:
    """The stairs between neighbours of the frontier: level from the better one, then down to the next."""
    found = []
    for (x1, y1), (x2, y2) in pairwise(front):
        found += [Step(x1, y1, x1, y2), Step(x1, y2, x2, y2)]
    return [step for step in found if (step.x1, step.y1) != (step.x2, step.y2)]


def _ticks(scale: Scale, place: Callable[[float], float], gap: float) -> tuple[Tick, ...]:
    """Ticks with labels where there is room."""
    found: list[Tick] = []
    last = math.inf
    for value, text in scale.ticks():
        at = place(value)
        room = abs(at - last) >= gap
        last = at if room else last
        found.append(Tick(at, text if room else ""))
    return tuple(found)
