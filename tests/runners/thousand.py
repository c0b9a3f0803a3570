"""A thousand classes whose number is the colour of a picture, laid out as ImageNet's sets are published.

The left half of a picture shows its class, the right half whatever competes with it, more loudly.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import Tensor, nn

from robustboard import workspace
from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.workspace import Workspace

ROOT = workspace.PACKAGE.parent
COMMIT = "c" * 40
STEP = 25
"""Levels between two digits of a class number; red is hundreds, green tens, blue units."""
RED = (255, 0, 0)
REGIONS = ("Africa", "Asia", "Europe")
"""What the rows of a Hub set say of themselves beside their labels."""
NO_CLASS_OF_OBJECTNET = 0
"""Tench: in no category of ObjectNet, nor of 16-class ImageNet."""


class Reader(nn.Module):
    """Logit 2 for the class of the right half, 1 for that of the left, 3 where they are one; else 0."""

    def forward(self, images: Tensor) -> Tensor:
        logits = torch.zeros(len(images), 1000)
        middle = images.shape[3] // 2
        for half, weight in ((images[..., :middle], 1.0), (images[..., middle:], 2.0)):
            digits = (half.mean((2, 3)) * 255 / STEP).round().clamp(0, 9).long()
            numbers = (digits * torch.tensor([100, 10, 1])).sum(1)
            logits[torch.arange(len(images)), numbers] += weight
        return logits


def colour(number: int) -> tuple[int, int, int]:
    return STEP * (number // 100), STEP * (number // 10 % 10), STEP * (number % 10)


def picture(shown: int, beside: int | None = None, border: int = 0) -> bytes:
    """An 8 by 8 PNG file, with a red frame around it where there is a border."""
    side = 8 + 2 * border
    pixels = np.empty((side, side, 3), np.uint8)
    pixels[:] = RED
    inner = pixels[border : border + 8, border : border + 8]
    inner[:, :4] = colour(shown)
    inner[:, 4:] = colour(shown if beside is None else beside)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


DATASET = """\
name: {name}
source: {source}
label_space: imagenet-1k
size: {size}
license: MIT
display_allowed: true
citation: made up
added: 2026-01-31
"""
MODEL = f"""\
name: Reader
source: {{kind: package, distribution: reader, path: reader/weights.pth, sha256: {"1" * 64}}}
loader: timm
architecture: {{name: resnet18}}
label_space: imagenet-1k
input: {{size: 8, normalization: inside}}
training: {{datasets: [nothing]}}
license: MIT
added: 2026-01-31
"""
LOCK = f"model/reader: {{version: 1.0, files: [{{path: reader/weights.pth, size: 1, sha256: {'1' * 64}}}]}}\n"
CLEAN = """\
name: Clean
summary: Clean images.
procedure: {kind: clean, settings: [{label_spaces: [imagenet-1k]}]}
source: a test
added: 2026-01-31
"""


@cache
def real() -> Catalog:
    """The registry of this repository."""
    return load_catalog(Workspace(ROOT, ROOT))


class World:
    """A workspace, and a Hub's folder beside it, with small copies of the sets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hub = root / "hub"
        self.lock = LOCK
        for folder in ("models", "datasets", "labels"):
            (root / "registry" / folder).mkdir(parents=True)
        for name in ("imagenet-1k", "imagenet-a", "imagenet-r", "objectnet", "sixteen-class-imagenet"):
            shutil.copy(ROOT / "registry" / "labels" / f"{name}.yaml", root / "registry" / "labels")
        (root / "benchmarks").mkdir()
        (root / "benchmarks" / "clean-v1.yaml").write_text(CLEAN)
        (root / "registry" / "models" / "reader.yaml").write_text(MODEL)
        self.catalog = real()
        self.keys = list(self.catalog.label_space("imagenet-1k").classes)
        self._val()
        self._subset("a", integers=True)
        self._subset("r", integers=False)
        self._v2()
        self._objectnet()
        self._cue_conflict()
        (root / "registry" / "lock.yaml").write_text(self.lock)

    @staticmethod
    def categories() -> Mapping[str, tuple[str, ...]]:
        """The sixteen, with their classes."""
        return real().class_groups["sixteen-class-imagenet"].classes

    def entry(self, name: str, source: str, size: int, *more: str) -> None:
        text = DATASET.format(name=name, source=source, size=size)
        text += "".join(f"{line}\n" for line in more)
        (self.root / "registry" / "datasets" / f"{name}.yaml").write_text(text)

    def parquet(self, name: str, files: Sequence[bytes], labels: Sequence[Any]) -> str:
        """Rows of a Hub dataset, not in the order of classes, and the source that reads them."""
        path = self.hub / "datasets" / "org" / name / COMMIT / "data" / "test-00000-of-00001.parquet"
        path.parent.mkdir(parents=True)
        order = np.random.default_rng(0).permutation(len(files))
        images = [{"bytes": files[row], "path": None} for row in order]
        regions = [REGIONS[row % len(REGIONS)] for row in order]
        table = pa.table({"image": images, "label": [labels[row] for row in order], "region": regions})
        features = {"image": {"_type": "Image"}}
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        pq.write_table(table.replace_schema_metadata(metadata), path)
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        file = f"{{path: data/test-00000-of-00001.parquet, size: {len(data)}, sha256: {sha256}}}"
        self.lock += f"dataset/{name}: {{commit: {COMMIT}, files: [{file}]}}\n"
        return (
            f"{{kind: hub, repo: org/{name}, revision: {COMMIT}, split: test,"
            " image_column: image, label_column: label, group_column: region}"
        )

    def files(self, folder: str, files: dict[str, bytes]) -> str:
        for name, data in files.items():
            path = self.root / "data" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    def _val(self) -> None:
        """Labels as whole numbers, as ILSVRC/imagenet-1k has them; and two views."""
        source = self.parquet("imagenet-1k", [picture(n) for n in range(1000)], list(range(1000)))
        self.entry("imagenet-1k", source, 1000)
        view = "{kind: classes-of, dataset: imagenet-1k}"
        self.entry("imagenet-1k-a", view, 200, "class_subset: imagenet-a")
        self.entry("imagenet-1k-objectnet", view, 125, "class_subset: objectnet")

    def _subset(self, letter: str, *, integers: bool) -> None:
        """A class of another set competes in each picture; labels count the subset, or are WordNet ids."""
        name = f"imagenet-{letter}"
        classes = self.catalog.classes(self.catalog.dataset(name))
        assert classes is not None
        others = [n for n in range(1000) if n not in classes]
        files = [picture(n, others[place]) for place, n in enumerate(classes)]
        labels = list(range(200)) if integers else [self.keys[n] for n in classes]
        more = [f"class_subset: {name}", "matched_clean: imagenet-1k"]
        if integers:
            more += ["label_map:", *(f"  {place}: {n}" for place, n in enumerate(classes))]
        self.entry(name, self.parquet(name, files, labels), 200, *more)

    def _v2(self) -> None:
        """Folders named 0 to 999."""
        folder = self.files("v2", {f"{n}/x.png": picture(n) for n in range(1000)})
        self.entry("imagenet-v2", f"{{kind: folder, path: {folder}}}", 1000)

    def _objectnet(self) -> None:
        """Framed pictures of each category's last class, and two folders that are not scored."""
        groups = self.catalog.groups(self.catalog.dataset("objectnet"))
        assert groups is not None
        names = list(self.catalog.class_groups["objectnet"].classes)
        folders = [
            "".join(c for c in name.lower().replace(" ", "_") if c.isalnum() or c == "_") for name in names
        ]
        files = {
            f"{folder}/1.png": picture(group[-1], NO_CLASS_OF_OBJECTNET, border=2)
            for folder, group in zip(folders, groups, strict=True)
        }
        files |= {f"{name}/1.png": picture(1, border=2) for name in ("bottle_opener", "air_freshener")}
        folder = self.files("objectnet", files)
        source = f"{{kind: folder, path: {folder}, only_declared: true}}"
        self.entry("objectnet", source, 113, "class_subset: objectnet", "border: 2")

    def _cue_conflict(self) -> None:
        """Each shape with each texture."""
        groups = self.catalog.class_groups["sixteen-class-imagenet"].classes
        first = {name: self.keys.index(keys[0]) for name, keys in groups.items()}
        files = {
            f"{shape}/{shape}1-{texture}2.png": picture(first[shape], first[texture])
            for shape in groups
            for texture in groups
        }
        folder = self.files("cue-conflict", files)
        source = f'{{kind: folder, path: {folder}, group_from: "{{label}}#-{{class}}#"}}'
        self.entry("cue-conflict", source, 256, "class_subset: sixteen-class-imagenet")
