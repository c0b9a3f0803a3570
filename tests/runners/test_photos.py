"""Real ImageNet networks on corrupted real photographs, from files to the board."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from robustboard.benchmarks.corruption_errors import ALEXNET, ALEXNET_CLEAN
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry, Column
from robustboard.leaderboard.results import workspace_results
from robustboard.registry.entries import FolderData
from robustboard.runners.keys import Cell
from robustboard.workspace import Workspace
from tests.runners.readers import run
from tests.runners.small import Place

ROOT = Path(__file__).resolve().parents[2]
foolbox = pytest.importorskip("foolbox", reason="its twenty ImageNet photographs")
CORRUPTIONS = ("gaussian_noise", "fog")


def photos(place: Place) -> int:
    """The photographs of foolbox as a folder a class; their number."""
    keys = list(place.catalog.label_space("imagenet-1k").classes)
    files = sorted((Path(str(foolbox.__file__)).parent / "data").glob("imagenet_*.jpg"))
    for file in files:
        label = re.fullmatch(r"imagenet_\d+_(\d+)", file.stem)
        assert label is not None
        folder = place.workspace.content / "data" / "photos" / keys[int(label.group(1))]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder)
    entry = place.catalog.dataset("imagenet-1k").model_copy(
        update={
            "id": "photos",
            "source": FolderData(kind="folder", path="photos"),
            "mirrors": (),
            "size": len(files),
            "matched_clean": None,
        }
    )
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "photos": entry})
    return len(files)


def protocol(place: Place) -> None:
    """Two corruptions at two severities, with the published errors of AlexNet as reference."""
    whole = place.benchmarks["corruptions-v1"].model_dump()
    procedure = {
        **whole["procedure"],
        "corruptions": CORRUPTIONS,
        "severities": (1, 5),
        "normaliser": {
            "name": "AlexNet",
            "clean_error": str(ALEXNET_CLEAN),
            "errors": {name: str(ALEXNET[name]) for name in CORRUPTIONS},
        },
        "settings": ({"datasets": ("photos",)},),
    }
    entry = BenchmarkEntry.model_validate({**whole, "id": "photos-c-v1", "procedure": procedure})
    place.benchmarks["photos-c-v1"] = entry


def test_efficientnet_lite_on_corrupted_photos_stands_on_a_board(tmp_path: Path) -> None:
    """Lite0 knows most clean photographs, fewer at severity 5; both columns of the board have a value."""
    for name in ("registry", "benchmarks", "leaderboard/boards", "leaderboard/fits", "runners"):
        shutil.copytree(ROOT / name, tmp_path / name)
    place = Place(Workspace(tmp_path, tmp_path))
    count = photos(place)
    protocol(place)
    cell = Cell("efficientnet-lite0", "photos-c-v1", "photos")
    summary = run(place, cell)
    if summary.outcomes[cell].kind == "missing":
        pytest.skip(summary.outcomes[cell].reason)
    assert summary.exit_code == 0, summary.outcomes
    results = workspace_results(place.workspace)
    scores = {f"{s.metric}@{s.condition}": s for s in results[cell].scores}
    clean, mild, harsh = (
        scores[name].value or 0.0
        for name in (
            "clean_accuracy@clean",
            "corruption_accuracy@gaussian_noise 1",
            "corruption_accuracy@gaussian_noise 5",
        )
    )
    assert scores["clean_accuracy@clean"].n == count
    assert clean >= 0.8  # 18 of 20 are known to be right at the network's own preprocessing
    assert clean >= mild > harsh
    errors = [1 - (scores[f"corruption_accuracy@{name}"].value or 0.0) for name in CORRUPTIONS]
    ratios = [100 * error / ALEXNET[name] for error, name in zip(errors, CORRUPTIONS, strict=True)]
    assert scores["mce@all"].value == pytest.approx(sum(ratios) / len(ratios))
    columns = tuple(
        Column(id=name, title=name, benchmark="photos-c-v1", dataset="photos", score=score)
        for name, score in (("mce", None), ("mean", "mean_corruption_accuracy@all"))
    )
    entry = BoardEntry(
        id="photos",
        name="Photographs",
        summary="A test.",
        label_space="imagenet-1k",
        datasets=("photos",),
        columns=columns,
        order="mce",
    )
    board = build_board(entry, place.catalog, Measured.of(results, place.catalog, place.benchmarks))
    (row,) = board.rows
    assert [found.value for found in row.cells] == [
        scores["mce@all"].value,
        scores["mean_corruption_accuracy@all"].value,
    ]
    assert (row.ranks, board.directions) == ((1, 1), ("lower", "higher"))
