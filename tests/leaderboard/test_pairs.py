from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from robustboard.leaderboard import pairs
from robustboard.leaderboard.pairs import bootstrap_sum, paired, paired_bootstrap, resampled_mean


def two(
    only_a: int, only_b: int, both: int, neither: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Right or wrong of two models with these counts."""
    a = np.repeat([1, 0, 1, 0], [only_a, only_b, both, neither]).astype(bool)
    b = np.repeat([0, 1, 1, 0], [only_a, only_b, both, neither]).astype(bool)
    return a, b


@pytest.mark.parametrize("counts", [(20, 0, 830, 150), (55, 74, 55, 416), (0, 0, 5, 5), (3, 9, 1, 0)])
def test_the_test_of_right_and_wrong_equals_statsmodels(counts: tuple[int, int, int, int]) -> None:
    only_a, only_b, both, neither = counts
    found = paired(*two(*counts))
    theirs = statsmodels_mcnemar([[both, only_a], [only_b, neither]], exact=True).pvalue
    assert found.p_value == pytest.approx(min(theirs, 1.0))
    assert (found.only_a, found.only_b, found.both, found.neither) == counts
    assert found.difference == pytest.approx((only_a - only_b) / sum(counts))


def test_the_interval_is_the_one_of_agresti_and_min() -> None:
    """Approval of 1,600 voters asked twice (Agresti 2002, table 10.1): 150 and 86 change sides.
    Wald's interval is 0.021 to 0.059; half a count in each cell moves the ends by less than 0.0005."""
    found = paired(*two(150, 86, 794, 570))
    assert (found.low, found.high) == pytest.approx((0.0212, 0.0588), abs=5e-4)


def test_the_interval_covers_at_its_level() -> None:
    """In 800 samples of 300 pairs at a true difference of 0.05 about 95 in a hundred intervals hold it."""
    draws = np.random.default_rng(5).multinomial(300, [0.10, 0.05, 0.65, 0.20], size=800)
    hits = 0
    for only_a, only_b, both, neither in draws:
        found = paired(*two(only_a, only_b, both, neither))
        hits += found.low <= 0.05 <= found.high
    assert 0.93 <= hits / 800 <= 0.975


def test_means_of_parts_are_tested_by_their_differences() -> None:
    """The statistic is scipy's paired t; with 4,000 images its p-value is that of the normal distribution."""
    generator = np.random.default_rng(0)
    a = generator.integers(0, 4, 4000) / 3
    b = np.clip(a + generator.integers(-1, 2, 4000) / 3 - 0.01, 0, 1)
    found, theirs = paired(a, b), stats.ttest_rel(a, b)
    assert found.test == "paired z"
    assert found.only_a is None
    assert found.p_value == pytest.approx(theirs.pvalue, rel=0.02, abs=1e-4)
    interval = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-4)


def test_equal_means_of_parts_are_tied_and_constant_gaps_are_clear() -> None:
    half = np.asarray([0.5, 0.25, 0.75])
    assert (paired(half, half).p_value, paired(half, half).difference) == (1.0, 0.0)
    assert paired(half, half - 0.25).p_value == 0.0


def test_the_bootstrap_agrees_with_scipy_and_with_the_interval() -> None:
    a, b = two(60, 30, 500, 410)
    low, high = paired_bootstrap(a, b)
    theirs = stats.bootstrap(
        ((a.astype(float) - b.astype(float)),), np.mean, n_resamples=4000, method="percentile", rng=1
    ).confidence_interval
    found = paired(a, b)
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.002)
    assert (low, high) == pytest.approx((found.low, found.high), abs=0.002)


def test_resampling_takes_the_variance_of_a_mean() -> None:
    values = np.random.default_rng(3).integers(0, 5, 2500) / 4
    means = resampled_mean(values)
    assert means.std() == pytest.approx(values.std() / 50, rel=0.03)
    assert np.array_equal(means, resampled_mean(values))


def test_resampling_many_values_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 distinct values, 1,500 times: 36 MB of counts if drawn at once."""
    values = np.random.default_rng(4).random(3000)
    tracemalloc.start()
    means = resampled_mean(values, resamples=1500)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 35e6
    monkeypatch.setattr(pairs, "DRAWN", 10**9)
    assert means == pytest.approx(resampled_mean(values, resamples=1500), rel=1e-12)


def test_columns_on_the_same_images_are_drawn_together() -> None:
    """Two equal columns are as sure as one; two on images of their own are surer by root 2."""
    values = two(300, 0, 0, 700)[0].astype(float)
    one_low, one_high = bootstrap_sum([values])
    same_low, same_high = bootstrap_sum([(values + values) / 2])
    apart_low, apart_high = bootstrap_sum([values / 2, values / 2])
    assert (same_low, same_high) == (one_low, one_high)
    assert (apart_high - apart_low) / (one_high - one_low) == pytest.approx(1 / np.sqrt(2), rel=0.05)


def test_other_numbers_of_images_are_refused() -> None:
    with pytest.raises(ValueError, match="same images"):
        paired(np.ones(3, np.bool_), np.ones(4, np.bool_))
    with pytest.raises(ValueError, match="same images"):
        paired_bootstrap(np.ones(0), np.ones(0))
