"""Scores from prediction tables that can be counted by hand."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from robustboard.benchmarks.entries import (
    Attack,
    AttackSetting,
    BenchmarkEntry,
    Clean,
    Ladder,
    Noise,
    Procedure,
    Scope,
)
from robustboard.errors import StoreError
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.record import Score
from robustboard.runners.scoring import scores

BUDGETS = tuple(Fraction(each) for each in ("1/20", "1/10", "1/5"))
SCOPE = Scope(datasets=("digits",))
LADDER = Ladder(datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[1])
STEPS = AttackSetting(datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[1])
ONE = AttackSetting(datasets=("digits",), budgets=BUDGETS[:1], headline=BUDGETS[0])
CLEAN = Clean(kind="clean", settings=(SCOPE,))
ATTACK = Attack(kind="attack", attack="pgd", norm="linf", settings=(STEPS,))
SINGLE = Attack(kind="attack", attack="pgd", norm="linf", settings=(ONE,))
NOISE = Noise(kind="noise", distributions=("uniform",), draws=2, settings=(LADDER,))


def entry(procedure: Procedure) -> BenchmarkEntry:
    return BenchmarkEntry(
        id="test-v1",
        name="Test",
        summary="A protocol.",
        procedure=procedure,
        source="here",
        added=date(2026, 1, 1),
    )


def rows(
    condition: str,
    right: list[bool] | list[int],
    *,
    labels: list[int] | None = None,
    status: list[SampleStatus] | None = None,
    ids: list[str] | None = None,
) -> PredictionTable:
    """One condition in which images are right (predicted = label) or not."""
    count = len(right)
    label = np.array(labels or [0] * count)
    return PredictionTable.of(
        sample_id=ids or [f"image-{row:03d}" for row in range(count)],
        condition=condition,
        label=label,
        predicted=np.where(np.array(right, np.bool_), label, label + 1),
        confidence=np.full(count, 0.5),
        distance=np.zeros(count),
        status=status or ["ok"] * count,
    )


def score(procedure: Procedure, *tables: PredictionTable) -> dict[str, Score]:
    found, _ = scores(entry(procedure), procedure.settings[0], PredictionTable.concat(tables))
    named = {f"{each.metric}@{each.condition}": each for each in found}
    assert len(named) == len(found)
    return named


def test_clean_accuracy_carries_count_and_interval() -> None:
    found = score(CLEAN, rows("clean", [1] * 8 + [0] * 2))["clean_accuracy@clean"]
    assert (found.value, found.correct, found.n, found.status) == (0.8, 8, 10, "ok")
    assert (found.low, found.high) == pytest.approx(proportion_confint(8, 10, method="wilson"), abs=1e-12)


def test_balanced_accuracy_is_over_the_classes_that_occur() -> None:
    """B036: 0.75 and 0.8333."""
    table = rows("clean", [1, 1, 0, 1], labels=[0, 1, 1, 3])
    found = score(CLEAN, table)
    assert found["clean_accuracy@clean"].value == 0.75
    balanced = found["balanced_accuracy@clean"]
    assert balanced.value == pytest.approx(0.8333, abs=1e-4)
    assert balanced.correct is None
    assert balanced.low is not None
    assert balanced.high is not None
    assert 0 < balanced.low < 5 / 6 < balanced.high < 1


def test_robust_accuracy_is_over_all_and_success_over_the_right_ones() -> None:
    """B043: clean right on 7 of 10, 3 of them broken; a wrong image put right by chance stays wrong."""
    clean = rows("clean", [1] * 7 + [0] * 3)
    attacked = rows("linf 1/20", [1] * 4 + [0] * 3 + [0, 0, 1])
    found = score(SINGLE, clean, attacked)
    robust, success = found["robust_accuracy@linf 1/20"], found["attack_success_rate@linf 1/20"]
    assert (robust.value, robust.correct, robust.n, robust.direction) == (0.4, 4, 10, "higher")
    assert success.value == pytest.approx(3 / 7)
    assert (success.correct, success.n, success.direction) == (3, 7, "lower")
    assert found["clean_accuracy@clean"].value == 0.7


def test_success_is_undefined_where_nothing_was_right() -> None:
    found = score(SINGLE, rows("clean", [0, 0]), rows("linf 1/20", [0, 0], status=["already-wrong"] * 2))
    success = found["attack_success_rate@linf 1/20"]
    assert (success.value, success.low, success.high, success.n) == (None, None, None, 0)
    assert success.status == "undefined"
    assert success.reason == "no image was classified right before the attack"
    assert found["robust_accuracy@linf 1/20"].value == 0


def test_minimum_maximum_and_area_over_budgets() -> None:
    """Accuracies 0.9, 0.5, 0.2 at 1/20, 1/10, 1/5: area (0.7 * 0.05 + 0.35 * 0.1) / 0.15."""
    tables = [rows("clean", [1] * 9 + [0])]
    for budget, right in zip(BUDGETS, (9, 5, 2), strict=True):
        tables.append(rows(f"linf {budget}", [1] * right + [0] * (10 - right)))
    found = score(ATTACK, *tables)
    assert found["max_accuracy@linf"].value == 0.9
    assert found["min_accuracy@linf"].value == 0.2
    assert found["min_accuracy@linf"].correct == 2
    area = found["area_under_curve@linf"]
    assert area.value == pytest.approx((0.7 * 0.05 + 0.35 * 0.1) / 0.15)
    assert area.low is not None
    assert area.high is not None
    assert 0.2 < area.low < (area.value or 0) < area.high < 0.9
    _, headline = scores(entry(ATTACK), STEPS, PredictionTable.concat(tables))
    assert headline == "robust_accuracy@linf 1/10"
    assert headline in found


def test_no_area_under_one_budget() -> None:
    found = score(SINGLE, rows("clean", [1, 1]), rows("linf 1/20", [1, 0]))
    area = found["area_under_curve@linf"]
    assert (area.value, area.reason) == (None, "it needs two or more budgets")
    assert found["min_accuracy@linf"].value == found["max_accuracy@linf"].value == 0.5


def test_a_blind_attack_proves_nothing() -> None:
    """B046: no gradient for any attacked image: undefined, never robust = clean."""
    status: list[SampleStatus] = ["no-gradient", "no-gradient", "already-wrong"]
    found = score(SINGLE, rows("clean", [1, 1, 0]), rows("linf 1/20", [1, 1, 0], status=status))
    for name in (
        "robust_accuracy@linf 1/20",
        "attack_success_rate@linf 1/20",
        "min_accuracy@linf",
        "max_accuracy@linf",
        "area_under_curve@linf",
    ):
        assert found[name].value is None
        assert found[name].reason is not None
    assert found["zero_gradient_share@linf 1/20"].value == 1
    assert found["clean_accuracy@clean"].value == pytest.approx(2 / 3)


def test_a_partly_blind_attack_says_how_blind_it_was() -> None:
    status: list[SampleStatus] = ["no-gradient", "ok", "ok", "ok", "already-wrong"]
    found = score(SINGLE, rows("clean", [1, 1, 1, 1, 0]), rows("linf 1/20", [1, 0, 1, 1, 0], status=status))
    assert found["robust_accuracy@linf 1/20"].value == 0.6
    share = found["zero_gradient_share@linf 1/20"]
    assert (share.value, share.correct, share.n) == (0.25, 1, 4)


def test_noise_is_the_mean_over_draws_and_the_worst_of_them() -> None:
    tables = [rows("clean", [1, 1, 1, 0])]
    for budget in BUDGETS:
        tables.append(rows(f"uniform {budget} draw 0", [1, 1, 0, 0]))
        tables.append(rows(f"uniform {budget} draw 1", [1, 0, 0, 1]))
    found = score(NOISE, *tables)
    mean, worst = found["noise_accuracy@uniform 1/10"], found["noise_accuracy_worst@uniform 1/10"]
    assert (mean.value, mean.n, mean.correct) == (0.5, 4, None)
    assert (worst.value, worst.n, worst.correct) == (0.25, 4, 1)
    assert found["area_under_curve@uniform"].value == pytest.approx(0.5)
    assert found["min_accuracy@uniform"].value == 0.5
    assert scores(entry(NOISE), LADDER, PredictionTable.concat(tables))[1] == "noise_accuracy@uniform 1/10"


def test_draws_that_agree_are_not_more_images() -> None:
    """The interval of two equal draws over 100 images is that of 100 images, not of 200."""
    right = [1] * 70 + [0] * 30
    tables = [rows("clean", right)]
    for budget in BUDGETS:
        tables += [rows(f"uniform {budget} draw {draw}", right) for draw in range(2)]
    found = score(NOISE, *tables)["noise_accuracy@uniform 1/20"]
    expected = proportion_confint(70, 100, method="wilson")
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)


def test_skipped_images_are_left_out() -> None:
    status: list[SampleStatus] = ["ok", "skipped", "ok"]
    table = PredictionTable.of(
        sample_id=["a", "b", "c"],
        condition="clean",
        label=np.array([1, 1, 1]),
        predicted=np.array([1, -1, 0]),
        confidence=np.zeros(3),
        distance=np.zeros(3),
        status=status,
    )
    found = score(CLEAN, table)["clean_accuracy@clean"]
    assert (found.correct, found.n) == (1, 2)


def test_no_measured_image_gives_reasons_instead_of_numbers() -> None:
    table = PredictionTable.of(
        sample_id=["a"],
        condition="clean",
        label=np.array([1]),
        predicted=np.array([-1]),
        confidence=np.zeros(1),
        distance=np.zeros(1),
        status=["skipped"],
    )
    for each in score(CLEAN, table).values():
        assert (each.value, each.n, each.reason) == (None, 0, "no image was measured")


def test_rows_may_come_in_any_order() -> None:
    """Shards finish in any order; images are matched by id."""
    names = [f"image-{row:03d}" for row in range(4)]
    clean = rows("clean", [1, 1, 0, 0], ids=names)
    attacked = rows("linf 1/20", [0, 0, 0, 1], ids=names[::-1])
    found = score(SINGLE, attacked, clean)
    assert found["robust_accuracy@linf 1/20"].correct == 1
    assert found["attack_success_rate@linf 1/20"].correct == 1


@pytest.mark.parametrize(
    "tables",
    [
        [rows("clean", [1, 1])],
        [rows("clean", [1, 1]), rows("linf 1/20", [1, 1]), rows("linf 1/10", [1, 1])],
        [rows("clean", [1, 1]), rows("linf 1/20", [1])],
        [rows("clean", [1, 1]), rows("linf 1/20", [1, 1], ids=["x", "y"])],
        [rows("clean", [1, 1]), rows("linf 1/20", [1, 1], labels=[0, 5])],
    ],
    ids=["missing", "surplus", "fewer images", "other images", "other labels"],
)
def test_tables_that_are_not_the_protocols_are_refused(tables: list[PredictionTable]) -> None:
    with pytest.raises(StoreError, match="predictions"):
        score(SINGLE, *tables)


@given(
    st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_robust_is_never_above_clean_and_everything_is_in_its_interval(
    images: list[tuple[bool, ...]],
) -> None:
    names = ("clean", *(f"linf {budget}" for budget in BUDGETS))
    tables = [rows(name, [image[place] for image in images]) for place, name in enumerate(names)]
    found = score(ATTACK, *tables)
    clean = found["clean_accuracy@clean"].value
    assert clean is not None
    for each in found.values():
        if each.value is None:
            assert each.reason
            continue
        assert each.low is not None
        assert each.high is not None
        assert 0 <= each.low <= each.value <= each.high <= 1
        if each.correct is not None:
            assert each.value == each.correct / each.n
        if each.metric in {"robust_accuracy", "min_accuracy", "max_accuracy", "area_under_curve"}:
            assert each.value <= clean + 1e-12
            assert each.n == len(images)
