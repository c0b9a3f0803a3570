"""Scores of one cell from its prediction table: pure, without torch, the same bytes every time.

Every share carries the integer count behind it where there is one, the number of images it is
over, and its 95 % interval: Wilson's, and for means of per-image shares (noise over draws, area
under the curve, balanced accuracy) Wilson's at the effective number of images. Several draws on one
image are not independent, so they never count as several images.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks import metrics
from robustboard.benchmarks.conditions import Condition, headline, perturbations
from robustboard.benchmarks.entries import (
    CLEAN,
    Adversarial,
    BenchmarkEntry,
    Cascade,
    Clean,
    Corruption,
    CueConflict,
    Generated,
    GeneratedSetting,
    Noise,
    OutOfDistribution,
    Scope,
)
from robustboard.runners.columns import Columns, columns_of
from robustboard.runners.estimates import NO_IMAGES, Flags, effective, mean, share, undefined
from robustboard.runners.generation_scoring import generation_scores
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.record import Score
from robustboard.runners.shift_scoring import (
    calibration_scores,
    corruption_scores,
    cue_conflict_scores,
    detection_scores,
    group_scores,
)

BLIND: SampleStatus = "no-gradient"
NO_GRADIENT = "the model gave no input gradient for any attacked image, so the attack tried nothing"


def _balanced(columns: Columns) -> Score:
    right = columns.right[CLEAN]
    if right.size == 0:
        return undefined("balanced_accuracy", CLEAN, 0, NO_IMAGES)
    value, sample_size = metrics.balanced_accuracy(columns.labels, right)
    return effective("balanced_accuracy", CLEAN, right.size, value, sample_size)


def _curve(
    kind: str,
    budgets: Sequence[Fraction],
    shares: Sequence[npt.NDArray[np.float64]],
    trials: int,
    counts: Sequence[Score],
) -> list[Score]:
    """Minimum, maximum and area of accuracy over budgets, from per-image shares at each budget."""
    lacking = next((score for score in counts if score.value is None), None)
    if lacking is not None:
        reason = lacking.reason or NO_IMAGES
        return [
            undefined(metric, kind, lacking.n, reason)
            for metric in ("min_accuracy", "max_accuracy", "area_under_curve")
        ]
    ranked = sorted(counts, key=lambda score: score.value or 0.0)
    ends = [
        end.model_copy(update={"metric": metric, "condition": kind})
        for metric, end in (("min_accuracy", ranked[0]), ("max_accuracy", ranked[-1]))
    ]
    if len(budgets) == 1:
        return [*ends, undefined("area_under_curve", kind, counts[0].n, "it needs two or more budgets")]
    weights = metrics.area_weights([float(budget) for budget in budgets])
    areas = np.clip(np.tensordot(weights, np.stack(shares), axes=1), 0.0, 1.0)
    return [*ends, mean("area_under_curve", kind, areas, trials * len(budgets))]


def _needs_no_gradient(procedure: Adversarial) -> bool:
    """Whether one of the attacks asks for outputs only, so that no model is out of its reach."""
    return isinstance(procedure, Cascade) and any(step.attack == "square" for step in procedure.attacks)


def _attack_scores(procedure: Adversarial, steps: Sequence[Condition], columns: Columns) -> list[Score]:
    clean = columns.right[CLEAN]
    scores: list[Score] = []
    robust_scores: list[Score] = []
    survived: list[npt.NDArray[np.float64]] = []
    for step in steps:
        robust: Flags = np.logical_and(clean, columns.right[step.name])
        blind = np.equal(columns.status[step.name][clean], BLIND).astype(np.bool_)
        if blind.size and blind.all() and not _needs_no_gradient(procedure):
            score = undefined("robust_accuracy", step.name, robust.size, NO_GRADIENT)
            rate = undefined("attack_success_rate", step.name, blind.size, NO_GRADIENT)
        else:
            score = share("robust_accuracy", step.name, robust)
            reason = "no image was classified right before the attack"
            rate = share("attack_success_rate", step.name, np.logical_not(robust[clean]), reason)
        blindness = share("zero_gradient_share", step.name, blind, "no image was attacked")
        scores += [score, rate, blindness]
        robust_scores.append(score)
        survived.append(robust.astype(np.float64))
    budgets = [step.budget for step in steps]
    return scores + _curve(procedure.norm, budgets, survived, 1, robust_scores)


def _noise_scores(steps: Sequence[Condition], columns: Columns) -> list[Score]:
    groups: dict[str, list[Condition]] = {}
    for step in steps:
        groups.setdefault(step.group, []).append(step)
    scores: list[Score] = []
    curves: dict[str, list[tuple[Fraction, npt.NDArray[np.float64], Score]]] = {}
    draws = 1
    for group, members in groups.items():
        right = np.stack([columns.right[member.name] for member in members])
        draws = len(members)
        shares = right.mean(axis=0)
        average = mean("noise_accuracy", group, shares, draws)
        scores += [average, share("noise_accuracy_worst", group, np.asarray(right.all(axis=0)))]
        curves.setdefault(members[0].kind, []).append((members[0].budget, shares, average))
    for kind, points in curves.items():
        budgets, per_image, means = zip(*points, strict=True)
        scores += _curve(kind, budgets, per_image, draws, means)
    return scores


def scores(
    benchmark: BenchmarkEntry, setting: Scope, table: PredictionTable
) -> tuple[tuple[Score, ...], str]:
    """All scores of a cell in a fixed order, and `metric@condition` of the headline.

    Images whose rows are `skipped` are left out. Undefined scores have no value but a reason.

    Raises StoreError when the table does not hold exactly the protocol's conditions over the same
    images.
    """
    procedure = benchmark.procedure
    steps = perturbations(procedure, setting)
    columns = columns_of(table, [CLEAN, *(step.name for step in steps)])
    if isinstance(procedure, OutOfDistribution):
        return tuple(detection_scores(columns)), headline(procedure, setting)
    found = [share("clean_accuracy", CLEAN, columns.right[CLEAN])]
    match procedure:
        case Clean():
            found += [_balanced(columns), *group_scores(columns), *calibration_scores(columns, steps)]
        case Noise():
            found += _noise_scores(steps, columns)
        case Corruption():
            found += corruption_scores(procedure, columns)
        case CueConflict():
            found += cue_conflict_scores(columns)
        case Generated():
            if not isinstance(setting, GeneratedSetting):
                raise TypeError(f"expected generators and oracles, got {type(setting).__name__}")
            found += generation_scores(setting, columns)
        case _:
            found += _attack_scores(procedure, steps, columns)
    return tuple(found), headline(procedure, setting)
