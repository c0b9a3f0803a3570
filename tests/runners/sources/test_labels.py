from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.sources.labels import Labelled, class_indices
from robustboard.runners.sources.stored import StoredLabels

ANIMALS = {"cat": "Cat", "dog": "Dog", "fox": "Red fox"}
DIGITS = {str(digit): str(digit) for digit in range(10)}


def space(classes: dict[str, str]) -> LabelSpace:
    return LabelSpace.model_validate({"id": "classes", "name": "Classes", "source": "x", "classes": classes})


def read(
    values: list[int | str | None],
    classes: dict[str, str],
    label_map: dict[str, int] | None = None,
    names: tuple[str, ...] | None = None,
) -> Labelled:
    source = {"kind": "sklearn-digits", "start": 0, "stop": 1}
    fields: dict[str, Any] = {"label_space": "classes", "size": 1, "license": "x", "citation": "x"}
    entry = DatasetEntry.model_validate(
        {
            "id": "tiny",
            "name": "Tiny",
            "source": source,
            **fields,
            "display_allowed": True,
            "added": "2026-01-01",
            "label_map": label_map or {},
        }
    )
    return class_indices(StoredLabels(values, names), entry, space(classes), "row {}".format)


def refusal(
    values: list[int | str | None],
    classes: dict[str, str],
    label_map: dict[str, int] | None = None,
    names: tuple[str, ...] | None = None,
) -> str:
    with pytest.raises(CellError) as caught:
        read(values, classes, label_map, names)
    assert caught.value.kind == "labels"
    return caught.value.reason


def test_whole_numbers_are_indices() -> None:
    found = read([2, 0, 1], ANIMALS)

    assert found.indices.tolist() == [2, 0, 1]
    assert found.indices.dtype == np.int64
    assert "by index" in found.rule


@pytest.mark.parametrize("values", [[-1] * 10, [None] * 10, [-1, None]])
def test_a_split_without_labels_is_refused(values: list[int | str | None]) -> None:
    """B011 (a): all -1 is an unlabelled split, not accuracy 0."""
    assert "no labels" in refusal(values, DIGITS)


def test_partly_withheld_labels_are_refused_with_their_count() -> None:
    """B011 (b): -1 never indexes the last class."""
    reason = refusal([3, 3, -1, -1, -1, -1, -1, 1, 2, 9], DIGITS)

    assert "5 of 10 rows have label -1" in reason
    assert "row 2" in reason


@pytest.mark.parametrize("names", [("dog", "cat"), ("Dog", "Cat"), ("DOG", "c-a-t")])
def test_numbers_with_class_names_are_compared_by_name(names: tuple[str, ...]) -> None:
    """B012: dataset order [dog, cat], label space order [cat, dog]."""
    found = read([1, 0, 1, 0], ANIMALS, names=names)

    assert found.indices.tolist() == [0, 1, 0, 1]
    assert found.rule == "by class name"


def test_text_labels_are_compared_by_key_then_by_name() -> None:
    """B012: text labels."""
    assert read(["cat", "Red fox", "dog"], ANIMALS).indices.tolist() == [0, 2, 1]


@pytest.mark.parametrize("names", [None, ("cat", "dog", "bird")])
def test_an_unknown_text_is_named_with_its_row(names: tuple[str, ...] | None) -> None:
    """B012: a row labelled bird."""
    values: list[int | str | None] = ["cat", "dog", "bird"] if names is None else [0, 1, 2]
    classes = ANIMALS if names is None else {"dog": "Dog", "cat": "Cat", "owl": "Owl"}
    reason = refusal(values, classes, names=names)

    assert "'bird'" in reason
    assert "row 2" in reason
    assert "label_map" in reason


def test_a_misspelt_label_comes_with_the_nearest_class() -> None:
    assert "did you mean fox?" in refusal(["foxx"], ANIMALS)


def test_a_key_wins_over_another_class_of_that_name() -> None:
    assert read(["a", "b"], {"a": "b", "b": "a"}).indices.tolist() == [0, 1]


def test_a_name_of_two_classes_is_refused_with_both() -> None:
    """ImageNet has two classes called missile."""
    classes = {"n04008634": "missile", "n03773504": "missile", "n02012849": "crane"}

    assert "n04008634, n03773504" in refusal(["missile"], classes)
    assert read(["missile"], classes, {"missile": 1}).indices.tolist() == [1]


def test_number_beyond_the_classes_is_refused_with_row_and_range() -> None:
    """B013 (a): labels 1..10 where 10 stands for 0; nothing is subtracted."""
    reason = refusal(list(range(1, 11)), DIGITS)

    assert "row 9" in reason
    assert "label 10 is outside 0..9" in reason


