"""Flags of one result, raised and not raised, from tables and scores made up for the purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustboard.benchmarks.entries import (
    Attack,
    AttackSetting,
    BenchmarkEntry,
    Cascade,
    CascadeStep,
    Ladder,
    Procedure,
    WorstCase,
)
from robustboard.runners.flags import (
    MEANINGS,
    NOTES,
    classes_needed,
    doubts,
    flagged,
    flags,
    in_order,
    is_random,
    percent,
)
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Checks, FlagName, SanityFlag
from robustboard.runners.scoring import scores
from tests.runners.measuring import CLEAN

BUDGETS = (Fraction(1, 20), Fraction(1, 10))
LADDER = Ladder(datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[1])
SETTING = AttackSetting(
    datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[1], steps=10, relative_step=Fraction(1, 4)
)
PGD = Attack(kind="attack", attack="pgd", norm="linf", settings=(SETTING,))
FGSM = Attack(
    kind="attack",
    attack="fgsm",
    norm="linf",
    settings=(SETTING.model_copy(update={"steps": 1, "relative_step": Fraction(1)}),),
)
CHECKS = Checks(images=48, spread=0.0, softmax=False, inner_gradients=False, classes=10)


def cascade(*names: Any, **more: Any) -> Cascade:
    steps = tuple(CascadeStep(attack=name, **more) for name in names)
    return Cascade(kind="cascade", norm="linf", attacks=steps, settings=(LADDER,))


def joined(*of: str) -> WorstCase:
    return WorstCase(kind="worst-case", norm="linf", of=of, settings=(LADDER,))


def entry(procedure: Procedure) -> BenchmarkEntry:
    return BenchmarkEntry(
        id="made-v1", name="Made", summary="x", procedure=procedure, source="test", added=date(2026, 1, 1)
    )


def table(n: int, rows: Mapping[str, Sequence[str]], blind: int = 0) -> PredictionTable:
    """All n images right when clean; of each condition those broken, by the attack named; some blind."""
    ids = [f"image-{row:05}" for row in range(n)]
    zeros = np.zeros(n)
    parts = []
    for condition, attacks in {"clean": [], **rows}.items():
        predicted = np.zeros(n, np.int64)
        predicted[: len(attacks)] = 1
        status = ["ok"] * n
        if condition != "clean":
            status[n - blind :] = ["no-gradient"] * blind
        parts.append(
            PredictionTable.of(
                sample_id=ids,
                condition=condition,
                label=np.zeros(n, np.int64),
                predicted=predicted,
                confidence=zeros,
                distance=zeros,
                status=status,
                attack=[*attacks, *[""] * (n - len(attacks))],
            )
        )
    return PredictionTable.concat(parts)


def raised(
    procedure: Procedure, made: PredictionTable, checks: Checks | None = None
) -> tuple[SanityFlag, ...]:
    benchmark, setting = entry(procedure), procedure.settings[0]
    found, _ = scores(benchmark, setting, made)
    return flags(benchmark, setting, found, made, checks)


def ladder(low: Sequence[str], high: Sequence[str]) -> dict[str, Sequence[str]]:
    return {"linf 1/20": low, "linf 1/10": high}


FALLING = table(100, ladder(["pgd"] * 10, ["pgd"] * 20))
FALLING_CASCADE = table(100, ladder(["apgd-targeted"] * 10, ["apgd-targeted"] * 20))


def of_model(procedure: Procedure = PGD, made: PredictionTable = FALLING, **changes: Any) -> list[SanityFlag]:
    return list(raised(procedure, made, CHECKS.model_copy(update=changes)))


def test_every_flag_has_a_meaning_and_no_sound_result_has_a_flag() -> None:
    assert list(MEANINGS) == list(get_args(FlagName))
    assert set(get_args(FlagName)) >= NOTES
    assert raised(PGD, FALLING, CHECKS) == raised(PGD, FALLING, None) == ()


@pytest.mark.parametrize(("spread", "seen"), [(1e-4, False), (1.1e-4, True)])
def test_logits_that_move_by_more_than_a_ten_thousandth_are_random(spread: float, *, seen: bool) -> None:
    found = of_model(spread=spread)
    assert [flag.name for flag in found] == (["non-deterministic"] if seen else [])
    assert is_random(CHECKS.model_copy(update={"spread": spread})) == seen
    for flag in found:
        assert (flag.condition, flag.value, flag.limit) == (None, spread, 1e-4)


def test_a_class_that_flips_is_random_however_close_the_logits() -> None:
    (flag,) = of_model(spread=1e-6, flips=3)
    assert (flag.name, flag.value, flag.limit) == ("non-deterministic", 3 / 48, 0.0)
    assert "another class for 3" in flag.reason


@pytest.mark.parametrize(
    ("change", "name"),
    [({"softmax": True}, "softmax-output"), ({"inner_gradients": True}, "inner-gradients")],
)
def test_what_the_model_does_is_a_flag_of_the_model(change: dict[str, bool], name: str) -> None:
    (flag,) = raised(PGD, FALLING, CHECKS.model_copy(update=change))
    assert (flag.name, flag.condition) == (name, None)
    clean = table(10, {})
    assert [each.name for each in raised(CLEAN, clean, CHECKS.model_copy(update=change))] == [name]


@pytest.mark.parametrize(
    ("procedure", "classes", "missing"),
    [
        (cascade("apgd-targeted"), 10, 0),
        (cascade("apgd-targeted"), 9, 1),
        (cascade("fab-targeted", targets=3), 4, 0),
        (cascade("apgd-targeted", targets=1), 3, 1),
        (cascade("apgd-dlr"), 2, 1),
        (cascade("apgd-ce"), 2, 0),
        (PGD, 2, 0),
        (CLEAN, 2, 0),
    ],
)
def test_classes_that_a_protocol_aims_at_and_that_are_not_there_are_noted(
    procedure: Procedure, classes: int, missing: int
) -> None:
    """B039: nine targets need ten classes, DLR three, targeted DLR four."""
    made = table(10, {} if procedure is CLEAN else ladder([], ["x"]))
    found = [f for f in of_model(procedure, made, classes=classes) if f.name == "few-classes"]
    assert [flag.value for flag in found] == ([float(missing)] if missing else [])
    assert classes_needed(procedure) == classes + missing or not missing
    assert doubts(found) == ()


def test_survivors_of_the_whole_pixel_range_are_a_flag_and_none_are_none() -> None:
    (flag,) = of_model(unbounded=3, attacked=48)
    assert (flag.name, flag.condition, flag.value) == ("unbounded-survivors", "linf unbounded", 3 / 48)
    assert "3 of 48 images" in flag.reason
    assert of_model(unbounded=0, attacked=48) == of_model(unbounded=0, attacked=0) == []


@pytest.mark.parametrize(("blind", "seen"), [(1, False), (2, True)])
def test_more_than_one_in_a_hundred_without_gradient_is_a_flag(blind: int, *, seen: bool) -> None:
    found = raised(PGD, table(100, ladder([], []), blind))
    assert [(f.name, f.value) for f in found] == ([("zero-gradients", blind / 100)] if seen else [])
    for flag in found:
        assert "2 of 100 attacked images (2.0 %)" in flag.reason


@pytest.mark.parametrize(
    ("n", "low", "high", "seen"),
    [
        (100, 10, 8, True),
        (100, 10, 9, False),
        (100, 10, 10, False),
        (100, 10, 60, False),
        (1000, 10, 8, False),
        (1000, 10, 7, True),
    ],
)
def test_accuracy_may_not_rise_by_two_images_and_two_thousandths(
    n: int, low: int, high: int, *, seen: bool
) -> None:
    """More broken at the smaller budget than at the larger; one image, or exactly 0.2 points, is nothing."""
    made = table(n, ladder(["pgd"] * low, ["pgd"] * high))
    found = raised(PGD, made)
    assert [(f.name, f.condition) for f in found] == ([("not-falling", "linf 1/10")] if seen else [])
    for flag in found:
        assert flag.value == pytest.approx((low - high) / n)
        assert percent((n - low) / n) in flag.reason


def test_a_single_step_may_overshoot() -> None:
    """FGSM at a large budget jumps over what it would have hit; that is no sign of hidden gradients."""
    assert raised(FGSM, table(100, ladder(["fgsm"] * 50, ["fgsm"] * 10))) == ()


@pytest.mark.parametrize(
    ("n", "count", "seen"),
    [(100, 1, False), (100, 2, True), (1000, 2, False), (1000, 3, True), (2000, 4, False), (2000, 5, True)],
)
def test_square_may_not_break_what_gradients_left(n: int, count: int, *, seen: bool) -> None:
    """More than 0.2 points of all images, and two images at least."""
    attacks = ["apgd-ce"] * 10 + ["square"] * count
    found = raised(cascade("apgd-ce", "square"), table(n, ladder(attacks, attacks)))
    assert [flag.name for flag in found] == (["black-box-stronger"] if seen else [])
    for flag in found:
        assert flag.value == count / n
        assert f"square broke {count} of {n} images" in flag.reason


def test_square_alone_or_first_is_no_sign() -> None:
    made = table(100, ladder(["square"] * 50, ["square"] * 50))
    assert raised(cascade("square"), made) == ()
    assert raised(cascade("square", "apgd-ce"), made) == ()


@pytest.mark.parametrize(
    ("of", "attacks", "names"),
    [
        (("fgsm-v1", "pgd-v1", "auto-v1"), {"pgd-v1 pgd": 20, "auto-v1 square": 5}, ["black-box-stronger"]),
        (("auto-v1",), {"auto-v1 apgd-ce": 20, "auto-v1 square": 5}, ["black-box-stronger"]),
        (("square-v1", "pgd-v1"), {"square-v1 square": 5, "pgd-v1 pgd": 20}, []),
        (("fgsm-v1", "square-v1"), {"fgsm-v1 fgsm": 20, "square-v1 square": 5}, []),
        (("pgd-v1", "fgsm-v1"), {"pgd-v1 pgd": 20, "fgsm-v1 fgsm": 5}, ["single-step-stronger"]),
        (("fgsm-v1", "pgd-v1"), {"fgsm-v1 fgsm": 20, "pgd-v1 pgd": 5}, []),
        (("pgd-v1",), {"pgd-v1 pgd": 20, "gift-v1 external": 5}, []),
    ],
)
def test_a_worst_case_tells_what_stands_after_stronger_attacks(
    of: tuple[str, ...], attacks: dict[str, int], names: list[str]
) -> None:
    """An image carries the first benchmark that breaks it: earlier ones, seen to work here, had failed."""
    column = [name for name, count in attacks.items() for _ in range(count)]
    found = raised(joined(*of), table(100, ladder(column, column)))
    assert [flag.name for flag in found] == names


def test_of_each_name_the_worst_place_stands_and_names_keep_their_order() -> None:
    low, high = ["square"] * 4 + ["apgd-ce"] * 20, ["square"] * 9 + ["apgd-ce"] * 11
    checks = CHECKS.model_copy(update={"unbounded": 1, "attacked": 2, "softmax": True})
    found = raised(cascade("apgd-ce", "square"), table(100, ladder(low, high)), checks)
    assert [(flag.name, flag.condition) for flag in found] == [
        ("softmax-output", None),
        ("not-falling", "linf 1/10"),
        ("black-box-stronger", "linf 1/10"),
        ("unbounded-survivors", "linf unbounded"),
    ]
    assert in_order(found[::-1]) == found


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0.0 %"), (0.0004, "0.04 %"), (0.25, "25.0 %"), (1.0, "100.0 %")]
)
def test_no_share_above_nothing_reads_nothing(share: float, text: str) -> None:
    assert percent(share) == text


PARTS = st.builds(
    Checks,
    images=st.integers(1, 16),
    spread=st.sampled_from([0.0, 1e-6, 0.3]),
    flips=st.integers(0, 2),
    softmax=st.booleans(),
    inner_gradients=st.booleans(),
    classes=st.integers(2, 12),
    unbounded=st.one_of(st.none(), st.integers(0, 3)),
    attacked=st.integers(3, 16),
)


@given(parts=st.lists(PARTS, min_size=1, max_size=5), order=st.randoms(use_true_random=False))
def test_the_order_of_shards_and_a_resumption_never_change_a_flag(parts: list[Checks], order: Any) -> None:
    """Shards come in any order, and those of an earlier attempt are joined with those of a later one."""
    shuffled = list(parts)
    order.shuffle(shuffled)
    cut = order.randint(0, len(parts))
    halves = [Checks.worst(part) for part in (shuffled[:cut], shuffled[cut:]) if part]
    again = Checks.worst([half for half in halves if half is not None])
    auto = cascade("apgd-ce", "apgd-targeted")
    made = table(50, ladder(["apgd-ce"] * 4, ["apgd-ce"] * 9))
    straight = raised(auto, made, Checks.worst(parts))
    assert raised(auto, made, Checks.worst(shuffled)) == straight
    assert raised(auto, made, again) == straight


def test_one_line_names_the_doubts_and_no_notes() -> None:
    found = of_model(cascade("apgd-targeted"), FALLING_CASCADE, classes=4, softmax=True, inner_gradients=True)
    assert [flag.name for flag in found] == ["softmax-output", "inner-gradients", "few-classes"]
    assert flagged(found) == ", flagged softmax-output and inner-gradients"
    assert flagged(found[-1:]) == flagged([]) == ""
