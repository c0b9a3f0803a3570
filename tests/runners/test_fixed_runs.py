"""Detection and corruption protocols through the whole path: run, store, score."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.registry.companions import CorruptedArrays
from robustboard.registry.entries import FilePin, NpzData
from robustboard.runners.keys import Cell, Keys
from robustboard.runners.profiles import RunProfile, Sample
from robustboard.runners.record import Result, Score
from robustboard.runners.score import read_result
from tests.runners.readers import levels, result_file, run
from tests.runners.small import PROFILE, Place

pytestmark = pytest.mark.usefixtures("readers")
SHOWN = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 3


def protocol(place: Place, name: str, procedure: dict[str, Any]) -> Cell:
    """Add a protocol over the grey levels; the cell of the model that reads them."""
    whole = place.benchmarks["clean-v1"].model_dump()
    place.benchmarks[name] = BenchmarkEntry.model_validate({**whole, "id": name, "procedure": procedure})
    return Cell("reader", name, "levels")


def result(place: Place, cell: Cell) -> Result:
    assert run(place, cell).exit_code == 0, run(place, cell).outcomes
    return read_result(result_file(place, cell))


def named(found: Result) -> dict[str, Score]:
    return {f"{score.metric}@{score.condition}": score for score in found.scores}


def detection(place: Place) -> Cell:
    settings = ({"datasets": ("levels",), "out_of_distribution": "digits"},)
    return protocol(place, "detect-v1", {"kind": "out-of-distribution", "settings": settings})


def test_digits_are_told_from_flat_grey(place: Place) -> None:
    """The reader is sure of a flat level and unsure between two; 30 images of levels, 100 digits."""
    levels(place, SHOWN, SHOWN)
    cell = detection(place)
    found = result(place, cell)
    scores = named(found)
    assert (found.images, found.evaluated, found.complete) == (130, 130, True)
    assert scores["clean_accuracy@clean"].value == 1
    assert scores["clean_accuracy@clean"].n == 30
    assert scores["out_of_distribution_images@clean"].value == 100
    assert (scores["auroc@msp"].value or 0) > 0.9
    assert scores["auroc@msp"].n == 130


def test_a_part_of_a_detection_run_counts_both_sets(place: Place) -> None:
    levels(place, SHOWN, SHOWN)
    cell = detection(place)
    few = RunProfile(**{**PROFILE.model_dump(), "id": "few", "subset": Sample(count=40, seed=0)})
    assert run(place, cell, profile=few).exit_code == 0
    (name,) = (path.name for path in (place.workspace.runs / "partial" / "reader").iterdir())
    assert name == "detect-v1--levels--40-of-130-seed-0.json"


def test_another_set_out_of_distribution_is_another_run(place: Place) -> None:
    levels(place, SHOWN, SHOWN)
    cell = detection(place)
    before = Keys(place.catalog, place.benchmarks).changed(result(place, cell).key)
    changed = place.catalog.dataset("digits").model_copy(update={"channels": 3})
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "digits": changed})
    key = read_result(result_file(place, cell)).key
    assert (before, Keys(place.catalog, place.benchmarks).changed(key)) == ((), ("protocol_digest",))


def corruption(place: Place, images: str, **setting: str) -> Cell:
    return protocol(
        place,
        f"{images}-v1",
        {
            "kind": "corruption",
            "variant": "cifar",
            "images": images,
            "corruptions": ("brightness", "contrast"),
            "severities": (1, 2),
            "normaliser": {"name": "half", "clean_error": "1/4", "errors": {"contrast": "1/2"}},
            "settings": ({"datasets": ("levels",), **setting},),
        },
    )


def test_a_run_with_own_frost_says_so(place: Place) -> None:
    """Frost drawn here is not that of ImageNet-C; whoever compares numbers must see it in the record."""
    levels(place, SHOWN, SHOWN)
    cell = corruption(place, "in-memory")
    assert "frost" not in result(place, cell).facts.preparation["corruptions"]
    procedure = place.benchmarks[cell.benchmark].procedure.model_dump()
    procedure |= {"corruptions": ("frost",), "normaliser": None}
    frosty = protocol(place, "frost-v1", procedure)
    assert "robustboard-frost/1" in result(place, frosty).facts.preparation["corruptions"]


def test_corruptions_in_memory_reach_the_scores(place: Place) -> None:
    """Contrast leaves flat images alone, brightness moves them to other levels."""
    levels(place, SHOWN, SHOWN)
    scores = named(result(place, corruption(place, "in-memory")))
    assert scores["corruption_accuracy@contrast"].value == 1
    assert (scores["corruption_accuracy@brightness 2"].value or 0) < 0.5
    assert (scores["mce@all"].value, scores["relative_mce@all"].value) == (0, 0)


def test_stored_corrupted_images_are_read_beside_the_clean_ones(
    place: Place, readers: dict[str, nn.Module]
) -> None:
    """Severity 1 as it was, severity 2 one level up: all right, then all wrong but the clipped nines."""
    assert readers
    data = place.workspace.content / "data"
    folder = data / "levels-c"
    folder.mkdir(parents=True)
    grey = np.array(SHOWN)
    flat = np.broadcast_to(grey.astype(np.uint8)[:, None, None] * 25, (30, 8, 8))
    np.savez(data / "levels.npz", images=flat, labels=grey)
    pin = FilePin(path="levels.npz", sha256=hashlib.sha256((data / "levels.npz").read_bytes()).hexdigest())
    clean = place.catalog.dataset("digits").model_copy(
        update={"id": "levels", "source": NpzData(kind="npz", file=pin), "size": 30}
    )
    shifted = np.minimum(grey + 1, 9)
    both = np.concatenate([grey, shifted]).astype(np.uint8) * 25
    array = np.broadcast_to(both[:, None, None, None], (60, 8, 8, 1))
    for name in ("brightness", "contrast"):
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array))
    np.save(folder / "labels.npy", np.concatenate([grey, grey]))
    source = CorruptedArrays(
        kind="corrupted-arrays",
        path="levels-c",
        layout="stacked",
        corruptions=("brightness", "contrast"),
        severities=2,
    )
    changes = {"id": "levels-c", "role": "corrupted", "source": source, "matched_clean": "levels"}
    entry = clean.model_copy(update=changes)
    place.catalog = replace(
        place.catalog, datasets={**place.catalog.datasets, "levels": clean, "levels-c": entry}
    )
    cell = corruption(place, "stored", stored="levels-c")
    summary = run(place, cell)
    assert summary.exit_code == 0, summary.outcomes
    scores = named(read_result(result_file(place, Cell("reader", "stored-v1", "levels"))))
    assert scores["corruption_accuracy@contrast 1"].value == 1
    assert scores["corruption_accuracy@contrast 2"].value == pytest.approx(3 / 30)
    assert scores["mce@all"].value == pytest.approx(100 * (0 + 0.9) / 2 / 0.5)
    key = read_result(result_file(place, cell)).key
    assert list(key.parts) == ["dataset/levels-c"]
    assert Keys(place.catalog, place.benchmarks).changed(key) == ()
    np.save(folder / "contrast.npy", np.ascontiguousarray(array[::-1]))
    assert run(place, cell).text() == "1 ok, 0 skipped (already done), 0 failed"
    assert read_result(result_file(place, cell)).key.parts != key.parts
