"""Views of other sets, labels that a set may have, groups of images, and what selection keeps of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustboard.errors import CellError, UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry
from robustboard.registry.labels import ClassGroups, ClassSubset
from robustboard.runners.samples import Samples, load_samples
from robustboard.workspace import Workspace
from tests.runners.sources.lab import Lab, as_folder, as_npz, as_parquet, encode, noise


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(Workspace(tmp_path, tmp_path))


SUBSET = ClassSubset(id="pets", name="Pets", subset_of="animals", source="x", classes=("owl", "cat"))
GROUPS = ClassGroups(
    id="kinds",
    name="Kinds",
    grouping_of="animals",
    source="x",
    aggregation="max-logit",
    classes={"bird": ("owl",), "dog or fox": ("dog", "fox")},
)


def load(lab: Lab, entry: DatasetEntry, *others: DatasetEntry) -> Samples:
    catalog = Catalog(
        {}, {e.id: e for e in (entry, *others)}, {"animals": lab.space()}, {"pets": SUBSET}, {"kinds": GROUPS}
    )
    return load_samples(
        entry, lab.space(), workspace=lab.workspace, lock={}, input=lab.input(), catalog=catalog
    )


def view(name: str, size: int, **fields: Any) -> DatasetEntry:
    return Lab.entry({"kind": "classes-of", "dataset": "tiny"}, size, **{"id": name, **fields})


@pytest.mark.parametrize("native", [True, False])
def test_a_view_holds_the_images_of_its_classes(lab: Lab, native: bool) -> None:  # noqa: FBT001 - a case
    """Rows keep their names and order; labels are those of the label space, or numbers of categories."""
    images = np.repeat(noise(6)[..., None], 3, axis=3)
    labels = [0, 1, 3, 2, 0, 3]
    files = [encode(image) for image in images]
    fixed: dict[str, Any] = {"native_size": 8} if native else {}
    source = (
        as_npz(lab.workspace.output, images, labels) if native else as_parquet(lab.data.parent, files, labels)
    )
    whole = lab.entry(source, 6, **fixed)
    pets = load(lab, view("some", 4, class_subset="pets", **fixed), whole)
    assert (pets.ids, pets.labels.tolist()) == (("00000", "00002", "00004", "00005"), [0, 3, 0, 3])
    everything = load(lab, whole)
    assert np.array_equal(pets.pixels(range(4)), everything.pixels([0, 2, 4, 5]))
    assert pets.fingerprint == everything.select([0, 2, 4, 5]).fingerprint
    assert "4 of 6 images" in pets.facts["source"]
    kinds = load(lab, view("kinds-of", 4, class_subset="kinds", **fixed), whole)
    assert (kinds.ids, kinds.labels.tolist()) == (("00001", "00002", "00003", "00005"), [1, 0, 1, 0])


def test_a_view_must_have_the_declared_number_of_images(lab: Lab) -> None:
    whole = lab.entry(as_parquet(lab.data.parent, [encode(n) for n in range(3)], [0, 1, 3]), 3)
    with pytest.raises(CellError, match="expected 3 images as the entry's size says, got 2"):
        load(lab, view("some", 3, class_subset="pets"), whole)
    with pytest.raises(UserError, match="expected the catalogue to read some, a view of tiny"):
        lab.load(view("some", 2, class_subset="pets"))


def test_a_fault_of_the_viewed_set_is_one_of_the_view(lab: Lab) -> None:
    whole = lab.entry(as_parquet(lab.data.parent, [encode(n) for n in range(3)], [0, 1, -1]), 3)
    with pytest.raises(CellError, match="dataset some: 1 of 3 rows have label -1 or none, first row 2"):
        load(lab, view("some", 1, class_subset="pets"), whole)


def test_a_label_outside_the_class_subset_is_refused_with_its_row(lab: Lab) -> None:
    """B030: two classes for three labels."""
    entry = lab.entry(
        as_parquet(lab.data.parent, [encode(n) for n in range(3)], [0, 3, 1]), 3, class_subset="pets"
    )
    with pytest.raises(
        CellError, match="row 2: class dog is none of the 2 of class subset pets; correct"
    ) as caught:
        load(lab, entry)
    assert caught.value.kind == "labels"
    outside = entry.model_copy(update={"role": "out-of-distribution"})
    assert load(lab, outside).labels.tolist() == [0, 3, 1], "labels of no meaning are let pass"


def test_labels_of_a_set_with_groups_are_categories(lab: Lab) -> None:
    """By name, loosely, or by number; only numbers of categories."""
    files = {"bird/1.png": encode(1), "dog_or_fox/2.png": encode(2)}
    entry = lab.entry(as_folder(lab.data.parent, files), 2, class_subset="kinds")
    assert load(lab, entry).labels.tolist() == [0, 1]
    numbers = lab.entry(as_parquet(lab.data.parent, [encode(1), encode(2)], [1, 2]), 2, class_subset="kinds")
    with pytest.raises(CellError, match=r"row 1: label 2 is outside 0..1 of label space kinds"):
        load(lab, numbers)


def test_folders_of_no_class_are_left_out_only_where_the_entry_says_so(lab: Lab) -> None:
    """ObjectNet: 313 folders, 113 of which are scored."""
    files = {"bird/1.png": encode(1), "teapot/1.png": encode(2), "dog or fox/1.png": encode(3)}
    source = as_folder(lab.data.parent, files)
    with pytest.raises(CellError, match="label 'teapot' is no class of label space kinds"):
        load(lab, lab.entry(source, 3, class_subset="kinds"))
    found = load(lab, lab.entry({**source, "only_declared": True}, 2, class_subset="kinds"))
    assert found.ids == ("bird/1.png", "dog or fox/1.png")


def test_file_names_tell_groups(lab: Lab) -> None:
    """cat1-dog3.png: the shape is the label, the texture the group, kept as the number of its class."""
    names = ["cat/cat1-dog3.png", "cat/cat12-cat1.png", "owl/owl2-fox10.png"]
    source = as_folder(lab.data.parent, {name: encode(n) for n, name in enumerate(names)})
    found = load(lab, lab.entry({**source, "group_from": "{label}#-{class}#"}, 3))
    assert (found.labels.tolist(), found.groups) == ([0, 0, 3], ("1", "0", "2"))
    free = load(lab, lab.entry({**source, "group_from": "{label}#-{group}"}, 3))
    assert free.groups == ("dog3", "cat1", "fox10")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cat/cat1.png", "set/cat/cat1.png: expected a name like {label}#-{class}# in a folder named by"),
        ("cat/dog1-cat3.png", "expected a name like"),
        ("cat/cat1-bird3.png", "set/cat/cat1-bird3.png: 'bird' in its name is no class of animals"),
    ],
)
def test_other_file_names_are_refused(lab: Lab, name: str, said: str) -> None:
    source = as_folder(lab.data.parent, {"cat/cat1-dog3.png": encode(0), name: encode(1)})
    with pytest.raises(CellError) as caught:
        load(lab, lab.entry({**source, "group_from": "{label}#-{class}#"}, 2))
    assert said in caught.value.reason
    assert caught.value.kind == "labels"


def parquet(lab: Lab, groups: list[Any]) -> dict[str, Any]:
    source = as_parquet(lab.data.parent, [encode(n) for n in range(3)], [0, 1, 2])
    path = lab.data / "set.parquet"
    pq.write_table(pq.read_table(path).append_column("region", pa.array(groups)), path)
    data = path.read_bytes()
    pin = {"path": "set.parquet", "sha256": hashlib.sha256(data).hexdigest()}
    return {**source, "files": (pin,), "group_column": "region"}


def test_a_column_tells_groups_and_selection_keeps_them(lab: Lab) -> None:
    """They are part of the fingerprint: other groups are other data."""
    found = load(lab, lab.entry(parquet(lab, ["Asia", "Europe", "Asia"]), 3))
    assert found.groups == ("Asia", "Europe", "Asia")
    assert found.select([2, 1]).groups == ("Asia", "Europe")
    other = load(lab, lab.entry(parquet(lab, ["Asia", "Europe", "Africa"]), 3))
    assert other.select([0, 1]).fingerprint == found.select([0, 1]).fingerprint
    assert other.fingerprint != found.fingerprint
    assert load(lab, lab.entry(parquet(lab, [1, 2, 10]), 3)).groups == ("1", "2", "10")
    assert load(lab, view("some", 1, class_subset="pets"), lab.entry(parquet(lab, [7, 8, 9]), 3)).groups == (
        "7",
    )


def test_images_without_a_group_and_absent_columns_are_refused(lab: Lab) -> None:
    with pytest.raises(CellError, match="row 1: expected a whole number or text in region, got NoneType"):
        load(lab, lab.entry(parquet(lab, ["Asia", None, "Asia"]), 3))
    source = {**parquet(lab, ["a", "b", "c"]), "group_column": "regions"}
    with pytest.raises(CellError, match=r"expected a column regions, got .*did you mean region"):
        load(lab, lab.entry(source, 3))


def test_a_corrupted_set_is_no_set_by_itself(lab: Lab) -> None:
    source = {"kind": "corrupted-folders", "path": "c", "corruptions": ("fog",)}
    entry = lab.entry(source, 3, role="corrupted", matched_clean="tiny")
    with pytest.raises(CellError, match="holds one set a corruption and severity"):
        load(lab, entry)
