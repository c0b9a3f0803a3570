from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robustboard import jsons
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import StoreError
from robustboard.leaderboard.results import outdated, read_results
from robustboard.runners.keys import Cell, Keys
from robustboard.runners.record import Result, Subset
from tests.leaderboard.made_up import made


def put(folder: Path, result: Result, name: str | None = None) -> Path:
    cell = Cell(result.key.model, result.key.benchmark, result.key.dataset)
    path = folder / f"{name or cell.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jsons.seal(result))
    return path


def test_local_results_override_committed_ones_cell_by_cell(world: Any, tmp_path: Path) -> None:
    for name in ("net", "other"):
        world.add_model(name)
    put(tmp_path / "committed", world.result("net", correct=1))
    put(tmp_path / "committed", world.result("other", correct=2))
    put(tmp_path / "local", world.result("net", correct=3))
    found = read_results([tmp_path / "committed", tmp_path / "local", tmp_path / "absent"])
    assert {cell.model: result.scores[0].correct for cell, result in found.items()} == {"net": 3, "other": 2}
    assert list(found) == sorted(found)


def test_a_partial_result_never_overrides_a_whole_one(world: Any, tmp_path: Path) -> None:
    world.add_model("net")
    part = world.result("net", correct=9, subset=Subset(count=10, seed=0))
    put(tmp_path / "local", part, "net/clean-v1--squares--10-of-600-seed-0")
    assert read_results([tmp_path / "local"])[Cell("net", "clean-v1", "squares")] == part
    whole = world.result("net")
    put(tmp_path / "committed", whole)
    found = read_results([tmp_path / "committed", tmp_path / "local"])
    assert found[Cell("net", "clean-v1", "squares")] == whole


def test_a_file_in_the_wrong_place_is_refused(world: Any, tmp_path: Path) -> None:
    world.add_model("net")
    path = put(tmp_path, world.result("net"), "other/clean-v1--squares")
    with pytest.raises(StoreError, match="net/clean-v1--squares") as caught:
        read_results([tmp_path])
    assert str(path) in str(caught.value)


def test_a_damaged_file_is_refused_by_name(world: Any, tmp_path: Path) -> None:
    world.add_model("net")
    path = put(tmp_path, world.result("net"))
    path.write_bytes(path.read_bytes().replace(b'"correct": 500', b'"correct": 501'))
    with pytest.raises(StoreError, match=r"clean-v1--squares\.json"):
        read_results([tmp_path])


def test_a_detection_result_is_on_other_bytes_than_its_dataset_and_yet_current(world: Any) -> None:
    """Its fingerprint is that of two sets together, so it is compared with its like alone."""
    world.add_dataset("strangers", size=300)
    made_of = {
        "id": "detection-v1",
        "name": "Shapes or strangers",
        "summary": "Telling strangers from shapes.",
        "procedure": {
            "kind": "out-of-distribution",
            "settings": [{"datasets": ["squares"], "out_of_distribution": "strangers"}],
        },
        "source": "made up",
        "added": "2026-01-31",
    }
    world.benchmarks["detection-v1"] = made(BenchmarkEntry, made_of)
    for name in ("one", "two", "odd"):
        world.add_model(name)
    keys = Keys(world.catalog, world.benchmarks)
    results = {Cell(name, "clean-v1", "squares"): world.result(name) for name in ("one", "two", "odd")}
    for name, fingerprint in (("one", "7"), ("two", "7"), ("odd", "8")):
        cell = Cell(name, "detection-v1", "squares")
        key = keys.key(
            cell,
            weights_sha256="1" * 64,
            data_fingerprint=fingerprint * 64,
            precision="float32",
            subset=None,
            software={"torch": "2.10"},
        )
        results[cell] = world.result(name).model_copy(update={"key": key})
    stale = outdated(results, world.catalog, world.benchmarks)
    assert list(stale) == [Cell("odd", "detection-v1", "squares")]
