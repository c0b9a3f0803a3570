"""Digests change with whatever can change a number, and with nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.registry.entries import LockedEntry, LockedFile, ModelEntry
from robustboard.registry.labels import ClassGroups, ClassSubset, LabelSpace
from robustboard.runners import identity
from robustboard.workspace import find

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(find(ROOT))


def changed(entry: ModelEntry, path: str, value: Any) -> ModelEntry:
    """The entry with one value, named by its dotted path, replaced."""
    data = entry.model_dump()
    node = data
    *parents, last = path.split(".")
    for name in parents:
        node = node[name]
    assert node[last] != value
    node[last] = value
    return ModelEntry.model_validate(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("source.revision", "1" * 40),
        ("source.repo", "timm/other"),
        ("architecture.name", "resnet34"),
        ("architecture.arguments", {"stem_width": 8}),
        ("architecture.state_map", "position"),
        ("label_space", "digits"),
        ("input.size", 288),
        ("input.crop", "7/8"),
        ("input.interpolation", "nearest"),
        ("input.mean", (0.5, 0.5, 0.5)),
    ],
)
def test_a_model_is_another_when_its_outputs_can_be(path: str, value: Any, catalog: Catalog) -> None:
    entry = catalog.model("resnet18.a1_in1k")

    assert identity.model_digest(changed(entry, path, value)) != identity.model_digest(entry)


@pytest.mark.parametrize(
    ("path", "value"),
    [("id", "other"), ("name", "Other"), ("license", "MIT"), ("training.datasets", ("x",)), ("paper", None)],
)
def test_a_model_is_the_same_when_only_words_about_it_change(path: str, value: Any, catalog: Catalog) -> None:
    entry = catalog.model("resnet18.a1_in1k")

    assert identity.model_digest(changed(entry, path, value)) == identity.model_digest(entry)


def test_prompts_are_part_of_a_zero_shot_model(catalog: Catalog) -> None:
    entry = catalog.model("clip-vit-b-32-datacomp")

    other = changed(entry, "zero_shot.templates", ("a photo of a {}.",))

    assert identity.model_digest(other) != identity.model_digest(entry)


def test_names_and_order_of_classes_are_part_of_the_labels() -> None:
    """Class names are the words of prompts; order is index."""
    space = LabelSpace(id="animals", name="S", source="x", classes={"a": "cat", "b": "dog", "c": "cow"})
    subset = ClassSubset(id="pets", name="T", subset_of="animals", source="x", classes=("a", "b"))
    others = [
        (space.model_copy(update={"classes": {"a": "cat", "b": "hound", "c": "cow"}}), None),
        (space.model_copy(update={"classes": {"b": "dog", "a": "cat", "c": "cow"}}), None),
        (space, subset),
        (space, subset.model_copy(update={"classes": ("b", "a")})),
    ]

    digests = {identity.labels_digest(space), *(identity.labels_digest(*pair) for pair in others)}

    assert len(digests) == 5
    renamed = space.model_copy(update={"name": "T", "source": "y"})
    assert identity.labels_digest(renamed) == identity.labels_digest(space)


def test_groups_are_part_of_the_labels() -> None:
    """Categories, their order, their classes and how they are compared; a subset is another thing."""
    space = LabelSpace(id="animals", name="S", source="x", classes={"a": "cat", "b": "dog", "c": "cow"})
    groups = ClassGroups(
        id="homes",
        name="T",
        grouping_of="animals",
        source="x",
        aggregation="max-logit",
        classes={"house": ("a", "b"), "farm": ("c",)},
    )
    changes: list[dict[str, Any]] = [
        {},
        {"aggregation": "mean-share"},
        {"classes": {"farm": ("c",), "house": ("a", "b")}},
        {"classes": {"house": ("a",), "farm": ("c", "b")}},
        {"classes": {"home": ("a", "b"), "farm": ("c",)}},
    ]
    found = {identity.labels_digest(space, groups.model_copy(update=change)) for change in changes}
    assert len(found | {identity.labels_digest(space)}) == 6
    assert identity.labels_digest(space, groups.model_copy(update={"name": "U"})) in found


def test_fields_that_say_nothing_leave_results_valid(catalog: Catalog) -> None:
    """The digest that the committed results of the digits were measured under."""
    result = json.loads((ROOT / "leaderboard/results/digits-resnet/clean-v1--digits.json").read_text())
    digits = catalog.dataset("digits")
    assert identity.dataset_digest(digits) == result["key"]["dataset_digest"]
    for change in ({"border": 2}, {"preprocessing": "crop-only"}):
        assert identity.dataset_digest(digits.model_copy(update=change)) != identity.dataset_digest(digits)


def test_what_shapes_a_set_shapes_its_views(catalog: Catalog) -> None:
    view = catalog.dataset("imagenet-1k-a")
    whole = catalog.viewed(view)
    digest = identity.dataset_digest(view, whole)
    assert identity.dataset_digest(view, whole.model_copy(update={"label_map": {"0": 1}})) != digest
    assert identity.dataset_digest(view, whole.model_copy(update={"mirrors": (), "name": "X"})) == digest
    assert identity.dataset_digest(view.model_copy(update={"class_subset": "imagenet-o"}), whole) != digest


def test_a_mirror_does_not_make_another_dataset(catalog: Catalog) -> None:
    """It holds the same images, and their fingerprint is part of the key anyway."""
    entry = catalog.dataset("fashion-mnist")
    digest = identity.dataset_digest(entry)

    assert identity.dataset_digest(entry.model_copy(update={"mirrors": ()})) == digest
    assert identity.dataset_digest(entry.model_copy(update={"native_size": 32})) != digest
    assert identity.dataset_digest(entry.model_copy(update={"label_map": {"1": 0}})) != digest


def test_software_is_what_computes_the_outputs(catalog: Catalog) -> None:
    """Major and minor version of the library that builds the network, and of torch."""

    def short(name: str) -> str:
        return ".".join(metadata.version(name).split(".")[:2])

    timm, clip = catalog.model("resnet18.a1_in1k"), catalog.model("clip-vit-b-32-datacomp")

    assert identity.software(timm) == {"torch": short("torch"), "timm": short("timm")}
    assert identity.software(clip) == {"torch": short("torch"), "open_clip_torch": short("open_clip_torch")}


def test_the_recipe_names_the_weights(catalog: Catalog) -> None:
    """Another seed, recipe, network or input is another file; another name is the same."""
    entry = catalog.model("digits-resnet")
    digest = identity.recipe_digest(entry)
    changes = [("source.seed", 99), ("source.recipe.epochs", 1), ("input.size", 24), ("label_space", "mnist")]

    others = [identity.recipe_digest(changed(entry, path, value)) for path, value in changes]

    assert len({digest, *others}) == 5
    assert identity.recipe_digest(changed(entry, "name", "Other")) == digest


def test_several_files_have_one_hash_that_ignores_their_order() -> None:
    files = tuple(
        LockedFile(path=name, size=1, sha256=digit * 64) for name, digit in (("a", "1"), ("b", "2"))
    )
    swapped = (
        files[0].model_copy(update={"sha256": "2" * 64}),
        files[1].model_copy(update={"sha256": "1" * 64}),
    )

    both = identity.files_digest(LockedEntry(files=files))

    assert identity.files_digest(LockedEntry(files=files[::-1])) == both
    assert identity.files_digest(LockedEntry(files=swapped)) != both
    assert identity.files_digest(LockedEntry(files=files[:1])) == "1" * 64


def test_identity_needs_no_torch() -> None:
    """A check of a pull request runs on machines without it."""
    heavy = "sorted({'torch', 'timm', 'open_clip'} & sys.modules.keys())"
    code = f"import sys, robustboard.runners.identity; print({heavy})"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
