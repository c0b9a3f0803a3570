"""Where the content that people edit lies, and where output goes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from robustboard.errors import WorkspaceError

VARIABLE = "ROBUSTBOARD_WORKSPACE"
OUTPUT_VARIABLE = "ROBUSTBOARD_OUTPUT"
MARK = Path("registry") / "lock.yaml"
PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Workspace:
    """`content` holds registry/, benchmarks/, runners/, leaderboard/ and site/; `output` takes what is made.

    In a checkout both are the same folder. From an installed wheel the content is the copy
    inside the package, which nobody should write to, and output goes to the working folder.
    """

    content: Path
    output: Path

    @property
    def registry(self) -> Path:
        """Models, datasets, label spaces, lock and reported numbers."""
        return self.content / "registry"

    @property
    def benchmarks(self) -> Path:
        """One frozen protocol a file."""
        return self.content / "benchmarks"

    @property
    def profiles(self) -> Path:
        """Run profiles."""
        return self.content / "runners"

    @property
    def boards(self) -> Path:
        """Board declarations."""
        return self.content / "leaderboard" / "boards"

    @property
    def fits(self) -> Path:
        """Published lines that foretell accuracy under a shift; may be absent."""
        return self.content / "leaderboard" / "fits"

    @property
    def committed_results(self) -> Path:
        """Results that came with the content."""
        return self.content / "leaderboard" / "results"

    @property
    def results(self) -> Path:
        """Where new results are written."""
        return self.output / "leaderboard" / "results"

    @property
    def committed_outcomes(self) -> Path:
        """Right or wrong an image, beside the results that came with the content."""
        return self.content / "leaderboard" / "outcomes"

    @property
    def outcomes(self) -> Path:
        """Where right or wrong an image is written, beside new results."""
        return self.output / "leaderboard" / "outcomes"

    @property
    def releases(self) -> Path:
        """Frozen releases of the board, one folder each; may be absent."""
        return self.content / "leaderboard" / "releases"

    @property
    def committed_sets(self) -> Path:
        """Small generated sets that came with the content, NAME/VERSION each; may be absent."""
        return self.content / "leaderboard" / "testsets"

    @property
    def built_sets(self) -> Path:
        """Generated sets built here, NAME/VERSION each."""
        return self.runs / "testsets"

    @property
    def runs(self) -> Path:
        """The store of predictions and trained weights."""
        return self.output / "runs"

    @property
    def site_source(self) -> Path:
        """Templates, static files and prose."""
        return self.content / "site"

    @property
    def site_output(self) -> Path:
        """The rendered pages."""
        return self.output / "site" / "_build"

    def show(self, path: Path) -> str:
        """A path as people know it: relative to the content or output folder where it lies in one."""
        for root in (self.content, self.output):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return path.as_posix()


def _is_workspace(folder: Path) -> bool:
    return (folder / MARK).is_file()


def find(explicit: Path | None = None, *, output: Path | None = None, start: Path | None = None) -> Workspace:
    """The workspace to use; `output`, or the variable ROBUSTBOARD_OUTPUT, sends what is made elsewhere.

    In this order: `explicit` (the option --workspace), the variable ROBUSTBOARD_WORKSPACE, the
    nearest folder at or above `start` (the working folder) that has a registry/lock.yaml, the
    checkout that an editable installation came from, the copy inside an installed wheel.

    Raises WorkspaceError when a named folder is no workspace, or when nothing is found: an
    absent registry is never an empty one.
    """
    try:
        here = (start or Path.cwd()).resolve()
    except FileNotFoundError:
        raise WorkspaceError("the working folder has been deleted: change to one that exists") from None
    found = _content(explicit, here)
    elsewhere = output or (Path(os.environ[OUTPUT_VARIABLE]) if os.environ.get(OUTPUT_VARIABLE) else None)
    if elsewhere is None:
        return found
    folder = elsewhere.resolve()
    if any(path.exists() and not path.is_dir() for path in (folder, *folder.parents)):
        raise WorkspaceError(f"{elsewhere}: expected a folder for what is made, got a file")
    return Workspace(found.content, folder)


def _content(explicit: Path | None, here: Path) -> Workspace:
    named = explicit or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        folder = named.resolve()
        if not _is_workspace(folder):
            raise WorkspaceError(f"{named}: expected a workspace with {MARK}, found none")
        return Workspace(folder, folder)
    for folder in (here, *here.parents):
        if _is_workspace(folder):
            return Workspace(folder, folder)
    if _is_workspace(PACKAGE.parent):
        return Workspace(PACKAGE.parent, PACKAGE.parent)
    if _is_workspace(PACKAGE / "_content"):
        return Workspace(PACKAGE / "_content", here)
    raise WorkspaceError(
        f"no registry found at or above {here} and none came with the installation;"
        f" name one with --workspace DIR or {VARIABLE}"
    )
