"""What pages say of generated test sets: recipes, and of built ones counts, files and pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from robustboard.errors import StoreError
from robustboard.registry.catalog import Catalog
from robustboard.registry.testsets import TestSetEntry, version_key
from robustboard.runners.testsets.manifest import MANIFEST, Manifest, read_limited, read_manifest
from robustboard.runners.testsets.verify import check_file

PAGE = 60
"""Pictures of one page."""
MOST_PICTURES = 600
"""Pictures that a gallery shows, the least sure ones first, and ids after them."""
MOST_BYTES = 25 * 2**20
"""Larger sets are not copied to the site; their page says how to get them."""
COLUMNS = ["id", "image", "label", "class_name", "source_id", "steps", "distance", "oracle_margin"]


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of a set."""

    id: str
    label: int
    class_name: str
    steps: int
    distance: float
    margin: float
    """Confidence of the oracle in the label above the next class."""
    png: str
    """data: address; empty where pictures must not be shown."""


@dataclass(frozen=True, slots=True)
class GalleryPage:
    """Some pictures of a set, and the pages beside it."""

    path: str
    title: str
    pictures: Sequence[Picture]
    number: int
    count: int
    label: int | None
    """Of a class; None for all classes together."""


@dataclass(frozen=True, slots=True)
class ShownSet:
    """One version of a generated set."""

    entry: TestSetEntry
    manifest: Manifest | None
    """None where it is not at hand built."""
    files: Mapping[str, bytes]
    """Path under the set's folder → content; empty for a set too large to be copied."""
    pictures: Sequence[Picture]
    """All of them, those that the oracle is least sure of first, and of equal ones the most changed."""
    displayed: bool
    """Whether licence and source let pictures be shown."""
    newest: bool

    @property
    def page(self) -> str:
        """Name of the page in s/, without the ending."""
        return f"{self.entry.set}-v{self.entry.version}"

    @property
    def folder(self) -> str:
        """Where its files lie in the site."""
        return f"s/files/{self.entry.set}/{self.entry.version}"

    @property
    def classes(self) -> tuple[tuple[int, str], ...]:
        """Labels and names of the classes that occur."""
        return tuple(sorted({(picture.label, picture.class_name) for picture in self.pictures}))

    @property
    def size(self) -> int:
        """Bytes of its Parquet files."""
        return sum(shard.size for shard in self.manifest.shards) if self.manifest else 0

    def pages(self) -> list[GalleryPage]:
        """All classes together, page by page, then a run of pages for each class."""
        found = self._run(None, "all classes", self.pictures, self.page)
        for label, name in self.classes:
            chosen = [picture for picture in self.pictures if picture.label == label]
            found += self._run(label, name, chosen, f"{self.page}-class-{label}")
        return found

    def _run(
        self, label: int | None, title: str, pictures: Sequence[Picture], stem: str
    ) -> list[GalleryPage]:
        shown = pictures[:MOST_PICTURES]
        parts = [shown[start : start + PAGE] for start in range(0, len(shown), PAGE)] or [[]]
        return [
            GalleryPage(
                stem if number == 0 else f"{stem}-{number + 1}", title, part, number + 1, len(parts), label
            )
            for number, part in enumerate(parts)
        ]


def shown_sets(
    entries: Mapping[str, TestSetEntry], folders: Sequence[Path], catalog: Catalog
) -> tuple[ShownSet, ...]:
    """Every registered set, by name, the newest version first; built ones are taken from the first folder.

    Raises StoreError for a built set of which a byte is not as its manifest says.
    """
    ordered = sorted(entries.values(), key=lambda e: version_key(e.version), reverse=True)
    ordered = sorted(ordered, key=lambda e: e.set)
    newest: dict[str, str] = {}
    for entry in ordered:
        newest.setdefault(entry.set, entry.id)
    return tuple(_shown(entry, folders, catalog, newest=newest[entry.set] == entry.id) for entry in ordered)


def _shown(entry: TestSetEntry, folders: Sequence[Path], catalog: Catalog, *, newest: bool) -> ShownSet:
    dataset = catalog.datasets.get(entry.dataset)
    displayed = dataset is not None and dataset.display_allowed
    for folder in folders:
        place = folder / entry.set / entry.version
        if not (place / MANIFEST).is_file():
            continue
        manifest = read_manifest(place / MANIFEST, f"{entry.reference}: {MANIFEST}")
        if manifest.recipe_sha256 != entry.recipe_sha256 or not manifest.complete:
            continue
        files = {
            file.path: check_file(place / file.path, file) for file in (*manifest.shards, *manifest.documents)
        }
        files[MANIFEST] = read_limited(place / MANIFEST, MANIFEST, 4 * 2**20)
        pictures = _pictures([files[shard.path] for shard in manifest.shards], displayed=displayed)
        small = sum(map(len, files.values())) <= MOST_BYTES
        return ShownSet(entry, manifest, files if small and displayed else {}, pictures, displayed, newest)
    return ShownSet(entry, None, {}, (), displayed, newest)


def _pictures(shards: Sequence[bytes], *, displayed: bool) -> tuple[Picture, ...]:
    found: list[Picture] = []
    for data in shards:
        rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(data), columns=COLUMNS).to_pylist()
        for row in rows:
            png = row["image"]["bytes"]
            if not isinstance(png, bytes) or not png.startswith(b"\x89PNG\r\n\x1a\n"):
                raise StoreError(f"{row['id']}: image: expected a PNG, got something else")
            address = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}" if displayed else ""
            found.append(
                Picture(
                    row["id"],
                    row["label"],
                    row["class_name"],
                    row["steps"],
                    row["distance"],
                    row["oracle_margin"],
                    address,
                )
            )
    return tuple(sorted(found, key=lambda each: (round(each.margin, 2), -each.distance, each.id)))
