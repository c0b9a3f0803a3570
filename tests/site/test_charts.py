from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.site.charts import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    UNIT_AXIS,
    Axis,
    Point,
    Series,
    line_chart,
    middle_half,
)

SHARES = st.floats(0, 1)


def point(x: float, value: float, label: str = "") -> Point:
    return Point(x, value, value, value, label or str(x))


def test_a_whole_axis_maps_shares_to_percent() -> None:
    found = UNIT_AXIS.whisker(0.5, 0.25, 0.8, (0.4, 0.6))
    assert (found.at, found.low, found.high, found.length, found.band) == (50, 25, 80, 55, (40, 20))


@settings(max_examples=80)
@given(st.lists(st.tuples(SHARES, SHARES).map(sorted), min_size=1, max_size=6))
def test_an_axis_around_intervals_holds_them_in_round_numbers(pairs: list[list[float]]) -> None:
    axis = Axis.around([low for low, _ in pairs], [high for _, high in pairs])
    assert 0 <= axis.start < axis.end <= 1
    assert all(-1e-6 <= axis.place(end) <= 100 + 1e-6 for pair in pairs for end in pair)
    assert all(round(end * 20, 6).is_integer() for end in (axis.start, axis.end))


def test_an_axis_of_nothing_is_whole() -> None:
    assert Axis.around([], []) == UNIT_AXIS


def test_a_line_chart_puts_points_where_they_belong() -> None:
    line = Series("net", (point(0.0, 1.0, "clean"), point(0.1, 0.5, "1/10"), point(0.2, 0.0, "1/5")))
    chart = line_chart("title", "budget", [line])
    marks = chart.lines[0].marks
    assert [mark.x for mark in marks] == [LEFT, (LEFT + RIGHT) / 2, RIGHT]
    assert [mark.y for mark in marks] == [TOP, (TOP + BOTTOM) / 2, BOTTOM]
    assert len(chart.lines[0].segments) == 2
    assert [tick.label for tick in chart.x_ticks] == ["clean", "1/10", "1/5"]
    assert chart.columns == ("clean", "1/10", "1/5")


def test_labels_that_would_touch_are_left_out_but_never_the_last() -> None:
    budgets = [(0.0, "clean"), *((n / 255, f"{n}/255") for n in (1, 2, 4, 8, 16))]
    chart = line_chart("title", "budget", [Series("net", tuple(point(x, 0.5, name) for x, name in budgets))])
    labels = [tick.label for tick in chart.x_ticks]
    assert labels[0] == "clean"
    assert labels[-1] == "16/255"
    shown = [tick.at for tick in chart.x_ticks if tick.label]
    assert all(after - before >= 13 for before, after in pairwise(shown))


def test_the_table_has_a_gap_where_a_line_has_no_point() -> None:
    chart = line_chart(
        "title", "budget", [Series("a", (point(0, 1), point(1, 1))), Series("b", (point(1, 0.5),))]
    )
    assert [points[0] is None for _, points in chart.rows] == [False, True]


def test_lines_differ_in_more_than_colour() -> None:
    chart = line_chart("title", "budget", [Series(name, (point(0, 1), point(1, 1))) for name in "abcdef"])
    assert len({(line.style, line.marker) for line in chart.lines}) == 6


def test_the_middle_half_needs_four_models() -> None:
    assert middle_half([0.1, 0.2, 0.3]) is None
    assert middle_half([0.0, 0.1, 0.2, 0.3, 0.4]) == pytest.approx((0.1, 0.3))
