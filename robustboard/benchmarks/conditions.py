"""Names of what each image is put through: `clean`, `linf 8/255`, `gaussian 1/10 draw 2`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from robustboard.benchmarks.entries import (
    CLEAN,
    Adversarial,
    Clean,
    Corruption,
    CueConflict,
    Generated,
    GeneratedSetting,
    Ladder,
    Noise,
    OutOfDistribution,
    Procedure,
    Scope,
)
from robustboard.benchmarks.generated import oracle_name, pair_name, reconstruction_name, verdict_name

TEMPERATURE = "temperature"
ALL = "all"
"""Condition of scores over all corruptions."""
MSP = "msp"
"""Condition of detection scores by the largest softmax share."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One perturbation of every image."""

    kind: str
    """The norm of an attack, the distribution of noise, a corruption, `temperature`; of generated images the
    whole name."""
    budget: Fraction
    """In units of the [0, 1] pixel range; the L2 length for norm l2; the severity of a corruption;
    0 where the kind says it all."""
    draw: int | None = None
    """Which of several independent draws; None for attacks."""

    @property
    def group(self) -> str:
        """The name without the draw: `gaussian 1/10`."""
        return f"{self.kind} {self.budget}" if self.budget else self.kind

    @property
    def name(self) -> str:
        """As stored beside predictions."""
        return self.group if self.draw is None else f"{self.group} draw {self.draw}"


def perturbations(procedure: Procedure, setting: Scope) -> tuple[Condition, ...]:
    """What a protocol does to the images at one of its settings, in the order it is done.

    Raises TypeError when the setting is not one of this kind of procedure.
    """
    if isinstance(procedure, Clean):
        return tuple(Condition(TEMPERATURE, each) for each in procedure.temperatures)
    if isinstance(procedure, OutOfDistribution | CueConflict):
        return ()
    if isinstance(procedure, Generated):
        return _generated(setting)
    if isinstance(procedure, Corruption):
        return tuple(
            Condition(name, Fraction(severity))
            for name in procedure.corruptions
            for severity in procedure.severities
        )
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


def _generated(setting: Scope) -> tuple[Condition, ...]:
    """Oracles on the images as they are, reconstructions; of each pair its images and the verdicts."""
    if not isinstance(setting, GeneratedSetting):
        raise TypeError(f"expected a setting with generators and oracles, got {type(setting).__name__}")
    names = [oracle_name(oracle) for oracle in setting.oracles]
    names += [reconstruction_name(use.generator) for use in setting.generators]
    for use, oracle in setting.pairs:
        pair = pair_name(use.generator, oracle)
        names += [pair, verdict_name(pair)]
    return tuple(Condition(name, Fraction(0)) for name in names)


def conditions(procedure: Procedure, setting: Scope) -> tuple[str, ...]:
    """Names of all conditions in the order of a run's rows; `clean` comes first."""
    return (CLEAN, *(condition.name for condition in perturbations(procedure, setting)))


def headline(procedure: Procedure, setting: Scope) -> str:
    """`metric@condition` of the score that stands for the cell on boards.

    Noise at equal size is harder when Gaussian (standard deviation 1 against 0.58 of the size), so
    the Gaussian accuracy stands for protocols that have both.
    """
    match procedure:
        case Clean() if procedure.temperatures:
            return f"expected_calibration_error@{CLEAN}"
        case OutOfDistribution():
            return f"aupr_out@{MSP}"
        case CueConflict():
            return f"shape_bias@{CLEAN}"
        case Generated() if isinstance(setting, GeneratedSetting):
            return f"fmr@{pair_name(setting.generators[0].generator, setting.oracles[0])}"
        case Corruption():
            return f"{'mce' if procedure.normaliser else 'mean_corruption_accuracy'}@{ALL}"
    if isinstance(procedure, Clean) or not isinstance(setting, Ladder):
        return f"clean_accuracy@{CLEAN}"
    if isinstance(procedure, Adversarial):
        return f"robust_accuracy@{procedure.norm} {setting.headline}"
    if isinstance(procedure, Generated):
        raise TypeError(f"expected a setting with generators and oracles, got {type(setting).__name__}")
    kind = "gaussian" if "gaussian" in procedure.distributions else procedure.distributions[0]
    return f"noise_accuracy@{kind} {setting.headline}"
