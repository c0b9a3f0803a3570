"""Labelled images of a dataset entry as arrays in [0, 1], with all that a record must know of them."""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import PIL

from robustboard.errors import CellError, UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry, InputSpec, LockedEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.record import Subset
from robustboard.runners.rows import Rows, read_rows
from robustboard.runners.sources.cache import cache_of
from robustboard.runners.sources.decoding import policy
from robustboard.runners.sources.fitting import view_of
from robustboard.runners.sources.pixels import ArrayImages, FileImages, Floats, Images, with_channels
from robustboard.runners.sources.stored import Progress, Request, Stored
from robustboard.workspace import Workspace


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Labelled images in the order of the source."""

    ids: tuple[str, ...]
    """Stable names: row numbers (`00042`) or relative paths (`n01440764/1.png`)."""
    labels: npt.NDArray[np.int64]
    """(n,) class indices in the label space, 0 to K - 1."""
    fingerprint: str
    """64 hex digits over ids, labels and image content, in order; see `digests`."""
    shape: tuple[int, int, int]
    """(c, h, w) of what `pixels` gives."""
    facts: dict[str, str]
    """How images and labels were read, in words: for the record."""
    skipped: tuple[str, ...]
    """Ids of images that could not be decoded and were left out."""
    digests: tuple[bytes, ...] = field(repr=False)
    """SHA-256 of each image: of the decoded pixels in a fixed-size set, so that the same pixels count as
    the same whatever file they came from, and of the file's bytes elsewhere."""
    rows: tuple[int, ...] = field(repr=False)
    """Where each sample stands in `images`."""
    images: Images = field(repr=False)
    groups: tuple[str, ...] | None = None
    """What the dataset says of each image beside its label (a region, the number of a texture's class)."""

    def pixels(self, indices: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1], C order: the samples at these positions, in this order.

        Raises CellError when an image file is damaged, or no longer what it was when the set was loaded.
        """
        return self.images.pixels([self.rows[index] for index in indices])

    def prepare(self, indices: Sequence[int]) -> None:
        """Begin to decode, in the background, the samples that `pixels` will be asked for next."""
        self.images.prepare([self.rows[index] for index in indices])

    def select(self, indices: Sequence[int]) -> Samples:
        """The samples at these positions, in this order, with a fingerprint of their own."""
        ids = tuple(self.ids[index] for index in indices)
        labels = _frozen(self.labels[np.asarray(indices, np.int64)])
        digests = tuple(self.digests[index] for index in indices)
        groups = tuple(self.groups[index] for index in indices) if self.groups is not None else None
        return replace(
            self,
            ids=ids,
            labels=labels,
            digests=digests,
            fingerprint=fingerprint(ids, labels, digests, groups),
            rows=tuple(self.rows[index] for index in indices),
            groups=groups,
        )


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Byte-identical images."""

    groups: tuple[tuple[str, ...], ...]
    """Ids of images that are equal to each other, two or more a group, in order of first appearance."""
    conflicts: tuple[tuple[str, ...], ...]
    """Those groups whose labels differ."""
    overlaps: tuple[tuple[str, str], ...]
    """(id here, id there) of each image here that also lies in the other set; its first place there."""


def load_samples(
    entry: DatasetEntry,
    space: LabelSpace,
    *,
    workspace: Workspace,
    lock: Mapping[str, LockedEntry],
    input: InputSpec,  # noqa: A002 - the entry's own word for it
    skip_damaged: bool = False,
    catalog: Catalog | None = None,
    streaming: bool = False,
    progress: Progress | None = None,
) -> Samples:
    """Read a dataset entry from its source, or from the first mirror whose files are here.

    A set with a native_size is given at that size, as stored: no resize, no crop, whatever the model
    asks for. Other images are resized and cropped to the model's input by `fitting.fit`. Either way
    pixels have the entry's channels and are divided by the number of levels (255; 16 for UCI digits).

    A damaged image is an error, here or in `pixels`; with `skip_damaged` all files are decoded once now,
    and the damaged ones are left out and listed. Views, class subsets and groups need the catalogue:
    with it, a label that the dataset cannot have is refused. With `streaming`, shards from the Hub are
    fetched when they are read and dropped again. Raises CellError (missing, unavailable, decode, labels,
    hash-mismatch, unlocked, gated) with one line that names file or row and the next step.
    """
    try:
        rows = read_rows(
            entry,
            space,
            workspace=workspace,
            lock=lock,
            catalog=catalog,
            streaming=streaming,
            progress=progress,
        )
        return samples_of(rows, input, skip_damaged=skip_damaged)
    except CellError as error:
        raise CellError(error.kind, f"dataset {entry.id}: {error.reason}") from error


