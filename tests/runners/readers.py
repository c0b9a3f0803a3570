"""Runs of small workspaces, and images whose class a network without weights can read off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustboard.registry.entries import FolderData, InputSpec
from robustboard.runners.evaluate import Session, run_cells
from robustboard.runners.keys import Cell
from robustboard.runners.outcomes import Summary
from robustboard.runners.plan import wanted_cells
from robustboard.runners.profiles import RunProfile
from tests.runners.small import PROFILE, Place


def run(place: Place, *cells: Cell, profile: RunProfile = PROFILE, **options: Any) -> Summary:
    """Run cells, all of them where none is named."""
    return run_cells(cells or wanted_cells(place.catalog, place.benchmarks), start(place, profile, **options))


def start(place: Place, profile: RunProfile = PROFILE, **options: Any) -> Session:
    return Session(
        workspace=place.workspace,
        catalog=place.catalog,
        benchmarks=place.benchmarks,
        lock=place.lock,
        profile=profile,
        **options,
    )


def result_file(place: Place, cell: Cell) -> Path:
    """Where the full result of a cell lies."""
    return place.workspace.results / f"{cell.name}.json"


class Reader(nn.Module):
    """Reads the class off the grey level: 0 for 0, 1 for 25, …, 9 for 225 of 255."""

    def forward(self, images: Tensor) -> Tensor:
        level = images.mean((1, 2, 3)) * 255 / 25
        return -((level[:, None] - torch.arange(10.0)) ** 2)


SPEC = InputSpec(size=8, channels=1, normalization="inside")


def levels(place: Place, classes: list[int], shown: list[int]) -> None:
    """Add a dataset of grey PNG files, one an image: stored under `classes`, looking like `shown`."""
    root = place.workspace.content / "data" / "levels"
    for number, (label, level) in enumerate(zip(classes, shown, strict=True)):
        path = root / str(label) / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 25 * level, np.uint8)).save(path)
    entry = place.catalog.dataset("digits").model_copy(
        update={"id": "levels", "source": FolderData(kind="folder", path="levels"), "size": len(classes)}
    )
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "levels": entry})
