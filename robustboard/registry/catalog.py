"""All entries under registry/, looked up by id; references between them checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from robustboard import yamls
from robustboard.errors import ContentError, Problem, UnknownNameError, WorkspaceError
from robustboard.registry.companions import ClassesOf
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.folders import Folder, by_id, need_folder, read_folder
from robustboard.registry.generators import GeneratorEntry
from robustboard.registry.judging import check_generation
from robustboard.registry.labels import ClassGroups, ClassSubset, LabelFile, LabelSpace
from robustboard.registry.oracles import OracleEntry
from robustboard.registry.references import cross_check
from robustboard.workspace import Workspace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the registry holds, each kind in the order of ids."""

    models: Mapping[str, ModelEntry]
    datasets: Mapping[str, DatasetEntry]
    label_spaces: Mapping[str, LabelSpace]
    class_subsets: Mapping[str, ClassSubset]
    class_groups: Mapping[str, ClassGroups] = field(default_factory=dict)
    oracles: Mapping[str, OracleEntry] = field(default_factory=dict)
    generators: Mapping[str, GeneratorEntry] = field(default_factory=dict)

    def model(self, name: str) -> ModelEntry:
        """The model of that id. Raises UnknownNameError with the nearest ids."""
        return _look_up("model", name, self.models)

    def dataset(self, name: str) -> DatasetEntry:
        """The dataset of that id. Raises UnknownNameError with the nearest ids."""
        return _look_up("dataset", name, self.datasets)

    def label_space(self, name: str) -> LabelSpace:
        """The label space of that id. Raises UnknownNameError with the nearest ids."""
        return _look_up("label space", name, self.label_spaces)

    def class_subset(self, name: str) -> ClassSubset:
        """The class subset of that id. Raises UnknownNameError with the nearest ids."""
        return _look_up("class subset", name, self.class_subsets)

    def oracle(self, name: str) -> OracleEntry:
        """The oracle of that id. Raises UnknownNameError with the nearest ids."""
        return _look_up("oracle", name, self.oracles)

    def oracle_parts(self, name: str) -> tuple[OracleEntry, ...]:
        """An oracle, then every oracle that it needs, each followed by those that it needs itself."""
        entry = self.oracle(name)
        return (entry, *(part for each in entry.made_of for part in self.oracle_parts(each)))

    def generator(self, name: str) -> GeneratorEntry:
        """The generator of that id. Raises UnknownNameError with the nearest ids."""
        return _look_up("generator", name, self.generators)

    def chosen(self, dataset: DatasetEntry) -> ClassSubset | ClassGroups | None:
        """The label file that a dataset's class_subset names. Raises UnknownNameError."""
        name = dataset.class_subset
        if name is None or name in self.class_groups:
            return None if name is None else self.class_groups[name]
        return _look_up("class subset", name, self.class_subsets)

    def classes(self, dataset: DatasetEntry) -> tuple[int, ...] | None:
        """Indices of a dataset's class subset in its label space, in the subset's order.

        None where outputs are not cut: all classes occur, or outputs are grouped.
        """
        chosen = self.chosen(dataset)
        if not isinstance(chosen, ClassSubset):
            return None
        index = self._index(dataset)
        return tuple(index[key] for key in chosen.classes)

    def groups(self, dataset: DatasetEntry) -> tuple[tuple[int, ...], ...] | None:
        """Indices in the label space of each category's classes, in the order of categories; None: no groups.

        Labels of a dataset with groups are numbers of categories.
        """
        chosen = self.chosen(dataset)
        if not isinstance(chosen, ClassGroups):
            return None
        index = self._index(dataset)
        return tuple(tuple(index[key] for key in keys) for keys in chosen.classes.values())

    def labels(self, dataset: DatasetEntry) -> LabelSpace:
        """What a dataset's labels count: the classes of its label space, or its categories."""
        chosen = self.chosen(dataset)
        if not isinstance(chosen, ClassGroups):
            return self.label_space(dataset.label_space)
        names = {category: category for category in chosen.classes}
        return LabelSpace(id=chosen.id, name=chosen.name, source=chosen.source, classes=names)

    def viewed(self, dataset: DatasetEntry) -> DatasetEntry:
        """The dataset whose images a view shows; the dataset itself where it is no view."""
        source = dataset.source
        return self.dataset(source.dataset) if isinstance(source, ClassesOf) else dataset

    def _index(self, dataset: DatasetEntry) -> dict[str, int]:
        return {key: n for n, key in enumerate(self.label_space(dataset.label_space).classes)}


def _look_up(kind: str, name: str, table: Mapping[str, T]) -> T:
    try:
        return table[name]
    except KeyError:
        raise UnknownNameError(kind, name, table) from None


@dataclass(frozen=True, slots=True)
class Survey:
    """The registry as it is, faults and all."""

    models: Folder[ModelEntry]
    datasets: Folder[DatasetEntry]
    labels: Folder[LabelFile]
    oracles: Folder[OracleEntry]
    generators: Folder[GeneratorEntry]
    problems: tuple[Problem, ...]


def _label_type(node: yamls.Mapping) -> type[LabelFile]:
    if "grouping_of" in node.items:
        return ClassGroups
    return ClassSubset if "subset_of" in node.items else LabelSpace


def survey(workspace: Workspace) -> Survey:
    """Read every file of registry/{models,datasets,labels,oracles,generators}, and check the references.

    Raises WorkspaceError when there is no registry, or none of the first three folders in it.
    """
    root = workspace.registry
    need_folder(workspace, root)
    names = ("models", "datasets", "labels")
    if not any((root / name).is_dir() for name in names):
        raise WorkspaceError(f"{workspace.show(root)}: expected a folder of {', '.join(names)}, found none")
    models = read_folder(workspace, root / "models", lambda _: ModelEntry)
    datasets = read_folder(workspace, root / "datasets", lambda _: DatasetEntry)
    labels: Folder[LabelFile] = read_folder(workspace, root / "labels", _label_type, limits=yamls.TABLE)
    oracles = read_folder(workspace, root / "oracles", lambda _: OracleEntry)
    generators = read_folder(workspace, root / "generators", lambda _: GeneratorEntry)
    problems = [*models.problems, *datasets.problems, *labels.problems]
    problems += [*oracles.problems, *generators.problems]
    problems += cross_check(models, datasets, labels)
    problems += check_generation(oracles, generators, models, datasets, labels)
    return Survey(models, datasets, labels, oracles, generators, tuple(sorted(set(problems))))


def load_catalog(workspace: Workspace) -> Catalog:
    """The whole registry.

    Raises ContentError with all problems of all files, and WorkspaceError where there is no registry.
    """
    seen = survey(workspace)
    if seen.problems:
        raise ContentError(seen.problems)
    labels = by_id(seen.labels)
    return Catalog(
        models=by_id(seen.models),
        datasets=by_id(seen.datasets),
        label_spaces={key: entry for key, entry in labels.items() if isinstance(entry, LabelSpace)},
        class_subsets={key: entry for key, entry in labels.items() if isinstance(entry, ClassSubset)},
        class_groups={key: entry for key, entry in labels.items() if isinstance(entry, ClassGroups)},
        oracles=by_id(seen.oracles),
        generators=by_id(seen.generators),
    )
