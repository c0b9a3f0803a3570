"""Stored labels → class indices of a label space; nothing is guessed, everything odd is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from robustboard.errors import CellError, echo, suggestion
from robustboard.registry.entries import DatasetEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.sources.stored import StoredLabels

UNLABELLED = -1
"""What sets with withheld labels store (huggingface/datasets, Kaggle test splits)."""

LabelValue = int | str


@dataclass(frozen=True, slots=True)
class Labelled:
    """Class indices of all rows."""

    indices: npt.NDArray[np.int64]
    """(n,), 0 to K - 1."""
    rule: str
    """How stored labels became indices."""


def class_indices(
    stored: StoredLabels, entry: DatasetEntry, space: LabelSpace, name: Callable[[int], str]
) -> Labelled:
    """Class indices in the label space.

    In this order: the entry's label_map; a whole number as the index; text as a class key, then as a
    class name, then as either without regard to case and punctuation, each of several synonyms
    between commas counting; then, where no class key is a number, a text of digits as the index.

    Where the source names the classes behind its whole numbers, the names count, not the numbers:
    a set and a model may order the same classes differently. Only where some of the names mean
    nothing here, at least as many do, and all of those stand at their own index, the numbers count.

    Raises CellError of kind `labels` that names value and row, for labels that are absent, -1,
    unknown, ambiguous or out of range.
    """
    first = _first_rows(stored, name)
    classes = _Classes(space)
    if stored.class_names is not None:
        found, rule = _by_class_names(stored.class_names, first, entry, classes, name)
    else:
        found = {value: classes.index(value, entry, name(row)) for value, row in first.items()}
        rule = _rule(entry, first)
    indices = np.fromiter((found[value] for value in _known(stored)), np.int64, len(stored.values))
    return Labelled(indices, rule)


def class_numbers(texts: Iterable[str], entry: DatasetEntry, space: LabelSpace) -> dict[str, int | None]:
    """The class that each text stands for, by the rules of `class_indices`; None where it is no class."""
    classes = _Classes(space)
    found: dict[str, int | None] = {}
    for text in texts:
        known = text in entry.label_map or len(classes.candidates(text)) == 1
        found[text] = classes.index(text, entry, text) if known else None
    return found


def _known(stored: StoredLabels) -> Iterable[LabelValue]:
    return (value for value in stored.values if value is not None)


def _first_rows(stored: StoredLabels, name: Callable[[int], str]) -> dict[LabelValue, int]:
    """Each stored value with the first row that bears it; absent labels are refused."""
    first: dict[LabelValue, int] = {}
    without = [row for row, value in enumerate(stored.values) if value is None or value == UNLABELLED]
    count = len(stored.values)
    if without and len(without) == count:
        raise CellError(
            "labels",
            "no labels: every row has -1 or none, so this split's labels are withheld; choose another",
        )
    if without:
        raise CellError(
            "labels",
            f"{len(without)} of {count} rows have label -1 or none, first {name(without[0])};"
            " choose a split whose rows are all labelled",
        )
    for row, value in enumerate(_known(stored)):
        first.setdefault(value, row)
    return first


def _rule(entry: DatasetEntry, first: dict[LabelValue, int]) -> str:
    parts = ["label_map"] if entry.label_map else []
    if any(isinstance(value, int) for value in first):
        parts.append("by index, as the source does not name its classes")
    if any(isinstance(value, str) for value in first):
        parts.append("by class key or name")
    return ", then ".join(parts)


class _Classes:
    """Ways to find a class of one label space."""

    def __init__(self, space: LabelSpace) -> None:
        self.space = space
        self.keys = list(space.classes)
        self.numbered = any(key.isdecimal() for key in self.keys)
        self.exact: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        self.loose: dict[str, list[int]] = {}
        for index, (key, title) in enumerate(space.classes.items()):
            self.exact[0].setdefault(key, []).append(index)
            self.exact[1].setdefault(title, []).append(index)
            for part in _loose(key) | _loose(title):
                self.loose.setdefault(part, []).append(index)

    def candidates(self, text: str) -> list[int]:
        """Indices of the classes that a text may mean."""
        for table in self.exact:
            if text in table:
                return table[text]
        found = {index for part in _loose(text) for index in self.loose.get(part, ())}
        if not found and text.isdecimal() and not self.numbered and int(text) < len(self.keys):
            return [int(text)]
        return sorted(found)

    def index(self, value: LabelValue, entry: DatasetEntry, where: str) -> int:
        """The class of one stored value. Raises CellError that names it and its row."""
        value = entry.label_map.get(str(value), value)
        if isinstance(value, int):
            if not 0 <= value < len(self.keys):
                raise CellError(
                    "labels",
                    f"{where}: label {value} is outside 0..{len(self.keys) - 1} of label space"
                    f" {self.space.id}; say in label_map which class it stands for",
                )
            return value
        found = self.candidates(value)
        if len(found) != 1:
            raise self.refusal(value, where)
        return found[0]

    def refusal(self, value: str, where: str) -> CellError:
        """The error for a text that means no class, or several."""
        found = self.candidates(value)
        if found:
            keys = ", ".join(self.keys[index] for index in found)
            return CellError(
                "labels", f"{where}: label {echo(value)} may mean {keys}; say in label_map which of them"
            )
        near = suggestion(value, [*self.keys, *self.space.classes.values()])
        return CellError(
            "labels",
            f"{where}: label {echo(value)} is no class of label space {self.space.id}{near};"
            " correct the data, label_space, or say in label_map which class it stands for",
        )


def _by_class_names(
    names: tuple[str, ...],
    first: dict[LabelValue, int],
    entry: DatasetEntry,
    classes: _Classes,
    name: Callable[[int], str],
) -> tuple[dict[LabelValue, int], str]:
    mapped: dict[LabelValue, int] = {}
    named: dict[LabelValue, int] = {}
    unclear: dict[int, int] = {}
    for value, row in first.items():
        if not isinstance(value, int) or not 0 <= value < len(names):
            raise CellError(
                "labels",
                f"{name(row)}: label {value} is outside 0..{len(names) - 1}, the source's own classes",
            )
        title = names[value]
        found = classes.candidates(title)
        if title in entry.label_map:
            mapped[value] = classes.index(title, entry, name(row))
        elif not title.isdecimal() and str(value) in entry.label_map:
            mapped[value] = classes.index(value, entry, name(row))
            if len(found) == 1 and found[0] != mapped[value]:
                raise CellError(
                    "labels",
                    f"{name(row)}: label_map takes {value} for class {classes.keys[mapped[value]]},"
                    f" but the source calls it {echo(title)}; correct label_map",
                )
        elif len(found) == 1:
            named[value] = found[0]
        else:
            unclear[value] = row
    parts = ["label_map"] if entry.label_map else []
    if not unclear:
        return mapped | named, ", then ".join([*parts, "by class name"])
    at_home = all(value == index for value, index in named.items())
    if not (at_home and len(named) >= len(unclear) and len(names) == len(classes.keys)):
        value, row = next(iter(unclear.items()))
        raise classes.refusal(names[value], f"{name(row)} (stored as {value})")
    parts.append(f"by index: {len(named)} class names of the source stand at their own index")
    return mapped | named | {value: value for value in unclear}, ", then ".join(parts)


def _loose(text: str) -> set[str]:
    """The synonyms in a text, without case, spaces and punctuation."""
    parts = ("".join(c for c in part.casefold() if c.isalnum()) for part in text.split(","))
    return {part for part in parts if part}
