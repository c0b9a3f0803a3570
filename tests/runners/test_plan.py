"""Which cells are wanted, what is known of them, and what their keys are made of."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustboard import jsons
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import UnknownNameError, UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import LockedEntry, LockedFile
from robustboard.registry.lock import Lock
from robustboard.runners.keys import Cell, Keys, result_name
from robustboard.runners.plan import by_model_and_dataset, passes, wanted_cells
from robustboard.runners.profiles import Sample
from robustboard.runners.record import Subset
from robustboard.runners.store import Store
from robustboard.workspace import Workspace
from tests.runners.small import CLEAN, PROFILE, Made, Place

ROOT = Path(__file__).parents[2]
CELL = CLEAN


@pytest.fixture
def place(digits_place: Workspace) -> Place:
    """Nothing is trained here."""
    return Place(digits_place)


def test_without_names_every_fitting_cell_is_wanted(place: Place) -> None:
    """Training sets are not measured, although their labels fit."""
    cells = wanted_cells(place.catalog, place.benchmarks)
    assert [cell.name for cell in cells] == [
        "tiny/clean-v1--digits",
        "tiny/noise-v1--digits",
        "tiny/pgd-v1--digits",
    ]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ({"model_ids": ["tinny"]}, r"unknown model 'tinny' \(did you mean tiny\?\)"),
        ({"benchmark_ids": ["clean-v2"]}, r"unknown benchmark 'clean-v2' \(did you mean clean-v1\?\)"),
        ({"dataset_ids": ["digit"]}, r"unknown dataset 'digit' \(did you mean digits.*\?\)"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(
    place: Place, names: dict[str, list[str]], complaint: str
) -> None:
    """B004."""
    with pytest.raises(UnknownNameError, match=complaint) as caught:
        wanted_cells(place.catalog, place.benchmarks, **names)
    assert caught.value.exit_code == 2


def test_a_pair_that_does_not_fit_is_refused_with_the_reason(place: Place) -> None:
    space = place.catalog.label_spaces["digits"].model_copy(update={"id": "letters"})
    place.catalog = replace(place.catalog, label_spaces={**place.catalog.label_spaces, "letters": space})
    place.model("reader", label_space="letters")
    with pytest.raises(UserError) as caught:
        wanted_cells(place.catalog, place.benchmarks, model_ids=["reader"], dataset_ids=["digits"])
    assert str(caught.value) == (
        "model reader fits nothing: the labels of reader are letters, those of the data digits"
    )
    with pytest.raises(UserError) as caught:
        wanted_cells(place.catalog, place.benchmarks, benchmark_ids=["pgd-v1"], dataset_ids=["digits-train"])
    assert str(caught.value) == "benchmark pgd-v1 fits nothing: pgd-v1 has no setting for digits-train"
    cells = wanted_cells(place.catalog, place.benchmarks, dataset_ids=["digits"])
    assert {cell.model for cell in cells} == {"tiny"}


def test_cells_are_grouped_so_that_a_model_is_loaded_once() -> None:
    cells = [
        Cell("a", "x", "d"),
        Cell("b", "x", "d"),
        Cell("a", "y", "e"),
        Cell("a", "y", "d"),
        Cell("a", "x", "d"),
    ]
    assert list(by_model_and_dataset(cells)) == [
        ("a", [("d", [Cell("a", "x", "d"), Cell("a", "y", "d")]), ("e", [Cell("a", "y", "e")])]),
        ("b", [("d", [Cell("b", "x", "d")])]),
    ]


def test_weights_to_be_trained_are_said_to_be_unknown(place: Place) -> None:
    found = place.plan()
    assert found.counts() == {"untrained": 3}
    assert found.cells[0].reason == "the weights are trained here first"


def test_a_stored_run_makes_a_cell_finished_until_an_entry_changes(place: Place, made: Made) -> None:
    """B063: what changed is named; prose does not count."""
    place.pin()
    store = Store(place.workspace.runs)
    key = place.key(CELL)
    run = replace(made, key=key, conditions=("clean",))
    store.set_current(CELL.name, key)
    wanted: Any = {"benchmark_ids": ["clean-v1"]}
    assert place.plan(**wanted).counts() == {"wanted": 1}
    run.into(store)
    assert place.plan(**wanted).counts() == {"finished": 1}
    place.model(license="MIT", name="tiny")
    assert place.plan(**wanted).counts() == {"finished": 1}
    place.benchmarks["clean-v1"] = place.benchmarks["clean-v1"].model_copy(update={"seed": 1})
    (cell,) = place.plan(**wanted).cells
    assert (cell.state, cell.reason) == ("wanted", "measured before a change of seed")


def test_a_part_of_a_dataset_is_another_run(place: Place, made: Made) -> None:
    """B014: a full run does not stand for a part, nor a part for the whole."""
    place.pin()
    store = Store(place.workspace.runs)
    part = PROFILE.model_copy(update={"subset": Sample(count=10, seed=0)})
    key = place.key(CELL, subset=Subset(count=10, seed=0))
    replace(made, key=key, conditions=("clean",)).into(store)
    store.set_current("tiny/clean-v1--digits--10-of-100-seed-0", key)
    assert place.plan(part, benchmark_ids=["clean-v1"]).counts() == {"finished": 1}
    assert place.plan(benchmark_ids=["clean-v1"]).counts() == {"wanted": 1}
    other = PROFILE.model_copy(update={"subset": Sample(count=10, seed=1)})
    assert place.plan(other, benchmark_ids=["clean-v1"]).counts() == {"wanted": 1}


def test_damage_is_told_and_the_cell_wanted_again(place: Place) -> None:
    place.pin()
    path = place.workspace.results / "tiny" / "clean-v1--digits.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}\n")
    (cell,) = place.plan(benchmark_ids=["clean-v1"]).cells
    assert cell.state == "wanted"
    assert cell.reason.startswith("leaderboard/results/tiny/clean-v1--digits.json: sha256: ")


def test_an_entry_without_a_pin_is_blocked_and_says_what_to_run(place: Place) -> None:
    place.pin()
    place.lock = Lock({})
    (cell, *_) = place.plan().cells
    assert cell.state == "blocked"
    assert "robustboard lock model/tiny" in cell.reason
    assert {planned.state for planned in place.plan().cells} == {"blocked"}


def test_a_plugin_is_blocked_until_it_is_allowed(place: Place) -> None:
    place.model("tiny", loader="plugin:other")
    assert "--allow-plugins" in place.plan().cells[0].reason


def test_a_lock_that_contradicts_the_entry_blocks(place: Place) -> None:
    place.pin()
    place.lock = Lock({"model/tiny": LockedEntry(files=(LockedFile(path="x/y", size=1, sha256="9" * 64),))})
    (cell, *_) = place.plan().cells
    assert cell.state == "blocked"
    assert "registry/lock.yaml: model/tiny: files: " in cell.reason
    assert "robustboard lock model/tiny" in cell.reason


def test_a_new_setting_for_another_dataset_keeps_old_keys(place: Place) -> None:
    before = place.key(CELL)
    entry = place.benchmarks["clean-v1"]
    value = entry.model_dump(mode="python")
    value["procedure"]["settings"] = (*value["procedure"]["settings"], {"datasets": ("digits-train",)})
    place.benchmarks["clean-v1"] = BenchmarkEntry.model_validate(value)
    assert place.key(CELL) == before


def test_every_part_that_can_change_a_number_changes_the_key(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B063: budgets, preprocessing, revision, labels, software."""
    cell = Cell("tiny", "pgd-v1", "digits")
    keys = [place.key(cell)]
    spec = place.catalog.models["tiny"].input.model_copy(update={"interpolation": "bicubic"})
    changes: list[Any] = [
        lambda: place.model("tiny", input=spec),
        lambda: monkeypatch.setattr("robustboard.runners.identity.software", lambda _: {"torch": "9.9"}),
        lambda: monkeypatch.setattr("robustboard.runners.keys.CODE_VERSION", 99),
    ]
    entry = place.benchmarks["pgd-v1"].model_dump(mode="python")
    entry["procedure"]["settings"][0]["steps"] = 5
    changes.append(lambda: place.benchmarks.update({"pgd-v1": BenchmarkEntry.model_validate(entry)}))
    for change in changes:
        change()
        keys.append(place.key(cell))
    for name, value in {
        "weights_sha256": "a" * 64,
        "data_fingerprint": "a" * 64,
        "precision": "bfloat16",
    }.items():
        keys.append(place.key(cell, **{name: value}))
    assert len({key.digest for key in keys}) == len(keys)


