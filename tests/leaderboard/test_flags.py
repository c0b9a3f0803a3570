"""Flags between results of one model, by their definitions; all results are made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.benchmarks.metrics import METRICS
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.flags import OF_ACCEPTED, OF_LOGITS, Raised, concerns, cross_flags
from robustboard.runners.keys import Cell
from robustboard.runners.record import FlagName, Result, SanityFlag
from tests.leaderboard.made_up import BUDGETS, World, made, score

LADDER = {"label_spaces": ["shapes"], "budgets": BUDGETS, "headline": "1/10"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "fgsm-v1": {"kind": "attack", "attack": "fgsm", "norm": "linf", "settings": [LADDER]},
    "square-v1": {"kind": "cascade", "norm": "linf", "attacks": [{"attack": "square"}], "settings": [LADDER]},
    "apgd-v1": {"kind": "cascade", "norm": "linf", "attacks": [{"attack": "apgd-ce"}], "settings": [LADDER]},
    "full-v1": {
        "kind": "cascade",
        "norm": "linf",
        "attacks": [{"attack": "apgd-ce"}, {"attack": "square"}],
        "settings": [LADDER],
    },
    "rand-v1": {
        "kind": "cascade",
        "norm": "linf",
        "attacks": [{"attack": "apgd-ce", "average_over": "20"}],
        "settings": [LADDER],
    },
}


@pytest.fixture
def attacked(world: World) -> World:
    """The made-up registry with more protocols and one model, `net`."""
    for name, procedure in PROTOCOLS.items():
        values = {"id": name, "name": name, "summary": name, "source": "made up", "added": "2026-01-31"}
        world.benchmarks[name] = made(BenchmarkEntry, {**values, "procedure": procedure})
    world.add_model("net")
    return world


def flag(name: FlagName, condition: str | None = None, value: float = 0.5) -> SanityFlag:
    return SanityFlag(name=name, condition=condition, value=value, limit=0.0, reason="made up")


def drawn(world: World, *worst: int, kind: str = "uniform") -> Result:
    """A result of noise with so many images right under all draws at each budget."""
    result = world.result("net", "noise-v1")
    more = [
        score(f"noise_accuracy_worst@{kind} {b}", 600, hit) for b, hit in zip(BUDGETS, worst, strict=True)
    ]
    return result.model_copy(update={"scores": (*result.scores, *more)})


def found(world: World, *results: Result) -> list[tuple[str, str, str | None]]:
    flags = cross_flags(results, world.benchmarks)
    return [(cell.benchmark, each.name, each.condition) for cell, flags in flags.items() for each in flags]


def falling(*at_a_tenth: int) -> list[int]:
    return [500, *at_a_tenth, 0, 0]


@pytest.mark.parametrize(("single", "many", "seen"), [(300, 303, True), (300, 302, False), (300, 290, False)])
def test_a_single_step_wins_by_three_images_and_two_thousandths(
    attacked: World, single: int, many: int, *, seen: bool
) -> None:
    """0.2 points of 600 images are 1.2; the third image decides."""
    results = [
        attacked.result("net", "fgsm-v1", falling=falling(single)),
        attacked.result("net", "pgd-v1", falling=falling(many)),
    ]
    expected = [("pgd-v1", "single-step-stronger", "linf 1/10")] if seen else []
    assert found(attacked, *results) == expected


def test_two_tenths_of_a_point_count_on_a_large_set(attacked: World) -> None:
    attacked.add_dataset("squares", size=10_000)
    fgsm = attacked.result("net", "fgsm-v1", falling=falling(300))
    assert found(attacked, fgsm, attacked.result("net", "pgd-v1", falling=falling(320))) == []
    assert found(attacked, fgsm, attacked.result("net", "pgd-v1", falling=falling(321)))


def test_the_reason_holds_protocols_counts_and_budget(attacked: World) -> None:
    results = [
        attacked.result("net", "fgsm-v1", falling=falling(300)),
        attacked.result("net", "pgd-v1", falling=falling(360)),
    ]
    ((_, (only,)),) = cross_flags(results, attacked.benchmarks).items()
    assert only.value == pytest.approx(0.1)
    assert only.limit == 0.002
    for part in ("fgsm-v1", "300 of 600", "linf 1/10", "pgd-v1 leaves 360"):
        assert part in only.reason


def test_a_stronger_attack_with_gradients_clears_the_weaker_ones(attacked: World) -> None:
    """FGSM and Square beat PGD, but not APGD: an attack with gradients does get there."""
    weaker = [
        attacked.result("net", "fgsm-v1", falling=falling(300)),
        attacked.result("net", "square-v1", falling=falling(200)),
        attacked.result("net", "pgd-v1", falling=falling(400)),
    ]
    assert found(attacked, *weaker) == [
        ("pgd-v1", "single-step-stronger", "linf 1/10"),
        ("pgd-v1", "black-box-stronger", "linf 1/10"),
    ]
    assert found(attacked, *weaker, attacked.result("net", "apgd-v1", falling=falling(190))) == []


def test_what_square_did_inside_a_cascade_is_no_merit_of_its_gradients(attacked: World) -> None:
    """100 of the 250 images that fell to the cascade fell to Square; with gradients alone 300 stand."""
    square = attacked.result("net", "square-v1", falling=falling(200))
    pgd = attacked.result("net", "pgd-v1", falling=falling(400))
    honest = attacked.result("net", "full-v1", falling=falling(200))
    assert found(attacked, square, pgd, honest) == []
    masked = honest.model_copy(update={"flags": (flag("black-box-stronger", "linf 1/10", 100 / 600),)})
    assert found(attacked, square, pgd, masked) == [("pgd-v1", "black-box-stronger", "linf 1/10")]


@pytest.mark.parametrize(("kind", "seen"), [("uniform", True), ("gaussian", False)])
def test_uniform_noise_is_inside_the_budget_and_gaussian_is_not(
    attacked: World, kind: str, *, seen: bool
) -> None:
    pgd = attacked.result("net", "pgd-v1", falling=falling(400))
    noise = drawn(attacked, 600, 350, 600, 600, kind=kind)
    expected = [("pgd-v1", "black-box-stronger", "linf 1/10")] if seen else []
    assert found(attacked, pgd, noise) == expected


def test_only_equal_norms_budgets_and_images_are_compared(attacked: World) -> None:
    fgsm = attacked.result("net", "fgsm-v1", falling=[100, 400, 0, 0])
    assert found(attacked, fgsm, attacked.result("net", "pgd-v1", falling=[90, 399, 0, 0])) == []
    strong = attacked.result("net", "fgsm-v1", falling=falling(100))
    other = attacked.result("net", "pgd-v1", falling=falling(400), data_fingerprint="9" * 64)
    part = attacked.result("net", "pgd-v1", falling=falling(400), skipped=3)
    assert found(attacked, strong, other) == found(attacked, strong, part) == []


def measured(world: World, results: Sequence[Result]) -> Measured:
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    return Measured.of(cells, world.catalog, world.benchmarks)


def test_a_models_flags_are_its_results_own_and_those_between_them(attacked: World) -> None:
    attacked.add_model("sound")
    pgd = attacked.result("net", "pgd-v1", falling=falling(400))
    pgd = pgd.model_copy(update={"flags": (flag("unbounded-survivors", "linf unbounded"),)})
    results = [
        attacked.result("net", "fgsm-v1", falling=falling(300)),
        pgd,
        attacked.result("sound", "pgd-v1", falling=falling(1)),
    ]
    flags = measured(attacked, results).flags
    assert set(flags) == {"net"}
    assert [each.flag.name for each in flags["net"]] == ["single-step-stronger", "unbounded-survivors"]


def test_an_outdated_result_doubts_nothing_and_is_not_doubted(attacked: World) -> None:
    results = [
        attacked.result("net", "fgsm-v1", falling=falling(300)),
        attacked.result("net", "pgd-v1", falling=falling(400), code=99),
    ]
    assert measured(attacked, results).flags == {}


RAISED = [
    Raised(Cell("net", "pgd-v1", "squares"), each)
    for each in (
        flag("non-deterministic"),
        flag("softmax-output"),
        flag("few-classes"),
        flag("not-falling", "linf 1/5"),
        flag("black-box-stronger", "linf 1/10"),
        flag("unbounded-survivors", "linf unbounded"),
        flag("zero-gradients", "l2 1/2"),
        flag("oracle-shares-weights", "by clip"),
    )
]


@pytest.mark.parametrize(
    ("metric", "condition", "names"),
    [
        ("clean_accuracy", "clean", ["non-deterministic"]),
        ("noise_accuracy", "uniform 1/10", ["non-deterministic"]),
        ("fmr", "transformations by clip", ["non-deterministic", "oracle-shares-weights"]),
        ("fmr", "transformations by eclip", ["non-deterministic"]),
        ("expected_calibration_error", "clean", ["non-deterministic", "softmax-output"]),
        ("auroc", "energy", ["non-deterministic", "softmax-output"]),
        (
            "robust_accuracy",
            "linf 1/10",
            ["non-deterministic", "softmax-output", "black-box-stronger", "unbounded-survivors"],
        ),
        ("robust_accuracy", "l2 1/2", ["non-deterministic", "softmax-output", "zero-gradients"]),
        (
            "area_under_curve",
            "linf",
            [
                "non-deterministic",
                "softmax-output",
                "not-falling",
                "unbounded-survivors",
            ],
        ),
    ],
)
def test_a_flag_doubts_the_numbers_that_it_speaks_of(metric: str, condition: str, names: list[str]) -> None:
    """Its own budget, or the model and the norm as such; few classes are a note and doubt nothing."""
    assert [each.flag.name for each in concerns(RAISED, "squares", metric, condition)] == names
    assert concerns(RAISED, "circles", metric, condition) == ()


def test_metrics_of_accepted_images_are_metrics() -> None:
    assert set(METRICS) >= OF_ACCEPTED


def test_metrics_of_logits_are_metrics() -> None:
    assert set(METRICS) >= OF_LOGITS
