"""A generated set from its recipe: attempts in waves, each part stored, then the set's files at once.

Which source image is tried when, with which seed, follows from the recipe and the source alone. A
killed build goes on from its last stored part and ends with the same bytes; the manifest is written last,
so a folder without one is no set.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from robustboard import durable, jsons
from robustboard.errors import StoreError, UserError, echo
from robustboard.registry.testsets import TestSetEntry
from robustboard.runners.imagesets.image_set import MAX_VALUES
from robustboard.runners.progress import Reporter, Silent
from robustboard.runners.testsets import judging
from robustboard.runners.testsets.attempts import Attempts, Material
from robustboard.runners.testsets.card import card
from robustboard.runners.testsets.croissant import croissant
from robustboard.runners.testsets.manifest import (
    CARD,
    CROISSANT,
    DATA,
    DOCUMENTS,
    MANIFEST,
    SHARD,
    ClassCount,
    Manifest,
    SetFile,
    ShardFile,
    read_manifest,
    shard_path,
)
from robustboard.runners.testsets.shards import COLUMNS, Row, content_sha256, encode_rows
from robustboard.runners.testsets.verify import verify

INCOMPLETE = "-incomplete"
"""Ending of the folder of a set in which classes lack images: never that of a version."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build came to."""

    manifest: Manifest
    folder: Path
    state: Literal["built", "already built", "incomplete"]


def build(material: Material, folder: Path, work: Path, reporter: Reporter | None = None) -> Built:
    """Make a set in `folder`, or say that it is there.

    Args:
        material: The recipe and what it names.
        folder: Of this version alone. A set in which a class lacks images goes beside it, to the
            same name with `-incomplete`.
        work: Where parts are kept until the set is whole.
        reporter: Shows images kept and still wanted.

    Raises:
        UserError: the folder holds something else under this version; more images than fit in memory.
        StoreError: what was made is not the content that the recipe states, or there is no image at all.
    """
    recipe = material.recipe
    present = _present(material, folder)
    if present is not None:
        return Built(present, folder, "already built")
    pixels = int(np.prod(material.samples.shape)) * recipe.per_class * len(material.classes)
    if pixels > MAX_VALUES:
        raise UserError(f"{recipe.id}: expected at most {MAX_VALUES} bytes of pixels, got {pixels}")
    place = work / material.work_sha256[:32]
    durable.make_folder(place)
    with durable.exclusive(place), reporter or Silent() as shown:
        durable.sweep(place)
        progress = Attempts(material, place, shown)
        progress.run()
        rows, classes = progress.rows(), progress.counts()
    if not rows:
        lost = ", ".join(f"{count} {reason}" for reason, count in _reasons(classes).items())
        raise StoreError(f"{recipe.reference}: no attempt gave an image ({lost}): nothing is written")
    manifest, files = _files(material, rows, classes)
    if manifest.complete:
        _check_content(recipe, manifest)
    target = folder if manifest.complete else folder.with_name(folder.name + INCOMPLETE)
    _commit(target, files, manifest)
    shutil.rmtree(place, ignore_errors=True)
    return Built(manifest, target, "built" if manifest.complete else "incomplete")


def _present(material: Material, folder: Path) -> Manifest | None:
    """The manifest of this very set in the folder; None for no set at all. Raises UserError."""
    if not folder.is_dir() or not (folder / MANIFEST).exists():
        return None
    found = read_manifest(folder / MANIFEST, str(folder / MANIFEST))
    mine = {
        "recipe": _bare(material.recipe).model_dump(mode="json"),
        "source images": material.samples.fingerprint,
        "rules": judging.words(material.recipe.clipped_at_most),
        "entries": [[part.id, part.sha256] for part in material.parts],
    }
    its = {
        "recipe": found.recipe.model_dump(mode="json"),
        "source images": found.source_fingerprint,
        "rules": found.rules,
        "entries": [[part.id, part.sha256] for part in found.parts],
    }
    other = [name for name in mine if mine[name] != its[name]]
    if other:
        raise UserError(
            f"{folder} holds {found.reference} made with other {' and '.join(other)}: a version is never"
            " rewritten, so raise the version, or name another folder with --to"
        )
    damages = verify(folder).damages
    if damages:
        raise StoreError(damages[0])
    _check_content(material.recipe, found)
    return found


def _check_content(recipe: TestSetEntry, manifest: Manifest) -> None:
    if recipe.content_sha256 not in (None, manifest.content_sha256):
        made = ", ".join(f"{name} {version}" for name, version in manifest.software.items())
        raise StoreError(
            f"{recipe.reference}: expected content {recipe.content_sha256} as released, got"
            f" {manifest.content_sha256} with {made}: fetch the set with `robustboard testset pull`"
        )


def _bare(recipe: TestSetEntry) -> TestSetEntry:
    """The recipe without what is added to it once the set exists."""
    return recipe.model_copy(update={"content_sha256": None, "hub": None})


def _reasons(classes: Sequence[ClassCount]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in classes:
        total.update(each.rejected)
    return dict(sorted(total.items()))


def _files(
    material: Material, rows: Sequence[Row], classes: tuple[ClassCount, ...]
) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest, and the bytes of every other file of the set."""
    recipe = material.recipe
    count = -(-len(rows) // recipe.shard_rows)
    files: dict[str, bytes] = {}
    shards = []
    for index in range(count):
        chosen = rows[index * recipe.shard_rows : (index + 1) * recipe.shard_rows]
        path, data = shard_path(index, count), encode_rows(chosen, list(material.classes))
        files[path] = data
        shards.append(
            ShardFile(path=path, rows=len(chosen), size=len(data), sha256=hashlib.sha256(data).hexdigest())
        )
    bare = Manifest(
        format="robustboard.testset/1",
        recipe=_bare(recipe),
        recipe_sha256=recipe.recipe_sha256,
        complete=all(each.kept == each.wanted for each in classes),
        rows=len(rows),
        shape=material.samples.shape,
        source_fingerprint=material.samples.fingerprint,
        parts=material.parts,
        rules=judging.words(recipe.clipped_at_most),
        columns={name: told for name, (_, _, told) in COLUMNS.items()},
        classes=classes,
        content_sha256=content_sha256(rows),
        shards=tuple(shards),
        software=dict(material.software),
    )
    documents = {CARD: card(bare), CROISSANT: croissant(bare)}
    listed = tuple(
        SetFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in documents.items()
    )
    return bare.model_copy(update={"documents": listed}), {**files, **documents}


def _commit(folder: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    """Put all files in place, the manifest last; what an interrupted build left of others goes first."""
    durable.make_folder(folder)
    with durable.exclusive(folder):
        if folder.name.endswith(INCOMPLETE):
            durable.remove(folder / MANIFEST)
        elif (folder / MANIFEST).exists():
            raise StoreError(f"{folder}: another build has put a set there meanwhile: run the command again")
        _sweep(folder, files)
        for path, data in files.items():
            durable.write(folder / path, data)
        durable.write(folder / MANIFEST, jsons.seal(manifest))


def _sweep(folder: Path, files: Mapping[str, bytes]) -> None:
    """Delete shards of an interrupted build. Raises UserError for files that no build leaves."""
    durable.sweep(folder)
    durable.sweep(folder / DATA)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in files or name in (*DOCUMENTS, DATA):
            continue
        if path.is_symlink() or not re.fullmatch(SHARD, name):
            raise UserError(f"{folder}: expected a new folder or one of this set, got {echo(name)} in it")
        durable.remove(path)
