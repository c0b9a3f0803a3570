from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).parent / "memory_driver.py"
ROOT = Path(__file__).parents[2]
IMAGE = 64 * 64 * 3
"""Bytes of one decoded image of the driver; four times that as floats."""


def peaks(folder: Path, *images: int, **variables: str) -> list[int]:
    """Peak of resident memory, in bytes, of a process each that measures so many images."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-W", "ignore", str(DRIVER), str(folder), *map(str, images)]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    return list(map(int, json.loads(found.stdout.splitlines()[-1])))


def check_four_times(folder: Path, **variables: str) -> None:
    """Less than half a decoded image more memory for each that is new (four would be its floats)."""
    few, many = peaks(folder, 300, 1200, **variables)
    assert many - few < 900 * IMAGE / 2


def test_peak_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    """Four times the images through the whole path, the decoded ones kept on disk."""
    check_four_times(tmp_path)


@pytest.mark.long
def test_peak_memory_does_not_grow_without_a_cache_either(tmp_path: Path) -> None:
    check_four_times(tmp_path, ROBUSTBOARD_CACHE_GB="0")


@pytest.mark.long
def test_fifty_thousand_images_take_no_more_memory_than_five_thousand(tmp_path: Path) -> None:
    """Beyond names, labels, digests and predictions: less than 2 KB for each new image (12 KB decoded)."""
    few, many = peaks(tmp_path, 5_000, 50_000)

    assert many - few < 45_000 * 2_000
