"""Lines in logit space and the heights above them, against published fits and an independent library."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from robustboard.benchmarks.effective_robustness import (
    RESAMPLES,
    Fit,
    PiecewiseFit,
    effective_robustness,
    fit_line,
    logistic,
    logit,
    relative_robustness,
    resample_lines,
)

V2 = Fit(slope=0.923229, intercept=-0.497690, r=0.998, n=85)


def test_published_models_have_their_published_heights() -> None:
    """ImageNet-V2: zero-shot CLIP ViT-B/32 stands 5.63 points above the line, a ResNet-50 0.74 below."""
    assert 100 * effective_robustness(0.63302, 0.55770, V2) == pytest.approx(5.63, abs=0.01)
    assert 100 * effective_robustness(0.76130, 0.63210, V2) == pytest.approx(-0.74, abs=0.01)


@settings(deadline=None)
@given(st.floats(-3, 3), st.floats(-3, 3))
def test_points_on_a_line_give_that_line(slope: float, intercept: float) -> None:
    clean = [0.3, 0.5, 0.7, 0.8]
    shifted = [1 / (1 + np.exp(-(slope * float(logit(share)) + intercept))) for share in clean]
    fit = fit_line(clean, shifted)
    assert fit.slope == pytest.approx(slope, abs=1e-6)
    assert fit.intercept == pytest.approx(intercept, abs=1e-6)
    assert effective_robustness(clean[1], shifted[1], fit) == pytest.approx(0, abs=1e-9)


def test_the_fit_is_that_of_scipy() -> None:
    generator = np.random.default_rng(0)
    clean, shifted = generator.uniform(0.1, 0.9, 20), generator.uniform(0.1, 0.9, 20)
    expected = stats.linregress(np.log(clean / (1 - clean)), np.log(shifted / (1 - shifted)))
    fit = fit_line(clean.tolist(), shifted.tolist())
    found = [fit.slope, fit.intercept, fit.r, fit.n]
    assert found == pytest.approx([expected.slope, expected.intercept, expected.rvalue, 20])


def test_shares_of_nothing_and_all_are_clipped_by_the_number_of_images_or_refused() -> None:
    assert float(logit(0.0, 100)) == pytest.approx(np.log(0.005 / 0.995))
    assert float(logit(1.0, 100)) == pytest.approx(np.log(0.995 / 0.005))
    with pytest.raises(ValueError, match="above 0 and below 1"):
        logit(0.0)
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        logit(76.1)


def test_too_few_models_or_equal_ones_give_no_line() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        fit_line([0.5, 0.6], [0.4, 0.5])
    with pytest.raises(ValueError, match="that differ"):
        fit_line([0.5, 0.5, 0.5], [0.4, 0.5, 0.6])
    with pytest.raises(ValueError, match="that differ"):
        fit_line([2 / 3] * 3, [0.4, 0.5, 0.6])  # whose mean is not exactly one of them


def test_relative_robustness_is_the_gain_over_the_base() -> None:
    assert relative_robustness(0.5, 0.45) == pytest.approx(0.05)


def test_each_accuracy_is_clipped_by_its_own_number_of_images() -> None:
    fit = fit_line([0.5, 0.6, 1.0], [0.1, 0.2, 0.0], [100, 100, 1000], [10, 10, 50])
    x = np.log([1, 1.5, 999.5 / 0.5])
    y = np.log([0.1 / 0.9, 0.25, 0.5 / 49.5])
    slope, intercept = np.polyfit(x, y, 1)
    assert [fit.slope, fit.intercept] == pytest.approx([slope, intercept])
    assert effective_robustness(1.0, 0.4, fit, 1000) == pytest.approx(0.4 - fit.expected(0.9995))


@settings(deadline=None)
@given(st.floats(-20, 20))
def test_logistic_undoes_logit(value: float) -> None:
    assert float(logit(logistic(value))) == pytest.approx(value, abs=1e-3)


A = PiecewiseFit((0.75, 0.9186), (Fit(0.689446, -5.140046, 0.64, 33), Fit(2.955960, -10.277397, 0.95, 51)))


@pytest.mark.parametrize(
    ("clean", "slope", "intercept"),
    [
        (0.6, 0.689446, -5.140046),
        (0.9185, 0.689446, -5.140046),
        (0.9186, 2.955960, -10.277397),
        (0.98, 2.955960, -10.277397),
    ],
)
def test_each_side_of_the_model_that_filtered_a_set_has_its_line(
    clean: float, slope: float, intercept: float
) -> None:
    odds = np.exp(intercept) * (clean / (1 - clean)) ** slope
    assert A.expected(clean) == pytest.approx(odds / (1 + odds))


def test_pieces_without_a_rising_start_each_are_refused() -> None:
    with pytest.raises(ValueError, match="a start a piece, got 2 for 1"):
        PiecewiseFit((0.1, 0.2), (V2,))
    with pytest.raises(ValueError, match="rising starts"):
        PiecewiseFit((0.2, 0.2), (V2, V2))


def test_resampled_lines_hold_the_true_one_as_often_as_they_say() -> None:
    """Of 200 made-up sets around a known line, its height is inside the 95 % interval of most."""
    generator = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        x = generator.normal(1, 0.7, 40)
        clean, shifted = logistic(x), logistic(0.9 * x - 0.5 + generator.normal(0, 0.1, 40))
        low, high = resample_lines(clean.tolist(), shifted.tolist()).interval(0.76)
        inside += low <= float(logistic(0.9 * float(logit(0.76)) - 0.5)) <= high
    assert 0.88 <= inside / 200 <= 0.99


def test_resampling_is_repeatable_and_its_spread_is_that_of_the_regression() -> None:
    generator = np.random.default_rng(2)
    x = generator.normal(1, 0.7, 200)
    clean, shifted = logistic(x).tolist(), logistic(0.9 * x - 0.5 + generator.normal(0, 0.1, 200)).tolist()
    first, again = resample_lines(clean, shifted, seed=7), resample_lines(clean, shifted, seed=7)
    assert np.array_equal(first.slopes, again.slopes)
    assert len(first.slopes) == RESAMPLES
    expected = stats.linregress(
        np.log(1 / (1 / np.array(clean) - 1)), np.log(1 / (1 / np.array(shifted) - 1))
    )
    assert first.slopes.mean() == pytest.approx(expected.slope, abs=0.005)
    assert first.slopes.std() == pytest.approx(expected.stderr, rel=0.2)


def test_models_on_a_line_leave_no_doubt_about_it_even_when_they_are_few() -> None:
    clean = [0.6, 0.7, 0.8]
    shifted = [V2.expected(share) for share in clean]
    assert resample_lines(clean, shifted).interval(0.9) == pytest.approx((V2.expected(0.9),) * 2)


REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"


@pytest.mark.skipif(not REFERENCE.exists(), reason="no published numbers at hand")
def test_the_line_foretells_published_accuracies_of_standard_models() -> None:
    """Every standard ResNet of the testbed lies within three points of the V2 line."""
    clean, shifted = {}, {}
    with (REFERENCE / "imagenet_testbed.csv").open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if not row["model"].startswith("resnet"):
                continue
            if row["dataset"] == "val":
                clean[row["model"]] = float(row["value"]) / 100
            if row["dataset"] == "imagenetv2-matched-frequency-format-val":
                shifted[row["model"]] = float(row["value"]) / 100
    names = [name for name in clean if name in shifted and "_" not in name]
    assert len(names) >= 3
    for name in names:
        assert abs(effective_robustness(clean[name], shifted[name], V2)) < 0.03, name
