"""Names of what each image is put through: `clean`, `linf 8/255`, `gaussian 1/10 draw 2`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from robustboard.benchmarks.entries import CLEAN, Adversarial, Clean, Ladder, Noise, Procedure, Scope

Kind = Literal["linf", "l2", "uniform", "gaussian"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One perturbation of every image."""

    kind: Kind
    """The norm of an attack, or the distribution of noise."""
    budget: Fraction
    """In units of the [0, 1] pixel range; the L2 length for norm l2."""
    draw: int | None = None
    """Which of several independent draws; None for attacks."""

    @property
    def group(self) -> str:
        """The name without the draw: `gaussian 1/10`."""
        return f"{self.kind} {self.budget}"

    @property
    def name(self) -> str:
        """As stored beside predictions."""
        return self.group if self.draw is None else f"{self.group} draw {self.draw}"


def perturbations(procedure: Procedure, setting: Scope) -> tuple[Condition, ...]:
    """What a protocol does to the images at one of its settings, in the order it is done.

    Raises TypeError when the setting is not one of this kind of procedure.
    """
    if isinstance(procedure, Clean):
        return ()
    if not isinstance(setting, Ladder):
        raise TypeError(f"expected a setting with budgets for {procedure.kind}, got {type(setting).__name__}")
    if isinstance(procedure, Noise):
        return tuple(
            Condition(distribution, budget, draw)
            for distribution in procedure.distributions
            for budget in setting.budgets
            for draw in range(procedure.draws)
        )
    return tuple(Condition(procedure.norm, budget) for budget in setting.budgets)


def conditions(procedure: Procedure, setting: Scope) -> tuple[str, ...]:
    """Names of all conditions in the order of a run's rows; `clean` comes first."""
    return (CLEAN, *(condition.name for condition in perturbations(procedure, setting)))


def headline(procedure: Procedure, setting: Scope) -> str:
    """`metric@condition` of the score that stands for the cell on boards.

    Noise at equal size is harder when Gaussian (standard deviation 1 against 0.58 of the size), so
    the Gaussian accuracy stands for protocols that have both.
    """
    if isinstance(procedure, Clean) or not isinstance(setting, Ladder):
        return f"clean_accuracy@{CLEAN}"
    if isinstance(procedure, Adversarial):
        return f"robust_accuracy@{procedure.norm} {setting.headline}"
    kind: Kind = "gaussian" if "gaussian" in procedure.distributions else procedure.distributions[0]
    return f"noise_accuracy@{kind} {setting.headline}"
