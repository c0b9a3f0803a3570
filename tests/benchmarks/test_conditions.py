"""Names of what each image is put through."""

from __future__ import annotations

from fractions import Fraction

import pytest

from robustboard.benchmarks.conditions import conditions, headline
from robustboard.benchmarks.entries import Attack, AttackSetting, Clean, Ladder, Noise, Scope

SCOPE = Scope(datasets=("digits",))
LADDER = Ladder(datasets=("digits",), budgets=(Fraction(1, 20), Fraction(1, 10)), headline=Fraction(1, 10))
STEPS = AttackSetting(datasets=("digits",), budgets=(Fraction(8, 255),), headline=Fraction(8, 255), steps=3)


def test_clean_protocol_has_one_condition() -> None:
    clean = Clean(kind="clean", settings=(SCOPE,))
    assert conditions(clean, SCOPE) == ("clean",)
    assert headline(clean, SCOPE) == "clean_accuracy@clean"


def test_attack_names_norm_and_exact_budget() -> None:
    attack = Attack(kind="attack", attack="pgd", norm="linf", settings=(STEPS,))
    assert conditions(attack, STEPS) == ("clean", "linf 8/255")
    assert headline(attack, STEPS) == "robust_accuracy@linf 8/255"


def test_noise_names_distribution_size_and_draw() -> None:
    noise = Noise(kind="noise", distributions=("uniform", "gaussian"), draws=2, settings=(LADDER,))
    assert conditions(noise, LADDER) == (
        "clean",
        "uniform 1/20 draw 0",
        "uniform 1/20 draw 1",
        "uniform 1/10 draw 0",
        "uniform 1/10 draw 1",
        "gaussian 1/20 draw 0",
        "gaussian 1/20 draw 1",
        "gaussian 1/10 draw 0",
        "gaussian 1/10 draw 1",
    )
    assert headline(noise, LADDER) == "noise_accuracy@gaussian 1/10"


def test_headline_of_uniform_noise_alone_is_uniform() -> None:
    noise = Noise(kind="noise", distributions=("uniform",), draws=2, settings=(LADDER,))
    assert headline(noise, LADDER) == "noise_accuracy@uniform 1/10"


def test_a_setting_without_budgets_is_no_setting_of_an_attack() -> None:
    attack = Attack(kind="attack", attack="pgd", norm="linf", settings=(STEPS,))
    with pytest.raises(TypeError, match="expected a setting with budgets for attack"):
        conditions(attack, SCOPE)
