"""Stored corrupted images: one corruption and severity at a time, beside the clean images of the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from robustboard import jsons
from robustboard.errors import CellError, LockError, UnknownNameError, UserError, echo
from robustboard.registry.catalog import Catalog
from robustboard.registry.companions import CorruptedArrays, CorruptedFolders, Corruption, parts
from robustboard.registry.entries import DatasetEntry, FolderData, InputSpec, LockedEntry
from robustboard.registry.labels import LabelSpace
from robustboard.registry.resolve import digest_file, digest_folder
from robustboard.runners.rows import Labels, Rows, labelled_rows, labels_of
from robustboard.runners.samples import Samples, fingerprint, samples_of
from robustboard.runners.sources.folder import FolderImages, read_folder
from robustboard.runners.sources.npy import NpyFile, NpyImages, open_npy, read_images
from robustboard.runners.sources.pixels import content_digest
from robustboard.runners.sources.places import (
    AbsentFile,
    check_file,
    find_data,
    need_native_size,
    wrong_count,
)
from robustboard.runners.sources.stored import Request, Stored, StoredLabels, row_ids
from robustboard.workspace import Workspace

NAMED = 5
"""Absent parts that a message names."""
AT_A_TIME = 256
"""Images in memory while they are hashed."""


def absent_parts(entry: DatasetEntry, workspace: Workspace) -> tuple[Corruption, ...]:
    """Corruptions and severities whose files are not on this machine, in the entry's order."""
    source = _source(entry)
    found = []
    for corruption, severity in parts(source):
        if isinstance(source, CorruptedFolders):
            paths: tuple[str, ...] = (source.folder(corruption, severity),)
        else:
            paths = source.files(corruption)
        try:
            for path in paths:
                find_data(path, workspace)
        except AbsentFile:
            found.append((corruption, severity))
    return tuple(found)


def contents(entry: DatasetEntry, workspace: Workspace, locked: LockedEntry | None) -> str:
    """Digest of all files of a stored set: by the lock where it has them, else of what lies here.

    Parts that are not here count as absent. Raises CellError `decode` for files that cannot be read.
    """
    if locked is not None and locked.files:
        return jsons.digest("robustboard.contents/1", [[f.path, f.size, f.sha256] for f in locked.files])
    source = _source(entry)
    digest = digest_folder if isinstance(source, CorruptedFolders) else digest_file
    found: dict[str, list[int | str]] = {}
    for path in _paths(source):
        try:
            found[path] = list(digest(find_data(path, workspace)))
        except AbsentFile:
            found[path] = []
        except LockError as error:
            raise CellError("decode", str(error)) from error
    return jsons.digest("robustboard.contents/1", [[path, *each] for path, each in sorted(found.items())])


def _paths(source: CorruptedArrays | CorruptedFolders) -> set[str]:
    """Every file of arrays, or every folder of a corruption and severity."""
    if isinstance(source, CorruptedFolders):
        return {source.folder(corruption, severity) for corruption, severity in parts(source)}
    return {path for corruption in source.corruptions for path in source.files(corruption)}


def need_parts(entry: DatasetEntry, wanted: Sequence[Corruption], workspace: Workspace) -> None:
    """Raise CellError that counts and names what a protocol wants of a stored set and is not there."""
    have = set(parts(_source(entry))) - set(absent_parts(entry, workspace))
    lacking = [f"{name} {severity}" for name, severity in wanted if (name, severity) not in have]
    if lacking:
        more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
        raise CellError(
            "missing",
            f"dataset {entry.id}: {len(lacking)} of {len(wanted)} corruptions and severities are not here:"
            f" {', '.join(lacking[:NAMED])}{more}; an average over the others would be another number",
        )


def load_corrupted(
    entry: DatasetEntry,
    space: LabelSpace,
    *,
    clean: Samples,
    corruption: str,
    severity: int,
    workspace: Workspace,
    lock: Mapping[str, LockedEntry],
    input: InputSpec,  # noqa: A002 - the entry's own word for it
    catalog: Catalog | None = None,
) -> Samples:
    """The images of one corruption and severity; ids and labels are those of the clean set, in order.

    `clean` is the whole of the dataset that the entry names as matched_clean; what was left out
    there as damaged is left out here. Images are read when their pixels are asked for: beside the
    clean set, only ids and digests are in memory. Each file of arrays, and each folder of a corruption
    and severity, is compared with its own line in the lock where it has one.

    Raises CellError with one line for files that are absent, damaged, or of other samples than the
    clean set (the first difference is named), UserError for a corruption or severity that the entry
    does not have.
    """
    source = _source(entry)
    if corruption not in source.corruptions:
        raise UnknownNameError("corruption", corruption, source.corruptions)
    if not 1 <= severity <= source.severities:
        raise UserError(
            f"dataset {entry.id}: expected a severity from 1 to {source.severities}, got {severity}"
        )
    labels = labels_of(entry, space, catalog)
    request = Request(entry, labels.space, workspace, lock.get(f"dataset/{entry.id}"))
    try:
        if isinstance(source, CorruptedFolders):
            found = _from_folder(source.folder(corruption, severity), request, labels, input, clean)
        else:
            found = _from_arrays(source, (corruption, severity), request, labels)
        left_out = set(clean.skipped)
        if left_out:
            found = found.select([row for row, name in enumerate(found.ids) if name not in left_out])
        _check_same(found, clean, entry, labels.space)
    except CellError as error:
        raise CellError(error.kind, f"dataset {entry.id}, {corruption} {severity}: {error.reason}") from error
    # One copy of ids and labels for all conditions: ImageNet-C has 75 of 50,000 images.
    return replace(found, ids=clean.ids, labels=clean.labels)


