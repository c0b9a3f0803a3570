from __future__ import annotations

import random
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from robustboard.benchmarks.metrics import wilson
from robustboard.leaderboard.statistics import across_seeds, holm, margin, mcnemar, rank_ranges, shades, tied

INTERVALS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    min_size=1,
    max_size=12,
)


def ranges_of(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return rank_ranges([low for low, _ in intervals], [high for _, high in intervals])


def by_definition(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    count = len(intervals)
    return [
        (
            1 + sum(other_low > high for other_low, _ in intervals),
            count - sum(other_high < low for _, other_high in intervals),
        )
        for low, high in intervals
    ]


@settings(max_examples=200)
@given(INTERVALS)
def test_rank_ranges_equal_their_definition(intervals: list[tuple[int, int]]) -> None:
    assert ranges_of(intervals) == by_definition(intervals)


@settings(max_examples=60)
@given(INTERVALS, st.integers(0, 1000))
def test_rank_ranges_do_not_depend_on_the_order_of_models(
    intervals: list[tuple[int, int]], seed: int
) -> None:
    order = list(range(len(intervals)))
    random.Random(seed).shuffle(order)
    shuffled = [intervals[place] for place in order]
    straight = ranges_of(intervals)
    assert ranges_of(shuffled) == [straight[place] for place in order]


@settings(max_examples=60)
@given(INTERVALS)
def test_best_never_exceeds_worst_and_somebody_may_be_first_and_last(
    intervals: list[tuple[int, int]],
) -> None:
    ranges = ranges_of(intervals)
    assert all(1 <= best <= worst <= len(intervals) for best, worst in ranges)
    assert min(best for best, _ in ranges) == 1
    assert max(worst for _, worst in ranges) == len(intervals)


def test_where_lower_is_better_ranks_are_those_of_the_mirrored_column() -> None:
    lows, highs = [0.1, 0.3, 0.2], [0.15, 0.4, 0.35]
    assert rank_ranges(lows, highs, "lower") == [(1, 1), (2, 3), (2, 3)]
    assert rank_ranges(lows, highs, "higher") == [(3, 3), (1, 2), (1, 2)]


def test_two_copies_of_a_model_share_a_rank_and_a_tenth_of_a_point_is_a_tie() -> None:
    """A gap of 0.1 points at n = 10,000 is far inside the intervals."""
    counts = [9000, 9000, 9010, 5000]
    lows, highs = zip(*(wilson(count, 10_000) for count in counts), strict=True)
    assert rank_ranges(lows, highs) == [(1, 3), (1, 3), (1, 3), (4, 4)]


def test_no_model_has_no_ranks_and_nonsense_is_refused() -> None:
    assert rank_ranges([], []) == []
    with pytest.raises(ValueError, match="no ranks"):
        rank_ranges([0.1], [0.2], "none")
    with pytest.raises(ValueError, match="lower"):
        rank_ranges([0.3], [0.2])
    with pytest.raises(ValueError, match="lower"):
        rank_ranges([0.3], [])


@pytest.mark.parametrize(
    ("only_a", "only_b"), [(0, 0), (1, 0), (0, 6), (5, 5), (3, 12), (40, 70), (200, 260)]
)
def test_mcnemar_equals_statsmodels_and_the_binomial_sum(only_a: int, only_b: int) -> None:
    total = only_a + only_b
    tail = sum(comb(total, k) for k in range(min(only_a, only_b) + 1)) / 2**total
    assert mcnemar(only_a, only_b) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
    if total:
        table = [[1000, only_a], [only_b, 1000]]
        expected = statsmodels_mcnemar(table, exact=True).pvalue
        assert mcnemar(only_a, only_b) == pytest.approx(expected, rel=1e-9)


def test_intervals_that_touch_are_tied() -> None:
    assert tied(0.1, 0.2, 0.2, 0.3)
    assert not tied(0.1, 0.2, 0.21, 0.3)
    assert tied(0.1, 0.9, 0.4, 0.5)


def test_margin_is_the_larger_side() -> None:
    assert margin(0.99, 0.97, 0.995) == pytest.approx(0.02)


def test_one_shade_is_never_narrower_than_an_interval() -> None:
    values = [0.80, 0.801, 0.79, None]
    assert shades(values, [0.02, 0.02, 0.02], 7) == [3, 3, 3, None]
    wide = [0.0, 0.5, 1.0]
    assert shades(wide, [0.001] * 3, 7) == [0, 3, 6]
    near = [0.5, 0.5 + 2 * 0.02 * 1.01]
    assert shades(near, [0.02] * 2, 7) in ([2, 3], [3, 4], [2, 4])


def test_a_single_value_or_equal_values_without_interval_get_no_shade() -> None:
    assert shades([0.5, None], [0.1], 7) == [None, None]
    assert shades([0.5, 0.5], [0.0, 0.0], 7) == [None, None]


def test_shades_stay_in_range_and_keep_order() -> None:
    values = list(np.linspace(0, 1, 101))
    found = shades(values, [0.01] * 101, 7)
    assert found == sorted(found, key=lambda step: -1 if step is None else step)
    assert set(found) == set(range(7))


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_values_equal_those_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_no_p_values_stay_none() -> None:
    assert holm([]) == []


def test_several_trainings_need_at_least_two() -> None:
    with pytest.raises(ValueError, match="two or more trainings"):
        across_seeds([0.5])
    assert across_seeds([0.4, 0.6]).mean == pytest.approx(0.5)