def test_declared_map_takes_ten_to_zero() -> None:
    """B013 (b)."""
    found = read(list(range(1, 11)), DIGITS, {"10": 0})

    assert found.indices.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert found.rule.startswith("label_map")


@pytest.mark.parametrize("value", [-2, 3, 10**9])
def test_numbers_out_of_range_are_refused(value: int) -> None:
    assert f"label {value} is outside 0..2" in refusal([0, value], ANIMALS)


def test_map_to_a_class_that_does_not_exist_is_refused() -> None:
    assert "outside 0..2" in refusal(["bird"], ANIMALS, {"bird": 3})


def test_text_of_digits_is_an_index_where_no_key_is_a_number() -> None:
    """Folders of ImageNet-V2 are called 0, 1, 10, 100: sorted as text they would be shifted."""
    classes = {f"n{number:08d}": f"thing {number}" for number in range(200)}

    assert read(["0", "1", "10", "100", "2"], classes).indices.tolist() == [0, 1, 10, 100, 2]


def test_text_of_digits_is_a_key_where_keys_are_numbers() -> None:
    classes = {"5": "five", "3": "three"}

    assert read(["3", "5"], classes).indices.tolist() == [1, 0]
    assert "'1'" in refusal(["1"], classes)


def test_class_names_of_digits_sorted_as_text_are_read_as_numbers() -> None:
    """An image folder on the Hub numbers its classes by sorted names: 0, 1, 10, 2 ..."""
    names = tuple(sorted(map(str, range(20))))
    classes = {f"c{number:02d}": f"thing {number}" for number in range(20)}
    stored: list[int | str | None] = [names.index(str(number)) for number in range(20)]

    assert read(stored, classes, names=names).indices.tolist() == list(range(20))


def imagenet_like(count: int) -> dict[str, str]:
    return {f"n{number:08d}": f"Thing number {number}" for number in range(count)}


def test_strange_names_are_overlooked_where_the_others_stand_at_their_own_index() -> None:
    """ImageNet's names differ between publications in some classes; the order is the same."""
    names = [f"thing number {number}, res numerata" for number in range(10)]
    names[4] = "cock"
    found = read([4, 9, 0], imagenet_like(10), names=tuple(names))

    assert found.indices.tolist() == [4, 9, 0]
    assert "by index" in found.rule


def test_strange_names_are_refused_where_another_stands_elsewhere() -> None:
    names = [f"thing number {number}" for number in range(10)]
    names[4], names[5], names[6] = "cock", names[6], names[5]

    assert "'cock'" in refusal([4, 5, 6], imagenet_like(10), names=tuple(names))


def test_names_that_mean_nothing_here_are_refused() -> None:
    """Ten other classes are ten other classes, though both have ten."""
    assert "'0th'" in refusal([0, 1], imagenet_like(10), names=tuple(f"{n}th" for n in range(10)))


def test_names_of_a_subset_are_not_taken_for_the_first_classes() -> None:
    """ImageNet-A numbers its 200 classes from 0; index 0 is not the first of 1,000."""
    assert "'alien'" in refusal([0, 1], imagenet_like(10), names=("thing number 0", "alien"))


def test_map_by_number_is_checked_against_the_source_own_name() -> None:
    """ImageNet-A: label_map takes 0 to 6; its name for 0 must not say otherwise."""
    names = ("n00000006", "n00000007")

    assert read([0, 1], imagenet_like(10), {"0": 6, "1": 7}, names).indices.tolist() == [6, 7]
    assert "label_map takes 1 for class n00000008" in refusal(
        [0, 1], imagenet_like(10), {"0": 6, "1": 8}, names
    )


def test_map_by_number_does_not_hit_names_of_digits() -> None:
    """With names sorted as text, class 2 is called 10: a map of 10 means the name."""
    names = tuple(sorted(map(str, range(11))))
    stored: list[int | str | None] = [names.index("10"), 10]

    assert read(stored, DIGITS, {"10": 0}, names).indices.tolist() == [0, 9]


def test_number_beyond_the_class_names_is_refused() -> None:
    assert "label 2 is outside 0..1" in refusal([0, 2], ANIMALS, names=("cat", "dog"))


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), min_size=1, max_size=20))
@settings(max_examples=50)
def test_order_of_the_source_classes_never_matters(order: list[int], labels: list[int]) -> None:
    """B012, B030: any order of the same names gives the same classes."""
    classes = {f"key{number}": f"name {number}" for number in range(6)}
    names = tuple(f"name {number}" for number in order)
    stored: list[int | str | None] = [order.index(label) for label in labels]

    assert read(stored, classes, names=names).indices.tolist() == labels
