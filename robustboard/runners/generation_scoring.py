"""Scores of images generated against a model: SA, PA, VR, FMR and what stands beside them. No torch here.

Definitions: Zhang et al. 2023 ("Foundation Model-oriented Robustness"). PA is over the images that the
oracle still accepts once they are 8-bit files. Intervals of ratios are bootstrap percentiles over images,
from fixed seeds, so that equal rows give equal bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks import calibration, metrics
from robustboard.benchmarks.entries import CLEAN, GeneratedSetting
from robustboard.benchmarks.generated import oracle_name, pair_name, reconstruction_name, verdict_name
from robustboard.runners.columns import Columns
from robustboard.runners.estimates import NO_IMAGES, Flags, linear, normal, share, undefined
from robustboard.runners.predictions import SampleStatus
from robustboard.runners.record import Score

ACCEPTED: SampleStatus = "accepted"
COUNTED: dict[str, SampleStatus] = {
    "reconstruction_only_images": "reconstruction-only",
    "rejected_at_0_images": "rejected-at-0",
    "source_rejected_images": "source-rejected",
}
"""Metric → the status that it counts."""
NONE_ACCEPTED = "the oracle accepted no generated image"
RESAMPLES = 1000
BLOCK = 100
"""Resamples weighed together; bounds memory, changes nothing."""
MOST_CLASSES = 100
"""Datasets with more classes get no scores a class."""
PERCENTILES = (2.5, 97.5)


def generation_scores(setting: GeneratedSetting, columns: Columns) -> list[Score]:
    """What oracles and generators do with the images as they are, then all scores of each pair of them."""
    found = []
    for oracle in setting.oracles:
        name = oracle_name(oracle)
        found += [share("oracle_accuracy", name, columns.right[name]), _calibration(name, columns)]
    for use in setting.generators:
        name = reconstruction_name(use.generator)
        moved = columns.values("distance", name).astype(np.float64)
        found += [
            share("reconstruction_accuracy", name, columns.right[name]),
            linear("l2_distance", name, moved),
        ]
    for use, oracle in setting.pairs:
        found += _pair_scores(pair_name(use.generator, oracle), reconstruction_name(use.generator), columns)
    return found


def _calibration(name: str, columns: Columns) -> Score:
    """The gap of an oracle's confidence and accuracy; an ensemble's confidence is the share of its votes."""
    right, confidence = columns.right[name], columns.values("confidence", name).astype(np.float64)
    metric = "expected_calibration_error"
    if right.size == 0:
        return undefined(metric, name, 0, NO_IMAGES)
    gap = calibration.expected_calibration_error(confidence, right)
    return normal(metric, name, gap, error=None, n=right.size)


def accepted_images(columns: Columns, pair: str) -> Flags:
    """(n,) images that the loop accepted and the oracle still accepts once they are files."""
    taken: Flags = np.asarray(columns.status[pair] == ACCEPTED, np.bool_)
    return taken & columns.right[verdict_name(pair)]


def _pair_scores(pair: str, reconstruction: str, columns: Columns) -> list[Score]:
    clean, right, status = columns.right[CLEAN], columns.right[pair], columns.status[pair]
    taken = status == ACCEPTED
    accepted = accepted_images(columns, pair)
    rejected = np.isin(status, ("rejected-at-0", "source-rejected"))
    steps = columns.values("group", pair).astype(np.float64)
    rebuilt = columns.right[reconstruction]
    return [
        _ratio("fmr", pair, (right, accepted), (clean, np.ones_like(clean))),
        share("perturbed_accuracy", pair, right[accepted], NONE_ACCEPTED),
        share("validation_rate", pair, accepted),
        _ratio("fmr_matched", pair, (right, accepted), (clean, accepted)),
        _ratio("fmr_net", pair, (right, accepted), (rebuilt, accepted), "reconstructions"),
        share("accepted_clean_accuracy", pair, clean[accepted], NONE_ACCEPTED),
        share("accepted_reconstruction_accuracy", pair, rebuilt[accepted], NONE_ACCEPTED),
        share("perturbed_accuracy_unrejected", pair, right[~rejected], "every image was rejected"),
        share("perturbed_accuracy_all", pair, right),
        _mean("accepted_steps", pair, steps[accepted]),
        _mean("l2_distance", pair, columns.values("distance", pair)[accepted].astype(np.float64)),
        _mean(
            "linf_distance",
            pair,
            columns.values("distance", verdict_name(pair))[accepted].astype(np.float64),
        ),
        _count("accepted_images", pair, accepted),
        *(_count(metric, pair, status == name) for metric, name in COUNTED.items()),
        _count("lost_to_rounding_images", pair, taken & ~accepted),
        *_class_scores(pair, columns, accepted),
    ]


def _class_scores(pair: str, columns: Columns, accepted: Flags) -> list[Score]:
    """Validation rate and perturbed accuracy of each class that occurs."""
    classes = np.unique(columns.labels)
    if classes.size > MOST_CLASSES:
        return []
    found = []
    for label in classes.tolist():
        own = columns.labels == label
        name = f"{pair} class {label}"
        found.append(share("validation_rate", name, accepted[own]))
        found.append(share("perturbed_accuracy", name, columns.right[pair][own & accepted], NONE_ACCEPTED))
    return found


def _count(metric: str, condition: str, flags: npt.NDArray[np.bool_]) -> Score:
    meaning, count = metrics.METRICS[metric], int(np.count_nonzero(flags))
    return Score(
        metric=metric,
        condition=condition,
        value=float(count),
        low=None,
        high=None,
        n=flags.size,
        unit=meaning.unit,
        direction=meaning.direction,
        interval="none",
    )


def _mean(metric: str, condition: str, values: npt.NDArray[np.float64]) -> Score:
    return (
        linear(metric, condition, values) if values.size else undefined(metric, condition, 0, NONE_ACCEPTED)
    )


def _ratio(
    metric: str,
    condition: str,
    upper: tuple[Flags, Flags],
    lower: tuple[Flags, Flags],
    below: str = "originals",
) -> Score:
    """100 times one share over another; each is (flags, the images that count), all (n,) of the same images.

    Undefined where no image of the upper share counts, or where the lower share is 0; `below` names the
    images of the lower one.
    """
    (top, chosen), (bottom, over) = upper, lower
    n = int(np.count_nonzero(chosen))
    if n == 0:
        return undefined(metric, condition, 0, NONE_ACCEPTED)
    if not np.any(bottom & over):
        return undefined(metric, condition, n, f"the model classifies none of the {below} right")
    sums = np.stack([top & chosen, chosen, bottom & over, over]).astype(np.float64)
    value = float(_quotient(sums.sum(axis=1)[:, None])[0])
    drawn = np.concatenate([_quotient(part) for part in _resampled(sums)])
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, PERCENTILES) if drawn.size else (value, value)
    meaning = metrics.METRICS[metric]
    return Score(
        metric=metric,
        condition=condition,
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        n=n,
        unit=meaning.unit,
        direction=meaning.direction,
        interval="bootstrap-95",
    )


def _quotient(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """100 (a / b) / (c / d) of the four rows of sums (4, r); not finite where it is undefined."""
    top, chosen, bottom, over = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(100 * (top * over) / (chosen * bottom), np.float64)


def _resampled(sums: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """Sums (4, BLOCK) over images drawn with replacement, from flags (4, n) and a fixed seed."""
    n = sums.shape[1]
    generator = np.random.Generator(np.random.Philox(key=n))
    even = np.full(n, 1 / n)
    return [
        sums @ generator.multinomial(n, even, size=BLOCK).astype(np.float64).T
        for _ in range(0, RESAMPLES, BLOCK)
    ]
