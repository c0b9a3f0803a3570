"""All protocols under benchmarks/, looked up by id."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import ContentError, Problem
from robustboard.registry.catalog import Catalog, survey
from robustboard.registry.entries import ClassSubset
from robustboard.registry.folders import Folder, Found, by_id, need_folder, read_folder
from robustboard.registry.references import unknown
from robustboard.workspace import Workspace

BESIDES = frozenset({"README.md", "released.sha256"})


def load_benchmarks(workspace: Workspace, catalog: Catalog) -> Mapping[str, BenchmarkEntry]:
    """Every protocol, in the order of ids.

    Raises ContentError with all problems of all files, WorkspaceError when the folder is absent.
    """
    folder = _read(workspace)
    problems = [*folder.problems, *_references(folder, catalog.datasets, catalog.label_spaces)]
    if problems:
        raise ContentError(problems)
    return by_id(folder)


def check(workspace: Workspace) -> list[Problem]:
    """All faults of the files under benchmarks/, sorted; references to broken entries are none."""
    folder = _read(workspace)
    seen = survey(workspace)
    subsets = {key for key, found in seen.labels.entries.items() if isinstance(found.entry, ClassSubset)}
    problems = [*folder.problems, *_references(folder, seen.datasets.ids, seen.labels.ids - subsets)]
    return sorted(set(problems))


def _read(workspace: Workspace) -> Folder[BenchmarkEntry]:
    need_folder(workspace, workspace.benchmarks)
    return read_folder(workspace, workspace.benchmarks, lambda _: BenchmarkEntry, besides=BESIDES)


def _references(
    folder: Folder[BenchmarkEntry], datasets: Collection[str], spaces: Collection[str]
) -> Iterator[Problem]:
    for found in folder.entries.values():
        yield from _settings(found, datasets, spaces)


def _settings(
    found: Found[BenchmarkEntry], datasets: Collection[str], spaces: Collection[str]
) -> Iterator[Problem]:
    for place, setting in enumerate(found.entry.procedure.settings):
        where = ("procedure", "settings", place)
        for number, name in enumerate(setting.datasets):
            if name not in datasets:
                yield found.problem((*where, "datasets", number), unknown("dataset", name, datasets))
        for number, name in enumerate(setting.label_spaces):
            if name not in spaces:
                yield found.problem((*where, "label_spaces", number), unknown("label space", name, spaces))
