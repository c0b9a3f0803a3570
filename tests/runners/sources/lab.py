"""Made-up sets in every kind of file, and short ways to load them."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from robustboard.registry.entries import DatasetEntry, InputSpec, LockedEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.samples import Samples, load_samples
from robustboard.workspace import Workspace

Grey = npt.NDArray[np.uint8]
DIGITS = {str(digit): str(digit) for digit in range(10)}
ANIMALS = {"cat": "Cat", "dog": "Dog", "fox": "Red fox", "owl": "Owl"}


@dataclass(frozen=True)
class Lab:
    """A workspace in a temporary folder, and short ways to fill and read it."""

    workspace: Workspace

    @property
    def data(self) -> Path:
        return self.workspace.output / "data"

    @staticmethod
    def space(classes: dict[str, str] | None = None) -> LabelSpace:
        return LabelSpace.model_validate(
            {"id": "animals", "name": "Animals", "source": "made up", "classes": classes or ANIMALS}
        )

    @staticmethod
    def digits() -> LabelSpace:
        return Lab.space(DIGITS)

    @staticmethod
    def entry(source: dict[str, Any], size: int, **fields: Any) -> DatasetEntry:
        return DatasetEntry.model_validate(
            {
                "id": "tiny",
                "name": "Tiny",
                "source": source,
                "label_space": "animals",
                "size": size,
                "license": "MIT",
                "display_allowed": True,
                "citation": "made up",
                "added": "2026-01-01",
                **fields,
            }
        )

    @staticmethod
    def input(size: int = 8, **fields: Any) -> InputSpec:
        return InputSpec.model_validate({"size": size, "normalization": "inside", **fields})

    def load(
        self,
        entry: DatasetEntry,
        *,
        space: LabelSpace | None = None,
        spec: InputSpec | None = None,
        locked: LockedEntry | None = None,
        skip_damaged: bool = False,
    ) -> Samples:
        return load_samples(
            entry,
            space or self.space(),
            workspace=self.workspace,
            lock={} if locked is None else {f"dataset/{entry.id}": locked},
            input=spec or self.input(),
            skip_damaged=skip_damaged,
        )


def encode(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    """A uint8 array (h, w) or (h, w, c), or coloured noise from a seed, as an image file."""
    if isinstance(pixels, int):
        pixels = np.random.default_rng(pixels).integers(0, 256, (8, 8, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def write(folder: Path, name: str, data: bytes) -> dict[str, str]:
    path = folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"path": name, "sha256": hashlib.sha256(data).hexdigest()}


def as_npz(folder: Path, images: Grey, labels: Any, name: str = "set.npz") -> dict[str, Any]:
    buffer = io.BytesIO()
    np.savez(buffer, images=images, labels=np.asarray(labels, np.int64))
    return {"kind": "npz", "file": write(folder, name, buffer.getvalue())}


def as_idx(folder: Path, images: Grey, labels: Any) -> dict[str, Any]:
    pins = {}
    for role, array in (("images", images), ("labels", np.asarray(labels, np.uint8))):
        plain = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
        pins[role] = write(folder, f"{role}.gz", gzip.compress(plain))
        pins[role]["sha256"] = hashlib.sha256(plain).hexdigest()
    return {"kind": "idx", **pins}


def as_parquet(folder: Path, files: list[bytes], labels: Any, name: str = "set.parquet") -> dict[str, Any]:
    buffer = io.BytesIO()
    table = pa.table(
        {"image": [{"bytes": data, "path": None} for data in files], "label": list(map(int, labels))}
    )
    pq.write_table(table, buffer)
    pin = write(folder, name, buffer.getvalue())
    return {"kind": "parquet", "files": (pin,), "image_column": "image", "label_column": "label"}


def as_folder(folder: Path, files: dict[str, bytes]) -> dict[str, Any]:
    for name, data in files.items():
        write(folder, f"set/{name}", data)
    return {"kind": "folder", "path": "set"}


def noise(count: int, seed: int = 0, size: int = 8) -> Grey:
    return np.random.default_rng(seed).integers(0, 256, (count, size, size), np.uint8)


def package_file(package: str, path: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / path


def photographs() -> list[Path]:
    """Real JPEG and PNG photographs of three packages, in several sizes and modes."""
    pytest.importorskip("skimage")
    return [
        *(package_file("skimage", f"data/{name}") for name in ("chelsea.png", "coffee.png", "rocket.jpg")),
        *(package_file("sklearn", f"datasets/images/{name}.jpg") for name in ("china", "flower")),
    ]
