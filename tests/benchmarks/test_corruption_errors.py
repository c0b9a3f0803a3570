"""mCE equals the values that others published from the same errors, and each classic mistake differs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from robustboard.benchmarks.corruption_errors import (
    ALEXNET,
    ALEXNET_CLEAN,
    EXTRA,
    mean_corruption_error,
    relative_mean_corruption_error,
)

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.exists(), reason="no published numbers at hand")


def column(
    file: str, source: str, model: str, metric: str = "mean_top1_error_over_5_severities"
) -> dict[str, float]:
    """Corruption → error of one model in one source."""
    with (REFERENCE / file).open(encoding="utf-8") as rows:
        return {
            row["dataset"].removeprefix("ImageNet-C "): float(row["value"])
            / (100 if row["unit"] == "percent" else 1)
            for row in csv.DictReader(rows)
            if source in row["source"] and row["model"] == model and row["metric"] == metric
        }


@needs_reference
def test_robustbench_resnet50_has_its_published_mce() -> None:
    """RobustBench's own field says 76.38."""
    errors = column("imagenet_c_mce.csv", "RobustBench", "Standard_R50")
    alexnet = column("imagenet_c_alexnet_errors.csv", "RobustBench", "AlexNet")
    assert mean_corruption_error(errors, alexnet) == pytest.approx(76.38, abs=0.005)
    assert mean_corruption_error(alexnet) == pytest.approx(99.97, abs=0.005)


@needs_reference
def test_the_constants_are_the_published_ones() -> None:
    published = column("imagenet_c_alexnet_errors.csv", "AugMix", "AlexNet")
    assert {name: published[name] for name in ALEXNET} == dict(ALEXNET)


def test_the_reference_network_has_100() -> None:
    assert mean_corruption_error(ALEXNET) == pytest.approx(100)
    assert relative_mean_corruption_error(ALEXNET, ALEXNET_CLEAN) == pytest.approx(100)


def test_it_is_a_mean_of_ratios_keyed_by_name() -> None:
    """Halving one error takes 100 / 15 / 2 off, whichever corruption it is and however large its constant."""
    for name in ALEXNET:
        errors = {other: ALEXNET[other] for other in sorted(ALEXNET, reverse=True)}
        errors[name] /= 2
        assert mean_corruption_error(errors) == pytest.approx(100 - 50 / 15)


def test_the_extra_four_never_enter() -> None:
    assert not set(EXTRA) & set(ALEXNET)
    assert mean_corruption_error({**ALEXNET, **dict.fromkeys(EXTRA, 1.0)}) == pytest.approx(100)


def test_a_lacking_corruption_is_named() -> None:
    errors = {name: error for name, error in ALEXNET.items() if name not in {"fog", "snow"}}
    with pytest.raises(ValueError, match="lacking: snow, fog"):
        mean_corruption_error(errors)
    with pytest.raises(ValueError, match="lacking: snow, fog"):
        relative_mean_corruption_error(errors, 0.2)


def test_numbers_in_percent_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected errors in \[0, 1\]"):
        mean_corruption_error({name: 100 * error for name, error in ALEXNET.items()})


def test_a_reference_that_errs_no_more_under_corruption_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the reference to err more under brightness"):
        relative_mean_corruption_error(ALEXNET, 0.2, reference_clean=0.6)
