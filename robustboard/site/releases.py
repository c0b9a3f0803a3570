"""Frozen releases: the numbers of one day as text files that are never edited, and what changed between two.

leaderboard/releases/<name>/release.json      name, date, program, digests of protocols and of the files
                            leaderboard.csv   one row a score, as data/leaderboard.csv
                            boards.json       every board with its rows, places and rank ranges
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from robustboard import durable, jsons
from robustboard.errors import StoreError, UserError, echo
from robustboard.fields import Day
from robustboard.leaderboard.board import Board
from robustboard.yamls import Frozen

NAME = re.compile(r"20\d\d\.(0[1-9]|1[0-2])(\.[1-9]\d?)?")
RECORD, SCORES, BOARDS = "release.json", "leaderboard.csv", "boards.json"


class ReleaseRecord(Frozen):
    """What a release is; the last of its files to be written."""

    format: Literal["robustboard.release/1"] = "robustboard.release/1"
    name: str
    date: Day
    version: str
    """Of this program."""
    protocols: dict[str, str] = Field(default={})
    """Benchmark and dataset → digest of the protocol, for all that was measured."""
    datasets: dict[str, str] = Field(default={})
    """Dataset → fingerprint of ids, labels and image bytes; of the two sets of a detection benchmark."""
    sets: dict[str, str] = Field(default={})
    """Generated set with its version → digest of its content, where it was built."""
    files: dict[str, str]
    """Name → SHA-256."""


Numbers = Mapping[tuple[str, ...], Mapping[str, str]]
"""(model, benchmark, dataset, metric, condition) → one row of leaderboard.csv."""


@dataclass(frozen=True, slots=True)
class Release:
    """One frozen release."""

    record: ReleaseRecord
    numbers: Numbers
    boards: Sequence[Mapping[str, Any]]
    files: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """`2026.12`."""
        return self.record.name


def release_key(name: str) -> tuple[int, ...]:
    """For sorting: 2026.12.2 comes after 2026.12."""
    return tuple(int(part) for part in name.split("."))


def numbers_of(text: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows of a leaderboard.csv by what they are of."""
    names = ("model", "benchmark", "dataset", "metric", "condition")
    return {tuple(row[name] for name in names): row for row in csv.DictReader(io.StringIO(text))}


def check_name(name: str) -> None:
    """Raise UserError for a name that no release can have."""
    if not NAME.fullmatch(name):
        raise UserError(f"expected a release YEAR.MONTH such as 2026.12, or 2026.12.2, got {echo(name)}")


def freeze(
    folder: Path,
    name: str,
    date: str,
    *,
    scores: str,
    boards: Mapping[str, Board],
    about: Mapping[str, Any],
) -> Release:
    """Write a release; the same release again is no change.

    `about` gives the other fields of its record. Raises UserError for a name of another form, and for one
    that is taken by other numbers: a release never changes.
    """
    check_name(name)
    files = {
        SCORES: scores.encode("utf-8"),
        BOARDS: jsons.canonical([board.as_data() for board in boards.values()]),
    }
    record = ReleaseRecord.model_validate(
        {"name": name, "date": date, "files": {n: _sha256(data) for n, data in files.items()}, **about}
    )
    place = folder / name
    if (place / RECORD).exists():
        earlier = read_release(place)
        if earlier.record != record.model_copy(update={"date": earlier.record.date}):
            raise UserError(f"{place}: release {name} exists with other numbers; releases never change")
        return earlier
    place.mkdir(parents=True, exist_ok=True)
    for file, data in {**files, RECORD: jsons.seal(record)}.items():
        durable.write(place / file, data)
    return read_release(place)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_release(place: Path) -> Release:
    """One release, every byte verified. Raises StoreError, naming the file, for any that was edited."""
    try:
        record = jsons.unseal((place / RECORD).read_bytes(), ReleaseRecord, str(place / RECORD))
        files = {name: (place / name).read_bytes() for name in sorted(record.files)}
    except OSError as error:
        raise StoreError(f"{error.filename}: cannot read: {error.strerror or error}") from error
    if record.name != place.name or set(record.files) != {SCORES, BOARDS}:
        raise StoreError(f"{place / RECORD}: name: expected the folder's, with {SCORES} and {BOARDS}")
    for name, data in files.items():
        if _sha256(data) != record.files[name]:
            raise StoreError(f"{place / name}: sha256: the file was edited; a release never changes")
    boards = jsons.strict(files[BOARDS], str(place / BOARDS))
    whole = {**files, RECORD: jsons.seal(record)}
    return Release(record, numbers_of(files[SCORES].decode("utf-8")), boards, whole)


