"""First versions of entries, as YAML text: what is known stands there, what is not is a marked blank.

A blank is the word TODO with a hint in brackets. It is never a value: `robustboard check` names each one
with file and line until somebody has filled it in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustboard import durable
from robustboard.errors import UserError
from robustboard.nodes import stranger
from robustboard.registry.names import skeleton
from robustboard.workspace import Workspace

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*( [A-Za-z0-9._/+-]+)*")
_AT_ODDS = frozenset({"~", "null", "Null", "NULL"})
MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Blank:
    """A value that nobody knows yet, with a hint for the one who fills it in."""

    hint: str

    def __str__(self) -> str:
        """How it stands in the file; the hint holds no colon or hash, so that it is a plain YAML word."""
        return f"TODO ({self.hint})"


Value = str | int | float | Blank | Sequence["Value"] | Mapping[str, "Value"]
"""What a draft is made of; lists and mappings hold the same."""


def or_blank(value: Value | None, hint: str) -> Value:
    """The value, or a blank with this hint where there is none, or one that no entry may hold."""
    if value is None or value in ("", []):
        return Blank(hint)
    if not isinstance(value, str):
        return value
    odd = len(value) > MAX_TEXT or stranger(value) is not None or {"\n", "\t"} & set(value)
    return Blank(hint) if odd else value


def draft(kind: str | None, values: Mapping[str, Value]) -> bytes:
    """The text of an entry; `kind` names the JSON Schema that an editor completes it by, where it has one."""
    above = "../registry/schema" if kind == "benchmark" else "../schema"
    schema = [] if kind is None else [f"# yaml-language-server: $schema={above}/{kind}.json"]
    lines = [*schema, *_lines(values, 0)]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _lines(values: Mapping[str, Value], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{_text(key)}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if all(isinstance(item, int | float) for item in value):
                yield f"{indent}{_text(key)}: [{', '.join(map(_text, value))}]"
                continue
            yield f"{indent}{_text(key)}:"
            for item in value:
                yield from _item(item, depth + 1)
        else:
            yield f"{indent}{_text(key)}: {_text(value)}"


def _item(item: Value, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(item, Mapping):
        first, *rest = _lines(item, depth + 1)
        yield f"{indent}- {first.lstrip()}"
        yield from rest
    else:
        yield f"{indent}- {_text(item)}"


def _text(value: object) -> str:
    """A scalar as YAML: plain where that is safe, else in double quotes."""
    if isinstance(value, Blank):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if not isinstance(value, str) or (_PLAIN.fullmatch(text) and text not in _AT_ODDS):
        return text
    return json.dumps(text, ensure_ascii=False)


def new_id(text: str) -> str:
    """An entry id from the last part of a repository's name: lower case, other signs as dashes."""
    name = re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9._-]+", "-", text.rsplit("/", 1)[-1].lower()))
    return name.strip("-._")[:64].rstrip("-._")


def need_free(workspace: Workspace, folder: Path, name: str) -> Path:
    """Where a new entry goes. Raises UserError where one of that id, or of one that looks like it, lies."""
    path = folder / f"{name}.yaml"
    for other in sorted(folder.glob("*")) if folder.is_dir() else ():
        if other.name.casefold() == path.name.casefold() or (
            other.suffix == ".yaml" and skeleton(other.stem) == skeleton(name)
        ):
            raise UserError(
                f"{workspace.show(other)} is there already: nothing was written;"
                " --id NAME names the new entry otherwise"
            )
    return path


def place(workspace: Workspace, folder: Path, name: str, data: bytes) -> Path:
    """Write a new entry, never over another one. Raises UserError, StoreError or DiskFullError."""
    path = need_free(workspace, folder, name)
    if not durable.publish(path, data):
        raise UserError(f"{workspace.show(path)} is there already: nothing was written")
    return path


def blanks(data: bytes) -> int:
    """How many marked blanks an entry's text has."""
    return len(re.findall(rb"(?:: |- |\[|, )TODO \(", data))
