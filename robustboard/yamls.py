"""YAML files → frozen pydantic models, with file and line in every complaint."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from robustboard.complaints import complaints, empty_values, locate
from robustboard.errors import ContentError, Problem
from robustboard.nodes import ENTRY, TABLE, Limits, Mapping, Node, Scalar, Sequence, parse, plain

__all__ = [
    "ENTRY",
    "TABLE",
    "Frozen",
    "Limits",
    "Mapping",
    "Node",
    "Scalar",
    "Sequence",
    "build",
    "locate",
    "parse",
    "plain",
    "read",
    "read_bytes",
]

MAX_PROBLEMS = 20


class Frozen(BaseModel):
    """Base of everything read from content files: strict, immutable, unknown keys refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


def build(node: Mapping, model: type[M], name: str, identity: str | None = None) -> M:
    """Validate a parsed document against a model.

    `identity` is the entry's id (the file's stem), handed to the field `id`, which a document
    must not set itself. Raises ContentError with all problems, at most 20, in line order.
    """
    problems = list(empty_values(node, name))
    data: dict[str, object] = {key: plain(value) for key, (_, value) in node.items.items()}
    if identity is not None:
        if "id" in node.items:
            line = node.items["id"][0]
            problems.append(
                Problem(name, line, "id", "expected no such key, got one: the file's name is the id")
            )
        data["id"] = identity
    blank = {(problem.line, problem.field) for problem in problems}
    try:
        entry = model.model_validate(data)
    except ValidationError as error:
        found = complaints(error, node, model, name, MAX_PROBLEMS)
        problems.extend(problem for problem in found if (problem.line, problem.field) not in blank)
    else:
        if not problems:
            return entry
    raise ContentError(_first(problems))


def _first(problems: list[Problem]) -> list[Problem]:
    """The first problems by line, and a last one that counts the rest."""
    ordered = sorted(set(problems))
    if len(ordered) <= MAX_PROBLEMS:
        return ordered
    kept, last = ordered[: MAX_PROBLEMS - 1], ordered[MAX_PROBLEMS - 1]
    message = f"expected a file with fewer faults, got {len(ordered)}: the rest is not shown"
    return [*kept, Problem(last.file, last.line, "", message)]


def read_bytes(path: Path, name: str, limits: Limits = ENTRY) -> bytes:
    """The content of an entry file, never more than one byte beyond the limit.

    Raises ContentError; links and anything that is no regular file are refused.
    """
    if path.is_symlink() or not path.is_file():
        raise ContentError([Problem(name, 1, "", "expected a regular file, got a link, folder or nothing")])
    try:
        with path.open("rb") as file:
            return file.read(limits.bytes + 1)
    except OSError as error:
        message = f"expected a readable file, got {error.strerror or type(error).__name__}"
        raise ContentError([Problem(name, 1, "", message)]) from error


def read(path: Path, model: type[M], name: str, limits: Limits = ENTRY, *, with_id: bool = True) -> M:
    """Read one entry file; `name` is how messages call the file.

    Raises ContentError; links and anything that is no regular file are refused.
    """
    node = parse(read_bytes(path, name, limits), name, limits)
    return build(node, model, name, path.stem if with_id else None)
