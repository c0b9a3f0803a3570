"""Runs and stores of made-up predictions, and a small registry of real digits to measure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robustboard.runners.record import RunKey
from robustboard.runners.store import Store
from robustboard.workspace import Workspace
from tests.runners.small import Made, plant_digits


@pytest.fixture
def made(run_key: RunKey) -> Made:
    """25 samples in shards of 10."""
    count = 25
    return Made(
        key=run_key.model_copy(update={"shard_size": 10}),
        ids=tuple(f"{number:05d}" for number in range(count)),
        labels=np.arange(count, dtype=np.int64) % 10,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def digits_place(tmp_path: Path) -> Workspace:
    """The workspace of `plant_digits`, nothing trained yet."""
    return plant_digits(tmp_path / "place")
