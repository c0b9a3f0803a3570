"""Attacks on the true label, by the name that protocols use."""

from __future__ import annotations

from robustboard.benchmarks.attacks.fgsm import fgsm
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt, Perturb
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.attacks.pgd import pgd

ATTACKS: dict[str, Perturb] = {
    "fgsm": fgsm,
    "pgd": pgd,
}

__all__ = ["ATTACKS", "AttackParameters", "Attempt", "Model", "Perturb"]
