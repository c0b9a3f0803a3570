"""Which results may be believed: checks beside them, and entries that say that one is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from robustboard.errors import ContentError
from robustboard.fields import Day, EntryId, HttpsUrl, Line, Prose, Sha256, VersionedId
from robustboard.registry.folders import Folder, read_folder
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.runners.verifications import Standing, read_checks, standing_of, usual
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


class Invalidation(Frozen):
    """A result that was found to be wrong: it stays on the model's page with the reason, without a rank."""

    id: str
    model: EntryId
    benchmark: VersionedId
    dataset: EntryId
    key: Sha256
    """Digest of the run's key: a run with other weights, data, protocol or software is not touched."""
    reason: Prose
    by: Line
    day: Day
    link: HttpsUrl | None = None
    """Where it was found out or discussed."""

    @property
    def cell(self) -> Cell:
        """Which result."""
        return Cell(self.model, self.benchmark, self.dataset)


def folder(workspace: Workspace) -> Path:
    """Where invalidations lie, one a file; may be absent."""
    return workspace.content / "leaderboard" / "invalidated"


def survey_invalidations(workspace: Workspace) -> Folder[Invalidation]:
    """All invalidations and their faults."""
    return read_folder(workspace, folder(workspace), lambda _: Invalidation)


def load_invalidations(workspace: Workspace) -> dict[str, Invalidation]:
    """All invalidations by id. Raises ContentError with the faults of all files."""
    found = survey_invalidations(workspace)
    if found.problems:
        raise ContentError(found.problems)
    return {key: item.entry for key, item in sorted(found.entries.items())}


def standings(
    workspace: Workspace, results: Mapping[Cell, Result], folders: Sequence[Path] = ()
) -> dict[Cell, Standing]:
    """How far each result may be believed: by the workspace's checks, and those beside folders of results.

    Raises ContentError or StoreError for files that are damaged.
    """
    wrong = {(each.cell, each.key): each for each in load_invalidations(workspace).values()}
    beside = [folder.parent / "verifications" for folder in folders]
    checks = read_checks(workspace, [*usual(workspace), *beside])
    found = {}
    for cell, result in results.items():
        entry = wrong.get((cell, result.key_digest))
        reason = f"{' '.join(entry.reason.split())} ({entry.by}, {entry.day})" if entry else None
        found[cell] = standing_of(result, checks.get(cell, ()), reason)
    return found
