"""Datasets of the Hugging Face Hub: the locked data files of one commit, read by our own readers.

Every byte that counts was compared with the lock before it is read, also from the cache and without
network; the library `datasets`, its prepared copies and its settings take no part. No code from the
Hub runs, and no token is sent unless the entry says that the set is gated.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustboard import jsons
from robustboard.errors import CellError, LockError
from robustboard.registry.entries import UNRESOLVED, FilePin, HubData, LockedFile
from robustboard.runners.sources.cache import cache_of
from robustboard.runners.sources.cards import card_classes
from robustboard.runners.sources.places import AbsentFile, wrong_count
from robustboard.runners.sources.shards import OPENERS, Opening, Shard, check_unique, open_shard
from robustboard.runners.sources.stored import EncodedImages, Request, Stored, StoredLabels, row_ids
from robustboard.runners.sources.streaming import Noted, Place, Streamed, take_notes

Wanted = LockedFile | FilePin
CARD = "README.md"


class Joined:
    """The images of several open shards, as one list."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        """Take open shards, in order."""
        self.shards = shards
        self.starts: list[int] = []
        count = 0
        for shard in shards:
            self.starts.append(count)
            count += len(shard.labels)

    def read(self, row: int) -> bytes:
        """The bytes of one image."""
        place = bisect.bisect_right(self.starts, row) - 1
        return self.shards[place].images.read(row - self.starts[place])


@dataclass(frozen=True, slots=True)
class _Repository:
    """The files of a set, and how they are had."""

    source: HubData
    request: Request
    commit: str
    files: tuple[Wanted, ...]

    @property
    def data(self) -> tuple[Wanted, ...]:
        """Those that hold images."""
        found = tuple(file for file in self.files if file.path.lower().endswith(tuple(OPENERS)))
        if not found:
            raise CellError(
                "unlocked",
                f"no data file of {self.source.repo} is locked: name them under files in the entry, then"
                f" {_mend(self.request)}",
            )
        return found

    def fetch(self, file: Wanted) -> Path:
        """One file, checked. Raises CellError."""
        from robustboard.runners import hub  # noqa: PLC0415 - takes a second to import

        found = hub.fetch(
            self.source.repo,
            [file],
            commit=self.commit,
            kind="dataset",
            token=self.request.entry.gated,
            progress=self.request.progress,
        )
        return found[file.path]

    def opened(self, file: Wanted) -> Shard:
        """The rows of one file. Raises CellError."""
        entry, scratch = self.request.entry, cache_of(self.request.workspace).folder
        return open_shard(Opening(self.fetch(file), file.path, self.source, entry.size, scratch))

    def place(self, file: Wanted) -> Place:
        """One file that is let go after use, unless it lay in the cache before."""
        from robustboard.runners import hub  # noqa: PLC0415 - takes a second to import

        name, at = self.source.repo, file.path
        if hub.is_cached(name, at, commit=self.commit, kind="dataset"):
            return Place(lambda: self.opened(file), lambda: None)
        return Place(lambda: self.opened(file), lambda: self._drop(file))

    def _drop(self, file: Wanted) -> None:
        from robustboard.runners import hub  # noqa: PLC0415 - takes a second to import

        hub.drop(self.source.repo, file.path, commit=self.commit, kind="dataset")

    def card(self) -> tuple[str, ...] | None:
        """Class names as the locked card declares them."""
        for file in self.files:
            if file.path == CARD:
                data = self.fetch(file).read_bytes()
                return card_classes(data, self.source.label_column, self.source.config)
        return None


def read_hub(source: HubData, request: Request) -> Stored:
    """Rows of one split at one commit, in the order of the files' names.

    Raises CellError: `unlocked` without a commit or without the SHA-256 of any file, `gated` where
    the terms were not accepted, `unavailable` where a file is neither in the cache nor within reach,
    `hash-mismatch` where it is not the locked one.
    """
    repository = _Repository(source, request, _commit(source, request), ())
    repository = _Repository(source, request, repository.commit, _files(source, request, repository.commit))
    known: Sequence[Shard | Noted]
    images: EncodedImages
    if request.streaming:
        places = [repository.place(file) for file in repository.data]
        notes = take_notes(_digest(repository), places, cache_of(request.workspace).folder / "streams")
        known, images = notes.shards, Streamed(places, notes)
    else:
        shards = list(_open_all(repository))
        known, images = shards, Joined(shards)
    return _stored(repository, known, images)


def _open_all(repository: _Repository) -> Iterator[Shard]:
    for file in repository.data:
        yield repository.opened(file)


def _stored(repository: _Repository, known: Sequence[Shard | Noted], images: EncodedImages) -> Stored:
    source, request = repository.source, repository.request
    labels = [label for shard in known for label in shard.labels]
    if len(labels) != request.entry.size:
        raise wrong_count(f"{source.repo}, split {source.split}", request.entry.size, len(labels))
    declared = {shard.class_names for shard in known}
    if len(declared) > 1:
        raise CellError("labels", f"{source.repo}: its files name different classes")
    classes = declared.pop() if declared else None
    if classes is None and any(isinstance(label, int) for label in labels):
        classes = repository.card()
    names = tuple(name for shard in known for name in shard.names or ())
    check_unique(names, source.repo)
    groups = tuple(group for shard in known for group in shard.groups or ())
    return Stored(
        ids=names or row_ids(len(labels), request.entry.size),
        labels=StoredLabels(labels, classes),
        images=images,
        origin=f"Hub dataset {source.repo} at {repository.commit}, split {source.split}{_endpoint()}",
        groups=groups if source.group_column is not None else None,
        names=(lambda row: f"{source.repo}: {names[row]}") if names else None,
    )


def _digest(repository: _Repository) -> str:
    """What notes of a stream are of: the files' content, and how rows are taken from them."""
    source = repository.source
    columns = [source.image_column, source.label_column, source.group_column, source.split]
    files = [[file.path, file.sha256] for file in repository.data]
    return jsons.digest("robustboard.stream/1", {"columns": columns, "files": files})


