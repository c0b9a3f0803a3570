"""Drop, effective and relative robustness of two scores, against statsmodels and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import confint_proportions_2indep

from robustboard.benchmarks.effective_robustness import Fit, PiecewiseFit, Resampled
from robustboard.leaderboard.derived import drop, effective, relative, undefined
from robustboard.runners.record import Score
from tests.leaderboard.made_up import score

REPOSITORY = Path(__file__).resolve().parents[2]
V2 = Fit(slope=0.923229, intercept=-0.497690, r=0.998, n=85)
LINE = PiecewiseFit((0.5,), (Fit(0.9, -0.5, 0.99, 20),))


def share(correct: int, n: int) -> Score:
    return score("clean_accuracy@clean", n, correct)


def interval(found: Score) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


Counts = tuple[int, int]
COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(COUNTS, COUNTS)
def test_a_drop_is_a_difference_with_newcombes_interval(
    clean: tuple[int, int], shifted: tuple[int, int]
) -> None:
    found = drop(share(*clean), share(*shifted))
    assert found.value == pytest.approx(clean[0] / clean[1] - shifted[0] / shifted[1])
    expected = confint_proportions_2indep(*clean, *shifted, method="newcomb", compare="diff")
    assert interval(found) == pytest.approx(expected, abs=1e-9)
    assert (found.unit, found.direction, found.interval) == ("difference", "lower", "newcombe-95")


def test_newcombes_own_example() -> None:
    """Newcombe 1998, table II: 56/70 less 48/80 by method 10 is 0.2 from 0.0524 to 0.3339."""
    found = drop(share(56, 70), share(48, 80))
    assert found.value == pytest.approx(0.2)
    assert interval(found) == pytest.approx((0.0524, 0.3339), abs=5e-5)


@settings(deadline=None)
@given(COUNTS)
def test_equal_accuracies_drop_by_nothing_with_an_interval_alike_on_both_sides(
    counts: tuple[int, int],
) -> None:
    found = drop(share(*counts), share(*counts))
    assert found.value == 0
    low, high = interval(found)
    assert low == pytest.approx(-high)


@settings(deadline=None)
@given(COUNTS, COUNTS)
def test_relative_robustness_is_the_drop_the_other_way_round(
    one: tuple[int, int], two: tuple[int, int]
) -> None:
    gain, loss = relative(share(*one), share(*two)), drop(share(*one), share(*two))
    assert gain.value == pytest.approx(-(loss.value or 0.0))
    assert interval(gain) == pytest.approx(tuple(-end for end in interval(loss)[::-1]))
    assert gain.direction == "higher"


@settings(deadline=None)
@given(st.integers(1, 9_999), st.sampled_from([V2, LINE]))
def test_a_model_on_the_line_has_no_effective_robustness(correct: int, line: Fit | PiecewiseFit) -> None:
    clean = share(correct, 10_000)
    on_line = share(5, 10).model_copy(
        update={"value": line.expected(correct / 10_000), "low": 0.0, "high": 1.0}
    )
    assert effective(clean, on_line, line).value == pytest.approx(0, abs=1e-12)


@settings(deadline=None)
@given(COUNTS, COUNTS)
def test_effective_robustness_is_defined_at_every_accuracy(
    clean: tuple[int, int], shifted: tuple[int, int]
) -> None:
    """0 and 1 are clipped to half an image."""
    found = effective(share(*clean), share(*shifted), V2)
    clipped = min(max(clean[0], 0.5), clean[1] - 0.5) / clean[1]
    odds = np.exp(V2.intercept) * (clipped / (1 - clipped)) ** V2.slope
    assert found.value == pytest.approx(shifted[0] / shifted[1] - odds / (1 + odds))
    low, high = interval(found)
    assert -1 <= low <= (found.value or 0.0) <= high <= 1


def test_with_a_flat_line_only_the_shifted_accuracy_leaves_doubt() -> None:
    flat = Fit(0.0, 0.0, 0.0, 3)
    found, shifted = effective(share(70, 100), share(60, 100), flat), share(60, 100)
    assert found.value == pytest.approx(0.1)
    assert interval(found) == pytest.approx((shifted.low - 0.5, shifted.high - 0.5))  # type: ignore[operator] # defined


def test_a_line_of_slope_one_gives_newcombes_interval_of_the_difference() -> None:
    """It foretells the clean accuracy itself, so effective robustness is minus the drop."""
    same = Fit(1.0, 0.0, 1.0, 3)
    found = effective(share(70, 100), share(60, 100), same)
    expected = confint_proportions_2indep(60, 100, 70, 100, method="newcomb", compare="diff")
    assert interval(found) == pytest.approx(expected, abs=1e-9)


def test_doubt_about_the_line_widens_the_interval_and_says_so() -> None:
    lines = Resampled(np.full(1000, 0.923229), np.linspace(-0.7, -0.3, 1000))
    wide, narrow = (
        effective(share(70, 100), share(60, 100), V2, lines),
        effective(share(70, 100), share(60, 100), V2),
    )
    assert wide.value == narrow.value
    assert interval(wide)[0] < interval(narrow)[0] < interval(narrow)[1] < interval(wide)[1]
    assert (wide.interval, narrow.interval) == ("bootstrap-95", "newcombe-95")
    logit = 0.923229 * np.log(0.7 / 0.3)
    foretold = [1 / (1 + np.exp(-(logit + at))) for at in (-0.49769, -0.69, -0.31)]
    below = np.hypot((narrow.value or 0.0) - interval(narrow)[0], foretold[2] - foretold[0])
    assert interval(wide)[0] == pytest.approx((wide.value or 0.0) - below, abs=1e-9)


def test_nothing_is_derived_from_an_undefined_score() -> None:
    nothing = undefined("accuracy_drop", share(1, 2), "why")
    assert (nothing.value, nothing.reason, nothing.unit) == (None, "why", "difference")
    with pytest.raises(ValueError, match="why"):
        drop(nothing, share(1, 2))
