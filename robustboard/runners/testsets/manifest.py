"""What stands in a generated set's manifest.json: everything it was made of, and the hash of each file."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from robustboard import jsons
from robustboard.errors import StoreError, echo
from robustboard.fields import Count, EntryId, Index, Line, Sha256
from robustboard.registry.testsets import TestSetEntry
from robustboard.yamls import Frozen

MANIFEST = "manifest.json"
CARD = "README.md"
CROISSANT = "croissant.json"
DOCUMENTS = (CARD, CROISSANT)
DATA = "data"
SPLIT = "test"
SHARD = rf"{DATA}/{SPLIT}-[0-9]{{5}}-of-[0-9]{{5}}\.parquet"
"""Pattern of the names of Parquet files."""

MAX_MANIFEST = 4 * 2**20
"""Bytes; a set of ImageNet's 1,000 classes has 0.4 MB."""

MAX_DOCUMENT = 2**20
MAX_SHARD = 2**30
MAX_SHARDS = 10_000
MAX_SIDE = 4096
"""Pixels of an image's longer side."""

Role = Literal["dataset", "generator", "oracle", "model"]
Reason = Literal[
    "oracle wrong on source",
    "rejected at 0",
    "no accepted step",
    "NaN",
    "blank",
    "clipped",
    "unchanged",
    "rejected by oracle",
]
"""Why an attempt gave no image of the set, in the order in which it is looked at.

oracle wrong on source: it does not know the source image, so it cannot judge what becomes of it.
rejected at 0: the generator's own reconstruction has another label. no accepted step: only the
reconstruction was accepted. NaN: a pixel is no finite number. blank: all pixels are alike. clipped: too many
pixels newly lie on 0 or 1. unchanged: in 8 bits it is the source image. rejected by oracle: another
label, once stored in 8 bits."""


class Part(Frozen):
    """An entry that the set was made with."""

    role: Role
    id: EntryId
    license: Line
    identity: dict[str, JsonValue]
    """Revisions, hashes and parameters: all of it that may change an image."""
    sha256: Sha256
    """Of the identity."""


class ClassCount(Frozen):
    """What became of one class."""

    key: Line
    name: Line
    wanted: Count
    kept: Index
    attempted: Index
    """Kept and rejected together."""
    rejected: dict[Reason, Count] = Field(default={})


class SetFile(Frozen):
    """A file of the set and its content."""

    path: Line
    size: Index
    sha256: Sha256


class ShardFile(SetFile):
    """A Parquet file of the set."""

    rows: Count


class Manifest(Frozen):
    """Everything about one version of a set; no time and no name of a machine is in it."""

    format: Literal["robustboard.testset/1"]
    recipe: TestSetEntry
    recipe_sha256: Sha256
    complete: bool
    """Whether each class has as many images as wanted."""
    rows: Index
    shape: tuple[Count, Count, Count]
    """Channels, height and width of each image."""
    source_fingerprint: Sha256
    """Over ids, labels and content of all source images."""
    parts: tuple[Part, ...]
    """Source, generator, oracle and the model that was followed: the chain of licences."""
    rules: dict[str, str]
    """How images were judged, in words."""
    columns: dict[str, str]
    """Column of the Parquet files → what it holds."""
    classes: tuple[ClassCount, ...]
    """In the order of labels."""
    content_sha256: Sha256
    """Over ids, labels, seeds and decoded pixels of all rows in order."""
    shards: tuple[ShardFile, ...]
    documents: tuple[SetFile, ...] = ()
    """The card and the Croissant file, which are written from the rest of the manifest."""
    software: dict[str, str]

    @property
    def reference(self) -> str:
        """NAME@VERSION."""
        return self.recipe.reference

    @property
    def rejected(self) -> dict[str, int]:
        """Reason → attempts, over all classes."""
        total: Counter[str] = Counter()
        for each in self.classes:
            total.update(each.rejected)
        return dict(sorted(total.items()))

    @property
    def lacking(self) -> list[str]:
        """Keys of the classes with fewer images than wanted."""
        return [each.key for each in self.classes if each.kept < each.wanted]

    def part(self, role: Role) -> Part | None:
        """The entry in that role."""
        return next((part for part in self.parts if part.role == role), None)


def shard_path(index: int, count: int) -> str:
    """Where a shard lies in the folder of a set: the Hub's custom, which `load_dataset` knows."""
    return f"{DATA}/{SPLIT}-{index:05d}-of-{count:05d}.parquet"


