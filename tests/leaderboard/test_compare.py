from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robustboard.leaderboard.compare import Outcomes, compare, outcomes, p_text, paired
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Result

N = 1000


def table(rights: dict[str, np.ndarray[Any, Any]], ids: list[str] | None = None) -> PredictionTable:
    """Label 0 everywhere; class 0 is predicted where an image is right, class 1 where it is wrong."""
    parts = []
    for condition, right in rights.items():
        names = ids or [f"{number:05}" for number in range(right.size)]
        parts.append(
            PredictionTable.of(
                sample_id=names,
                condition=condition,
                label=np.zeros(right.size),
                predicted=np.where(right, 0, 1),
                confidence=np.full(right.size, 0.9),
                distance=np.zeros(right.size),
                status=["ok"] * right.size,
            )
        )
    return PredictionTable.concat(parts)


def by_cell(*results: Result) -> dict[Cell, Result]:
    return {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}


@pytest.fixture
def pair(world: Any) -> Any:
    world.add_dataset("squares", size=N)
    world.add_model("one")
    world.add_model("two")
    return world


def first(count: int) -> np.ndarray[Any, Any]:
    return np.arange(N) < count


def test_pairs_separate_what_intervals_cannot(pair: Any) -> None:
    """850 and 830 of 1000: intervals overlap, yet every image that two gets right, one gets right as well."""
    results = by_cell(pair.result("one", correct=850), pair.result("two", correct=830))
    alone = compare("one", "two", results).differences[0]
    assert (alone.verdict, alone.reason, alone.pairs) == ("tied", "intervals overlap", None)
    tables = {"one": table({"clean": first(850)}), "two": table({"clean": first(830)})}
    together = compare("one", "two", results, lambda result: tables[result.key.model]).differences[0]
    assert together.pairs is not None
    counts = (together.pairs.both, together.pairs.only_a, together.pairs.only_b, together.pairs.neither)
    assert counts == (830, 20, 0, 150)
    assert together.pairs.p_value == pytest.approx(2 / 2**20)
    assert together.verdict == "clear"
    assert together.difference == pytest.approx(0.02)


def test_equal_accuracy_on_other_images_is_a_tie(pair: Any) -> None:
    results = by_cell(pair.result("one", correct=500), pair.result("two", correct=500))
    tables = {"one": table({"clean": first(500)}), "two": table({"clean": ~first(500)})}
    found = compare("one", "two", results, lambda result: tables[result.key.model]).differences[0]
    assert found.pairs is not None
    assert (found.pairs.only_a, found.pairs.only_b, found.pairs.p_value) == (500, 500, 1.0)
    assert found.verdict == "tied"


def test_intervals_that_part_are_a_clear_difference(pair: Any) -> None:
    results = by_cell(pair.result("one", correct=900), pair.result("two", correct=500))
    found = compare("one", "two", results).differences[0]
    assert (found.verdict, found.reason) == ("clear", "intervals apart")
    assert compare("two", "one", results).differences[0].difference == pytest.approx(-0.4)


def test_attacked_images_count_only_when_right_before_and_after() -> None:
    rights = {"clean": first(800), "linf 1/10": np.arange(N) >= 700}
    found = outcomes(table(rights), "robust_accuracy", "linf 1/10")
    assert found is not None
    assert int(found.right.sum()) == 100


def test_worst_noise_needs_every_draw() -> None:
    draws = {f"uniform 1/10 draw {draw}": first(900 - 100 * draw) for draw in range(3)}
    rights = {"clean": first(N), **draws, "uniform 1/5 draw 0": first(0)}
    found = outcomes(table(rights), "noise_accuracy_worst", "uniform 1/10")
    assert found is not None
    assert int(found.right.sum()) == 700


def test_images_of_no_class_are_not_compared() -> None:
    """A detection run tells how many images of its dataset are right; strangers are not wrong ones."""
    rows = PredictionTable.of(
        sample_id=["in/1", "in/2", "out/1"],
        condition="clean",
        label=np.array([0, 0, -1]),
        predicted=np.array([0, 1, 0]),
        confidence=np.ones(3),
        distance=np.zeros(3),
        status=["ok", "ok", "outside"],
    )
    found = outcomes(rows, "clean_accuracy", "clean")
    assert found is not None
    assert (found.ids, found.right.tolist()) == (("in/1", "in/2"), [True, False])


def test_outcomes_do_not_depend_on_the_order_of_rows() -> None:
    right = np.asarray([True, False, True, True])
    straight = outcomes(table({"clean": right}, ["a", "b", "c", "d"]), "clean_accuracy", "clean")
    turned = outcomes(table({"clean": right[::-1]}, ["d", "c", "b", "a"]), "clean_accuracy", "clean")
    assert straight is not None
    assert turned is not None
    assert straight.ids == turned.ids
    assert straight.right.tolist() == turned.right.tolist()


@pytest.mark.parametrize("metric", ["noise_accuracy", "area_under_curve", "min_accuracy", "robust_accuracy"])
def test_scores_that_are_no_count_of_images_have_no_pairs(metric: str) -> None:
    assert outcomes(table({"clean": first(5)}), metric, "linf 1/10") is None


def test_other_images_are_refused() -> None:
    one = Outcomes(("a", "b"), np.asarray([True, True]))
    with pytest.raises(ValueError, match="same images"):
        paired(one, Outcomes(("a", "c"), np.asarray([True, True])))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data_fingerprint": "9" * 64}, "not the same image bytes"),
        ({"protocol_digest": "9" * 64}, "not the same protocol"),
        ({"labels_digest": "9" * 64}, "not the same labels"),
        ({"precision": "bfloat16"}, "not the same precision"),
    ],
)
def test_what_was_not_measured_alike_is_not_compared(pair: Any, changes: dict[str, str], reason: str) -> None:
    results = by_cell(pair.result("one"), pair.result("two", correct=100, **changes))
    found = compare("one", "two", results, lambda _: table({"clean": first(1)})).differences[0]
    assert (found.verdict, found.reason, found.difference) == ("unknown", reason, None)


def test_missing_and_undefined_numbers_have_no_difference(pair: Any) -> None:
    results = by_cell(
        pair.result("one"),
        pair.result("two", undefined=["clean_accuracy"]),
        pair.result("one", "pgd-v1"),
    )
    clean, attacked = compare("one", "two", results).differences
    assert (clean.verdict, clean.reason) == ("unknown", "made up to be undefined")
    assert (attacked.verdict, attacked.reason) == ("unknown", "only one of them was run")


def test_text_has_a_row_for_every_headline_or_every_score(pair: Any) -> None:
    results = by_cell(
        pair.result("one", "pgd-v1", correct=900, falling=[800, 700, 600, 500]),
        pair.result("two", "pgd-v1", correct=900, falling=[800, 100, 0, 0]),
    )
    found = compare("one", "two", results)
    assert found.text_headings()[3:5] == ("one", "two")
    assert found.text_rows() == [
        (
            "pgd-v1",
            "squares",
            "robust_accuracy @ linf 1/10",
            "70.0",
            "10.0",
            "+60.0",
            "-",
            "clear (intervals apart)",
        )
    ]
    assert len(compare("one", "two", results, every_score=True).differences) == 6


def test_p_text() -> None:
    assert [p_text(value) for value in (0.0004, 0.0123, 1.0)] == ["< 0.001", "0.012", "1"]