def choose_subset(labels: npt.NDArray[np.int64], subset: Subset) -> list[int]:
    """Positions of a seeded sample, spread over the classes, rising; all when it asks for as many.

    A systematic sample with a random start of the rows, sorted by class: every row has the same
    chance, and each class gets its share of the count, give or take one. Depends on labels, count
    and seed alone, on every machine.
    """
    total = len(labels)
    if subset.count >= total:
        return list(range(total))
    by_class: dict[int, list[int]] = defaultdict(list)
    for row in sorted(range(total), key=lambda row: _draw(subset.seed, "row", row)):
        by_class[int(labels[row])].append(row)
    classes = sorted(by_class, key=lambda label: _draw(subset.seed, "class", label))
    ordered = [row for label in classes for row in by_class[label]]
    start = int.from_bytes(_draw(subset.seed, "start", 0)[:8], "big") % total
    return sorted(ordered[(start + number * total) // subset.count] for number in range(subset.count))


def duplicates(samples: Samples, other: Samples | None = None) -> Duplicates:
    """Images that occur more than once in a set, and those that also lie in another set.

    Fixed-size sets are compared by pixels, other sets by the bytes of their files. Raises UserError
    for two sets of which only one has a fixed size.
    """
    places: dict[bytes, list[int]] = defaultdict(list)
    for index, content in enumerate(samples.digests):
        places[content].append(index)
    repeated = [indices for indices in places.values() if len(indices) > 1]
    overlaps: tuple[tuple[str, str], ...] = ()
    if other is not None:
        if samples.images.content != other.images.content:
            raise UserError("expected two sets of fixed size, or two of image files, got one of each")
        there: dict[bytes, str] = {}
        for name, content in zip(other.ids, other.digests, strict=True):
            there.setdefault(content, name)
        overlaps = tuple(
            (name, there[content])
            for name, content in zip(samples.ids, samples.digests, strict=True)
            if content in there
        )
    return Duplicates(
        groups=tuple(tuple(samples.ids[index] for index in indices) for indices in repeated),
        conflicts=tuple(
            tuple(samples.ids[index] for index in indices)
            for indices in repeated
            if len({int(samples.labels[index]) for index in indices}) > 1
        ),
        overlaps=overlaps,
    )


def _draw(seed: int, purpose: str, number: int) -> bytes:
    """A pseudo-random sort key that no library version can change."""
    return hashlib.sha256(f"robustboard.subset/1 {seed} {purpose} {number}".encode("ascii")).digest()


def samples_of(rows: Rows, spec: InputSpec, *, skip_damaged: bool, cached: bool = True) -> Samples:
    """The rows of a source as a model with this input takes them. Raises CellError."""
    stored, request, entry = rows.stored, rows.request, rows.request.entry
    images, digests, damaged = _images(stored, request, spec, skip_damaged=skip_damaged, cached=cached)
    good = [row for row in range(len(stored.ids)) if row not in damaged]
    if not good:
        raise CellError("decode", f"no image can be decoded; the first: {damaged[0]}")
    ids = tuple(stored.ids[row] for row in good)
    labels = _frozen(rows.labelled.indices[good])
    groups = tuple(stored.groups[row] for row in good) if stored.groups is not None else None
    kept = tuple(digests[row] for row in good)
    size = entry.native_size or spec.size
    return Samples(
        ids=ids,
        labels=labels,
        fingerprint=fingerprint(ids, labels, kept, groups),
        shape=(entry.channels, size, size),
        facts={
            "source": rows.origin,
            "labels": rows.labelled.rule,
            **_facts(stored, entry, spec, skip_damaged=skip_damaged),
        },
        skipped=tuple(stored.ids[row] for row in sorted(damaged)),
        digests=kept,
        rows=tuple(good),
        images=images,
        groups=groups,
    )


def _images(
    stored: Stored, request: Request, spec: InputSpec, *, skip_damaged: bool, cached: bool
) -> tuple[Images, Mapping[int, bytes], dict[int, str]]:
    """Images, the digest of each good row's content, and the damaged rows with their reasons."""
    count = len(stored.ids)
    entry, workspace = request.entry, request.workspace
    damaged: dict[int, str] = {}
    if isinstance(stored.images, np.ndarray):
        array = ArrayImages(with_channels(stored.images, entry.channels, stored.name), stored.levels)
    else:
        files = FileImages(
            stored.images, stored.name, view_of(entry, spec), cache_of(workspace) if cached else None
        )
        contents, damaged = files.examine(count, skip_damaged=skip_damaged)
        held = files.in_memory(list(contents)) if entry.native_size is not None else None
        return held or files, contents, damaged
    return array, dict(enumerate(array.digests())), damaged


def _facts(stored: Stored, entry: DatasetEntry, spec: InputSpec, *, skip_damaged: bool) -> dict[str, str]:
    rule = view_of(entry, spec).words()
    facts = {"preprocessing": f"{rule}; divided by {stored.levels}", "channels": str(entry.channels)}
    if isinstance(stored.images, np.ndarray):
        if stored.images.shape[3] < entry.channels:
            facts["channels"] = f"{entry.channels}, grey repeated"
        return facts
    if entry.channels > 1:
        facts["channels"] = f"{entry.channels}, grey files repeated"
    damage = "left out and listed" if skip_damaged else "an error"
    return {
        **facts,
        **policy(entry.decoding),
        "damaged images": damage,
        "decoder": f"Pillow {PIL.__version__}",
    }


def _frozen(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    labels.setflags(write=False)
    return labels


def fingerprint(
    ids: Sequence[str],
    labels: npt.NDArray[np.int64],
    digests: Sequence[bytes],
    groups: Sequence[str] | None = None,
) -> str:
    """64 hex digits over ids, labels and image content, in order, and over groups where there are any."""
    state = hashlib.sha256(b"robustboard.samples/1\0")
    for name, label, content in zip(ids, labels, digests, strict=True):
        text = name.encode("utf-8")
        state.update(struct.pack(">I", len(text)) + text + struct.pack(">q", int(label)) + content)
    for group in groups or ():
        text = group.encode("utf-8")
        state.update(struct.pack(">I", len(text)) + text)
    return state.hexdigest()