def identity_sha256(identity: dict[str, JsonValue]) -> str:
    """Digest of what an entry is."""
    return jsons.digest("robustboard.testset-part/1", identity)


def seed_of(recipe: TestSetEntry, source_id: str, attempt: int) -> int:
    """0 to 2**60 - 1, from the recipe's digest, the sample's id and the number of the try alone."""
    text = jsons.digest("robustboard.testset-seed/1", [recipe.recipe_sha256, source_id, attempt])
    return int(text[:15], 16)


def read_manifest(path: Path, name: str) -> Manifest:
    """The sealed manifest at a path, consistent in itself.

    Raises StoreError: one line with file and field.
    """
    manifest = jsons.unseal(read_limited(path, name, MAX_MANIFEST), Manifest, name)
    for problem in _contradictions(manifest):
        raise StoreError(f"{name}: {problem}")
    return manifest


def read_limited(path: Path, name: str, limit: int) -> bytes:
    """The bytes of a regular file, links refused. Raises StoreError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise StoreError(f"{name}: cannot read: {error.strerror or error}") from error
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{name}: expected a regular file, got something else")
        if status.st_size > limit:
            raise StoreError(f"{name}: expected at most {limit} bytes, got {status.st_size}")
        return file.read(limit + 1)


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """What cannot be true of any set, whatever its files hold."""
    recipe = manifest.recipe
    if manifest.recipe_sha256 != recipe.recipe_sha256:
        yield "recipe_sha256: expected the hash of the recipe, got another"
    if manifest.shape[0] not in (1, 3) or max(manifest.shape[1:]) > MAX_SIDE:
        yield f"shape: expected 1 or 3 channels and at most {MAX_SIDE} pixels a side, got {manifest.shape}"
    yield from _wrong_files(manifest)
    yield from _wrong_parts(manifest)
    for each in manifest.classes:
        if each.attempted != each.kept + sum(each.rejected.values()) or each.kept > each.wanted:
            yield f"classes: {echo(each.key)}: attempted, kept and rejected do not add up"
    if len(manifest.classes) < 2 or any(each.wanted != recipe.per_class for each in manifest.classes):  # noqa: PLR2004 - as a label space has
        yield f"classes: expected at least 2 with {recipe.per_class} images wanted of each, as in the recipe"
    if manifest.rows != sum(each.kept for each in manifest.classes):
        yield f"rows: expected the sum over classes, got {manifest.rows}"
    if manifest.complete != (not manifest.lacking):
        yield "complete: expected true just when no class lacks images"


def _wrong_files(manifest: Manifest) -> Iterator[str]:
    count = len(manifest.shards)
    if not 1 <= count <= MAX_SHARDS:
        yield f"shards: expected 1 to {MAX_SHARDS}, got {count}"
    for index, shard in enumerate(manifest.shards):
        if shard.path != shard_path(index, count):
            yield f"shards.{index}: path: expected {shard_path(index, count)}, got {echo(shard.path)}"
        if shard.size > MAX_SHARD:
            yield f"shards.{index}: size: expected at most {MAX_SHARD} bytes, got {shard.size}"
    if manifest.rows != sum(shard.rows for shard in manifest.shards):
        yield f"rows: expected the sum over shards, got {manifest.rows}"
    if tuple(document.path for document in manifest.documents) != DOCUMENTS:
        yield f"documents: expected {', '.join(DOCUMENTS)}, got others"
    for document in manifest.documents:
        if document.size > MAX_DOCUMENT:
            yield f"documents: size: expected at most {MAX_DOCUMENT} bytes, got {document.size}"


def _wrong_parts(manifest: Manifest) -> Iterator[str]:
    recipe = manifest.recipe
    named: tuple[tuple[Role, str | None], ...] = (
        ("dataset", recipe.dataset),
        ("generator", recipe.generator),
        ("oracle", recipe.oracle),
        ("model", recipe.model),
    )
    for role, wanted in named:
        ids = [part.id for part in manifest.parts if part.role == role]
        if ids != ([wanted] if wanted is not None else []):
            yield f"parts: expected the {role} of the recipe once, got {echo(' '.join(ids))}"
    for part in manifest.parts:
        if part.sha256 != identity_sha256(part.identity):
            yield f"parts: {part.role}: sha256: expected the hash of its identity, got another"
