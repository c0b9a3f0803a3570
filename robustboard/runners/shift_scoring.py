"""Scores of fixed benchmarks beyond accuracy: calibration, groups, corruptions, detection, shape. No torch.

Standard errors of numbers that are no means over images come from 200 seeded bootstrap resamples,
drawn for images in the order of their ids, so that they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks import calibration, detection
from robustboard.benchmarks.conditions import ALL, Condition
from robustboard.benchmarks.corruption_errors import corruption_error
from robustboard.benchmarks.entries import CLEAN, Corruption
from robustboard.benchmarks.shape_bias import cue_conflict
from robustboard.runners.columns import Columns
from robustboard.runners.estimates import NO_IMAGES, Floats, linear, mean, normal, share, undefined
from robustboard.runners.record import Score

RESAMPLES = 200
MOST_GROUPS = 100
"""Groups whose own accuracies are listed; the worst is told whatever their number."""
OUTSIDE = "outside"


def _bootstrap(n: int, statistic: Callable[[npt.NDArray[np.intp]], float]) -> float:
    """Standard error of a statistic of n images, given as a function of drawn positions."""
    generator = np.random.default_rng(0)
    return float(np.std([statistic(generator.integers(0, n, n)) for _ in range(RESAMPLES)], ddof=1))


def calibration_scores(columns: Columns, steps: Sequence[Condition]) -> list[Score]:
    """Calibration of the clean predictions, and the best temperature where the protocol seeks it.

    Nothing for results without outputs.
    """
    if not columns.has("label_log_share", CLEAN):
        return []
    confidence, right = columns.values("confidence", CLEAN).astype(np.float64), columns.right[CLEAN]
    n = len(right)
    found = []
    for metric, statistic in (
        ("expected_calibration_error", calibration.expected_calibration_error),
        ("rms_calibration_error", calibration.rms_calibration_error),
        ("rms_calibration_error_published", _published_rms),
        ("aurra", calibration.aurra),
    ):
        if statistic is _published_rms and n < 2 * calibration.RMS_BIN:
            reason = f"it leaves the last bin out, and {n} images make a single one"
            found.append(undefined(metric, CLEAN, n, reason))
            continue
        error = _bootstrap(n, lambda rows, of=statistic: of(confidence[rows], right[rows]))  # type: ignore[misc]  # a default binds the loop's function
        found.append(
            normal(metric, CLEAN, statistic(confidence, right), error=error, n=n, interval="bootstrap-95")
        )
    log_share = columns.values("label_log_share", CLEAN).astype(np.float64)
    squares = columns.values("square_sum", CLEAN).astype(np.float64)
    # Never below 0 but for the rounding of stored float32, which a very sure model shows.
    found.append(linear("brier_score", CLEAN, np.maximum(squares - 2 * np.exp(log_share) + 1, 0.0)))
    found.append(linear("negative_log_likelihood", CLEAN, -log_share))
    return found + _temperature(columns, steps)


def _published_rms(confidence: Floats, right: npt.NDArray[np.bool_]) -> float:
    return calibration.rms_calibration_error(confidence, right, paper_compatible=True)


def _temperature(columns: Columns, steps: Sequence[Condition]) -> list[Score]:
    if not steps:
        return []
    losses = np.stack([-columns.values("label_log_share", step.name).astype(np.float64) for step in steps])
    grid = [float(step.budget) for step in steps]
    best, inside = calibration.best_temperature(grid, losses.mean(axis=1).tolist())
    n = losses.shape[1]
    if not inside:
        reason = f"the best temperature lies beyond the protocol's {grid[0]:g} to {grid[-1]:g}"
        return [undefined("best_temperature", CLEAN, n, reason)]

    def drawn(rows: npt.NDArray[np.intp]) -> float:
        return calibration.best_temperature(grid, losses[:, rows].mean(axis=1).tolist())[0]

    nearest = steps[int(np.argmin([abs(np.log(each / best)) for each in grid]))].name
    confidence = columns.values("confidence", nearest).astype(np.float64)
    right = columns.right[nearest]
    error = _bootstrap(n, lambda rows: calibration.expected_calibration_error(confidence[rows], right[rows]))
    scaled = calibration.expected_calibration_error(confidence, right)
    return [
        normal("best_temperature", CLEAN, best, error=_bootstrap(n, drawn), n=n, interval="bootstrap-95"),
        normal("expected_calibration_error", nearest, scaled, error=error, n=n, interval="bootstrap-95"),
    ]


def group_scores(columns: Columns) -> list[Score]:
    """Accuracy of the worst group, and of each where there are few; nothing without groups."""
    if not columns.has("group", CLEAN):
        return []
    groups, right = columns.values("group", CLEAN), columns.right[CLEAN]
    each = [share("group_accuracy", str(name), right[groups == name]) for name in sorted(set(groups))]
    worst = min(each, key=lambda score: score.value or 0.0)
    found = [worst.model_copy(update={"metric": "worst_group_accuracy", "condition": CLEAN})]
    return found + (each if len(each) <= MOST_GROUPS else [])


def corruption_scores(procedure: Corruption, columns: Columns) -> list[Score]:
    """Accuracy a corruption and severity, means, and errors relative to the protocol's reference."""
    right = {
        name: np.stack([columns.right[f"{name} {severity}"] for severity in procedure.severities])
        for name in procedure.corruptions
    }
    normaliser = procedure.normaliser
    counted = list(normaliser.errors) if normaliser else list(procedure.corruptions)
    found: list[Score] = []
    for name, flags in right.items():
        found += [
            share("corruption_accuracy", f"{name} {severity}", flags[row])
            for row, severity in enumerate(procedure.severities)
        ]
        found.append(mean("corruption_accuracy", name, flags.mean(axis=0), len(procedure.severities)))
    everything = np.concatenate([right[name] for name in counted]).mean(axis=0)
    found.append(mean("mean_corruption_accuracy", ALL, everything, len(counted) * len(procedure.severities)))
    if normaliser is None or not everything.size:
        return found
    reference = {name: float(error) for name, error in normaliser.errors.items()}
    # Both are means of ratios, linear in each image's errors, so that one number an image holds them.
    wrong = {name: 1 - right[name].mean(axis=0) for name in counted}
    found += [
        linear("corruption_error", name, wrong[name] * corruption_error(1.0, reference[name]))
        for name in counted
    ]
    errors = np.stack([wrong[name] * corruption_error(1.0, reference[name]) for name in counted])
    found.append(linear("mce", ALL, errors.mean(axis=0)))
    return [*found, _relative(reference, float(normaliser.clean_error), wrong, ~columns.right[CLEAN])]


