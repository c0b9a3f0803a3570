"""Scores of fixed benchmarks from prediction tables, against definitions and independent libraries."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from robustboard.benchmarks.corruption_errors import ALEXNET, ALEXNET_CLEAN
from robustboard.benchmarks.entries import (
    BenchmarkEntry,
    Clean,
    Corruption,
    CorruptionSetting,
    CueConflict,
    DetectionSetting,
    Normaliser,
    OutOfDistribution,
    Procedure,
    Scope,
)
from robustboard.runners.predictions import Outputs, PredictionTable
from robustboard.runners.record import Score
from robustboard.runners.scoring import scores

SCOPE = Scope(datasets=("digits",))
Logits = npt.NDArray[np.float64]


def log_softmax(logits: Logits) -> Logits:
    top = logits.max(1, keepdims=True)
    found: Logits = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
    return found


def rows(condition: str, logits: Logits, labels: npt.NDArray[np.int64], **columns: Any) -> PredictionTable:
    """Predictions with all their outputs, computed with NumPy."""
    log_shares, n = log_softmax(logits), len(labels)
    outside = labels < 0
    own = np.where(outside, 0.0, log_shares[np.arange(n), np.where(outside, 0, labels)])
    return PredictionTable.of(
        **{
            "sample_id": [f"{row:04d}" for row in range(n)],
            "condition": condition,
            "label": labels,
            "predicted": logits.argmax(1),
            "confidence": np.exp(log_shares).max(1),
            "distance": np.zeros(n),
            "status": ["outside" if each else "ok" for each in outside],
            "outputs": Outputs(
                label_log_share=own,
                square_sum=np.exp(2 * log_shares).sum(1),
                entropy=-(np.exp(log_shares) * log_shares).sum(1),
                max_logit=logits.max(1),
                energy=np.log(np.exp(logits).sum(1)),
            ),
            **columns,
        }
    )


def scored(procedure: Procedure, table: PredictionTable, setting: Scope = SCOPE) -> dict[str, Score]:
    benchmark = BenchmarkEntry.model_validate(
        {
            "id": "some-v1",
            "name": "Some",
            "summary": "A test.",
            "procedure": procedure,
            "source": "a test",
            "added": "2026-01-31",
        }
    )
    found, headline = scores(benchmark, setting, table)
    named = {f"{score.metric}@{score.condition}": score for score in found}
    assert len(named) == len(found)
    assert headline in named
    return named


@pytest.fixture
def logits() -> tuple[Logits, npt.NDArray[np.int64]]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 4, 400)
    found = generator.normal(size=(400, 4))
    found[np.arange(400), labels] += 1.5
    return found, labels


def test_clean_predictions_are_judged_for_calibration(logits: tuple[Logits, npt.NDArray[np.int64]]) -> None:
    found, labels = logits
    named = scored(Clean(kind="clean", settings=(SCOPE,)), rows("clean", found, labels))
    shares = np.exp(log_softmax(found))
    likelihood = named["negative_log_likelihood@clean"]
    assert likelihood.value == pytest.approx(log_loss(labels, shares, labels=range(4)), rel=1e-5)
    one_hot = np.eye(4)[labels]
    assert named["brier_score@clean"].value == pytest.approx(
        ((shares - one_hot) ** 2).sum(1).mean(), rel=1e-5
    )
    error = named["expected_calibration_error@clean"]
    assert (error.interval, error.n, error.direction) == ("bootstrap-95", 400, "lower")
    assert 0 < (error.value or 0) < 0.5


def test_the_published_rms_error_of_one_bin_is_undefined(
    logits: tuple[Logits, npt.NDArray[np.int64]],
) -> None:
    """The published code leaves the last bin out: of one bin nothing is left, which is not an error of 0."""
    found, labels = logits
    clean = Clean(kind="clean", settings=(SCOPE,))
    few = scored(clean, rows("clean", found[:199], labels[:199]))
    assert few["rms_calibration_error_published@clean"].status == "undefined"
    assert (few["rms_calibration_error@clean"].value or 0) > 0
    enough = scored(clean, rows("clean", found[:200], labels[:200]))
    assert (enough["rms_calibration_error_published@clean"].value or 0) > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_very_sure_model_that_is_always_right_has_a_brier_score(seed: int) -> None:
    """Its distance from the labels is less than float32 can tell, and never negative."""
    logits = np.zeros((19, 4))
    logits[:, 0] = 15.6 + np.random.default_rng(seed).uniform(0, 1, 19)
    named = scored(Clean(kind="clean", settings=(SCOPE,)), rows("clean", logits, np.zeros(19, np.int64)))
    assert 0 <= (named["brier_score@clean"].value or 0) < 1e-6


def test_results_without_outputs_have_no_calibration(logits: tuple[Logits, npt.NDArray[np.int64]]) -> None:
    found, labels = logits
    named = scored(Clean(kind="clean", settings=(SCOPE,)), rows("clean", found, labels, outputs=None))
    assert sorted(named) == ["balanced_accuracy@clean", "clean_accuracy@clean"]


def test_the_best_temperature_undoes_a_factor(logits: tuple[Logits, npt.NDArray[np.int64]]) -> None:
    """Logits three times too large want three times the temperature of the others."""
    found, labels = logits
    grid = tuple(Fraction(str(round(each, 4))) for each in np.geomspace(0.2, 9, 25))
    procedure = Clean(kind="clean", temperatures=grid, settings=(SCOPE,))

    def temperature(factor: float) -> float:
        tables = [rows("clean", factor * found, labels)]
        tables += [rows(f"temperature {t}", factor * found / float(t), labels) for t in grid]
        named = scored(procedure, PredictionTable.concat(tables))
        score = named["best_temperature@clean"]
        assert score.value is not None
        assert score.low is not None
        return score.value

    assert temperature(3) / temperature(1) == pytest.approx(3, rel=0.03)


def test_a_best_temperature_beyond_the_grid_is_undefined(
    logits: tuple[Logits, npt.NDArray[np.int64]],
) -> None:
    found, labels = logits
    grid = (Fraction(1), Fraction(2), Fraction(3))
    tables = [rows("clean", 50 * found, labels)]
    tables += [rows(f"temperature {t}", 50 * found / float(t), labels) for t in grid]
    procedure = Clean(kind="clean", temperatures=grid, settings=(SCOPE,))
    score = scored(procedure, PredictionTable.concat(tables))["best_temperature@clean"]
    assert (score.status, score.reason) == (
        "undefined",
        "the best temperature lies beyond the protocol's 1 to 3",
    )


def test_the_worst_group_is_told(logits: tuple[Logits, npt.NDArray[np.int64]]) -> None:
    found, labels = logits
    group = np.array(["north", "south"])[np.arange(400) % 2]
    right = found.argmax(1) == labels
    named = scored(
        Clean(kind="clean", settings=(SCOPE,)),
        rows("clean", found, labels, outputs=None, group=group.tolist()),
    )
    each = {name: right[group == name].mean() for name in ("north", "south")}
    assert named["group_accuracy@north"].value == pytest.approx(each["north"])
    assert named["worst_group_accuracy@clean"].value == pytest.approx(min(each.values()))
    assert named["worst_group_accuracy@clean"].n == 200


def corrupted(
    errors: dict[str, float], clean_error: float, n: int = 2000
) -> tuple[Corruption, PredictionTable]:
    """Images of class 0, of which exactly the wanted share is called class 1 at every severity."""
    exact = {name: round(error * n) / n for name, error in errors.items()}
    procedure = Corruption(
        kind="corruption",
        variant="imagenet",
        images="in-memory",
        corruptions=(*exact, "spatter"),
        severities=(1, 3),
        normaliser=Normaliser.model_validate(
            {
                "name": "AlexNet",
                "clean_error": str(ALEXNET_CLEAN),
                "errors": {name: str(error) for name, error in ALEXNET.items()},
            }
        ),
        settings=(CorruptionSetting(datasets=("digits",)),),
    )
    generator = np.random.default_rng(1)

    def table(condition: str, error: float) -> PredictionTable:
        wrong = generator.permutation(np.arange(n) < round(error * n))
        return PredictionTable.of(
            sample_id=[f"{row:05d}" for row in range(n)],
            condition=condition,
            label=np.zeros(n),
            predicted=wrong,
            confidence=np.ones(n),
            distance=np.zeros(n),
            status=["ok"] * n,
        )

    tables = [table("clean", clean_error)]
    for name in procedure.corruptions:
        tables += [table(f"{name} {severity}", exact.get(name, 1.0)) for severity in procedure.severities]
    return procedure, PredictionTable.concat(tables)


def test_a_copy_of_the_reference_has_an_mce_of_100() -> None:
    """At 2,000 images each error is met within 1/4,000; spatter, all wrong, does not count."""
    procedure, table = corrupted(dict(ALEXNET), ALEXNET_CLEAN)
    named = scored(procedure, table, procedure.settings[0])
    for metric in ("mce@all", "relative_mce@all"):
        score = named[metric]
        assert score.value == pytest.approx(100, abs=0.1)
        assert (score.unit, score.direction, score.interval) == ("percent", "lower", "normal-95")
    assert named["corruption_error@fog"].value == pytest.approx(100, abs=0.1)
    mean_error = sum(ALEXNET.values()) / 15
    assert named["mean_corruption_accuracy@all"].value == pytest.approx(1 - mean_error, abs=1e-3)
    assert named["corruption_accuracy@spatter"].value == 0
    assert named["corruption_accuracy@fog 3"].correct == round((1 - ALEXNET["fog"]) * 2000)


def test_the_interval_of_mce_is_that_of_repeated_test_sets() -> None:
    """The standard deviation of mCE over fresh samples of images, against the one that is told."""
    procedure, table = corrupted(dict(ALEXNET), ALEXNET_CLEAN, n=200)
    score = scored(procedure, table, procedure.settings[0])["mce@all"]
    assert score.value is not None
    assert score.low is not None
    told = (score.value - score.low) / 1.96
    generator = np.random.default_rng(2)
    draws = [
        np.mean([100 * generator.binomial(200, e, size=2).mean() / 200 / e for e in ALEXNET.values()])
        for _ in range(400)
    ]
    assert told == pytest.approx(np.std(draws), rel=0.25)


def test_without_a_reference_the_mean_accuracy_stands_for_the_cell(logits: Any) -> None:
    found, labels = logits
    procedure = Corruption(
        kind="corruption",
        variant="cifar",
        images="in-memory",
        corruptions=("fog", "snow"),
        severities=(1,),
        settings=(CorruptionSetting(datasets=("digits",)),),
    )
    tables = [rows(name, found + shift, labels, outputs=None) for name, shift in (("clean", 0), ("fog 1", 0))]
    tables.append(rows("snow 1", np.roll(found, 1, axis=1), labels, outputs=None))
    named = scored(procedure, PredictionTable.concat(tables), procedure.settings[0])
    fog, snow = named["corruption_accuracy@fog"].value, named["corruption_accuracy@snow"].value
    assert named["mean_corruption_accuracy@all"].value == pytest.approx(((fog or 0) + (snow or 0)) / 2)
    assert "mce@all" not in named


DETECTION = OutOfDistribution(
    kind="out-of-distribution",
    settings=(DetectionSetting(datasets=("digits",), out_of_distribution="fashion-mnist"),),
)


def test_detection_agrees_with_scikit_learn(logits: tuple[Logits, npt.NDArray[np.int64]]) -> None:
    found, labels = logits
    outside = np.arange(400) < 100
    table = rows("clean", np.where(outside[:, None], found / 3, found), np.where(outside, -1, labels))
    named = scored(DETECTION, table, DETECTION.settings[0])
    for name, column, sign in (
        ("msp", "confidence", -1),
        ("max-logit", "max_logit", -1),
        ("energy", "energy", -1),
        ("entropy", "entropy", 1),
    ):
        anomaly = sign * table.column(column).astype(np.float64)
        assert named[f"auroc@{name}"].value == pytest.approx(roc_auc_score(outside, anomaly))
        precision = average_precision_score(outside, anomaly)
        assert named[f"aupr_out@{name}"].value == pytest.approx(precision)
        precision = average_precision_score(~outside, -anomaly)
        assert named[f"aupr_in@{name}"].value == pytest.approx(precision)
    assert named["in_distribution_images@clean"].value == 300
    assert named["out_of_distribution_images@clean"].value == 100
    right = (found.argmax(1) == labels)[~outside]
    assert named["clean_accuracy@clean"].value == pytest.approx(right.mean())


def test_detection_without_images_outside_is_undefined(logits: tuple[Logits, npt.NDArray[np.int64]]) -> None:
    named = scored(DETECTION, rows("clean", *logits), DETECTION.settings[0])
    score = named["auroc@msp"]
    assert (score.status, score.reason) == ("undefined", "no image is out of distribution")


def test_shape_bias_is_the_share_of_shape_among_decided() -> None:
    """The toy of the protocol notes: shape, shape, texture, neither, texture, and one without conflict."""
    predicted = np.array([0, 1, 5, 9, 5, 7])
    table = PredictionTable.of(
        sample_id=list("abcdef"),
        condition="clean",
        label=np.array([0, 1, 2, 3, 4, 7]),
        predicted=predicted,
        confidence=np.ones(6),
        distance=np.zeros(6),
        status=["ok"] * 6,
        group=["5", "5", "5", "5", "5", "7"],
    )
    named = scored(CueConflict(kind="cue-conflict", settings=(SCOPE,)), table)
    assert (named["shape_bias@clean"].value, named["shape_bias@clean"].n) == (0.5, 4)
    assert named["shape_accuracy@clean"].value == pytest.approx(2 / 5)
    assert named["texture_accuracy@clean"].value == pytest.approx(2 / 5)
