"""Attacks on the true label, by the name that protocols use."""

from __future__ import annotations

from robustboard.benchmarks.attacks.apgd import apgd_ce, apgd_dlr, apgd_targeted
from robustboard.benchmarks.attacks.fab import fab_targeted
from robustboard.benchmarks.attacks.fgsm import fgsm
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt, Perturb
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.attacks.pgd import pgd
from robustboard.benchmarks.attacks.square import square

ATTACKS: dict[str, Perturb] = {
    "fgsm": fgsm,
    "pgd": pgd,
    "apgd-ce": apgd_ce,
    "apgd-dlr": apgd_dlr,
    "apgd-targeted": apgd_targeted,
    "fab-targeted": fab_targeted,
    "square": square,
}
WITHOUT_GRADIENTS = frozenset({"square"})
"""Attacks that ask for outputs only."""

__all__ = ["ATTACKS", "WITHOUT_GRADIENTS", "AttackParameters", "Attempt", "Model", "Perturb"]
