"""Whether a build would change anything: digests of all that pages are made of, and of what was written."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel

import robustboard
from robustboard.workspace import PACKAGE, Workspace

LIBRARIES = ("jinja2", "markupsafe", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "timm", "torch")
"""Their versions may change a byte of a page, or whether a result is outdated."""
CONTENT = ("registry", "benchmarks", "leaderboard", "site/templates", "site/static")
SKIPPED = frozenset({"__pycache__", ".git", "_build"})


def _files(folder: Path, inside: frozenset[Path] = frozenset()) -> Iterable[Path]:
    """Files under a folder, links followed, but not round and round."""
    place = folder.resolve()
    if not folder.is_dir() or place in inside:
        return
    for path in sorted(folder.iterdir()):
        if path.name in SKIPPED:
            continue
        if path.is_dir():
            yield from _files(path, inside | {place})
        elif path.is_file():
            yield path


def inputs_digest(
    workspace: Workspace, entries: Iterable[BaseModel], results: Sequence[Path], address: str | None
) -> str:
    """Digest of every file and version that a build reads: content, results, this program, its libraries.

    `entries` are those that were read from the content, in case somebody changed them since.
    """
    state = hashlib.sha256(f"{robustboard.__version__} {platform.python_version()} {address}".encode())
    for entry in entries:
        state.update(entry.model_dump_json().encode())
    for name in LIBRARIES:
        try:
            state.update(f"{name} {metadata.version(name)}\n".encode())
        except metadata.PackageNotFoundError:
            continue
    beside = [folder.parent / name for folder in results for name in ("outcomes", "verifications")]
    folders = [
        *(workspace.content / name for name in CONTENT),
        *results,
        *beside,
        workspace.output / "leaderboard",
        workspace.runs / "failed",
        workspace.built_sets,
        PACKAGE,
    ]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            continue
        for path in _files(folder):
            data = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            state.update(f"{number} {name} {len(data)}\n".encode())
            state.update(data)
    return state.hexdigest()


def files_digest(files: Mapping[str, bytes]) -> str:
    """Digest of names and bytes of the files of a site."""
    state = hashlib.sha256()
    for name, data in sorted(files.items()):
        state.update(f"{name} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()


def written(output: Path, names: Iterable[str]) -> str | None:
    """The digest of files as they lie there; None where one is missing or no plain file."""
    found: dict[str, bytes] = {}
    for name in names:
        path = output / name
        if path.is_symlink() or not path.is_file():
            return None
        found[name] = path.read_bytes()
    return files_digest(found)