def _relative(
    reference: dict[str, float],
    reference_clean: float,
    wrong: dict[str, Floats],
    clean: npt.NDArray[np.bool_],
) -> Score:
    gaps = {name: error - reference_clean for name, error in reference.items()}
    flat = [name for name, gap in gaps.items() if gap <= 0]
    if flat:
        reason = f"the reference errs no more under {flat[0]} than on clean images"
        return undefined("relative_mce", ALL, len(clean), reason)
    parts = [100 * (wrong[name] - clean) / gap for name, gap in gaps.items()]
    return linear("relative_mce", ALL, np.stack(parts).mean(axis=0))


DETECTION: dict[str, Callable[[Floats, Floats], float]] = {
    "auroc": detection.auroc,
    "aupr_out": detection.average_precision,
    "aupr_in": lambda inside, outside: detection.average_precision(inside, outside, positive="in"),
    "aupr_out_trapezoid": detection.trapezoid_aupr,
    "aupr_in_trapezoid": lambda inside, outside: detection.trapezoid_aupr(inside, outside, positive="in"),
    "fpr95": detection.fpr_at_recall,
    "fpr95_first": lambda inside, outside: detection.fpr_at_recall(inside, outside, rule="first"),
}
"""Metric → function of the anomaly scores inside and outside."""


def detection_scores(columns: Columns) -> list[Score]:
    """Every metric by every anomaly score, the sizes of both sets, and accuracy on the known classes."""
    outside = columns.values("status", CLEAN) == OUTSIDE
    names = ("confidence", "max_logit", "energy", "entropy")
    outputs = {name: columns.values(name, CLEAN).astype(np.float64) for name in names}
    counts = {
        "in_distribution_images": int(np.count_nonzero(~outside)),
        "out_of_distribution_images": int(np.count_nonzero(outside)),
    }
    found = [share("clean_accuracy", CLEAN, columns.right[CLEAN][~outside], "no image is in distribution")]
    for metric, count in counts.items():
        found.append(normal(metric, CLEAN, float(count), error=None, n=count))
    for name in detection.SCORES:
        scores = detection.anomaly(name, **outputs)
        found += _detected(name, scores[~outside], scores[outside])
    return found


def _detected(name: str, inside: Floats, outside: Floats) -> list[Score]:
    n = len(inside) + len(outside)
    if not len(inside) or not len(outside):
        lacking = "in" if not len(inside) else "out of"
        return [undefined(metric, name, n, f"no image is {lacking} distribution") for metric in DETECTION]
    generator = np.random.default_rng(0)
    drawn = [
        (
            inside[generator.integers(0, len(inside), len(inside))],
            outside[generator.integers(0, len(outside), len(outside))],
        )
        for _ in range(RESAMPLES)
    ]
    return [
        normal(
            metric,
            name,
            of(inside, outside),
            error=float(np.std([of(*pair) for pair in drawn], ddof=1)),
            n=n,
            interval="bootstrap-95",
        )
        for metric, of in DETECTION.items()
    ]


def cue_conflict_scores(columns: Columns) -> list[Score]:
    """Shape bias and the shares decided by each cue, over images whose cues conflict.

    A dataset's labels are the shapes, its groups the textures, each group the label's number as text.
    """
    if not len(columns.labels):
        return [undefined("shape_bias", CLEAN, 0, NO_IMAGES)]
    textures = [int(name) for name in columns.values("group", CLEAN)]
    predicted = columns.values("predicted", CLEAN).tolist()
    counts = cue_conflict(predicted, columns.labels.tolist(), textures)
    by_shape = np.arange(counts.shape + counts.texture) < counts.shape
    everyone = np.arange(counts.images)
    none = "no image was decided by shape or texture"
    return [
        share("shape_bias", CLEAN, by_shape, none),
        share("shape_accuracy", CLEAN, everyone < counts.shape, "no image has conflicting cues"),
        share("texture_accuracy", CLEAN, everyone < counts.texture, "no image has conflicting cues"),
    ]
