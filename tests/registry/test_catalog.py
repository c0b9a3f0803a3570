from __future__ import annotations

from typing import Any

import pytest

from robustboard.errors import ContentError, UnknownNameError, WorkspaceError
from robustboard.registry.catalog import load_catalog
from robustboard.workspace import Workspace

Plant = Any


def problems(plant: Plant) -> list[str]:
    with pytest.raises(ContentError) as caught:
        load_catalog(plant.workspace)
    return str(caught.value).splitlines()


def test_entries_are_found_by_id(plant: Plant) -> None:
    catalog = load_catalog(plant.workspace)
    assert catalog.model("net").source.kind == "hub"
    assert catalog.dataset("shapes").size == 4
    assert list(catalog.label_space("shapes").classes) == ["sq", "ci", "tr"]
    assert catalog.class_subset("round").classes == ("tr", "ci")
    assert list(catalog.datasets) == ["shapes", "shapes-train"]


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("model", "nett", "net"),
        ("dataset", "shape", "shapes"),
        ("label_space", "shepes", "shapes"),
        ("class_subset", "rond", "round"),
    ],
)
def test_an_unknown_name_is_one_line_with_the_nearest_ids(
    plant: Plant, kind: str, name: str, near: str
) -> None:
    """B004: a name with one letter wrong is answered with the right one, not with a KeyError."""
    catalog = load_catalog(plant.workspace)
    with pytest.raises(UnknownNameError) as caught:
        getattr(catalog, kind)(name)
    text = str(caught.value)
    assert f"'{name}'" in text
    assert near in text
    assert "\n" not in text
    assert caught.value.exit_code == 2


def test_classes_of_a_subset_come_in_the_order_of_the_subset(plant: Plant) -> None:
    plant.edit("registry/datasets/shapes.yaml", "size: 4", "size: 4\nclass_subset: round")
    catalog = load_catalog(plant.workspace)
    assert catalog.classes(catalog.dataset("shapes")) == (2, 1)
    assert catalog.classes(catalog.dataset("shapes-train")) is None


def test_problems_of_all_files_come_at_once(plant: Plant) -> None:
    plant.edit("registry/models/net.yaml", "size: 160", "size: big")
    plant.edit("registry/datasets/shapes.yaml", "size: 4", "size: few")
    plant.edit("registry/labels/round.yaml", "- tr", "- tx")
    assert [line.split(":")[0] for line in problems(plant)] == [
        "registry/datasets/shapes.yaml",
        "registry/labels/round.yaml",
        "registry/models/net.yaml",
    ]


