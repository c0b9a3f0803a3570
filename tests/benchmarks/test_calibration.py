"""Calibration metrics agree with scikit-learn, with hand-computed toys and with their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from robustboard.benchmarks import calibration

TOY_CONFIDENCE = np.linspace(0.01, 1.0, 300)
TOY_CORRECT = np.arange(300) % 3 == 0
pairs = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=250)
quick = settings(max_examples=60, deadline=None)


def test_the_toy_has_its_published_values() -> None:
    """The vector of the protocol notes: 300 confidences from 0.01 to 1, every third prediction right."""
    paper = calibration.rms_calibration_error(TOY_CONFIDENCE, TOY_CORRECT, paper_compatible=True)
    assert paper == pytest.approx(0.139302, abs=1e-6)
    assert calibration.rms_calibration_error(TOY_CONFIDENCE, TOY_CORRECT) == pytest.approx(0.323706, abs=1e-6)
    assert calibration.aurra(TOY_CONFIDENCE, TOY_CORRECT) == pytest.approx(0.326079, abs=1e-6)


@quick
@given(pairs)
def test_rms_error_is_its_definition_bin_by_bin(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(confidence, kind="stable")
    bins = [order[i : i + 100] for i in range(0, len(order), 100)]
    if len(bins) > 1 and len(bins[-1]) < 100:
        bins[-2:] = [np.concatenate(bins[-2:])]
    total = sum(len(b) / len(order) * (confidence[b].mean() - correct[b].mean()) ** 2 for b in bins)
    assert calibration.rms_calibration_error(confidence, correct) == pytest.approx(np.sqrt(total), abs=1e-9)


@quick
@given(pairs)
def test_expected_error_is_its_definition_bin_by_bin(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = (np.array(column) for column in zip(*rows, strict=True))
    total = 0.0
    for low in range(15):
        chosen = (confidence * 15 > low) & (confidence * 15 <= low + 1) | ((low == 0) & (confidence == 0))
        if chosen.any():
            gap = abs(confidence[chosen].mean() - correct[chosen].mean())
            total += chosen.mean() * gap
    assert calibration.expected_calibration_error(confidence, correct) == pytest.approx(total, abs=1e-9)


def test_a_model_as_sure_as_it_is_right_has_no_error() -> None:
    confidence = np.repeat([0.25, 0.75], 100)
    correct = np.concatenate([np.arange(100) < 25, np.arange(100) < 75])
    assert calibration.expected_calibration_error(confidence, correct) == pytest.approx(0)
    assert calibration.rms_calibration_error(confidence, correct) == pytest.approx(0)


@pytest.mark.parametrize("seed", range(3))
def test_brier_and_likelihood_are_those_of_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.ones(4), 50)
    labels = generator.integers(0, 4, 50)
    own = np.log(shares[np.arange(50), labels])
    likelihood = calibration.negative_log_likelihood(own)
    assert likelihood == pytest.approx(log_loss(labels, shares, labels=range(4)))
    brier = calibration.brier_score(own, (shares**2).sum(1))
    per_class = sum(brier_score_loss(labels == k, shares[:, k]) for k in range(4))
    assert brier == pytest.approx(per_class)


def test_temperature_is_found_between_the_points_of_the_grid() -> None:
    """The loss of logits that are 1.7 times too large is least at temperature 1.7."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(4_000, 3)) * 2
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    # Expected loss under labels drawn from the true shares: least at 1.7, without sampling noise.
    grid = np.geomspace(0.2, 5, 25)
    losses = []
    for temperature in grid:
        scaled = logits * 1.7 / temperature
        log_shares = scaled - np.log(np.exp(scaled).sum(1, keepdims=True))
        losses.append(float(-(shares * log_shares).sum(1).mean()))
    found, inside = calibration.best_temperature(grid.tolist(), losses)
    assert inside
    assert found == pytest.approx(1.7, rel=0.01)


def test_a_best_temperature_at_the_end_of_the_grid_is_told() -> None:
    assert calibration.best_temperature([1, 2, 3], [1.0, 2.0, 3.0]) == (1.0, False)
    highest, inside = calibration.best_temperature([1, 2, 4], [3.0, 2.0, 1.0])
    assert (round(highest, 9), inside) == (4.0, False)
    with pytest.raises(ValueError, match="at least 3 rising temperatures"):
        calibration.best_temperature([1, 1, 2], [1.0, 2.0, 3.0])


def test_without_images_there_is_no_value() -> None:
    empty = np.array([])
    for metric in (
        calibration.expected_calibration_error,
        calibration.rms_calibration_error,
        calibration.aurra,
    ):
        with pytest.raises(ValueError, match="expected"):
            metric(empty, empty.astype(bool))
    with pytest.raises(ValueError, match="expected images"):
        calibration.brier_score(empty, empty)
    with pytest.raises(ValueError, match="expected images"):
        calibration.negative_log_likelihood(empty)
