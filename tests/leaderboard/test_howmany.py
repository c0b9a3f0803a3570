from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.proportion import power_proportions_2indep

from robustboard.errors import UserError
from robustboard.leaderboard.howmany import (
    TABLE_BASES,
    TABLE_GAPS,
    disagreements,
    needed,
    paired,
    table,
    unpaired,
)


def test_the_number_has_the_stated_power_by_statsmodels() -> None:
    n = unpaired(0.90, 0.92)
    there = power_proportions_2indep(0.02, 0.90, n, alpha=0.05, return_results=False)
    before = power_proportions_2indep(0.02, 0.90, n - 40, alpha=0.05, return_results=False)
    assert before < 0.8 <= there < 0.803


def test_the_paired_number_has_about_the_stated_power_of_the_exact_test() -> None:
    """Power of McNemar's exact test, summed over all counts of images on which two models part."""
    first, second, disagreement = 0.80, 0.85, 0.15
    n = paired(first, second, disagreement)
    share = (disagreement + (second - first)) / 2 / disagreement
    power = 0.0
    for parted in range(int(binom.ppf(1e-6, n, disagreement)), int(binom.ppf(1 - 1e-6, n, disagreement)) + 1):
        hits = np.arange(parted + 1)
        sure = 2 * binom.cdf(np.minimum(hits, parted - hits), parted, 0.5) < 0.05
        power += binom.pmf(parted, n, disagreement) * binom.pmf(hits, parted, share)[sure].sum()
    assert 0.76 <= power <= 0.82


def test_unrelated_mistakes_need_about_as_many_paired_as_unpaired() -> None:
    most = disagreements(0.70, 0.72)[1]
    assert most == pytest.approx(0.7 * 0.28 + 0.72 * 0.3)
    assert paired(0.70, 0.72, most) == pytest.approx(unpaired(0.70, 0.72), rel=0.01)
    assert needed(0.70, 0.72).paired < 0.6 * needed(0.70, 0.72).unpaired


def test_a_gap_of_a_tenth_of_a_point_takes_more_than_ten_thousand_images() -> None:
    assert needed(0.950, 0.951).unpaired > 100_000


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0.5, 0.5), "two accuracies that differ"),
        ((90.0, 0.5), "as a share, got 90"),
        ((0.0, 0.5), "between 0 and 1"),
        ((0.8, 0.9, 0.05), "from 0.1 to 0.3"),
    ],
)
def test_what_cannot_be_asked_is_refused(values: tuple[float, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        needed(*values)


def test_the_table_falls_with_the_gap() -> None:
    rows = table()
    assert [base for base, _ in rows] == list(TABLE_BASES)
    for _, cells in rows:
        numbers = [cell.paired for cell in cells if cell is not None]
        assert len(numbers) == len(TABLE_GAPS)
        assert numbers == sorted(numbers, reverse=True)
