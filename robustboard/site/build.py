"""Reads content and results, renders, and writes what changed, only into a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import robustboard
from robustboard import durable, jsons
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import UserError, WorkspaceError
from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import load_boards
from robustboard.leaderboard.fits import load_fits
from robustboard.leaderboard.outcomes import read_outcomes
from robustboard.leaderboard.results import read_results
from robustboard.leaderboard.trust import standings
from robustboard.registry.catalog import Catalog
from robustboard.registry.reported import load_reported
from robustboard.registry.testsets import load_test_sets
from robustboard.runners.failures import read_failures
from robustboard.site.environment import environment
from robustboard.site.freshness import files_digest, inputs_digest, written
from robustboard.site.indexes import checked_address, data_files, index_files
from robustboard.site.releases import read_releases
from robustboard.site.render import SiteInput, render
from robustboard.site.sections import release_files
from robustboard.site.sets import shown_sets
from robustboard.workspace import Workspace

MARKER = ".robustboard-site"
"""Lists the files that a build wrote, so that the next one may replace and remove them."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did."""

    output: Path
    pages: int
    """HTML pages of the site."""
    files: int
    """All files, downloads and styles among them."""
    written: int
    """Files that were new or had changed."""
    removed: int
    """Files of an earlier build that the site no longer has."""


def site_input(
    workspace: Workspace,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    results: Sequence[Path],
    address: str | None = None,
) -> SiteInput:
    """All that pages are made of; later result folders override earlier ones cell by cell.

    Outcomes of single images lie in the folder `outcomes` beside each folder of results.

    Cells without a result that failed when they were last tried in this workspace say so.

    Raises ContentError for boards and reported numbers, StoreError for results that are damaged or
    lack a score that a board names.
    """
    reported = load_reported(workspace)
    fits = load_fits(workspace, catalog, reported)
    entries = load_boards(workspace, catalog, benchmarks, reported, fits)
    found = read_results(results)
    outcomes = read_outcomes([folder.parent / "outcomes" for folder in results], found)
    trust = standings(workspace, found, results)
    measured = Measured.of(found, catalog, benchmarks, read_failures(workspace), outcomes, trust=trust)
    boards = {name: build_board(entry, catalog, measured, fits) for name, entry in entries.items()}
    folders = (workspace.built_sets, workspace.committed_sets)
    return SiteInput(
        catalog,
        benchmarks,
        boards,
        measured,
        reported,
        robustboard.__version__,
        shown_sets(load_test_sets(workspace, catalog), folders, catalog),
        read_releases(workspace.releases),
        address,
    )


def build(
    workspace: Workspace,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    *,
    results: Sequence[Path],
    output: Path,
    address: str | None = None,
) -> Built:
    """Write the site of the results into `output`; `address` is where it will stand, for feeds and maps.

    Raises UserError, before anything is rendered, when the folder holds something that no build
    wrote.
    """
    earlier, address = _earlier(output), checked_address(address)
    entries = (*catalog.models.values(), *catalog.datasets.values(), *benchmarks.values())
    inputs = inputs_digest(workspace, entries, results, address)
    if earlier.inputs == inputs and earlier.outputs == written(output, earlier.names):
        return _built(output, earlier.names)
    site = site_input(workspace, catalog, benchmarks, results, address)
    templates = environment(workspace.site_source / "templates")
    files = {path: text.encode("utf-8") for path, text in render(site, templates).items()}
    files |= _static(workspace.site_source / "static")
    files |= release_files(site)
    files |= data_files(site)
    files |= index_files(files, site.address)
    return write_files(output, files, earlier.names, inputs)


def _built(output: Path, names: Iterable[str], written: int = 0, removed: int = 0) -> Built:
    found = list(names)
    return Built(output, sum(name.endswith(".html") for name in found), len(found), written, removed)


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier build left."""

    names: frozenset[str] = frozenset()
    inputs: str | None = None
    """Digest of what it was made of; None where it did not come to its end."""
    outputs: str | None = None
    """Digest of the files."""


def _static(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise WorkspaceError(f"{folder}: expected the folder of static files, found none")
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {f"static/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in found}


def _earlier(output: Path) -> Earlier:
    """Files that an earlier build wrote here. Raises UserError for a folder that is not its own."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise UserError(f"{output}: expected a folder to write the site to, got a link or a file")
    durable.sweep(output)  # a build killed at its first file left only that, half-written
    if not output.exists() or not any(output.iterdir()):
        return Earlier()
    marker = output / MARKER
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(
            f"{output}: expected an empty folder or a site written by robustboard;"
            f" it holds other files and no {MARKER}"
        ) from None
    names = found.get("files") if isinstance(found, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) and _inside(name) for name in names):
        raise UserError(f"{marker}: expected the list of files of an earlier build, got something else")
    for folder in {(output / name).parent for name in names}:
        durable.sweep(folder)
    return Earlier(frozenset(names), found.get("inputs"), found.get("outputs"))


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _mark(output: Path, names: Iterable[str], digests: Mapping[str, str | None] | None = None) -> None:
    durable.write(output / MARKER, jsons.canonical({"files": sorted(names), **(digests or {})}))


def write_files(
    output: Path,
    files: Mapping[str, bytes],
    earlier: frozenset[str] = frozenset(),
    inputs: str | None = None,
) -> Built:
    """Write what is new or changed, and remove what an earlier build left; unchanged files stay untouched.

    `inputs` is the digest of all that the files are made of. A site can be made again, so nobody waits for
    the disk; what a power cut leaves, the next build finds and mends.
    """
    folders = {(output / name).parent for name in files}
    # A build that is killed half-way must find its own files again: the marker goes first.
    _mark(output, earlier | set(files))
    for folder in sorted(folders):
        _target(output, folder).mkdir(parents=True, exist_ok=True)
    count = 0
    for name, data in files.items():
        path = output / name
        if path.is_symlink():
            _target(output, path)
        if path.is_file() and path.read_bytes() == data:
            continue
        durable.replace(path, data)
        count += 1
    gone = sorted(earlier - set(files))
    for name in gone:
        _remove(output, output / name)
    _mark(output, files, {"inputs": inputs, "outputs": files_digest(files)} if inputs else {})
    return _built(output, files, count, len(gone))


def _target(output: Path, path: Path) -> Path:
    """The path, unless a link on the way leads out of the folder."""
    if not path.resolve().is_relative_to(output.resolve()):
        raise UserError(f"{path}: expected a file inside the site's folder, got a link that leads out of it")
    return path


def _remove(output: Path, path: Path) -> None:
    durable.remove(_target(output, path))
    folder = path.parent
    while folder != output and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
