"""Attacks in turn: each meets what is left, and each broken image names the one that broke it."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustboard.benchmarks import attacks
from robustboard.benchmarks.attacks import AttackParameters, Attempt, Model
from robustboard.benchmarks.entries import BenchmarkEntry, Cascade, CascadeStep, Ladder
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm
from robustboard.runners.record import RunKey
from robustboard.runners.scoring import scores
from tests.runners.measuring import NORMS, Labelled, flat, pgd, right, run

STANDARD = ("apgd-ce", "apgd-targeted", "fab-targeted", "square")


def cascade(
    *budgets: str, norm: Norm = "linf", names: tuple[str, ...] = STANDARD, steps: int = 20
) -> Cascade:
    setting = Ladder(
        datasets=("digits",), budgets=tuple(map(Fraction, budgets)), headline=Fraction(budgets[-1])
    )
    made = [{"attack": name, "steps": steps, "queries": 200} for name in names]
    return Cascade(
        kind="cascade",
        norm=norm,
        attacks=tuple(CascadeStep.model_validate(step) for step in made),
        settings=(setting,),
    )


@pytest.mark.parametrize("norm", NORMS)
def test_linear_model_with_a_known_answer(norm: Norm, two_class: nn.Module, run_key: RunKey) -> None:
    """B039: two classes, no index error; A (all 0.52) falls and B (all 0.70) stands, exactly.

    s = sum - 2 moves by 4 eps under Linf and by 2 eps under L2, so eps is twice as large there.
    """
    budget = "1/20" if norm == "linf" else "1/10"
    table = run(cascade(budget, norm=norm), two_class, flat(0.52, 0.70), np.array([0, 0]), run_key)

    condition = f"{norm} {Fraction(budget)}"
    assert right(table, condition) == [False, True]
    assert list(table.only(condition).column("attack")) == ["apgd-ce", ""]
    assert table.only(condition).column("distance")[0] <= float(Fraction(budget)) + 1e-6


class Recorder:
    """An attack that notes the ids it got and breaks none or all of them."""

    def __init__(self, change: float) -> None:
        self.change = change
        self.met: list[tuple[str, ...]] = []

    def __call__(
        self, model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
    ) -> Attempt:
        del model, labels, parameters
        self.met.append(draws.sample_ids)
        return Attempt(images + self.change, torch.zeros(len(images), dtype=torch.bool))


def test_later_attacks_meet_survivors_only_and_wrong_images_none(
    two_class: nn.Module, run_key: RunKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean: 0.40 is wrong from the start. A step down by 0.05 breaks 0.52, never 0.70."""
    first, second = Recorder(-0.05), Recorder(0.0)
    monkeypatch.setitem(attacks.ATTACKS, "apgd-ce", first)
    monkeypatch.setitem(attacks.ATTACKS, "square", second)
    table = run(
        cascade("1/20", names=("apgd-ce", "square")),
        two_class,
        flat(0.40, 0.52, 0.70),
        np.array([0, 0, 0]),
        run_key,
        ids=["a", "b", "c"],
    )
    assert first.met == [("b", "c")]
    assert second.met == [("c",)]
    rows = table.only("linf 1/20")
    assert list(rows.column("status")) == ["already-wrong", "ok", "ok"]
    assert list(rows.column("attack")) == ["", "apgd-ce", ""]


def test_a_cascade_is_never_weaker_than_pgd(
    robust_net: nn.Module, digits_test: Labelled, run_key: RunKey
) -> None:
    """On a trained robust net, with fewer iterations than PGD-40 gets."""
    images, labels = digits_test[0][:150], digits_test[1][:150]
    hard = right(run(cascade("1/10"), robust_net, images, labels, run_key), "linf 1/10")
    easy = right(run(pgd("1/10", steps=40), robust_net, images, labels, run_key), "linf 1/10")

    assert sum(hard) <= sum(easy)


def test_an_attack_that_asks_for_no_gradient_cannot_miss_one(two_class: nn.Module, run_key: RunKey) -> None:
    table = run(cascade("1/20", names=("square",)), two_class, flat(0.52, 0.70), np.array([0, 0]), run_key)
    assert list(table.only("linf 1/20").column("status")) == ["ok", "ok"]


def test_square_reaches_a_model_without_gradient_so_its_accuracy_is_defined(run_key: RunKey) -> None:
    """Where the input is rounded there is no gradient; an attack on outputs alone still says something."""

    class Rounded(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            level = (images.flatten(1).sum(1) - 2).sign()
            return torch.stack([level, -level], dim=1)

    day = date(2026, 1, 1)
    for names, value in ((("apgd-ce", "square"), 1.0), (("apgd-ce",), None)):
        procedure = cascade("1/20", names=names, steps=2)
        entry = BenchmarkEntry(
            id="x-v1", name="X", summary="x", procedure=procedure, source="definition", added=day
        )
        table = run(procedure, Rounded(), flat(0.70), np.array([0]), run_key)
        found, _ = scores(entry, procedure.settings[0], table)
        (robust,) = [s for s in found if (s.metric, s.condition) == ("robust_accuracy", "linf 1/20")]

        assert robust.value == value
