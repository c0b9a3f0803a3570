from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robustboard.leaderboard.compare import compare, p_text
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, pack
from robustboard.runners.record import Result

N = 1000


def outcomes(results: dict[Cell, Result], **rights: dict[str, np.ndarray[Any, Any]]) -> dict[Cell, PerImage]:
    """Per-image outcomes, by model, condition and image; all of the same images."""
    return {
        cell: PerImage(
            key_digest=result.key_digest,
            images=N,
            samples="s",
            right={condition: pack(right) for condition, right in rights[cell.model].items()},
        )
        for cell, result in results.items()
        if cell.model in rights
    }


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
    bits = outcomes(results, one={"clean": first(850)}, two={"clean": first(830)})
    together = compare("one", "two", results, bits).differences[0]
    assert together.pairs is not None
    counts = (together.pairs.both, together.pairs.only_a, together.pairs.only_b, together.pairs.neither)
    assert counts == (830, 20, 0, 150)
    assert together.pairs.p_value == pytest.approx(2 / 2**20)
    assert together.verdict == "clear"
    assert together.difference == pytest.approx(0.02)


def test_equal_accuracy_on_other_images_is_a_tie(pair: Any) -> None:
    results = by_cell(pair.result("one", correct=500), pair.result("two", correct=500))
    bits = outcomes(results, one={"clean": first(500)}, two={"clean": ~first(500)})
    found = compare("one", "two", results, bits).differences[0]
    assert found.pairs is not None
    assert (found.pairs.only_a, found.pairs.only_b, found.pairs.p_value) == (500, 500, 1.0)
    assert found.verdict == "tied"


def test_an_invalidated_result_decides_nothing(pair: Any) -> None:
    results = by_cell(pair.result("one", correct=900), pair.result("two", correct=500))
    bits = outcomes(results, one={"clean": first(900)}, two={"clean": first(500)})
    wrong = {Cell("two", "clean-v1", "squares"): "another crop (A tester, 2026-02-03)"}
    found = compare("one", "two", results, bits, wrong=wrong).differences[0]
    assert (found.verdict, found.pairs, found.difference) == ("unknown", None, None)
    assert found.reason == "two is invalidated: another crop (A tester, 2026-02-03)"
    assert found.b is not None
    assert found.b.correct == 500


def test_intervals_that_part_are_a_clear_difference(pair: Any) -> None:
    results = by_cell(pair.result("one", correct=900), pair.result("two", correct=500))
    found = compare("one", "two", results).differences[0]
    assert (found.verdict, found.reason) == ("clear", "intervals apart")
    assert compare("two", "one", results).differences[0].difference == pytest.approx(-0.4)


def test_p_values_are_adjusted_for_the_number_of_scores_compared(pair: Any) -> None:
    """9 images to 1 is clear alone (p = 0.021), and tied where three scores are compared (Holm: 0.064)."""
    ten = (np.arange(N) == 0) | first(0), (np.arange(N) > 0) & first(10)
    results = by_cell(*(pair.result(name, correct=9 if name == "two" else 1) for name in ("one", "two")))
    alone = compare("one", "two", results, outcomes(results, one={"clean": ten[0]}, two={"clean": ten[1]}))
    assert alone.differences[0].verdict == "clear"
    assert alone.differences[0].adjusted == pytest.approx(0.021484375)
    several = by_cell(
        *(pair.result(name, "pgd-v1", correct=9, falling=[9, 9, 9, 9]) for name in ("one", "two"))
    )
    worst = {f"linf {budget}": first(N) for budget in ("1/20", "1/10", "1/5", "3/10")}
    bits = outcomes(several, one={"clean": ten[0], **worst}, two={"clean": ten[1], **worst})
    found = compare("one", "two", several, bits, every_score=True).differences
    assert {(item.verdict, item.pairs is None) for item in found} == {("tied", False)}
    assert found[0].adjusted == pytest.approx(min(1, 6 * 0.021484375))


def test_intervals_may_come_from_images_drawn_again(pair: Any) -> None:
    """Both intervals of 20 images to 0 of 1,000 agree to 0.2 points; the bootstrap's is never below 0."""
    results = by_cell(pair.result("one", correct=850), pair.result("two", correct=830))
    bits = outcomes(results, one={"clean": first(850)}, two={"clean": first(830)})
    closed = compare("one", "two", results, bits).differences[0].pairs
    drawn = compare("one", "two", results, bits, bootstrap=True).differences[0].pairs
    assert closed is not None
    assert drawn is not None
    assert (drawn.p_value, drawn.difference) == (closed.p_value, closed.difference)
    assert (drawn.low, drawn.high) != (closed.low, closed.high)
    assert (drawn.low, drawn.high) == pytest.approx((closed.low, closed.high), abs=2e-3)


def test_outcomes_of_other_images_are_not_paired(pair: Any) -> None:
    results = by_cell(pair.result("one", correct=850), pair.result("two", correct=830))
    bits = outcomes(results, one={"clean": first(850)}, two={"clean": first(830)})
    two = Cell("two", "clean-v1", "squares")
    bits[two] = bits[two].model_copy(update={"samples": "others"})
    assert compare("one", "two", results, bits).differences[0].reason == "intervals overlap"


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
    bits = outcomes(results, one={"clean": first(1)}, two={"clean": first(1)})
    found = compare("one", "two", results, bits).differences[0]
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
            "-",
            "clear (intervals apart)",
        )
    ]
    assert len(compare("one", "two", results, every_score=True).differences) == 6


def test_p_text() -> None:
    assert [p_text(value) for value in (0.0004, 0.0123, 1.0)] == ["< 0.001", "0.012", "1"]
