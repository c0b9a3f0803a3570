"""Attacked images handed in by anyone: found, read, held to their budget, given out by sample id.

A set is taken whole or not at all. An image outside its budget is not moved back inside, where it
would be another image than the one handed in: the whole set is refused, since it breaks its own
claim. Judging is left to `procedures.measure`.
"""

from __future__ import annotations

import hashlib
import stat
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from robustboard.benchmarks.attacks.budget import TOLERANCE, distance, inside
from robustboard.benchmarks.entries import External, ImagesSetting
from robustboard.errors import CellError, LockError, echo
from robustboard.registry.entries import DatasetEntry, Norm
from robustboard.registry.resolve import digest_file
from robustboard.runners.imagesets import npz, parquet
from robustboard.runners.imagesets.image_set import Asked, Encoding, ImageSet, refused
from robustboard.runners.imagesets.npz import read_npz
from robustboard.runners.imagesets.parquet import read_parquet
from robustboard.runners.imagesets.png import kind_of
from robustboard.runners.samples import Samples
from robustboard.runners.sources.places import find_data
from robustboard.workspace import Workspace

READERS = {npz.MAGIC: read_npz, parquet.MAGIC: read_parquet}
"""First four bytes → reader; the file's name says nothing."""

NUMBER: dict[Encoding, str] = {"8-bit": "8-bit from file", "float32": "float32 from file"}
"""What a record says about the pixels that its number is of."""

IN_MEMORY = "float32 in memory"
"""The same, of images that an attack here made and that were never stored."""

CHUNK = 64
"""Images compared with their originals at a time."""

SHOWN = 3
"""Offenders that a message names."""


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """A set that was read, checked against the originals and found inside its budget."""

    name: str
    sha256: str
    images: ImageSet
    places: dict[str, int]
    """Sample id → place in the set."""
    distances: npt.NDArray[np.float64]
    """(n,) in the set's norm; 0 for an image whose original could not be read, and is not measured."""

    def of(self, ids: Iterable[str]) -> dict[str, npt.NDArray[np.float32]]:
        """Sample id → attacked image (c, h, w), for those of the ids that are in the set."""
        chosen = [each for each in ids if each in self.places]
        pixels = self.images.pixels([self.places[each] for each in chosen])
        return dict(zip(chosen, pixels, strict=True))

    def facts(self, made_by: str) -> dict[str, str]:
        """For the record: where the judged images come from, and how they were stored."""
        return {
            "encoding": NUMBER[self.images.encoding],
            "attacked images": f"{len(self.places)} from {self.name}, SHA-256 {self.sha256}",
            "made by": made_by,
        }


def handed_in(
    procedure: External, setting: ImagesSetting, samples: Samples, entry: DatasetEntry, workspace: Workspace
) -> Attacked:
    """The set of a protocol for a dataset, whose pin, ids, shapes, pixels and budget are right.

    `samples` are all of the dataset, as the model takes them. Files are sought beside the protocols
    first, then in the data folders. Raises CellError with one line: `missing`, `hash-mismatch`,
    `decode` with file and row, or `budget` with the number of offenders and the first of them.
    """
    pin = setting.file
    beside = workspace.benchmarks / pin.path
    path = beside if beside.is_file() else find_data(pin.path, workspace)
    return read_set(
        path, pin.path, samples, entry, norm=procedure.norm, budget=setting.headline, pinned=pin.sha256
    )


def read_set(
    path: Path,
    name: str,
    samples: Samples,
    entry: DatasetEntry,
    *,
    norm: Norm,
    budget: Fraction,
    pinned: str | None = None,
) -> Attacked:
    """Read and check one file; `name` is how messages call it. Raises CellError as `handed_in` does."""
    asked = Asked(
        images=len(samples.ids) + len(samples.skipped),
        shape=samples.shape,
        size_of=(
            f"the native size of {entry.id}"
            if entry.native_size is not None
            else f"the model's input, where perturbations live, as {entry.id} has no native size"
        ),
    )
    sha256 = _checked_file(path, name, asked, pinned)
    with path.open("rb") as file:
        start = file.read(len(npz.MAGIC))
        file.seek(0)
        if start not in READERS:
            raise refused(
                name, f"expected a Parquet file of PNG images or a NumPy archive (.npz), got {kind_of(start)}"
            )
        images = READERS[start](file, name, asked)
    places = {each: place for place, each in enumerate(images.ids)}
    originals = _originals(images, samples, name)
    distances = _inside(images, originals, samples, name=name, norm=norm, budget=budget)
    return Attacked(name, sha256, images, places, distances)