def _endpoint() -> str:
    """A note on which Hub this process asks, unless that is the usual one."""
    from robustboard.runners import hub  # noqa: PLC0415 - takes a second to import

    unusual = hub.unusual_endpoint()
    return f", from {unusual}" if unusual else ""


def _mend(request: Request) -> str:
    return f"run `robustboard lock dataset/{request.entry.id}` on a machine with network"


def _commit(source: HubData, request: Request) -> str:
    locked = request.locked.commit if request.locked is not None else None
    if source.revision == UNRESOLVED:
        if locked is None:
            raise CellError("unlocked", f"no commit of {source.repo} is pinned yet; {_mend(request)}")
        return locked
    if locked is not None and source is request.entry.source and locked != source.revision:
        raise CellError(
            "unlocked",
            f"the entry pins commit {source.revision}, registry/lock.yaml {locked}; {_mend(request)}",
        )
    return source.revision


def _files(source: HubData, request: Request, commit: str) -> tuple[Wanted, ...]:
    """Files whose content is known beforehand, from the lock and from the entry.

    A mirror has no line in the lock: where its entry pins no file either, the Hub is asked what it holds
    at that commit, and whether these are the same images shows in their fingerprint.
    """
    pins: dict[str, Wanted] = {pin.path: pin for pin in source.files}
    mine = source is request.entry.source
    if mine and request.locked is not None and request.locked.commit is not None:
        for file in request.locked.files:
            stated = pins.get(file.path)
            if stated is not None and stated.sha256 != file.sha256:
                raise CellError(
                    "unlocked",
                    f"{file.path}: the entry pins {stated.sha256[:16]}..., registry/lock.yaml"
                    f" {file.sha256[:16]}...; {_mend(request)}",
                )
            pins[file.path] = file
    if not pins and mine:
        raise CellError("unlocked", f"no file of {source.repo} has a known SHA-256 yet; {_mend(request)}")
    return tuple(pins.values()) or _listed(source, request, commit)


def _listed(source: HubData, request: Request, commit: str) -> tuple[Wanted, ...]:
    from robustboard.runners import hub  # noqa: PLC0415 - takes a second to import

    pinned = source.model_copy(update={"revision": commit})
    try:
        return hub.resolve("dataset", pinned, token=request.entry.gated).files
    except LockError as error:
        raise AbsentFile(str(error)) from error