def test_repeated_misspelt_and_sound_keys(plant: Plant) -> None:
    """B003: a repeated and a misspelt key are both reported with their files; the sound file is not."""
    net = (plant.root / "registry/models/net.yaml").read_text()
    again = net.replace("loader: timm", "license: MIT\nloader: timm").replace("Small net", "Other")
    plant.write("registry/models/again.yaml", again)
    slip = net.replace("revision:", "revison:").replace("Small net", "Third")
    plant.write("registry/models/slip.yaml", slip)
    found = problems(plant)
    assert found == [
        "registry/models/again.yaml:20: license: expected each key once, got it again (first on line 6)",
        "registry/models/slip.yaml:2: source.revision: expected a value, got none: the field is required",
        (
            "registry/models/slip.yaml:5: source.revison: expected a known key, got 'revison'"
            " (did you mean revision?)"
        ),
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "models/net.yaml",
            "label_space: shapes",
            "label_space: shape",
            "9: label_space: expected a known label space, got 'shape' (did you mean shapes?)",
        ),
        (
            "models/net.yaml",
            "label_space: shapes",
            "label_space: round",
            "9: label_space: expected a known label space, got 'round'",
        ),
        (
            "models/net.yaml",
            "    shapes: no",
            "    shaped: no",
            "18: training.overlap.shaped: expected a known dataset, got 'shaped' (did you mean shapes?)",
        ),
        (
            "datasets/shapes.yaml",
            "label_space: shapes",
            "label_space: shaqes",
            "6: label_space: expected a known label space, got 'shaqes' (did you mean shapes?)",
        ),
        (
            "datasets/shapes.yaml",
            "size: 4",
            "size: 4\nclass_subset: rounds",
            "8: class_subset: expected a known class subset, got 'rounds' (did you mean round?)",
        ),
        (
            "datasets/shapes.yaml",
            "size: 4",
            "size: 4\nclass_subset: shapes",
            "8: class_subset: expected a known class subset, got 'shapes'",
        ),
        (
            "datasets/shapes.yaml",
            "size: 4",
            "size: 4\nmatched_clean: shapes-trian",
            "8: matched_clean: expected a known dataset, got 'shapes-trian' (did you mean shapes-train",
        ),
        (
            "datasets/shapes.yaml",
            "size: 4",
            "size: 4\nmatched_clean: shapes",
            "8: matched_clean: expected another dataset, got 'shapes', which is this one",
        ),
        (
            "datasets/shapes.yaml",
            "size: 4",
            "size: 4\nlabel_map:\n  square: 0\n  oval: 3",
            "10: label_map.oval: expected a class index below 3, got '3'",
        ),
        (
            "labels/round.yaml",
            "subset_of: shapes",
            "subset_of: shades",
            "2: subset_of: expected a known label space, got 'shades' (did you mean shapes?)",
        ),
        (
            "labels/round.yaml",
            "- ci",
            "- tr",
            "6: classes.1: expected each class once, got 'tr' again",
        ),
        (
            "labels/round.yaml",
            "- ci",
            "- circle",
            "6: classes.1: expected a known class of shapes, got 'circle'",
        ),
    ],
)
def test_references_are_checked(plant: Plant, file: str, old: str, new: str, said: str) -> None:
    """B030 among them: a class that is listed twice, and one that the label space does not have."""
    plant.edit(f"registry/{file}", old, new)
    assert [line for line in problems(plant) if line.startswith(f"registry/{file}:{said}")]


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("shapes", "expected a dataset of role train, got 'shapes' of role test"),
        ("shapes-tran", "expected a known dataset, got 'shapes-tran' (did you mean shapes-train, shapes?)"),
    ],
)
def test_a_recipe_trains_on_a_training_set(plant: Plant, dataset: str, said: str) -> None:
    recipe = (
        f"  kind: trained-here\n  seed: 0\n  recipe:\n    method: standard\n    dataset: {dataset}\n"
        "    epochs: 1\n    batch_size: 8\n    learning_rate: 0.1\n"
    )
    net = (plant.root / "registry/models/net.yaml").read_text()
    start, end = net.index("  kind: hub"), net.index("loader:")
    plant.write("registry/models/net.yaml", net[:start] + recipe + net[end:])
    assert problems(plant) == [f"registry/models/net.yaml:7: source.recipe.dataset: {said}"]


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("nett", "expected a known model, got 'nett' (did you mean net?)"),
        ("net", "expected another model, got 'net', which is this one"),
    ],
)
def test_the_base_of_a_model_is_another_one(plant: Plant, base: str, said: str) -> None:
    plant.edit("registry/models/net.yaml", "label_space: shapes", f"label_space: shapes\nbase: {base}")
    (problem,) = problems(plant)
    assert problem.endswith(f"base: {said}")


def test_a_subset_of_another_label_space_does_not_fit(plant: Plant) -> None:
    plant.write(
        "registry/labels/sizes.yaml", "name: Sizes\nsource: a test\nclasses:\n  tr: three\n  ci: two\n"
    )
    plant.edit("registry/labels/round.yaml", "subset_of: shapes", "subset_of: sizes")
    plant.edit("registry/datasets/shapes.yaml", "size: 4", "size: 4\nclass_subset: round")
    assert problems(plant) == [
        "registry/datasets/shapes.yaml:8: class_subset: expected a subset of shapes, got one of sizes"
    ]


def test_a_reference_to_a_broken_entry_is_no_second_fault(plant: Plant) -> None:
    plant.edit("registry/labels/shapes.yaml", "source: a test\n", "")
    assert problems(plant) == [
        "registry/labels/shapes.yaml:1: source: expected a value, got none: the field is required"
    ]


def test_a_list_of_wrong_classes_is_told_in_twenty_lines(plant: Plant) -> None:
    """A guess at what was meant takes time; a file may not ask for thousands of them."""
    wrong = "".join(f"  - class-{number}\n" for number in range(5_000))
    text = (plant.root / "registry/labels/round.yaml").read_text()
    plant.write("registry/labels/round.yaml", text[: text.index("  - ")] + wrong)
    assert len(problems(plant)) == 20


def test_an_absent_registry_is_an_error(plant: Plant) -> None:
    empty = Workspace(plant.root / "elsewhere", plant.root)
    with pytest.raises(WorkspaceError, match="registry: expected a folder, found none"):
        load_catalog(empty)
    (plant.root / "elsewhere" / "registry").mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="expected a folder of models, datasets, labels, found none"):
        load_catalog(empty)


def test_a_registry_may_lack_a_kind_of_entry(plant: Plant) -> None:
    (plant.root / "registry/models/net.yaml").unlink()
    (plant.root / "registry/models").rmdir()
    assert dict(load_catalog(plant.workspace).models) == {}
