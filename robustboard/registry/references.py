"""What entries say of each other: does it exist, does it fit?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from robustboard.errors import Problem, echo, suggestion
from robustboard.registry.companions import ClassesOf, CorruptedArrays, CorruptedFolders
from robustboard.registry.entries import DatasetEntry, ModelEntry, TrainedWeights
from robustboard.registry.folders import Folder, Found
from robustboard.registry.generators import GeneratorEntry
from robustboard.registry.labels import ClassGroups, ClassSubset, LabelFile, LabelSpace
from robustboard.registry.names import skeleton
from robustboard.registry.oracles import OracleEntry
from robustboard.yamls import MAX_PROBLEMS

E = TypeVar("E", ModelEntry, DatasetEntry, LabelFile, OracleEntry, GeneratorEntry)
Labels = Folder[LabelFile]


def cross_check(
    models: Folder[ModelEntry], datasets: Folder[DatasetEntry], labels: Labels
) -> Iterator[Problem]:
    """Faults that show only when entries are read together, at most 20 a file."""
    for subset in labels.entries.values():
        if isinstance(subset.entry, ClassSubset):
            yield from islice(_check_subset(subset, subset.entry, labels), MAX_PROBLEMS)
        if isinstance(subset.entry, ClassGroups):
            yield from islice(_check_groups(subset, subset.entry, labels), MAX_PROBLEMS)
    for dataset in datasets.entries.values():
        yield from islice(_check_dataset(dataset, datasets, labels), MAX_PROBLEMS)
    for model in models.entries.values():
        yield from islice(_check_model(model, datasets, labels), MAX_PROBLEMS)
        yield from _check_base(model, models)
    yield from check_names(models)
    yield from check_names(datasets)
    yield from check_names(labels)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The complaint about a reference to an entry that is not there."""
    return f"expected a known {kind}, got {echo(name)}{suggestion(name, known)}"


def _kinds(labels: Labels, *wanted: type[LabelFile]) -> set[str]:
    """Ids of some kinds of label file; a broken file may be of any."""
    return labels.ids - {key for key, found in labels.entries.items() if not isinstance(found.entry, wanted)}


def _space(labels: Labels, name: str) -> LabelSpace | None:
    found = labels.entries.get(name)
    return found.entry if found is not None and isinstance(found.entry, LabelSpace) else None


def _check_subset(found: Found[LabelFile], entry: ClassSubset, labels: Labels) -> Iterator[Problem]:
    keys = [(("classes", number), key) for number, key in enumerate(entry.classes)]
    yield from _check_keys(found, ("subset_of", entry.subset_of), keys, labels)


def _check_groups(found: Found[LabelFile], entry: ClassGroups, labels: Labels) -> Iterator[Problem]:
    keys = [
        (("classes", category, number), key)
        for category, members in entry.classes.items()
        for number, key in enumerate(members)
    ]
    yield from _check_keys(found, ("grouping_of", entry.grouping_of), keys, labels)


def _check_keys(
    found: Found[LabelFile],
    parent: tuple[str, str],
    keys: Sequence[tuple[tuple[int | str, ...], str]],
    labels: Labels,
) -> Iterator[Problem]:
    """Classes at their places in the file: each known to the parent, (field, id), and there only once."""
    field, name = parent
    spaces = _kinds(labels, LabelSpace)
    if name not in spaces:
        yield found.problem((field,), unknown("label space", name, spaces))
    space = _space(labels, name)
    seen: set[str] = set()
    for place, key in keys:
        if key in seen:
            yield found.problem(place, f"expected each class once, got {echo(key)} again")
        seen.add(key)
        if space is not None and key not in space.classes:
            yield found.problem(place, unknown(f"class of {space.id}", key, space.classes))


