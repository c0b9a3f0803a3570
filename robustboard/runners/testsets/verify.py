"""Every byte and row of a generated set checked against its manifest. No torch here."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from robustboard.durable import TEMPORARY
from robustboard.errors import StoreError, echo
from robustboard.runners.testsets.manifest import (
    DATA,
    MANIFEST,
    Manifest,
    SetFile,
    read_limited,
    read_manifest,
    seed_of,
)
from robustboard.runners.testsets.shards import Content, Row, decode_rows

MAX_STRAYS = 5
"""Files that no manifest lists, named one by one."""


@dataclass(frozen=True, slots=True)
class SetReport:
    """What was checked, and one line for each damage."""

    manifest: Manifest | None
    """None where it cannot be read."""
    files: int
    rows: int
    damages: tuple[str, ...]


def verify(folder: Path) -> SetReport:
    """Check hashes of all files, and of each row its id, label, class name, seed and picture.

    Counts a class have to be those of the manifest, and nothing else may lie in the folder. Raises
    nothing for a damaged set: every damage is one line that names the file.
    """
    try:
        manifest = read_manifest(folder / MANIFEST, MANIFEST)
    except StoreError as error:
        return SetReport(None, 0, 0, (str(error),))
    damages = list(_strays(folder, manifest))
    good: dict[str, bytes] = {}
    listed = (*manifest.shards, *manifest.documents)
    for file in listed:
        try:
            good[file.path] = check_file(folder / file.path, file)
        except StoreError as error:
            damages.append(str(error))
    rows = 0
    if all(shard.path in good for shard in manifest.shards):
        try:
            rows = _check_rows(manifest, good)
        except StoreError as error:
            damages.append(str(error))
    return SetReport(manifest, 1 + len(listed), rows, tuple(damages))


def check_file(path: Path, file: SetFile) -> bytes:
    """The bytes of a listed file. Raises StoreError where they are not those."""
    if path.parent.is_symlink():
        raise StoreError(f"{file.path}: expected a folder, got a link")
    data = read_limited(path, file.path, file.size)
    found = hashlib.sha256(data).hexdigest()
    if len(data) != file.size or found != file.sha256:
        raise StoreError(
            f"{file.path}: expected {file.size} bytes with SHA-256 {file.sha256[:16]}...,"
            f" got {len(data)} with {found[:16]}..."
        )
    return data


def _strays(folder: Path, manifest: Manifest) -> Iterator[str]:
    listed = {MANIFEST, DATA, *(file.path for file in (*manifest.shards, *manifest.documents))}
    found = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")))
    strays = [name for name in found if name not in listed and not name.split("/")[-1].startswith(TEMPORARY)]
    for name in strays[:MAX_STRAYS]:
        yield f"{echo(name)}: expected only the files of the manifest"
    if len(strays) > MAX_STRAYS:
        yield f"{len(strays) - MAX_STRAYS} more files that the manifest does not list"


def _check_rows(manifest: Manifest, files: dict[str, bytes]) -> int:
    """Look at every row; their number. Raises StoreError for the first that is wrong."""
    seen: set[str] = set()
    kept: Counter[int] = Counter()
    content = Content()
    for shard in manifest.shards:
        rows = decode_rows(files[shard.path], shard.path, manifest.shape, shard.rows)
        for number, row in enumerate(rows):
            where = f"{shard.path}: row {number} ({echo(row.id)})"
            _check_row(row, manifest, where)
            if row.source_id in seen:
                raise StoreError(f"{where}: expected each source image once, got it again")
            seen.add(row.source_id)
            kept[row.label] += 1
            content.add(row)
    for label, each in enumerate(manifest.classes):
        if kept[label] != each.kept:
            raise StoreError(
                f"{MANIFEST}: classes: {echo(each.key)}: expected the {kept[label]} images of the shards,"
                f" got {each.kept}"
            )
    if content.hexdigest() != manifest.content_sha256:
        raise StoreError(f"{MANIFEST}: content_sha256: the shards have another content")
    return len(seen)


def _check_row(row: Row, manifest: Manifest, where: str) -> None:
    if not 0 <= row.label < len(manifest.classes):
        raise StoreError(
            f"{where}: label: expected a class from 0 to {len(manifest.classes) - 1}, got {row.label}"
        )
    name = manifest.classes[row.label].name
    if row.class_name != name:
        raise StoreError(f"{where}: class_name: expected {echo(name)}, got {echo(row.class_name)}")
    if not 0 <= row.attempt < manifest.recipe.attempts or not 1 <= row.steps <= manifest.recipe.budget:
        raise StoreError(f"{where}: expected an attempt and steps as the recipe allows, got others")
    if row.seed != seed_of(manifest.recipe, row.source_id, row.attempt):
        raise StoreError(f"{where}: seed: expected that of the recipe and the id, got {row.seed}")
    shares = (row.oracle_confidence, row.oracle_margin)
    if not (row.distance > 0 and all(0 <= share <= 1 for share in shares)):
        raise StoreError(f"{where}: expected a distance above 0 and oracle scores from 0 to 1, got others")
