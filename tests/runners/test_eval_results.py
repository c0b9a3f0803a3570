"""Results of this board as files for the Hub, and such files as reported numbers."""

from __future__ import annotations

import pytest

from robustboard.errors import ContentError, UserError
from robustboard.runners.eval_results import items_of, read_items, reported_scores, yaml_bytes
from robustboard.runners.keys import Cell
from robustboard.runners.record import Subset
from tests.leaderboard.made_up import World

COMMIT = "0123456789" * 4
LADDER = [500, 400, 300, 200]


@pytest.fixture
def world() -> World:
    """A model and a dataset of the Hub, and others that are not."""
    found = World()
    source = {"kind": "hub", "repo": "org/net", "revision": COMMIT}
    found.add_model("net", source=source)
    found.add_model("home")
    data = {"split": "test", "image_column": "image", "label_column": "label"}
    found.add_dataset("photos", size=600, source={**source, "repo": "org/photos", **data})
    return found


def test_whole_results_on_datasets_of_the_hub_become_items(world: World) -> None:
    results = {
        Cell("net", "clean-v1", "photos"): world.result("net", dataset="photos", correct=540),
        Cell("net", "pgd-v1", "photos"): world.result("net", "pgd-v1", "photos", falling=LADDER),
        Cell("net", "clean-v1", "squares"): world.result("net"),
        Cell("home", "clean-v1", "photos"): world.result("home", dataset="photos"),
    }
    found = items_of(results, world.catalog, "net", site="https://example.org/board/")
    assert sorted(found) == ["clean-v1--photos.yaml", "pgd-v1--photos.yaml"]
    (item,) = found["clean-v1--photos.yaml"]
    assert item["dataset"] == {"id": "org/photos", "task_id": "clean-v1", "revision": COMMIT}
    assert item["value"] == 0.9
    assert item["source"]["url"] == "https://example.org/board/m/net.html"
    assert item["notes"].startswith("clean_accuracy@clean, n = 600, share, run ")
    assert found["pgd-v1--photos.yaml"][0]["value"] == 400 / 600
    with pytest.raises(UserError, match="home does not come from a Hub repository"):
        items_of(results, world.catalog, "home")


def test_a_part_of_a_dataset_is_never_exported(world: World) -> None:
    part = world.result("net", dataset="photos", correct=30, subset=Subset(count=40, seed=0))
    assert items_of({Cell("net", "clean-v1", "photos"): part}, world.catalog, "net") == {}


def test_what_is_exported_is_imported_as_reported_with_the_same_numbers(world: World) -> None:
    results = {Cell("net", "clean-v1", "photos"): world.result("net", dataset="photos", correct=540)}
    files = {
        f".eval_results/{name}": yaml_bytes(items)
        for name, items in items_of(results, world.catalog, "net").items()
    }
    (score,) = reported_scores("org/net", files)
    assert (score.model, score.value, score.unit, score.table) == (
        "org/net", 0.9, "dimensionless", "clean-v1--photos",
    )  # fmt: skip
    assert score.dataset.startswith("org/photos, task clean-v1, clean_accuracy@clean")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "- dataset: {id: a/b, task_id: t}\n  value: .nan\n",
            r"x\.yaml:1: 0\.value: expected a decimal",
        ),
        ("- dataset: {id: a/b, task_id: t}\n  value: 1e999\n", r"0\.value: expected a decimal number"),
        ("- value: 1\n", r"0\.dataset\.id: expected a dataset id, got none"),
        ("- 1\n", r"x\.yaml:1: expected a mapping"),
        ("a: 1\n", r"expected a list of results"),
        ("- &a {value: 1}\n- *a\n", r"x\.yaml:1: 0: expected a plain value, got the anchor"),
        ("- value: 1\n  value: 2\n", r"x\.yaml:2: 0\.value: expected each key once"),
        ("- !!python/object:os.system {}\n", r"x\.yaml:1: .*expected a plain value, got the tag"),
    ],
)
def test_a_file_of_another_form_is_told_with_file_and_line(text: str, said: str) -> None:
    with pytest.raises(ContentError, match=said):
        reported_scores("org/net", {"x.yaml": text.encode()})


def test_a_number_that_stands_twice_counts_once_and_nothing_is_an_error() -> None:
    item = b"- dataset: {id: a/b, task_id: t}\n  value: 0.5\n"
    assert len(reported_scores("org/net", {"x.yaml": item + item})) == 1
    assert len(read_items(item + item, "x.yaml")) == 2
    with pytest.raises(UserError, match="has no results"):
        reported_scores("org/net", {})
