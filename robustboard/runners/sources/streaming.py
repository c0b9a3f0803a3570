"""Sets that do not fit the disk: shards are fetched, checked, read and dropped again.

A first pass notes labels and the digest of every image; the note is kept, so that it is made once for all
models. After it one shard at a time lies on the disk, unless the client's cache had it before.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from robustboard import durable, jsons
from robustboard.errors import CellError, StoreError
from robustboard.runners.sources.shards import Shard
from robustboard.yamls import Frozen


class Noted(Frozen):
    """What is known of one shard's rows."""

    labels: tuple[int | str | None, ...]
    digests: tuple[str, ...]
    """SHA-256 of each image file (64 hex digits)."""
    names: tuple[str, ...] | None
    groups: tuple[str, ...] | None
    class_names: tuple[str, ...] | None


class Notes(Frozen):
    """All shards of a set; lies in the cache as JSON, with its own hash."""

    format: Literal["robustboard.stream/1"] = "robustboard.stream/1"
    set: str
    """Digest of the locked files and of how they are read."""
    shards: tuple[Noted, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """How one shard is had and let go."""

    open: Callable[[], Shard]
    drop: Callable[[], None]


class Streamed:
    """The images of all shards, of which one is open."""

    def __init__(self, places: list[Place], notes: Notes) -> None:
        """Take shards and what is known of them."""
        self.places = places
        self.notes = notes
        self.starts: list[int] = []
        count = 0
        for noted in notes.shards:
            self.starts.append(count)
            count += len(noted.digests)
        self.held: tuple[int, Shard] | None = None

    def digest(self, row: int) -> bytes:
        """SHA-256 of one image file, without fetching it."""
        number = bisect.bisect_right(self.starts, row) - 1
        return bytes.fromhex(self.notes.shards[number].digests[row - self.starts[number]])

    def read(self, row: int) -> bytes:
        """The bytes of one image; fetches its shard where that is not the one at hand. Raises CellError."""
        number = bisect.bisect_right(self.starts, row) - 1
        if self.held is None or self.held[0] != number:
            self.close()
            self.held = (number, self.places[number].open())
        return self.held[1].images.read(row - self.starts[number])

    def close(self) -> None:
        """Let the open shard go."""
        if self.held is not None:
            number, shard = self.held
            self.held = None
            shard.close()
            self.places[number].drop()


def take_notes(name: str, places: list[Place], folder: Path) -> Notes:
    """What is known of a set's rows: from an earlier pass, or from a pass now. Raises CellError."""
    path = folder / f"{name}.json"
    if path.is_file():
        with suppress(StoreError, OSError):  # a damaged note is made again
            notes = jsons.unseal(path.read_bytes(), Notes, path.name)
            if notes.set == name and len(notes.shards) == len(places):
                return notes
    found = []
    for place in places:
        shard = place.open()
        try:
            found.append(_note(shard))
        finally:
            shard.close()
            place.drop()
    notes = Notes(set=name, shards=tuple(found))
    with suppress(StoreError):  # a cache that cannot be written costs time, not results
        durable.write(path, jsons.seal(notes))
    return notes


def _note(shard: Shard) -> Noted:
    digests = []
    for row in range(len(shard.labels)):
        try:
            digests.append(hashlib.sha256(shard.images.read(row)).hexdigest())
        except CellError as error:
            raise CellError(error.kind, f"row {row} of a shard: {error.reason}") from error
    return Noted(
        labels=tuple(shard.labels),
        digests=tuple(digests),
        names=shard.names,
        groups=shard.groups,
        class_names=shard.class_names,
    )
