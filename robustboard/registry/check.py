"""One look at the whole registry: every fault of every file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from robustboard.errors import Problem, echo, suggestion
from robustboard.registry.catalog import Survey, survey
from robustboard.registry.folders import Found, by_id
from robustboard.registry.licenses import complaint
from robustboard.registry.lock import lock_problems
from robustboard.registry.testsets import survey_test_sets
from robustboard.workspace import Workspace

FOLDERS = frozenset(
    {"models", "datasets", "labels", "oracles", "generators", "reported", "schema", "testsets"}
)
FILES = frozenset({"lock.yaml", "README.md"})


def check(workspace: Workspace) -> list[Problem]:
    """All faults of entries, label files and the lock, sorted by file and line.

    Schema, references between entries, names and ids that look alike, files that are no entries,
    links, and lock lines at odds with their entries. Reads nothing outside the registry. Raises
    WorkspaceError where there is no registry.
    """
    seen = survey(workspace)
    ids = {f"model/{name}" for name in seen.models.ids} | {f"dataset/{name}" for name in seen.datasets.ids}
    ids |= {f"generator/{name}" for name in seen.generators.ids}
    lock = lock_problems(workspace, by_id(seen.models), by_id(seen.datasets), ids, by_id(seen.generators))
    found = {*seen.problems, *lock, *_licences(seen), *survey_test_sets(workspace).problems}
    return sorted({*found, *_strays(workspace)})


def _licences(seen: Survey) -> Iterator[Problem]:
    """Entries whose licence is neither an SPDX expression nor said to be none.

    Recipes of test sets are left out: they are never edited once they are released.
    """
    stated: list[tuple[str, Found[Any]]] = []
    for folder in (seen.models, seen.datasets, seen.generators, seen.oracles):
        stated += [(found.entry.license, found) for found in folder.entries.values()]
    for text, found in stated:
        wanted = complaint(text)
        if wanted is not None:
            yield found.problem(("license",), f"expected {wanted}, got {echo(text)}")


def _strays(workspace: Workspace) -> Iterator[Problem]:
    """Files and folders of the registry that nothing reads: a typing slip would hide every entry in them."""
    for path in sorted(workspace.registry.iterdir()):
        known = FOLDERS if path.is_dir() else FILES
        if path.name.startswith(".") or path.name in known:
            continue
        near = suggestion(path.name, FOLDERS | FILES)
        shown = workspace.show(path).encode("unicode_escape").decode("ascii")
        names = ", ".join(sorted(FOLDERS | FILES))
        yield Problem(shown, 1, "", f"expected one of {names}, got {echo(path.name)}{near}")
