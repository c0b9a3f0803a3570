"""Detection metrics agree with scikit-learn, with hand-computed toys and with their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from robustboard.benchmarks import detection

OUTSIDE = np.array([-0.30, -0.45, -0.80, -0.45])
INSIDE = np.array([-0.99, -0.95, -0.45, -0.90, -0.60, -0.85, -0.70, -0.40])

few = st.lists(st.integers(-4, 4), min_size=1, max_size=20)
quick = settings(max_examples=60, deadline=None)


def pooled(inside: list[int], outside: list[int], positive: str = "out") -> tuple[Any, Any]:
    scores = np.array([*outside, *inside], float)
    labels = np.array([1] * len(outside) + [0] * len(inside))
    return (labels, scores) if positive == "out" else (1 - labels, -scores)


def test_the_toy_has_its_published_values() -> None:
    """The vector of the protocol notes: four images outside, eight inside, with ties."""
    assert detection.auroc(INSIDE, OUTSIDE) == pytest.approx(0.78125)
    assert detection.average_precision(INSIDE, OUTSIDE) == pytest.approx(0.675)
    assert detection.average_precision(INSIDE, OUTSIDE, positive="in") == pytest.approx(0.889718, abs=1e-6)
    assert detection.trapezoid_aupr(INSIDE, OUTSIDE) == pytest.approx(0.641071, abs=1e-6)
    assert detection.trapezoid_aupr(INSIDE, OUTSIDE, positive="in") == pytest.approx(0.894264, abs=1e-6)
    assert detection.fpr_at_recall(INSIDE, OUTSIDE) == pytest.approx(0.5)
    assert detection.fpr_at_recall(INSIDE, OUTSIDE, rule="first") == pytest.approx(0.5)
    assert detection.fpr_at_recall(INSIDE, OUTSIDE, positive="in") == pytest.approx(0.75)


def test_scores_that_tell_nothing_give_the_share_of_images_outside() -> None:
    assert detection.average_precision(np.zeros(10_000), np.zeros(2_000)) == pytest.approx(1 / 6)
    assert detection.auroc(np.zeros(10_000), np.zeros(2_000)) == pytest.approx(0.5)


@quick
@given(few, few)
def test_auroc_is_that_of_scikit_learn(inside: list[int], outside: list[int]) -> None:
    labels, scores = pooled(inside, outside)
    found = detection.auroc(np.array(inside, float), np.array(outside, float))
    assert found == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@quick
@given(few, few, st.sampled_from(["out", "in"]))
def test_both_aupr_are_those_of_scikit_learn(
    inside: list[int], outside: list[int], positive: detection.Positive
) -> None:
    labels, scores = pooled(inside, outside, positive)
    arrays = np.array(inside, float), np.array(outside, float)
    step = detection.average_precision(*arrays, positive=positive)
    assert step == pytest.approx(average_precision_score(labels, scores), abs=1e-12)
    precision, recall, _ = precision_recall_curve(labels, scores)
    end = int(np.flatnonzero(recall == 1)[-1])  # from the strictest threshold of full recall on
    area = detection.trapezoid_aupr(*arrays, positive=positive)
    assert area == pytest.approx(auc(recall[end:], precision[end:]), abs=1e-12)


@quick
@given(few, few, st.sampled_from(["out", "in"]))
def test_both_rules_pick_a_threshold_of_the_roc_curve(
    inside: list[int], outside: list[int], positive: detection.Positive
) -> None:
    labels, scores = pooled(inside, outside, positive)
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    false, true = false[1:], true[1:]
    arrays = np.array(inside, float), np.array(outside, float)
    first = detection.fpr_at_recall(*arrays, rule="first", positive=positive)
    assert first == pytest.approx(false[np.argmax(true >= 0.95)])
    gap = np.abs(true - 0.95)
    best = true[gap <= gap.min()].max()
    shares = false[true == best]
    expected = shares.min() if best == 1 else shares.max()
    assert detection.fpr_at_recall(*arrays, positive=positive) == pytest.approx(expected)


def test_of_thresholds_with_the_nearest_recall_the_loosest_counts() -> None:
    """As in the code of Outlier Exposure: 19 of 20 outside found, then two images inside before the last."""
    outside = np.array([*range(30, 49), 1.0])
    inside = np.array([20.0, 10.0, 0.0, -1.0])
    assert detection.fpr_at_recall(inside, outside) == 0.5
    assert detection.fpr_at_recall(inside, outside, rule="first") == 0.0


@pytest.mark.parametrize(
    "metric",
    [detection.auroc, detection.average_precision, detection.trapezoid_aupr, detection.fpr_at_recall],
)
@pytest.mark.parametrize(("inside", "outside"), [([], [1.0]), ([1.0], []), ([np.nan], [1.0])])
def test_without_both_kinds_or_with_nan_there_is_no_value(
    metric: Any, inside: list[float], outside: list[float]
) -> None:
    with pytest.raises(ValueError, match="expected"):
        metric(np.array(inside), np.array(outside))


def test_anomaly_scores_rise_with_doubt() -> None:
    """Outputs of a sure and of an unsure image, computed from the logits by hand."""
    logits = np.array([[4.0, 0.0], [0.1, 0.0]])
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    outputs: dict[str, npt.NDArray[np.float64]] = {
        "confidence": shares.max(1),
        "max_logit": logits.max(1),
        "energy": np.log(np.exp(logits).sum(1)),
        "entropy": -(shares * np.log(shares)).sum(1),
    }
    for name in detection.SCORES:
        sure, unsure = detection.anomaly(name, **outputs)
        assert sure < unsure
    with pytest.raises(ValueError, match="expected one of msp"):
        detection.anomaly("mahalanobis", **outputs)
