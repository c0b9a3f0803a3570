"""The settings are the published ones."""

from __future__ import annotations

import csv
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robustboard.benchmarks.corruptions.parameters import CATEGORIES, EXTRA, PARAMETERS, SEVERITIES, Variant

REFERENCE = Path(__file__).resolve().parents[4] / "shared" / "reference"
PUBLISHED = REFERENCE / "corruption_severity_parameters.csv"
VARIANTS: dict[str, Variant] = {"ImageNet-C 224": "imagenet", "CIFAR-10-C / CIFAR-100-C 32": "cifar"}
ZOOM = re.compile(r"zoom factors 1\.0\.\.([\d.]+) step ([\d.]+) \(n=(\d+)\)")
FIFTEEN = [
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
]


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published parameters are not beside this checkout")
def test_settings_are_the_published_ones() -> None:
    """190 rows from the authors' generators; zoom blur is given there by its last factor, step and count."""
    rows = list(csv.DictReader(PUBLISHED.read_text().splitlines()))
    for row in rows:
        own = PARAMETERS[VARIANTS[row["dataset"]]][row["corruption"]][int(row["severity"]) - 1]
        if zoom := ZOOM.fullmatch(row["parameters"]):
            factors = np.arange(1, *own)
            assert len(factors) == int(zoom[3])
            assert (factors[-1], own[1]) == pytest.approx((float(zoom[1]), float(zoom[2])))
        else:
            assert own == pytest.approx([float(part) for part in row["parameters"].split("; ")]), row
    assert len(rows) == 2 * len(CATEGORIES) * len(SEVERITIES)


def test_fifteen_count_and_four_are_extra() -> None:
    """The order is that of the paper and of the table of AlexNet's errors; groups have 3, 4, 4 and 4."""
    assert [name for name in CATEGORIES if name not in EXTRA] == FIFTEEN
    assert {"speckle_noise", "gaussian_blur", "spatter", "saturate"} == EXTRA
    groups = [CATEGORIES[name] for name in FIFTEEN]
    assert groups == ["noise"] * 3 + ["blur"] * 4 + ["weather"] * 4 + ["digital"] * 4
    for variant in PARAMETERS.values():
        assert set(variant) == set(CATEGORIES)
        assert all(len(severities) == 5 for severities in variant.values())
        assert all(math.isfinite(value) for rows in variant.values() for row in rows for value in row)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("parameters", ("numba", "cv2", "scipy", "torch", "numpy")),
        ("table", ("torch", "skimage", "pandas", "wand")),
    ],
)
def test_imports_stay_light(module: str, absent: tuple[str, ...]) -> None:
    """B074: names and settings can be read without the extra, and corruptions work without PyTorch."""
    code = (
        f"import sys, robustboard.benchmarks.corruptions.{module};"
        f"print([name for name in {absent!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
