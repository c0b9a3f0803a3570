"""Weights from the Hub as a loader takes them: one file, or a folder of exactly the locked files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from robustboard.durable import TEMPORARY, make_folder
from robustboard.errors import CellError
from robustboard.registry.entries import HubWeights, LockedEntry, ModelEntry
from robustboard.registry.generators import GeneratorEntry, HubFolder
from robustboard.runners import identity
from robustboard.runners.hub.client import Progress
from robustboard.runners.hub.files import fetch
from robustboard.workspace import Workspace


def fetch_model(
    entry: ModelEntry, locked: LockedEntry, workspace: Workspace, progress: Progress | None = None
) -> Path:
    """The weights of a model from the Hub: one file, or a folder that holds the locked files alone.

    Raises CellError: unlocked for a revision that nobody resolved, else as `fetch`.
    """
    source = entry.source
    if not isinstance(source, HubWeights) or locked.commit is None:
        raise CellError(
            "unlocked",
            f"no commit is known of model/{entry.id}: run `robustboard lock model/{entry.id}` with network",
        )
    found = fetch(source.repo, locked.files, commit=locked.commit, progress=progress)
    if len(found) == 1:
        return next(iter(found.values()))
    return _folder(found, locked, workspace)


def fetch_generator(
    entry: GeneratorEntry, locked: LockedEntry, workspace: Workspace, progress: Progress | None = None
) -> Path:
    """A folder that holds the locked files of a generator from the Hub alone. Raises as `fetch_model`."""
    source = entry.source
    if not isinstance(source, HubFolder) or locked.commit is None:
        key = f"generator/{entry.id}"
        raise CellError("unlocked", f"no commit is known of {key}: run `robustboard lock {key}` with network")
    found = fetch(source.repo, locked.files, commit=locked.commit, progress=progress)
    return _folder(found, locked, workspace)


def _folder(found: dict[str, Path], locked: LockedEntry, workspace: Workspace) -> Path:
    folder = workspace.runs / "weights" / f"hub-{identity.files_digest(locked)}"
    _lay_out(folder, found)
    return folder


def _lay_out(folder: Path, files: dict[str, Path]) -> None:
    """Make a folder of links to exactly these files: a cached snapshot may hold others, unchecked.

    One that is right already is left alone, as another process may be reading from it.
    """
    targets = {name: path.resolve() for name, path in files.items()}
    if _laid_out(folder) == targets:
        return
    made = folder.with_name(f"{TEMPORARY}{os.getpid()}-{folder.name}")
    shutil.rmtree(made, ignore_errors=True)
    for name, target in targets.items():
        make_folder((made / name).parent)
        (made / name).symlink_to(target)
    if folder.exists():
        shutil.rmtree(folder)
    try:
        made.rename(folder)
    except OSError:
        shutil.rmtree(made)
        if _laid_out(folder) != targets:
            raise


def _laid_out(folder: Path) -> dict[str, Path]:
    """What the files below a folder are links to; nothing where there is no folder."""
    return {
        path.relative_to(folder).as_posix(): path.resolve()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
