from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.site.charts import LEFT, RIGHT
from robustboard.site.plots import (
    BOTTOM,
    MAX_LABELS,
    TOP,
    Linear,
    Logarithmic,
    Plot,
    Subject,
    frontier,
    plot,
    push_apart,
)

UNIT = st.floats(0, 1).map(lambda value: round(value, 2))


def subject(name: str, x: float, y: float) -> Subject:
    return Subject(name, None, x, y, f"x {x}", f"y {y}")


def drawn(subjects: list[Subject], x_better: Any = "higher") -> Plot:
    found = plot(
        "id",
        "title",
        subjects=subjects,
        x_title="x",
        y_title="y",
        x_scale=Linear.around([each.x for each in subjects]),
        x_better=x_better,
    )
    assert found is not None
    return found


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(UNIT, UNIT), max_size=25), st.sampled_from(["higher", "lower"]))
def test_the_frontier_is_what_no_other_one_beats(pairs: list[tuple[float, float]], x_better: Any) -> None:
    """Against the definition, spelled out over all pairs."""
    subjects = [subject(str(number), x, y) for number, (x, y) in enumerate(pairs)]
    sign = 1 if x_better == "higher" else -1

    def beats(one: Subject, other: Subject) -> bool:
        gain = (sign * (one.x - other.x), one.y - other.y)
        return min(gain) >= 0 and max(gain) > 0

    expected = {each.name for each in subjects if not any(beats(one, each) for one in subjects)}
    found = frontier(subjects, x_better)
    assert {each.name for each in found} == expected
    assert [each.y for each in found] == sorted((each.y for each in found), reverse=True)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.floats(30, 290), max_size=12))
def test_labels_are_apart_in_their_order_and_inside(places: list[float]) -> None:
    found = push_apart(places, 15, 30, 290)
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = [found[index] for index in order]
    assert all(after - before >= 15 - 0.11 for before, after in pairwise(moved))
    assert all(29.9 <= place <= 290.1 for place in moved)


def test_labels_with_room_stay_where_they_are_and_two_that_collide_part_evenly() -> None:
    assert push_apart([50, 100, 200], 15, 0, 300) == [50, 100, 200]
    assert push_apart([100, 101], 15, 0, 300) == [93, 108]
    assert push_apart([], 15, 0, 300) == []


def test_a_gap_shrinks_where_there_is_no_room() -> None:
    assert push_apart([5, 5, 5, 5], 15, 0, 30) == [0, 10, 20, 30]


def test_marks_stand_where_their_numbers_are() -> None:
    found = drawn([subject("a", 0.2, 0.8), subject("b", 0.6, 0.4), subject("c", 0.4, 0.3)])
    spots = {spot.title.partition(":")[0]: spot for spot in found.spots}
    assert spots["a"].x < spots["c"].x < spots["b"].x
    assert spots["a"].y < spots["b"].y < spots["c"].y
    assert all(LEFT <= spot.x <= RIGHT and TOP <= spot.y <= BOTTOM for spot in found.spots)
    assert {name: spot.front for name, spot in spots.items()} == {"a": True, "b": True, "c": False}
    assert [each.name for each in found.frontier] == ["a", "b"]
    first, second = found.steps
    assert (first.x1, first.x2, second.y1, second.y2) == (
        spots["a"].x,
        spots["a"].x,
        spots["b"].y,
        spots["b"].y,
    )


def test_of_many_models_only_some_of_the_frontier_have_a_label() -> None:
    front = [subject(f"f{n:02}", n / 40, 1 - n / 40) for n in range(30)]
    found = drawn([*front, *(subject(f"r{n}", 0.0, n / 100) for n in range(20))])
    names = [label.text for label in found.labels]
    assert len(names) == MAX_LABELS
    assert {"f00", "f29"} <= set(names)
    assert not [name for name in names if name.startswith("r")]
    assert len(found.subjects) == 50


def test_long_names_are_cut_in_labels_alone() -> None:
    found = drawn([subject("a" * 60, 0.1, 0.2), subject("b", 0.3, 0.4)])
    assert max(len(label.text) for label in found.labels) == 24
    assert "a" * 60 in {each.name for each in found.subjects}


def test_a_figure_without_a_better_way_has_no_frontier_and_names_all() -> None:
    found = drawn([subject("a", 0.1, 0.2), subject("b", 0.3, 0.1)], "none")
    assert (found.frontier, found.steps) == ((), ())
    assert {label.text for label in found.labels} == {"a", "b"}


def test_one_model_is_no_figure() -> None:
    one = [subject("a", 0.1, 0.2)]
    assert plot("i", "t", subjects=one, x_title="", y_title="", x_scale=Linear(0, 1), x_better="none") is None


@settings(max_examples=80, deadline=None)
@given(st.lists(UNIT, min_size=1, max_size=8))
def test_a_straight_axis_holds_its_values_and_has_round_ticks(values: list[float]) -> None:
    axis = Linear.around(values)
    assert all(-1e-9 <= axis.along(value) <= 1 + 1e-9 for value in values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(float(text) == pytest.approx(100 * value) for value, text in ticks)
    assert all(-1e-6 <= axis.along(value) <= 1 + 1e-6 for value, _ in ticks)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=8))
def test_a_logarithmic_axis_holds_its_values(values: list[float]) -> None:
    axis = Logarithmic.around(values, str)
    assert all(0 <= axis.along(value) <= 1 for value in values)
    assert axis.end - axis.start >= 0.3
    assert axis.ticks()
