"""Digits with attacked images, as sets handed in by somebody."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.entries import BenchmarkEntry, External, ImagesSetting
from robustboard.registry.entries import DatasetEntry, FilePin, InputSpec, Norm
from robustboard.runners.external import Attacked, read_set
from robustboard.runners.keys import Cell
from robustboard.runners.samples import Samples, load_samples
from tests.runners.imagesets.sets import npz
from tests.runners.small import Place

Floats = npt.NDArray[np.float32]
TENTH = Fraction(1, 10)
HANDED = Cell("tiny", "handed-v1", "digits")


@dataclass(frozen=True)
class Originals:
    """A dataset as it was read."""

    entry: DatasetEntry
    samples: Samples

    def read(self, path: Path, *, norm: Norm = "linf", budget: Fraction = TENTH) -> Attacked:
        return read_set(path, path.name, self.samples, self.entry, norm=norm, budget=budget)


def originals(place: Place, dataset: str = "digits", spec: InputSpec | None = None) -> Originals:
    entry = place.catalog.dataset(dataset)
    samples = load_samples(
        entry,
        place.catalog.label_space(entry.label_space),
        workspace=place.workspace,
        lock=place.lock,
        input=spec or InputSpec(size=8, channels=1, normalization="inside"),
    )
    return Originals(entry, samples)


def packed(ids: Sequence[str], images: Floats) -> bytes:
    return npz(sample_id=np.array(list(ids)), images=images)


def hand_in(place: Place, data: bytes, cell: Cell = HANDED, **procedure: Any) -> BenchmarkEntry:
    """Put a file beside the protocols, with a benchmark that names it."""
    path = place.workspace.benchmarks / "external" / f"{cell.benchmark}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    pin = FilePin(path=f"external/{path.name}", sha256=hashlib.sha256(data).hexdigest())
    setting = ImagesSetting(datasets=(cell.dataset,), budgets=(TENTH,), headline=TENTH, file=pin)
    base: dict[str, Any] = {"kind": "external", "norm": "linf", "made_by": "somebody", "settings": (setting,)}
    entry = place.benchmarks["pgd-v1"].model_copy(
        update={"id": cell.benchmark, "procedure": External(**{**base, **procedure})}
    )
    place.benchmarks[cell.benchmark] = entry
    return entry