def _checked_file(path: Path, name: str, asked: Asked, pinned: str | None) -> str:
    """SHA-256 of a regular file of sensible size, which is the pinned one."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise refused(name, "expected a file, got a folder or a device")
        if about.st_size > asked.file_bytes:
            raise refused(
                name,
                f"expected at most {asked.file_bytes} bytes for {asked.images} images, got {about.st_size}",
            )
        _, sha256 = digest_file(path)
    except OSError as error:
        raise CellError("missing", f"{name}: expected a file, got {error.strerror}") from error
    except LockError as error:
        raise CellError("decode", str(error)) from error
    if pinned is not None and sha256 != pinned:
        raise CellError(
            "hash-mismatch",
            f"{name}: expected SHA-256 {pinned} as in the protocol, got {sha256}; fetch the file again",
        )
    return sha256


def originals_digest(samples: Samples, ids: Sequence[str]) -> str:
    """SHA-256 over ids and contents of some samples, in this order."""
    contents = dict(zip(samples.ids, samples.digests, strict=True))
    state = hashlib.sha256(b"robustboard.originals/1\0")
    for each in ids:
        text = each.encode("utf-8")
        state.update(struct.pack(">I", len(text)) + text + contents[each])
    return state.hexdigest()


def _originals(images: ImageSet, samples: Samples, name: str) -> list[int | None]:
    """Where the original of each image stands in the samples; None for those that could not be read."""
    known: dict[str, int | None] = dict.fromkeys(samples.skipped)
    known |= {each: place for place, each in enumerate(samples.ids)}
    for row, each in enumerate(images.ids):
        if each not in known:
            raise refused(
                name,
                f"row {row}: sample_id: expected an id of the dataset such as {echo(samples.ids[0])},"
                f" got {echo(each)}",
            )
    manifest = images.manifest
    if manifest is not None and manifest.encoding != images.encoding:
        raise refused(
            name, f"manifest: encoding: expected {images.encoding} as its pixels are, got {manifest.encoding}"
        )
    if manifest is not None and not any(known[each] is None for each in images.ids):
        digest = originals_digest(samples, images.ids)
        if manifest.originals_sha256 != digest:
            raise refused(
                name,
                f"manifest: originals_sha256: expected {digest} as of the dataset here, got"
                f" {echo(manifest.originals_sha256)}: the set was made from other images",
            )
    return [known[each] for each in images.ids]


def _inside(
    images: ImageSet,
    originals: Sequence[int | None],
    samples: Samples,
    *,
    name: str,
    norm: Norm,
    budget: Fraction,
) -> npt.NDArray[np.float64]:
    """How far each image is from its original. Raises CellError `budget` where one is too far."""
    distances = np.zeros(len(images.ids))
    outside: list[int] = []
    pairs = [(row, place) for row, place in enumerate(originals) if place is not None]
    for start in range(0, len(pairs), CHUNK):
        part = [row for row, _ in pairs[start : start + CHUNK]]
        clean = torch.from_numpy(samples.pixels([place for _, place in pairs[start : start + CHUNK]]))
        moved = torch.from_numpy(images.pixels(part))
        distances[part] = distance(moved, clean, norm).numpy()
        kept = inside(moved, clean, norm, float(budget)).numpy()
        outside += [row for row, fine in zip(part, kept, strict=True) if not fine]
    if outside:
        worst = ", ".join(f"{echo(images.ids[row])} at {distances[row]:.7g}" for row in outside[:SHOWN])
        raise CellError(
            "budget",
            f"{name}: expected every image within {norm} {budget} (to {TOLERANCE:g}) of its original, got"
            f" {len(outside)} of {len(images.ids)} outside: {worst}{', ...' * (len(outside) > SHOWN)};"
            " the whole set is refused",
        )
    return distances
