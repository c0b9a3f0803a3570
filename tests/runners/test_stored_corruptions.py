"""A protocol of stored corruptions end to end, on pictures whose class a reader sees in their grey level."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.registry.companions import CorruptedFolders
from robustboard.runners.failures import read_failures
from robustboard.runners.keys import Cell
from robustboard.runners.score import read_result
from tests.runners.readers import levels, result_file, run
from tests.runners.small import Place

CELL = Cell("reader", "stored-v1", "levels")
WRONG = {("fog", 1): 0, ("fog", 2): 5, ("snow", 1): 2, ("snow", 2): 10}
"""Images of ten that show another class under each corruption and severity."""


@pytest.fixture
def stored(place: Place, readers: dict[str, nn.Module]) -> Place:
    """Ten clean images of ten classes, and four corrupted copies of each."""
    assert "reader" in readers
    levels(place, list(range(10)), list(range(10)))
    root = place.workspace.content / "data" / "levels-c"
    for (name, severity), wrong in WRONG.items():
        for label in range(10):
            shown = (label + 1) % 10 if label < wrong else label
            path = root / name / str(severity) / str(label) / f"{label:03d}.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(np.full((8, 8), 25 * shown, np.uint8)).save(path)
    source = CorruptedFolders(
        kind="corrupted-folders", path="levels-c", corruptions=("fog", "snow"), severities=2
    )
    clean = place.catalog.dataset("levels")
    changes = {"id": "levels-c", "role": "corrupted", "source": source, "matched_clean": "levels"}
    entry = clean.model_copy(update=changes)
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "levels-c": entry})
    place.benchmarks["stored-v1"] = BenchmarkEntry.model_validate(
        {
            "id": "stored-v1",
            "name": "Stored",
            "summary": "Stored corruptions.",
            "procedure": {
                "kind": "corruption",
                "variant": "cifar",
                "images": "stored",
                "corruptions": ("fog", "snow"),
                "severities": (1, 2),
                "settings": ({"datasets": ("levels",), "stored": "levels-c"},),
            },
            "shard_size": 4,
            "source": "a test",
            "added": "2026-01-31",
        }
    )
    return place


def scores(place: Place) -> dict[str, float | None]:
    result = read_result(result_file(place, CELL))
    return {f"{score.metric} {score.condition}": score.value for score in result.scores}


def test_each_corruption_and_severity_is_measured_on_its_own_images(stored: Place) -> None:
    """Shares by counting; their mean is over the four, and the clean images are those of the clean set."""
    assert run(stored, CELL).text() == "1 ok, 0 skipped (already done), 0 failed"
    found = scores(stored)
    for (name, severity), wrong in WRONG.items():
        assert found[f"corruption_accuracy {name} {severity}"] == (10 - wrong) / 10
    assert found["mean_corruption_accuracy all"] == pytest.approx((10 + 5 + 8 + 0) / 40)


@pytest.mark.parametrize(("gone", "count"), [("snow", 2), ("fog/2", 1)])
def test_a_suite_with_a_part_missing_is_refused_before_it_begins(
    stored: Place, gone: str, count: int
) -> None:
    """B032: a corruption or a severity is absent: no average over what is there, and nothing stored."""
    folder = stored.workspace.content / "data" / "levels-c"
    shutil.rmtree(folder / gone)
    summary = run(stored, CELL)
    assert summary.exit_code == 1
    failure = read_failures(stored.workspace)[CELL]
    assert failure.kind == "missing"
    assert f"{count} of 4 corruptions and severities are not here" in failure.reason
    assert gone.replace("/", " ") in failure.reason
    assert not result_file(stored, CELL).exists()
    assert not list(stored.workspace.runs.rglob("*.parquet"))


def test_a_corrupted_copy_of_another_sample_fails_the_cell(stored: Place) -> None:
    folder: Path = stored.workspace.content / "data" / "levels-c" / "fog" / "2"
    (folder / "3" / "003.png").rename(folder / "4" / "003.png")
    assert run(stored, CELL).exit_code == 1
    failure = read_failures(stored.workspace)[CELL]
    assert failure.kind == "labels"
    assert "image 3 is '4/003.png' here, but '3/003.png' in the clean set levels" in failure.reason
