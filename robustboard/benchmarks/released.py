"""Released protocols never change: their hashes stand in benchmarks/released.sha256.

The file has the format of `sha256sum`, so `cd benchmarks && sha256sum -c released.sha256` checks it too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from robustboard import yamls
from robustboard.errors import ContentError, Problem, echo
from robustboard.workspace import Workspace

NAME = "released.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  ([a-z0-9][a-z0-9._-]{1,63}-v([1-9][0-9]{0,3}))\.yaml")


def released_problems(workspace: Workspace) -> Iterator[Problem]:
    """Released protocols that were edited or taken away, and lines of the table that say nothing."""
    path = workspace.benchmarks / NAME
    name = workspace.show(path)
    if not path.is_symlink() and not path.exists():
        return
    try:
        text = yamls.read_bytes(path, name).decode("utf-8", "replace")
    except ContentError as error:
        yield from error.problems
        return
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            yield Problem(name, number, "", f"expected `SHA-256, two spaces, ID.yaml`, got {echo(line)}")
            continue
        sha256, protocol, version = match.groups()
        if protocol in seen:
            message = f"expected each protocol once, got it again (first on line {seen[protocol]})"
            yield Problem(name, number, protocol, message)
        seen.setdefault(protocol, number)
        yield from _compare(workspace, Problem(name, number, protocol, ""), sha256, int(version))


def _compare(workspace: Workspace, place: Problem, sha256: str, version: int) -> Iterator[Problem]:
    path = workspace.benchmarks / f"{place.field}.yaml"
    if path.is_symlink() or not path.is_file():
        yield Problem(
            place.file, place.line, place.field, "expected the released protocol, got no file of it"
        )
        return
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        successor = f"{place.field.removesuffix(str(version))}{version + 1}.yaml"
        message = (
            f"expected the released text with SHA-256 {sha256[:16]}..., got {found[:16]}...:"
            f" a released protocol never changes, so undo the edit and write {successor}"
        )
        yield Problem(workspace.show(path), 1, "", message)
