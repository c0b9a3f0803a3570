"""All protocols under benchmarks/, looked up by id."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from robustboard.benchmarks.entries import Attack, BenchmarkEntry, Cascade, External, WorstCase
from robustboard.benchmarks.released import NAME, released_problems
from robustboard.errors import ContentError, Problem, echo
from robustboard.registry.catalog import Catalog, survey
from robustboard.registry.entries import DatasetEntry
from robustboard.registry.folders import Folder, Found, by_id, need_folder, read_folder
from robustboard.registry.labels import LabelSpace
from robustboard.registry.references import unknown
from robustboard.workspace import Workspace

BESIDES = frozenset({"README.md", NAME, "external"})
"""What lies there beside the protocols; `external` is the folder of images that came with them."""


def load_benchmarks(workspace: Workspace, catalog: Catalog) -> Mapping[str, BenchmarkEntry]:
    """Every protocol, in the order of ids.

    Raises ContentError with all problems of all files, WorkspaceError when the folder is absent.
    """
    folder = _read(workspace)
    references = _references(folder, catalog.datasets, catalog.datasets, catalog.label_spaces)
    problems = [*folder.problems, *references]
    if problems:
        raise ContentError(problems)
    return by_id(folder)


def check(workspace: Workspace) -> list[Problem]:
    """All faults of the files under benchmarks/, sorted by file and line.

    Released protocols that were edited are among them; references to broken entries are not.
    """
    folder = _read(workspace)
    seen = survey(workspace)
    others = {key for key, found in seen.labels.entries.items() if not isinstance(found.entry, LabelSpace)}
    references = _references(folder, by_id(seen.datasets), seen.datasets.ids, seen.labels.ids - others)
    return sorted({*folder.problems, *references, *released_problems(workspace)})


def _read(workspace: Workspace) -> Folder[BenchmarkEntry]:
    need_folder(workspace, workspace.benchmarks)
    return read_folder(workspace, workspace.benchmarks, lambda _: BenchmarkEntry, besides=BESIDES)


def _references(
    folder: Folder[BenchmarkEntry],
    entries: Mapping[str, DatasetEntry],
    datasets: Collection[str],
    spaces: Collection[str],
) -> Iterator[Problem]:
    """Names of datasets and label spaces that are not there; `entries` are the sound ones of `datasets`."""
    known = by_id(folder)
    for found in folder.entries.values():
        yield from _parts(found, known, folder.ids)
        for place, setting in enumerate(found.entry.procedure.settings):
            where = ("procedure", "settings", place)
            for number, name in enumerate(setting.datasets):
                if name not in datasets:
                    yield found.problem((*where, "datasets", number), unknown("dataset", name, datasets))
                elif name in entries and found.entry.setting_for(entries[name]) is not setting:
                    message = f"expected a dataset that no setting above covers, got {echo(name)}"
                    yield found.problem((*where, "datasets", number), message)
            for number, name in enumerate(setting.label_spaces):
                if name not in spaces:
                    yield found.problem(
                        (*where, "label_spaces", number), unknown("label space", name, spaces)
                    )


def _parts(
    found: Found[BenchmarkEntry], known: Mapping[str, BenchmarkEntry], ids: Collection[str]
) -> Iterator[Problem]:
    """Benchmarks that a worst case names and that are not there, or attack in another norm or not at all."""
    procedure = found.entry.procedure
    if not isinstance(procedure, WorstCase):
        return
    for number, name in enumerate(procedure.of):
        where = ("procedure", "of", number)
        if name not in ids:
            yield found.problem(where, unknown("benchmark", name, ids))
        elif name in known:
            part = known[name].procedure
            if not isinstance(part, Attack | Cascade | External):
                yield found.problem(
                    where, f"expected a benchmark that attacks, got {echo(name)} ({part.kind})"
                )
            elif part.norm != procedure.norm:
                yield found.problem(
                    where, f"expected attacks in {procedure.norm}, got {echo(name)} ({part.norm})"
                )