def _source(entry: DatasetEntry) -> CorruptedArrays | CorruptedFolders:
    if not isinstance(entry.source, CorruptedArrays | CorruptedFolders):
        raise UserError(f"expected a dataset of corrupted images, got {entry.id} of kind {entry.source.kind}")
    return entry.source


def _from_folder(path: str, request: Request, labels: Labels, spec: InputSpec, clean: Samples) -> Samples:
    stored = read_folder(FolderData(kind="folder", path=path), request)
    same = {name: name for name in clean.ids}
    names = tuple(same.get(name, name) for name in stored.ids)
    stored = replace(
        stored,
        ids=names,
        images=FolderImages(find_data(path, request.workspace), names),
        names=lambda row: f"{path}/{names[row]}",
    )
    rows = Rows(request, stored, labelled_rows(stored, request.entry, labels), stored.origin)
    return samples_of(rows, spec, skip_damaged=False, cached=False)


def _from_arrays(source: CorruptedArrays, part: Corruption, request: Request, labels: Labels) -> Samples:
    entry, size = request.entry, need_native_size(request)
    corruption, severity = part
    image_name, label_name = source.files(corruption)
    images, names = (_opened(name, request) for name in (image_name, label_name))
    per_image = (size, size) if entry.channels == 1 else (size, size, entry.channels)
    if images.kind != np.uint8 or images.shape[1:] not in (per_image, (size, size, entry.channels)):
        raise CellError(
            "decode", f"{image_name}: expected bytes {('n', *per_image)}, got {images.kind} {images.shape}"
        )
    if images.shape[0] != entry.size * source.severities:
        stacked = f" at each of {source.severities} severities" if source.severities > 1 else ""
        raise wrong_count(f"{image_name}{stacked}", entry.size, images.shape[0] // source.severities)
    first = (severity - 1) * entry.size
    stored = Stored(
        ids=row_ids(entry.size, entry.size),
        labels=StoredLabels(_labels(names, source, entry.size, first)),
        images=np.empty((0, size, size, entry.channels), np.uint8),
        origin=f"NumPy array {image_name}, rows {first} to {first + entry.size - 1}",
        names=lambda row: f"{label_name}: row {row}",
    )
    labelled = labelled_rows(stored, entry, labels)
    labelled.indices.setflags(write=False)
    digests = _digests(images, first, entry.size)
    return Samples(
        ids=stored.ids,
        labels=labelled.indices,
        fingerprint=fingerprint(stored.ids, labelled.indices, digests),
        shape=(entry.channels, size, size),
        facts={
            "source": stored.origin,
            "labels": labelled.rule,
            "preprocessing": f"as stored, {size} x {size}; the model's resize and crop are not applied;"
            " divided by 255",
            "channels": str(entry.channels),
        },
        skipped=(),
        digests=tuple(digests),
        rows=tuple(range(entry.size)),
        images=NpyImages(images, first, digests),
    )


def _opened(name: str, request: Request) -> NpyFile:
    path = find_data(name, request.workspace)
    if request.locked is not None:
        check_file(path, name, request)
    return open_npy(path, name)


def _labels(file: NpyFile, source: CorruptedArrays, size: int, first: int) -> list[int]:
    """Those of one severity; the file holds them once, or once a severity."""
    count = file.shape[0]
    if len(file.shape) != 1 or count not in (size, size * source.severities):
        lengths = f"({size},)" + (f" or ({size * source.severities},)" if source.severities > 1 else "")
        raise CellError("labels", f"{file.name}: expected labels {lengths}, got {file.shape}")
    start = first if count != size else 0
    found: list[int] = file.rows(range(start, start + size)).tolist()
    return found


def _digests(images: NpyFile, first: int, count: int) -> list[bytes]:
    found: list[bytes] = []
    for start in range(first, first + count, AT_A_TIME):
        rows = range(start, min(start + AT_A_TIME, first + count))
        found += [content_digest(image, 255) for image in read_images(images, rows)]
    return found


def _check_same(found: Samples, clean: Samples, entry: DatasetEntry, space: LabelSpace) -> None:
    """Raise CellError at the first sample that is another in the clean set, or of another class."""
    there = f"in the clean set {entry.matched_clean}"
    for row, (name, wanted) in enumerate(zip(found.ids, clean.ids, strict=False)):
        if name != wanted:
            raise CellError("labels", f"image {row} is {echo(name)} here, but {echo(wanted)} {there}")
    if len(found.ids) != len(clean.ids):
        raise CellError("labels", f"{len(found.ids)} images here, but {len(clean.ids)} {there}")
    differ = found.labels != clean.labels
    if differ.any():
        row, keys = int(np.argmax(differ)), list(space.classes)
        mine, its = (echo(keys[int(labels[row])]) for labels in (found.labels, clean.labels))
        raise CellError("labels", f"{echo(found.ids[row])} is of class {mine} here, but of {its} {there}")
