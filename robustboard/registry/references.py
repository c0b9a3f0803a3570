"""What entries say of each other: does it exist, does it fit?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from robustboard.errors import Problem, echo, suggestion
from robustboard.registry.entries import (
    ClassSubset,
    DatasetEntry,
    LabelSpace,
    ModelEntry,
    TrainedWeights,
)
from robustboard.registry.folders import Folder, Found
from robustboard.registry.names import skeleton
from robustboard.yamls import MAX_PROBLEMS

E = TypeVar("E", ModelEntry, DatasetEntry, LabelSpace | ClassSubset)
Labels = Folder[LabelSpace | ClassSubset]


def cross_check(
    models: Folder[ModelEntry], datasets: Folder[DatasetEntry], labels: Labels
) -> Iterator[Problem]:
    """Faults that show only when entries are read together, at most 20 a file."""
    for subset in labels.entries.values():
        if isinstance(subset.entry, ClassSubset):
            yield from islice(_check_subset(subset, subset.entry, labels), MAX_PROBLEMS)
    for dataset in datasets.entries.values():
        yield from islice(_check_dataset(dataset, datasets, labels), MAX_PROBLEMS)
    for model in models.entries.values():
        yield from islice(_check_model(model, datasets, labels), MAX_PROBLEMS)
    yield from _check_names(models)
    yield from _check_names(datasets)
    yield from _check_names(labels)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The complaint about a reference to an entry that is not there."""
    return f"expected a known {kind}, got {echo(name)}{suggestion(name, known)}"


def _kinds(labels: Labels, wanted: type[LabelSpace | ClassSubset]) -> set[str]:
    """Ids of one kind of label file; a broken file may be of either."""
    other = ClassSubset if wanted is LabelSpace else LabelSpace
    return labels.ids - {key for key, found in labels.entries.items() if isinstance(found.entry, other)}


def _space(labels: Labels, name: str) -> LabelSpace | None:
    found = labels.entries.get(name)
    return found.entry if found is not None and isinstance(found.entry, LabelSpace) else None


def _check_subset(
    found: Found[LabelSpace | ClassSubset], entry: ClassSubset, labels: Labels
) -> Iterator[Problem]:
    spaces = _kinds(labels, LabelSpace)
    if entry.subset_of not in spaces:
        yield found.problem(("subset_of",), unknown("label space", entry.subset_of, spaces))
    space = _space(labels, entry.subset_of)
    seen: set[str] = set()
    for number, key in enumerate(entry.classes):
        if key in seen:
            yield found.problem(("classes", number), f"expected each class once, got {echo(key)} again")
        seen.add(key)
        if space is not None and key not in space.classes:
            message = unknown(f"class of {space.id}", key, space.classes)
            yield found.problem(("classes", number), message)


def _check_dataset(
    found: Found[DatasetEntry], datasets: Folder[DatasetEntry], labels: Labels
) -> Iterator[Problem]:
    entry = found.entry
    spaces = _kinds(labels, LabelSpace)
    if entry.label_space not in spaces:
        yield found.problem(("label_space",), unknown("label space", entry.label_space, spaces))
    space = _space(labels, entry.label_space)
    for stored, index in entry.label_map.items():
        if space is not None and index >= len(space.classes):
            message = f"expected a class index below {len(space.classes)}, got {echo(str(index))}"
            yield found.problem(("label_map", stored), message)
    if entry.class_subset is not None:
        yield from _check_dataset_subset(found, entry.class_subset, labels)
    if entry.matched_clean is not None:
        yield from _check_matched(found, entry.matched_clean, datasets)


def _check_dataset_subset(found: Found[DatasetEntry], name: str, labels: Labels) -> Iterator[Problem]:
    subsets = _kinds(labels, ClassSubset)
    if name not in subsets:
        yield found.problem(("class_subset",), unknown("class subset", name, subsets))
        return
    subset = labels.entries.get(name)
    if subset is None or not isinstance(subset.entry, ClassSubset):
        return
    if subset.entry.subset_of != found.entry.label_space:
        message = f"expected a subset of {found.entry.label_space}, got one of {subset.entry.subset_of}"
        yield found.problem(("class_subset",), message)


def _check_matched(
    found: Found[DatasetEntry], name: str, datasets: Folder[DatasetEntry]
) -> Iterator[Problem]:
    if name not in datasets.ids:
        yield found.problem(("matched_clean",), unknown("dataset", name, datasets.ids))
    if name == found.entry.id:
        yield found.problem(
            ("matched_clean",), f"expected another dataset, got {echo(name)}, which is this one"
        )
    clean = datasets.entries.get(name)
    if clean is not None and clean.entry.label_space != found.entry.label_space:
        message = f"expected a dataset of label space {found.entry.label_space}, got {echo(name)}"
        yield found.problem(("matched_clean",), f"{message} of {clean.entry.label_space}")


def _check_model(
    found: Found[ModelEntry], datasets: Folder[DatasetEntry], labels: Labels
) -> Iterator[Problem]:
    entry = found.entry
    spaces = _kinds(labels, LabelSpace)
    if entry.label_space not in spaces:
        yield found.problem(("label_space",), unknown("label space", entry.label_space, spaces))
    for name in entry.training.overlap:
        if name not in datasets.ids:
            yield found.problem(("training", "overlap", name), unknown("dataset", name, datasets.ids))
    if isinstance(entry.source, TrainedWeights):
        yield from _check_recipe(found, entry.source.recipe.dataset, datasets)


def _check_recipe(found: Found[ModelEntry], name: str, datasets: Folder[DatasetEntry]) -> Iterator[Problem]:
    where = ("source", "recipe", "dataset")
    if name not in datasets.ids:
        yield found.problem(where, unknown("dataset", name, datasets.ids))
    data = datasets.entries.get(name)
    if data is None:
        return
    if data.entry.role != "train":
        yield found.problem(
            where, f"expected a dataset of role train, got {echo(name)} of role {data.entry.role}"
        )
    if data.entry.label_space != found.entry.label_space:
        message = f"expected a dataset of label space {found.entry.label_space}, got {echo(name)}"
        yield found.problem(where, f"{message} of {data.entry.label_space}")


def _check_names(folder: Folder[E]) -> Iterator[Problem]:
    first: dict[str, Found[E]] = {}
    for key in sorted(folder.entries):
        found = folder.entries[key]
        twin = first.setdefault(skeleton(found.entry.name), found)
        if twin is not found:
            message = f"expected a name that looks like no other, got {echo(found.entry.name)}"
            yield found.problem(("name",), f"{message}, too like {echo(twin.entry.name)} of {twin.entry.id}")
