"""Which paths a pull request of content may touch, by Git's own objects: nothing is checked out or run.

Only regular files that are added or changed, under names and sizes known beforehand. Everything else (code,
workflows, links, sub-modules, attributes, deletions, what has a twin in other case) is for people to review.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from robustboard import gits
from robustboard.errors import echo
from robustboard.gits import Change
from robustboard.nodes import describe, stranger

REGULAR = "100644"
ABSENT = "000000"
MOST_FILES = 200
LFS = b"version https://git-lfs.github.com/spec/"
_ID = r"[a-z0-9][a-z0-9._-]{1,63}"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """Paths of one kind of content."""

    pattern: str
    bytes: int
    new_only: bool = False
    """Whether such a file is never edited once it is there."""
    text: bool = True
    changed_only: bool = False
    """Whether such a file is there already, and only ever grows."""


RULES: tuple[Rule, ...] = (
    Rule(rf"registry/(models|datasets|generators|oracles|testsets)/{_ID}\.yaml", 64 * 1024),
    Rule(rf"registry/labels/{_ID}\.yaml", 16 * MIB),
    Rule(rf"registry/reported/{_ID}\.yaml", 64 * 1024),
    Rule(rf"registry/reported/{_ID}\.csv", 4 * MIB),
    Rule(r"registry/lock\.yaml", 16 * MIB, changed_only=True),
    Rule(rf"benchmarks/{_ID}-v[1-9][0-9]{{0,3}}\.yaml", 64 * 1024, new_only=True),
    Rule(rf"benchmarks/external/{_ID}\.(npz|parquet)", MIB, new_only=True, text=False),
    Rule(rf"leaderboard/(boards|predictions)/{_ID}\.yaml", 64 * 1024),
    Rule(rf"leaderboard/(results|outcomes)/{_ID}/{_ID}--{_ID}\.json", 4 * MIB),
    Rule(r"CHANGELOG\.md", MIB, changed_only=True),
)
"""What a pull request of content may hold; a path must match one of these as a whole."""


def guard(folder: Path, base: str, head: str = "HEAD") -> tuple[list[Change], list[str]]:
    """Changes between the commit that two branches share and the second one, and what is wrong with them.

    Faults are one line each: `path: what was expected, got ...`, sorted. Raises UserError for names that
    are no commits.
    """
    old, new = gits.merge_base(folder, base, head), gits.commit(folder, head)
    found = gits.changes(folder, old, new)
    if len(found) > MOST_FILES:
        return found, [f"(all): expected at most {MOST_FILES} changed files, got {len(found)}"]
    faults = list(_twins(found, gits.paths(folder, new)))
    for change in found:
        problem = _problem(change) or _content(folder, change)
        if problem is not None:
            faults.append(f"{_shown(change.path)}: {problem}")
    return found, sorted(faults)


def entries(found: Iterable[Change]) -> Mapping[str, list[str]]:
    """Kind of entry (models, datasets, benchmarks) → ids of those that a pull request adds or changes."""
    ids: dict[str, list[str]] = {"models": [], "datasets": [], "benchmarks": []}
    for change in found:
        match = re.fullmatch(rf"(?:registry/)?(models|datasets|benchmarks)/({_ID})\.yaml", change.path)
        if match and change.new_mode == REGULAR:
            ids[match[1]].append(match[2])
    return ids


def _shown(path: str) -> str:
    return path if re.fullmatch(r"[A-Za-z0-9._/+-]{1,200}", path) else echo(path)


def _problem(change: Change) -> str | None:
    """What is wrong with a change by its path and modes."""
    kinds = {
        "120000": "a link",
        "160000": "a sub-module",
        "100755": "an executable file",
        "040000": "a folder",
    }
    if change.status not in ("A", "M"):
        words = {"D": "a deletion", "T": "another kind of file"}
        return f"expected an added or changed file, got {words.get(change.status, echo(change.status))}"
    if change.new_mode != REGULAR or change.old_mode not in (REGULAR, ABSENT):
        odd = change.new_mode if change.new_mode != REGULAR else change.old_mode
        return f"expected a regular file, got {kinds.get(odd, echo(odd))}"
    rule = rule_of(change.path)
    if rule is None:
        return "expected an entry, a protocol, a board or a result, got a path of another kind"
    if rule.new_only and change.status != "A":
        return "expected a new version beside it, got an edit: what is released is never changed"
    if rule.changed_only and change.status != "M":
        return "expected a change of the file that is there, got a new one"
    return None


def rule_of(path: str) -> Rule | None:
    """The rule for a path; None where there is none."""
    return next((rule for rule in RULES if re.fullmatch(rule.pattern, path)), None)


def _content(folder: Path, change: Change) -> str | None:
    """What is wrong with the bytes of a regular file under a known path."""
    rule = rule_of(change.path)
    if rule is None:
        return None
    size = gits.size(folder, change.blob)
    if size > rule.bytes:
        return f"expected at most {rule.bytes} bytes, got {size}"
    data = gits.content(folder, change.blob)
    if data.startswith(LFS):
        return "expected the content itself, got a pointer to a large-file store"
    if not rule.text:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"expected UTF-8, got byte 0x{data[error.start]:02x}"
    if text.startswith("\ufeff") or "\r" in text:
        return "expected plain UTF-8 with line feeds, got a byte order mark or carriage returns"
    odd = next((found for line in text.split("\n") if (found := stranger(line)) is not None), None)
    return f"expected printable text, got {describe(odd)}" if odd is not None else None


def _twins(found: Iterable[Change], tree: Iterable[str]) -> Iterator[str]:
    """Added paths that differ from another one of the tree in case alone: they are one file elsewhere."""
    spelt: dict[str, set[str]] = {}
    for path in tree:
        spelt.setdefault(path.casefold(), set()).add(path)
    for change in found:
        others = spelt.get(change.path.casefold(), set()) - {change.path}
        if change.status == "A" and others:
            yield f"{_shown(change.path)}: expected a name of its own, got the twin of {_shown(min(others))}"
