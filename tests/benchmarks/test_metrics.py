"""Numbers from right and wrong, against independent implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap
from sklearn.metrics import balanced_accuracy_score
from statsmodels.stats.proportion import proportion_confint

from robustboard.benchmarks import metrics


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=100, deadline=None)
def test_wilson_interval_equals_statsmodels(pair: tuple[int, int]) -> None:
    correct, n = pair
    low, high = metrics.wilson(correct, n)
    expected = proportion_confint(correct, n, alpha=0.05, method="wilson")
    assert (low, high) == pytest.approx(expected, abs=1e-12)
    assert low <= correct / n <= high


@pytest.mark.parametrize(("correct", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(correct: int, n: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= correct <= n"):
        metrics.wilson(correct, n)


def test_balanced_accuracy_leaves_absent_classes_out() -> None:
    """B036: targets 0, 1, 1, 3 of four declared classes; 0.625 would count the absent class as 0."""
    labels, predicted = np.array([0, 1, 1, 3]), np.array([0, 1, 0, 3])
    assert metrics.accuracy(predicted == labels) == 0.75
    assert metrics.balanced_accuracy(labels, predicted == labels)[0] == pytest.approx(5 / 6, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_balanced_accuracy_equals_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    labels = np.array([label for label, _ in rows])
    right = np.array([flag for _, flag in rows])
    present = np.unique(labels)
    # A wrong answer is another class that occurs, so that scikit-learn sees no class without images.
    predicted = np.where(right, labels, np.roll(present, 1)[np.searchsorted(present, labels)])
    if present.size == 1:
        return
    value, sample_size = metrics.balanced_accuracy(labels, right)
    assert value == pytest.approx(balanced_accuracy_score(labels, predicted), abs=1e-12)
    assert 0 < sample_size <= labels.size


def test_balanced_accuracy_of_equal_classes_counts_every_image() -> None:
    labels = np.repeat(np.arange(10), 60)
    right = np.tile(np.arange(60) < 54, 10)
    value, sample_size = metrics.balanced_accuracy(labels, right)
    assert value == pytest.approx(0.9)
    assert sample_size == pytest.approx(600)


def test_a_rare_class_widens_the_balanced_interval() -> None:
    labels = np.array([0] * 98 + [1] * 2)
    _, sample_size = metrics.balanced_accuracy(labels, np.ones(100, np.bool_))
    assert sample_size < 30


def test_repeated_draws_on_an_image_do_not_count_as_images() -> None:
    """Five draws that always agree are one trial; five independent ones are five."""
    generator = np.random.default_rng(0)
    agree = (generator.random(400) < 0.7).astype(np.float64)
    assert metrics.mean_share(agree, 5)[1] == 400
    free = (generator.random((400, 5)) < 0.7).mean(axis=1)
    assert 1600 < metrics.mean_share(free, 5)[1] <= 2000
    assert metrics.mean_share(np.ones(400), 5) == (1.0, 400)
    assert metrics.mean_share(np.full(400, 0.2), 5)[1] == 2000
    assert metrics.mean_share(np.array([0.2]), 5) == (0.2, 1), "one image does not show how images vary"


def test_interval_of_dependent_draws_agrees_with_a_bootstrap_over_images() -> None:
    generator = np.random.default_rng(1)
    hardness = generator.beta(1.2, 0.6, size=500)
    values = (generator.random((500, 3)) < hardness[:, None]).mean(axis=1)
    value, sample_size = metrics.mean_share(values, 3)
    ours = metrics.wilson(value * sample_size, sample_size)
    drawn = bootstrap((values,), np.mean, n_resamples=4000, rng=np.random.default_rng(2))
    assert ours == pytest.approx((drawn.confidence_interval.low, drawn.confidence_interval.high), abs=0.004)


def test_interval_of_dependent_draws_covers_the_truth_95_times_in_100() -> None:
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(1000):
        hardness = generator.beta(3, 1, size=80)  # true mean 0.75
        values = (generator.random((80, 3)) < hardness[:, None]).mean(axis=1)
        value, sample_size = metrics.mean_share(values, 3)
        low, high = metrics.wilson(value * sample_size, sample_size)
        hits += low <= 0.75 <= high
    assert 930 <= hits <= 970


def test_area_weights_are_the_trapezoid_rule() -> None:
    budgets = [1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255]
    accuracy = np.array([0.9, 0.7, 0.4, 0.1, 0.0])
    expected = np.trapezoid(accuracy, budgets) / (budgets[-1] - budgets[0])
    weights = metrics.area_weights(budgets)
    assert weights @ accuracy == pytest.approx(expected, abs=1e-12)
    assert weights.sum() == pytest.approx(1)


def test_no_area_under_a_single_point_and_no_accuracy_of_nothing() -> None:
    with pytest.raises(ValueError, match="two or more budgets"):
        metrics.area_weights([0.1])
    with pytest.raises(ValueError, match="no image"):
        metrics.accuracy(np.zeros(0, np.bool_))