def test_libraries_that_corrupt_images_change_the_keys_of_runs_that_do_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B063: another OpenCV or Pillow may give other pixels; stored images are what their files hold."""
    entry = place.benchmarks["pgd-v1"].model_dump(mode="python")
    for name, images, more in (
        ("made-v1", "in-memory", {}),
        ("stored-v1", "stored", {"stored": "digits-train"}),
    ):
        entry |= {
            "id": name,
            "procedure": {
                "kind": "corruption",
                "variant": "cifar",
                "images": images,
                "corruptions": ("fog",),
                "settings": ({"datasets": ("digits",), **more},),
            },
        }
        place.benchmarks[name] = BenchmarkEntry.model_validate(entry)
    cells = [Cell("tiny", name, "digits") for name in ("made-v1", "stored-v1", "pgd-v1")]
    before = [place.key(cell) for cell in cells]
    assert {"numba", "numpy", "opencv-python-headless", "pillow", "scipy"} <= before[0].software.keys()
    monkeypatch.setattr("robustboard.runners.identity.corrupting_software", lambda: {"pillow": "99.0"})
    changed = [place.key(cell) != key for cell, key in zip(cells, before, strict=True)]
    assert changed == [True, False, False]


def test_what_changed_since_a_key_was_made_is_named(place: Place) -> None:
    key = place.key(CELL)
    keys = Keys(place.catalog, place.benchmarks)
    assert keys.changed(key) == ()
    old = key.model_copy(update={"code": 0, "protocol_digest": "0" * 64})
    assert keys.changed(old) == ("code", "protocol_digest")


def test_the_digest_of_a_key_is_that_of_its_json(place: Place) -> None:
    key = place.key(CELL)
    assert key.digest == jsons.digest("robustboard.run/1", key.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("subset", "evaluated", "name"),
    [
        (None, 100, "tiny/clean-v1--digits"),
        (None, 98, "tiny/clean-v1--digits--98-of-100"),
        (Subset(count=10, seed=3), 10, "tiny/clean-v1--digits--10-of-100-seed-3"),
    ],
)
def test_the_name_of_a_partial_result_says_so(subset: Subset | None, evaluated: int, name: str) -> None:
    assert result_name(CELL, subset=subset, evaluated=evaluated, images=100) == name


def test_passes_count_what_an_image_costs(place: Place) -> None:
    """Clean 1; noise 1 + 2 sizes x 2 draws; PGD 1 + 4 steps x 3 + 1."""
    dataset = place.catalog.dataset("digits")
    found = {}
    for name, benchmark in place.benchmarks.items():
        setting = benchmark.setting_for(dataset)
        assert setting is not None
        found[name] = passes(benchmark, setting)
    assert found == {"clean-v1": 1, "noise-v1": 5, "pgd-v1": 14}


def test_a_hundred_thousand_cells_are_planned_within_a_second_or_so(place: Place) -> None:
    """G4: 1,000 models, 10 benchmarks, 10 datasets; three times the target, for slow machines."""
    place.pin()
    models = {f"m{n}": place.model(f"m{n}") for n in range(1_000)}
    place.lock = Lock({f"model/m{n}": place.lock["model/tiny"] for n in range(1_000)})
    dataset, benchmark = place.catalog.datasets["digits"], place.benchmarks["clean-v1"]
    datasets = {f"d{n}": dataset.model_copy(update={"id": f"d{n}"}) for n in range(10)}
    place.benchmarks = {f"b{n}-v1": benchmark.model_copy(update={"id": f"b{n}-v1"}) for n in range(10)}
    place.catalog = Catalog(models, datasets, place.catalog.label_spaces, {})
    started = time.process_time()
    found = place.plan()
    assert time.process_time() - started < 3
    assert found.counts() == {"wanted": 100_000}


def test_the_plan_of_this_project_names_a_way_out_for_every_blocked_cell() -> None:
    workspace = Workspace(ROOT, ROOT)
    own = Place(workspace)
    for planned in own.plan().cells:
        if planned.state == "blocked":
            assert "robustboard lock " in planned.reason, planned
