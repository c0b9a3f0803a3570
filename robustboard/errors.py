"""Every error that robustboard raises on purpose.

RobustboardError            one readable line on stderr, no traceback
├── UserError               exit code 2: the input is wrong, the user can mend it
│   ├── ContentError        problems in YAML entries, one line each
│   ├── UnknownNameError    a name that no entry bears, with the nearest known ones
│   ├── WorkspaceError      no registry where one was expected
│   └── LockError           a pin that is missing, unresolved or moved
├── CellError               exit code 1: one cell could not be measured; the others go on
├── StoreError              exit code 1: stored bytes are damaged or contradict each other
└── DiskFullError           exit code 3: no room; what is stored stays, the same command goes on later

Anything else that escapes is a defect of robustboard and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

FailureKind = Literal[
    "load",
    "hash-mismatch",
    "class-count",
    "non-finite",
    "out-of-memory",
    "timeout",
    "gated",
    "missing",
    "unavailable",
    "decode",
    "labels",
    "budget",
    "unlocked",
    "extra-missing",
    "incompetent",
    "store",
    "disk-full",
]

MAX_ECHO = 60
MAX_NAMES = 8


def echo(value: object) -> str:
    """The value as printable ASCII in quotes, at most 60 characters.

    Values come from strangers: escape sequences and line breaks must not reach a log.
    """
    text = value if isinstance(value, str) else repr(value)
    escaped = text.encode("unicode_escape").decode("ascii")
    if len(escaped) > MAX_ECHO:
        escaped = escaped[: MAX_ECHO - 3] + "..."
    return f"'{escaped}'"


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most `count` of the known names that look most like `name`, best first."""
    return difflib.get_close_matches(name, sorted(set(known)), n=count, cutoff=0.6)


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (did you mean a, b?)`, or an empty string where nothing is near."""
    found = nearest(name, known)
    return f" (did you mean {', '.join(found)}?)" if found else ""


class RobustboardError(Exception):
    """An expected failure; its text is the whole message."""

    exit_code: ClassVar[int] = 1


class UserError(RobustboardError):
    """The input is wrong and the user can mend it."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault of one file: where it is, what was expected, what was found."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        """`file:line: field: message`, on one line."""
        where = f"{self.file}:{self.line}"
        return f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"


class ContentError(UserError):
    """One or more problems in content files, printed one a line, sorted."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Problems in any order."""
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class UnknownNameError(UserError):
    """A name that no entry bears."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        """`kind` is what the name should be one of, in words."""
        names = sorted(known)
        near = nearest(name, names)
        if near:
            hint = f"did you mean {', '.join(near)}?"
        elif names:
            shown = ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")
            hint = f"known: {shown}"
        else:
            hint = "none is registered"
        super().__init__(f"unknown {kind} {echo(name)} ({hint})")


class WorkspaceError(UserError):
    """There is no workspace where one was expected."""


class LockError(UserError):
    """A pin is missing, unresolved, or no longer what the lock says."""


class CellError(RobustboardError):
    """One cell (model, benchmark, dataset) could not be measured.

    `kind` is stored with the failure; `reason` is one line for people.
    """

    def __init__(self, kind: FailureKind, reason: str) -> None:
        """A failure of that kind, and why."""
        self.kind: FailureKind = kind
        self.reason = reason
        super().__init__(f"{kind}: {reason}")


class StoreError(RobustboardError):
    """Stored bytes are damaged or contradict each other."""


class DiskFullError(RobustboardError):
    """There is no room for a file; everything stored before stays whole."""

    exit_code: ClassVar[int] = 3

    def __init__(self, path: str, needed: int, free: int) -> None:
        """The file that did not fit, and bytes needed and free."""
        self.needed = needed
        self.free = free
        super().__init__(f"{path}: no room on the disk: {needed} bytes needed, {free} free")