def read_releases(folder: Path) -> tuple[Release, ...]:
    """All releases, oldest first; an absent folder holds none."""
    places = [path.parent for path in folder.glob(f"*/{RECORD}")] if folder.is_dir() else []
    return tuple(sorted(map(read_release, places), key=lambda release: release_key(release.name)))


@dataclass(frozen=True, slots=True)
class CellChange:
    """A score that stands for a cell, before and after; None where there was or is none."""

    model: str
    benchmark: str
    dataset: str
    score: str
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None
    others: int
    """Further scores of the cell that changed."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed from one state of the board to the next: numbers, never ranks."""

    name: str
    """The later release; `now` for the pages as they are."""
    date: str | None
    since: str | None
    added: tuple[str, ...]
    """Models measured for the first time."""
    removed: tuple[str, ...]
    cells: tuple[CellChange, ...]
    """Of models that were there before."""
    sets: tuple[str, ...]
    """Generated sets and versions that are new."""

    @property
    def any(self) -> bool:
        """Whether anything changed."""
        return bool(self.added or self.removed or self.cells or self.sets)


def _measured(numbers: Numbers) -> set[str]:
    return {key[0] for key, row in numbers.items() if row["value"] or row["metric"]}


def changes(
    before: Release | None, after: Numbers, *, name: str, date: str | None = None, sets: Iterable[str] = ()
) -> Changes:
    """What changed since an earlier release; everything is new where there is none."""
    old: Numbers = before.numbers if before is not None else {}
    known, here = _measured(old), _measured(after)
    cells: dict[tuple[str, str, str], list[tuple[str, ...]]] = {}
    for key in sorted({*old, *after}):
        if key[0] in known & here and _said(old.get(key)) != _said(after.get(key)):
            cells.setdefault((key[0], key[1], key[2]), []).append(key)
    past = set(before.record.sets) if before is not None else set()
    return Changes(
        name,
        date,
        before.name if before is not None else None,
        tuple(sorted(here - known)),
        tuple(sorted(known - here)),
        tuple(_cell_change(keys, old, after) for keys in cells.values()),
        tuple(sorted(set(sets) - past)),
    )


def _said(row: Mapping[str, str] | None) -> tuple[str, ...] | None:
    return None if row is None else tuple(row[name] for name in ("value", "status", "n", "correct", "reason"))


def _cell_change(keys: Sequence[tuple[str, ...]], old: Numbers, new: Numbers) -> CellChange:
    """The headline stands for its cell; another score where the headline is as it was."""
    chosen = next((key for key in keys if (new.get(key) or old[key])["headline"] == "yes"), keys[0])
    before, after = old.get(chosen), new.get(chosen)
    return CellChange(
        chosen[0],
        chosen[1],
        chosen[2],
        f"{chosen[3]}@{chosen[4]}",
        before,
        after,
        len(keys) - 1,
    )


def history(releases: Sequence[Release], now: Numbers, sets: Iterable[str]) -> tuple[Changes, ...]:
    """Changes of every release and since the last one, newest first."""
    found = []
    earlier: Release | None = None
    for release in releases:
        about = release.record
        found.append(
            changes(earlier, release.numbers, name=release.name, date=about.date.isoformat(), sets=about.sets)
        )
        earlier = release
    if earlier is not None:
        since = changes(earlier, now, name="now", sets=sets)
        found += [since] if since.any else []
    return tuple(reversed(found))
