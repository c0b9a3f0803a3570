"""What Git knows: commits, trees and blobs of a checkout, by the program git. The only place that calls it.

Names come from strangers: they are never parsed by a shell, and never taken for an option.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robustboard.errors import UserError, echo

SECONDS = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@{}^~-]{0,199}")
_QUIET = ("-c", "core.quotePath=false", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class GitError(Exception):
    """Git refused; its first line of complaint."""


def git(folder: Path, *words: str) -> bytes:
    """What `git WORDS` prints in a folder. Raises GitError where it fails, or where there is no git."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program and no shell
            ["git", "-C", str(folder), *_QUIET, *words],  # noqa: S607 - the user's own git
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise GitError(f"git cannot be run: {type(error).__name__}") from error
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(lines[0] if lines else f"git ended with {done.returncode}")
    return done.stdout


def commit(folder: Path, name: str) -> str:
    """The commit (40 hex digits) that a branch, tag or abbreviation names. Raises UserError."""
    if not _NAME.fullmatch(name):
        raise UserError(f"expected a branch, tag or commit, got {echo(name)}")
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode("ascii").strip()
    except GitError:
        raise UserError(f"no commit is named {echo(name)} in the Git repository of {folder}") from None


def merge_base(folder: Path, first: str, second: str) -> str:
    """The newest commit that both have. Raises UserError where they share none."""
    try:
        found = git(folder, "merge-base", commit(folder, first), commit(folder, second))
    except GitError:
        raise UserError(f"{echo(first)} and {echo(second)} have no commit in common") from None
    return found.decode("ascii").strip()


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two commits."""

    status: str
    """A, M, D or T, as Git says; copies and renames are told as what they add and delete."""
    old_mode: str
    new_mode: str
    blob: str
    """Name of the new content."""
    path: str
    """Bytes that are not UTF-8 stand as surrogates."""


def changes(folder: Path, old: str, new: str) -> list[Change]:
    """Every path that differs between the trees of two commits, in Git's order."""
    listed = git(
        folder, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-abbrev", old, new
    )
    parts = listed.split(b"\0")
    found = []
    for head, path in zip(parts[0::2], parts[1::2], strict=False):
        if not head.startswith(b":"):
            continue
        old_mode, new_mode, _, blob, status = head[1:].decode("ascii").split(" ")
        found.append(Change(status[:1], old_mode, new_mode, blob, path.decode("utf-8", "surrogateescape")))
    return found


def paths(folder: Path, tree: str, *below: str) -> list[str]:
    """Every file of a commit's tree, or of those below some folders."""
    listed = git(folder, "ls-tree", "-r", "-z", "--name-only", "--full-tree", tree, "--", *below)
    return [each.decode("utf-8", "surrogateescape") for each in listed.split(b"\0") if each]


def size(folder: Path, blob: str) -> int:
    """Bytes of a blob."""
    return int(git(folder, "cat-file", "-s", blob))


def content(folder: Path, blob: str) -> bytes:
    """The bytes of a blob, named by its hash or as COMMIT:PATH."""
    return git(folder, "cat-file", "blob", blob)


def files(folder: Path, tree: str, below: str) -> Mapping[str, bytes]:
    """Path → bytes of every file of a commit's tree below a folder."""
    return {path: content(folder, f"{tree}:{path}") for path in paths(folder, tree, below)}


def user(folder: Path) -> str | None:
    """The name that Git puts on commits made here."""
    try:
        return git(folder, "config", "user.name").decode("utf-8", "replace").strip() or None
    except GitError:
        return None


def is_checkout(folder: Path) -> bool:
    """Whether a folder is the top of a Git working tree."""
    try:
        top = git(folder, "rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape").strip()
    except GitError:
        return False
    return Path(top).resolve() == folder.resolve()
