"""Scores of one cell from its prediction table: pure, without torch, the same bytes every time.

Every share carries the integer count behind it where there is one, the number of images it is
over, and its 95 % interval: Wilson's, and for means of per-image shares (noise over draws, area
under the curve, balanced accuracy) Wilson's at the effective number of images. Several draws on one
image are not independent, so they never count as several images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks import metrics
from robustboard.benchmarks.conditions import Condition, headline, perturbations
from robustboard.benchmarks.entries import CLEAN, Adversarial, BenchmarkEntry, Cascade, Clean, Scope
from robustboard.errors import StoreError
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.record import Score

Flags = npt.NDArray[np.bool_]
BLIND: SampleStatus = "no-gradient"
NO_IMAGES = "no image was measured"
NO_GRADIENT = "the model gave no input gradient for any attacked image, so the attack tried nothing"


def _undefined(metric: str, condition: str, n: int, reason: str) -> Score:
    meaning = metrics.METRICS[metric]
    return Score(
        metric=metric,
        condition=condition,
        value=None,
        low=None,
        high=None,
        n=n,
        unit=meaning.unit,
        direction=meaning.direction,
        status="undefined",
        reason=reason,
    )


def _share(metric: str, condition: str, flags: Flags, reason: str = NO_IMAGES) -> Score:
    """The share of True; undefined, with the reason, over no image."""
    n, correct = flags.size, int(np.count_nonzero(flags))
    if n == 0:
        return _undefined(metric, condition, 0, reason)
    meaning = metrics.METRICS[metric]
    low, high = metrics.wilson(correct, n)
    return Score(
        metric=metric,
        condition=condition,
        value=correct / n,
        low=low,
        high=high,
        n=n,
        correct=correct,
        unit=meaning.unit,
        direction=meaning.direction,
    )


def _mean(metric: str, condition: str, values: npt.NDArray[np.float64], trials: int) -> Score:
    """The mean of one value in [0, 1] an image, each from `trials` dependent trials."""
    if values.size == 0:
        return _undefined(metric, condition, 0, NO_IMAGES)
    return _effective(metric, condition, values.size, *metrics.mean_share(values, trials))


def _effective(metric: str, condition: str, n: int, value: float, sample_size: float) -> Score:
    """A share over n images whose interval is that of another number of independent trials."""
    meaning = metrics.METRICS[metric]
    low, high = metrics.wilson(value * sample_size, sample_size)
    return Score(
        metric=metric,
        condition=condition,
        value=value,
        low=low,
        high=high,
        n=n,
        unit=meaning.unit,
        direction=meaning.direction,
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """Predictions of the measured images: images in one order, the same for every condition."""

    labels: npt.NDArray[Any]
    right: dict[str, Flags]
    status: dict[str, npt.NDArray[Any]]


def _columns(table: PredictionTable, names: Sequence[str]) -> _Columns:
    """Right or wrong an image and condition, without the skipped images.

    Raises StoreError when a condition is missing, or its images or labels are not those of `clean`.
    """
    known = table.conditions()
    if sorted(known) != sorted(names):
        raise StoreError(f"predictions: expected conditions {sorted(names)}, got {sorted(known)}")
    sample, condition = table.column("sample_id"), table.column("condition")
    label, predicted, status = table.column("label"), table.column("predicted"), table.column("status")
    rows: dict[str, npt.NDArray[np.intp]] = {}
    for name in names:
        chosen = np.flatnonzero((condition == name) & (status != "skipped"))
        rows[name] = chosen[np.argsort(sample[chosen], kind="stable")]
    first = rows[names[0]]
    for name, chosen in rows.items():
        if not np.array_equal(sample[chosen], sample[first]) or not np.array_equal(
            label[chosen], label[first]
        ):
            raise StoreError(f"predictions: images or labels of {name} are not those of {names[0]}")
    return _Columns(
        label[first],
        {name: predicted[chosen] == label[chosen] for name, chosen in rows.items()},
        {name: status[chosen] for name, chosen in rows.items()},
    )


def _balanced(columns: _Columns) -> Score:
    right = columns.right[CLEAN]
    if right.size == 0:
        return _undefined("balanced_accuracy", CLEAN, 0, NO_IMAGES)
    value, sample_size = metrics.balanced_accuracy(columns.labels, right)
    return _effective("balanced_accuracy", CLEAN, right.size, value, sample_size)


def _curve(
    kind: str,
    budgets: Sequence[Fraction],
    shares: Sequence[npt.NDArray[np.float64]],
    trials: int,
    counts: Sequence[Score],
) -> list[Score]:
    """Minimum, maximum and area of accuracy over budgets, from per-image shares at each budget."""
    undefined = next((score for score in counts if score.value is None), None)
    if undefined is not None:
        reason = undefined.reason or NO_IMAGES
        return [
            _undefined(metric, kind, undefined.n, reason)
            for metric in ("min_accuracy", "max_accuracy", "area_under_curve")
        ]
    ranked = sorted(counts, key=lambda score: score.value or 0.0)
    ends = [
        end.model_copy(update={"metric": metric, "condition": kind})
        for metric, end in (("min_accuracy", ranked[0]), ("max_accuracy", ranked[-1]))
    ]
    if len(budgets) == 1:
        return [*ends, _undefined("area_under_curve", kind, counts[0].n, "it needs two or more budgets")]
    weights = metrics.area_weights([float(budget) for budget in budgets])
    areas = np.clip(np.tensordot(weights, np.stack(shares), axes=1), 0.0, 1.0)
    return [*ends, _mean("area_under_curve", kind, areas, trials * len(budgets))]


def _needs_no_gradient(procedure: Adversarial) -> bool:
    """Whether one of the attacks asks for outputs only, so that no model is out of its reach."""
    return isinstance(procedure, Cascade) and any(step.attack == "square" for step in procedure.attacks)


def _attack_scores(procedure: Adversarial, steps: Sequence[Condition], columns: _Columns) -> list[Score]:
    clean = columns.right[CLEAN]
    scores: list[Score] = []
    robust_scores: list[Score] = []
    survived: list[npt.NDArray[np.float64]] = []
    for step in steps:
        robust: Flags = np.logical_and(clean, columns.right[step.name])
        blind = np.equal(columns.status[step.name][clean], BLIND).astype(np.bool_)
        if blind.size and blind.all() and not _needs_no_gradient(procedure):
            score = _undefined("robust_accuracy", step.name, robust.size, NO_GRADIENT)
            rate = _undefined("attack_success_rate", step.name, blind.size, NO_GRADIENT)
        else:
            score = _share("robust_accuracy", step.name, robust)
            reason = "no image was classified right before the attack"
            rate = _share("attack_success_rate", step.name, np.logical_not(robust[clean]), reason)
        blindness = _share("zero_gradient_share", step.name, blind, "no image was attacked")
        scores += [score, rate, blindness]
        robust_scores.append(score)
        survived.append(robust.astype(np.float64))
    budgets = [step.budget for step in steps]
    return scores + _curve(procedure.norm, budgets, survived, 1, robust_scores)


def _noise_scores(steps: Sequence[Condition], columns: _Columns) -> list[Score]:
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
        mean = _mean("noise_accuracy", group, shares, draws)
        scores += [mean, _share("noise_accuracy_worst", group, np.asarray(right.all(axis=0)))]
        curves.setdefault(members[0].kind, []).append((members[0].budget, shares, mean))
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
    columns = _columns(table, [CLEAN, *(step.name for step in steps)])
    found = [_share("clean_accuracy", CLEAN, columns.right[CLEAN])]
    if isinstance(procedure, Clean):
        found.append(_balanced(columns))
    elif isinstance(procedure, Adversarial):
        found += _attack_scores(procedure, steps, columns)
    else:
        found += _noise_scores(steps, columns)
    return tuple(found), headline(procedure, setting)
