"""The labelled rows of a dataset entry: from its source, a mirror, or the dataset that it is a view of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustboard.errors import CellError, UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.companions import ClassesOf, CorruptedArrays, CorruptedFolders
from robustboard.registry.entries import DatasetEntry, LockedEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.sources import SOURCES
from robustboard.runners.sources.labels import Labelled, class_indices
from robustboard.runners.sources.places import AbsentFile, wrong_count
from robustboard.runners.sources.stored import (
    EncodedImages,
    Progress,
    Request,
    Stored,
    StoredLabels,
    digest_of,
)
from robustboard.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Labels:
    """What the labels of a dataset count, and which of them may occur."""

    space: LabelSpace
    """The classes of the label space, or the categories where the dataset has groups."""
    name: str = ""
    """Of the class subset or the groups."""
    subset: tuple[int, ...] | None = None
    """Classes that may occur, in the subset's order; None: all."""
    groups: tuple[tuple[int, ...], ...] | None = None
    """Classes of each category."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All that a source holds of a dataset, with labels understood."""

    request: Request
    stored: Stored
    labelled: Labelled
    origin: str
    """Where the images came from, in words."""


@dataclass(frozen=True, slots=True)
class SomeImages:
    """Some of the files of another source, in the order of their rows."""

    images: EncodedImages
    rows: Sequence[int]

    def read(self, row: int) -> bytes:
        """The bytes of one file. Raises CellError."""
        return self.images.read(self.rows[row])

    def digest(self, row: int) -> bytes:
        """SHA-256 of the bytes of one file. Raises CellError."""
        return digest_of(self.images, self.rows[row])


def labels_of(entry: DatasetEntry, space: LabelSpace, catalog: Catalog | None) -> Labels:
    """What a dataset's labels count. Without a catalogue any class of the label space may occur."""
    if catalog is None or entry.class_subset is None:
        return Labels(space)
    return Labels(catalog.labels(entry), entry.class_subset, catalog.classes(entry), catalog.groups(entry))


def read_rows(
    entry: DatasetEntry,
    space: LabelSpace,
    *,
    workspace: Workspace,
    lock: Mapping[str, LockedEntry],
    catalog: Catalog | None = None,
    streaming: bool = False,
    progress: Progress | None = None,
) -> Rows:
    """The rows of a dataset, as many as it says, each with a label that it may have.

    Views, class subsets and groups need the catalogue. Raises CellError with one line.
    """
    labels = labels_of(entry, space, catalog)
    if isinstance(entry.source, CorruptedArrays | CorruptedFolders):
        raise CellError(
            "missing",
            "it holds one set a corruption and severity; protocols of stored corruptions measure it",
        )
    if isinstance(entry.source, ClassesOf):
        if catalog is None:
            raise UserError(f"expected the catalogue to read {entry.id}, a view of {entry.source.dataset}")
        whole = catalog.dataset(entry.source.dataset)
        rows = read_rows(
            whole,
            space,
            workspace=workspace,
            lock=lock,
            catalog=catalog,
            streaming=streaming,
            progress=progress,
        )
        found = _view(rows, entry, labels)
    else:
        locked = lock.get(f"dataset/{entry.id}")
        request = Request(entry, labels.space, workspace, locked, streaming, progress)
        stored, mirror = _first_present(request)
        origin = stored.origin if mirror == 0 else f"mirror {mirror}: {stored.origin}"
        _check_count(stored, entry)
        found = Rows(request, stored, labelled_rows(stored, entry, labels), origin)
    return found


def labelled_rows(stored: Stored, entry: DatasetEntry, labels: Labels) -> Labelled:
    """Class indices of all rows, or numbers of categories.

    Raises CellError `labels` that names the first row whose class may not occur; the labels of images
    out of distribution mean nothing and are let pass.
    """
    labelled = class_indices(stored.labels, entry, labels.space, stored.name)
    if labels.subset is not None and entry.role != "out-of-distribution":
        strange = ~np.isin(labelled.indices, labels.subset)
        if strange.any():
            row = int(np.argmax(strange))
            key = list(labels.space.classes)[labelled.indices[row]]
            raise CellError(
                "labels",
                f"{stored.name(row)}: class {key} is none of the {len(labels.subset)} of class subset"
                f" {labels.name}; correct the data, label_map or class_subset",
            )
    return labelled


def _check_count(stored: Stored, entry: DatasetEntry) -> None:
    if len(stored.ids) != entry.size:
        raise wrong_count(stored.origin, entry.size, len(stored.ids))


def _view(whole: Rows, entry: DatasetEntry, labels: Labels) -> Rows:
    """The rows whose class occurs in the view, labelled as the view counts."""
    number = {index: category for category, group in enumerate(labels.groups or ()) for index in group} or {
        index: index for index in labels.subset or ()
    }
    indices = whole.labelled.indices.tolist()
    rows = [row for row, index in enumerate(indices) if index in number]
    stored, images = whole.stored, whole.stored.images
    found = replace(
        stored,
        ids=tuple(stored.ids[row] for row in rows),
        labels=StoredLabels([number[indices[row]] for row in rows]),
        images=images[rows] if isinstance(images, np.ndarray) else SomeImages(images, rows),
        names=lambda row: stored.name(rows[row]),
        groups=tuple(stored.groups[row] for row in rows) if stored.groups is not None else None,
    )
    _check_count(found, entry)
    rule = f"{whole.labelled.rule}; those of {labels.name}"
    return Rows(
        replace(whole.request, entry=entry),
        found,
        Labelled(np.array([number[indices[row]] for row in rows], np.int64), rule),
        f"{whole.origin}, {len(rows)} of {len(indices)} images",
    )


ABSENT = ("gated", "unavailable")
"""Kinds of failure after which a mirror is tried, beside AbsentFile."""


def _first_present(request: Request) -> tuple[Stored, int]:
    """The source, or the first mirror that can be read, and its number (0 is the source).

    Raises CellError of the source's own kind where there is none: withheld, or worth another try.
    """
    entry = request.entry
    try:
        return SOURCES[entry.source.kind](entry.source, request), 0
    except CellError as error:
        if not isinstance(error, AbsentFile) and error.kind not in ABSENT:
            raise
        kind, reasons = error.kind, [error.reason]
    for number, mirror in enumerate(entry.mirrors, 1):
        try:
            return SOURCES[mirror.kind](mirror, request), number
        except CellError as error:
            if error.kind not in ("missing", "unlocked", *ABSENT):
                raise
            reasons.append(f"mirror {number}: {error.reason}")
    raise CellError(kind, "; ".join(reasons))
