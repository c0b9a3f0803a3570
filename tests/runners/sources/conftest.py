"""Entries, data folders and loads for tests of sources."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from robustboard.registry.entries import DatasetEntry, InputSpec, LabelSpace, LockedEntry
from robustboard.runners.samples import Samples, load_samples
from robustboard.workspace import Workspace

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
        return Lab.space({str(digit): str(digit) for digit in range(10)})

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


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.delenv("ROBUSTBOARD_DATA", raising=False)
    (tmp_path / "data").mkdir()
    return Lab(Workspace(tmp_path, tmp_path))


@pytest.fixture
def png() -> Callable[..., bytes]:
    """Encodes a uint8 array (h, w) or (h, w, c), or noise from a seed, as PNG or another format."""

    def encode(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
        if isinstance(pixels, int):
            pixels = np.random.default_rng(pixels).integers(0, 256, (8, 8, 3), np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, kind, **options)
        return buffer.getvalue()

    return encode
