"""Groups of classes, views and corrupted copies: what entries say of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from robustboard.errors import ContentError, UnknownNameError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.labels import ClassGroups

Plant = Any
GROUPS = """\
name: Edges
grouping_of: shapes
source: a test
aggregation: max-logit
classes:
  straight: [sq, tr]
  curved: [ci]
"""
VIEW = """\
name: Round shapes
source:
  kind: classes-of
  dataset: shapes
label_space: shapes
class_subset: round
size: 2
native_size: 28
channels: 1
license: MIT
display_allowed: true
citation: none
added: 2026-01-31
"""
CORRUPTED = """\
name: Foggy shapes
role: corrupted
source:
  kind: corrupted-arrays
  path: foggy
  layout: stacked
  severities: 5
  corruptions: [fog, snow]
label_space: shapes
size: 4
native_size: 28
channels: 1
matched_clean: shapes
license: MIT
display_allowed: true
citation: none
added: 2026-01-31
"""


def problems(plant: Plant) -> list[str]:
    with pytest.raises(ContentError) as caught:
        load_catalog(plant.workspace)
    return str(caught.value).splitlines()


@pytest.fixture
def grouped(plant: Plant) -> Plant:
    """A registry with groups, a view and a corrupted set."""
    plant.edit("registry/datasets/shapes.yaml", "size: 4", "size: 4\nnative_size: 28\nchannels: 1")
    plant.write("registry/labels/edges.yaml", GROUPS)
    plant.write("registry/datasets/round-shapes.yaml", VIEW)
    plant.write("registry/datasets/foggy.yaml", CORRUPTED)
    return plant


def test_labels_of_a_dataset_with_groups_count_its_categories(grouped: Plant) -> None:
    grouped.edit("registry/datasets/round-shapes.yaml", "class_subset: round", "class_subset: edges")
    catalog = load_catalog(grouped.workspace)
    entry = catalog.dataset("round-shapes")
    assert isinstance(catalog.chosen(entry), ClassGroups)
    assert catalog.groups(entry) == ((0, 2), (1,))
    assert catalog.classes(entry) is None
    assert list(catalog.labels(entry).classes) == ["straight", "curved"]
    assert catalog.viewed(entry) == catalog.dataset("shapes")
    assert catalog.groups(catalog.dataset("shapes")) is None
    assert catalog.labels(catalog.dataset("shapes")) == catalog.label_space("shapes")
    missing = entry.model_copy(update={"class_subset": "rond"})
    with pytest.raises(UnknownNameError, match="did you mean round"):
        catalog.chosen(missing)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "labels/edges.yaml",
            "[sq, tr]",
            "[sq, ci]",
            "7: classes.curved.0: expected each class once, got 'ci' again",
        ),
        (
            "labels/edges.yaml",
            "[sq, tr]",
            "[sq, sq]",
            "6: classes.straight.1: expected each class once, got 'sq' again",
        ),
        (
            "labels/edges.yaml",
            "[sq, tr]",
            "[sq, tx]",
            "6: classes.straight.1: expected a known class of shapes, got 'tx'",
        ),
        ("labels/edges.yaml", "[ci]", "[]", "7: classes.curved: expected "),
        ("labels/edges.yaml", "  curved: [ci]\n", "", "5: classes: expected "),
        ("labels/edges.yaml", "max-logit", "maximum", "4: aggregation: expected "),
        (
            "labels/edges.yaml",
            "of: shapes",
            "of: round",
            "2: grouping_of: expected a known label space, got 'round'",
        ),
        (
            "datasets/round-shapes.yaml",
            "dataset: shapes",
            "dataset: shape",
            "4: source.dataset: expected a known dataset",
        ),
        (
            "datasets/round-shapes.yaml",
            "dataset: shapes",
            "dataset: foggy",
            "4: source.dataset: expected a dataset with images of its own, got 'foggy', whose",
        ),
        (
            "datasets/round-shapes.yaml",
            "channels: 1",
            "channels: 3",
            "9: channels: expected 1 as in dataset shapes, got '3'",
        ),
        (
            "datasets/round-shapes.yaml",
            "class_subset: round\n",
            "",
            "1: class_subset: expected a class_subset",
        ),
        (
            "datasets/foggy.yaml",
            "role: corrupted",
            "role: test",
            "2: role: expected corrupted for a source of kind",
        ),
        (
            "datasets/foggy.yaml",
            "matched_clean: shapes\n",
            "",
            "1: matched_clean: expected the dataset that was corrupted",
        ),
        ("datasets/foggy.yaml", "size: 4", "size: 5", "10: size: expected 4, the size of shapes, got 5"),
        (
            "datasets/foggy.yaml",
            "[fog, snow]",
            "[fog, fog]",
            "8: source.corruptions: expected each corruption once",
        ),
        (
            "datasets/foggy.yaml",
            "layout: stacked",
            "layout: folders",
            "7: source.severities: expected 1, as layout folders",
        ),
        (
            "datasets/foggy.yaml",
            "size: 4",
            "size: 4\nborder: 2",
            "11: border: expected 0 for a source of kind",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_line(
    grouped: Plant, file: str, old: str, new: str, said: str
) -> None:
    grouped.edit(f"registry/{file}", old, new)
    found = problems(grouped)
    assert [line for line in found if line.startswith(f"registry/{file}:") and said in line], found


@pytest.mark.parametrize(
    ("pattern", "sound"),
    [
        ("{label}#-{class}#", True),
        ("patch_{group}_x_#", True),
        ("{label}#", False),
        ("{group}-{class}", False),
        ("{group}-{group}", False),
        ("{group}-{size}", False),
        ("{group", False),
    ],
)
def test_patterns_of_file_names_name_the_group_once(grouped: Plant, pattern: str, sound: bool) -> None:  # noqa: FBT001 - a case
    source = f'{{kind: folder, path: shapes, group_from: "{pattern}"}}'
    text = VIEW.replace("  kind: classes-of\n  dataset: shapes\n", "").replace(
        "source:\n", f"source: {source}\n"
    )
    grouped.write("registry/datasets/named.yaml", text.replace("Round shapes", "Named shapes"))
    if sound:
        load_catalog(grouped.workspace)
    else:
        (line,) = problems(grouped)
        assert "source.group_from: expected `{group}` or `{class}` once" in line
