"""What is measured: six cases, and the budgets at which they are what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from tests.bench import ours
from tests.bench.task import QUERIES, Task

Aim = Literal["all break", "a third survives"]
BUDGETS: dict[Aim, tuple[Fraction, ...]] = {
    "all break": tuple(map(Fraction, ("1/5", "3/10"))),
    "a third survives": tuple(
        map(Fraction, ("1/40", "1/20", "3/40", "1/10", "1/8", "3/20", "7/40", "1/5", "1/4", "3/10"))
    ),
}
"""Tried in this order with PGD-20. All break: the two largest budgets of the Fashion-MNIST protocols."""
WANTED: dict[Aim, float] = {"all break": 0.0, "a third survives": 1 / 3}
"""Share of all images that should stand."""
ROLES: dict[Aim, str] = {"all break": "standard", "a third survives": "adversarial"}
"""Which network."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the summary."""

    id: str
    attack: Literal["pgd", "autoattack"]
    aim: Aim
    images: int
    steps: int
    target: float | None
    """Wanted ratio of CPU times, the fastest peer's to ours; None where times mean nothing."""
    queries: int = QUERIES


CASES = (
    Case("pgd20-undefended", "pgd", "all break", 256, 20, 10),
    Case("pgd20-partial", "pgd", "a third survives", 256, 20, 3),
    Case("pgd50-undefended", "pgd", "all break", 256, 50, 10),
    Case("pgd50-partial", "pgd", "a third survives", 256, 50, 3),
    Case("autoattack-undefended", "autoattack", "all break", 100, 100, 30),
    Case("autoattack-survivors", "autoattack", "a third survives", 24, 100, 1.6, 1000),
)
"""PGD: 256 images, so that every batch size can show; AutoAttack: as many as a few minutes allow. Square's
queries are cut for both sides alike where images survive: it alone would take most of the time."""


def quick(case: Case) -> Case:
    """The same on few images in a few iterations."""
    return replace(case, images=24, steps=4, target=None, queries=20)


def choose_budget(aim: Aim, task: Task) -> Fraction:
    """The first budget at which the share of images that PGD leaves standing is nearest to the aim."""

    def share(eps: Fraction) -> float:
        return float(ours.pgd(replace(task, eps=eps), 64).double().mean())

    return nearest(BUDGETS[aim], WANTED[aim], share)


def nearest(budgets: Sequence[Fraction], wanted: float, share: Callable[[Fraction], float]) -> Fraction:
    """The first budget whose share is nearest to the wanted one; an exact hit ends the search."""
    best, gap = budgets[0], float("inf")
    for eps in budgets:
        distance = abs(share(eps) - wanted)
        if distance < gap:
            best, gap = eps, distance
        if gap == 0:
            break
    return best
