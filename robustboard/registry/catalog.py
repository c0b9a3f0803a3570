"""All entries under registry/, looked up by id; references between them checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from robustboard import yamls
from robustboard.errors import ContentError, Problem, UnknownNameError, WorkspaceError
from robustboard.registry.entries import ClassSubset, DatasetEntry, LabelSpace, ModelEntry
from robustboard.registry.folders import Folder, by_id, need_folder, read_folder
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

    def classes(self, dataset: DatasetEntry) -> tuple[int, ...] | None:
        """Indices of a dataset's class subset in its label space, in the subset's order; None: all."""
        if dataset.class_subset is None:
            return None
        keys = list(self.label_space(dataset.label_space).classes)
        index = {key: number for number, key in enumerate(keys)}
        return tuple(index[key] for key in self.class_subset(dataset.class_subset).classes)


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
    labels: Folder[LabelSpace | ClassSubset]
    problems: tuple[Problem, ...]


def _label_type(node: yamls.Mapping) -> type[LabelSpace | ClassSubset]:
    return ClassSubset if "subset_of" in node.items else LabelSpace


def survey(workspace: Workspace) -> Survey:
    """Read every file of registry/{models,datasets,labels} and check the references between them.

    Raises WorkspaceError when there is no registry, or none of the three folders in it.
    """
    root = workspace.registry
    need_folder(workspace, root)
    names = ("models", "datasets", "labels")
    if not any((root / name).is_dir() for name in names):
        raise WorkspaceError(f"{workspace.show(root)}: expected a folder of {', '.join(names)}, found none")
    models = read_folder(workspace, root / "models", lambda _: ModelEntry)
    datasets = read_folder(workspace, root / "datasets", lambda _: DatasetEntry)
    labels: Folder[LabelSpace | ClassSubset] = read_folder(
        workspace, root / "labels", _label_type, limits=yamls.TABLE
    )
    problems = [*models.problems, *datasets.problems, *labels.problems]
    problems += cross_check(models, datasets, labels)
    return Survey(models, datasets, labels, tuple(sorted(set(problems))))


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
    )
