"""Protocols that promise what their procedure cannot do are refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import ValidationError

from robustboard.benchmarks.entries import Attack, AttackSetting, Ladder, Noise

BUDGETS = (Fraction(1, 10),)
ONE_STEP = AttackSetting(datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[0])
STEPS = AttackSetting(datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[0], steps=5)


def test_fgsm_takes_no_settings_that_it_would_pass_over() -> None:
    assert Attack(kind="attack", attack="fgsm", norm="linf", settings=(ONE_STEP,)).restarts == 1
    with pytest.raises(ValidationError, match="steps 1"):
        Attack(kind="attack", attack="fgsm", norm="linf", settings=(STEPS,))
    with pytest.raises(ValidationError, match="neither random_start nor restarts"):
        Attack(kind="attack", attack="fgsm", norm="linf", random_start=True, settings=(ONE_STEP,))


def test_a_distribution_stands_once() -> None:
    ladder = Ladder(datasets=("digits",), budgets=BUDGETS, headline=BUDGETS[0])
    with pytest.raises(ValidationError, match="each distribution once"):
        Noise(kind="noise", distributions=("uniform", "uniform"), draws=1, settings=(ladder,))
