"""Measures sets of small JPEG files through the whole path, and tells the peak of memory of each run.

    python memory_driver.py ROOT IMAGES IMAGES ...

ROOT is an empty folder. The files are ten pictures of noise under many names. Prints one JSON list of bytes
of resident memory, one a number of images.
"""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from robustboard import jsons
from robustboard.registry.entries import FolderData, InputSpec, ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners import evaluate, session
from robustboard.runners.classifier import Classifier
from robustboard.runners.score import read_result
from robustboard.runners.weights import Weights
from tests.runners.readers import result_file, run
from tests.runners.small import CLEAN, Place, plant_digits

SIZE = 64
SPEC = InputSpec(size=SIZE, interpolation="bicubic", normalization="inside")


class Brightness(nn.Module):
    """Ten classes by mean brightness."""

    def forward(self, images: Tensor) -> Tensor:
        return -((images.mean((1, 2, 3))[:, None] - torch.linspace(0, 1, 10)) ** 2)


def locate(entry: ModelEntry, **_: object) -> Weights:
    """No weights are needed."""
    return Weights(Path("nowhere"), jsons.digest("test", entry.id))


def load(entry: ModelEntry, space: LabelSpace, _: Weights, *, allow_plugins: bool) -> Classifier:
    """The network above."""
    if allow_plugins:
        raise ValueError(entry.id)
    return Classifier(Brightness(), entry.input, len(space.classes))


def draw(root: Path, count: int) -> None:
    """Ten JPEG files of 96 x 80 pixels, each under many names in the folder of its class."""
    generator = np.random.default_rng(0)
    for label in range(10):
        folder = root / "data" / "photos" / str(label)
        folder.mkdir(parents=True)
        buffer = io.BytesIO()
        pixels = generator.integers(0, 20 + 23 * label, (80, 96, 3), np.uint8)
        Image.fromarray(pixels).save(buffer, "JPEG", quality=50)
        first = folder / "000000.jpg"
        first.write_bytes(buffer.getvalue())
        for number in range(1, count // 10):
            os.link(first, folder / f"{number:06d}.jpg")


def measure(root: Path, count: int) -> int:
    """Draw and measure; how many images the result counts."""
    place = Place(plant_digits(root))
    draw(root, count)
    place.model("tiny", input=SPEC)
    changes = {
        "source": FolderData(kind="folder", path="photos"),
        "size": count,
        "native_size": None,
        "channels": 3,
    }
    photos = place.catalog.dataset("digits").model_copy(update=changes)
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "digits": photos})
    place.benchmarks["clean-v1"] = place.benchmarks["clean-v1"].model_copy(update={"shard_size": 50})
    with (
        patch.object(session, "locate_weights", locate),
        patch.object(session, "load_classifier", load),
        # The peak is that of the whole run, not of its last shard.
        patch.object(evaluate, "forget_peak_memory", lambda _: None),
    ):
        summary = run(place, CLEAN)
    if summary.exit_code:
        raise SystemExit(f"failed: {summary.outcomes}")
    return read_result(result_file(place, CLEAN), "result").evaluated


def peak(root: Path, count: int) -> int:
    """Peak of resident memory, in bytes, of a child process that measures so many images."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = int(measure(root, count) != count)
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"a run of {count} images failed")
    return usage.ru_maxrss * 1024


def main(root: Path, counts: list[int]) -> None:
    """Measure sets of several sizes, one after the other, from one interpreter, which starts only once."""
    peaks = [peak(root / str(number), count) for number, count in enumerate(counts)]
    sys.stdout.write(json.dumps(peaks) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(map(int, sys.argv[2:])))