def _check_dataset(
    found: Found[DatasetEntry], datasets: Folder[DatasetEntry], labels: Labels
) -> Iterator[Problem]:
    entry = found.entry
    spaces = _kinds(labels, LabelSpace)
    if entry.label_space not in spaces:
        yield found.problem(("label_space",), unknown("label space", entry.label_space, spaces))
    chosen = labels.entries.get(entry.class_subset or "")
    grouped = chosen.entry if chosen is not None and isinstance(chosen.entry, ClassGroups) else None
    space = grouped or _space(labels, entry.label_space)
    for stored, index in entry.label_map.items():
        if space is not None and index >= len(space.classes):
            message = f"expected a class index below {len(space.classes)}, got {echo(str(index))}"
            yield found.problem(("label_map", stored), message)
    if entry.class_subset is not None:
        yield from _check_dataset_subset(found, entry.class_subset, labels)
    if entry.matched_clean is not None:
        yield from _check_matched(found, entry.matched_clean, datasets)
    if isinstance(entry.source, ClassesOf):
        yield from _check_view(found, entry.source.dataset, datasets)


def _check_dataset_subset(found: Found[DatasetEntry], name: str, labels: Labels) -> Iterator[Problem]:
    subsets = _kinds(labels, ClassSubset, ClassGroups)
    if name not in subsets:
        yield found.problem(("class_subset",), unknown("class subset", name, subsets))
        return
    subset = labels.entries.get(name)
    if subset is None or isinstance(subset.entry, LabelSpace):
        return
    entry = subset.entry
    parent = entry.subset_of if isinstance(entry, ClassSubset) else entry.grouping_of
    if parent != found.entry.label_space:
        message = f"expected a subset of {found.entry.label_space}, got one of {parent}"
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
    if clean is not None and found.entry.role == "corrupted" and clean.entry.size != found.entry.size:
        message = f"expected {clean.entry.size}, the size of {name}, got {found.entry.size}"
        yield found.problem(("size",), message)


def _check_view(found: Found[DatasetEntry], name: str, datasets: Folder[DatasetEntry]) -> Iterator[Problem]:
    """A view shows images of a set that has them itself, and says the same of them."""
    where = ("source", "dataset")
    if name not in datasets.ids:
        yield found.problem(where, unknown("dataset", name, datasets.ids))
    whole = datasets.entries.get(name)
    if whole is None:
        return
    if isinstance(whole.entry.source, ClassesOf | CorruptedArrays | CorruptedFolders):
        message = f"expected a dataset with images of its own, got {echo(name)}"
        yield found.problem(where, f"{message}, whose source is of kind {whole.entry.source.kind}")
    if whole.entry.class_subset is not None:
        yield found.problem(where, f"expected a dataset of all classes, got {echo(name)}, which has some")
    for field in ("label_space", "native_size", "channels", "border", "preprocessing", "decoding", "gated"):
        mine, its = getattr(found.entry, field), getattr(whole.entry, field)
        if mine != its:
            yield found.problem((field,), f"expected {its} as in dataset {name}, got {echo(str(mine))}")


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
    for name in set(entry.training.sources) - set(entry.training.overlap):
        message = unknown("dataset under overlap", name, entry.training.overlap)
        yield found.problem(("training", "sources", name), message)
    if isinstance(entry.source, TrainedWeights):
        yield from _check_recipe(found, entry.source.recipe.dataset, datasets)


def _check_base(found: Found[ModelEntry], models: Folder[ModelEntry]) -> Iterator[Problem]:
    name = found.entry.base
    if name is None:
        return
    if name == found.entry.id:
        yield found.problem(("base",), f"expected another model, got {echo(name)}, which is this one")
    elif name not in models.ids:
        yield found.problem(("base",), unknown("model", name, models.ids))
    elif name in models.entries and models.entries[name].entry.label_space != found.entry.label_space:
        message = f"expected a model of label space {found.entry.label_space}, got {echo(name)}"
        yield found.problem(("base",), f"{message} of {models.entries[name].entry.label_space}")


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


def check_names(folder: Folder[E]) -> Iterator[Problem]:
    """Names that look alike to a reader."""
    first: dict[str, Found[E]] = {}
    for key in sorted(folder.entries):
        found = folder.entries[key]
        twin = first.setdefault(skeleton(found.entry.name), found)
        if twin is not found:
            message = f"expected a name that looks like no other, got {echo(found.entry.name)}"
            yield found.problem(("name",), f"{message}, too like {echo(twin.entry.name)} of {twin.entry.id}")
