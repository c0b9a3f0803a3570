"""A small set of real digits: a nearest-centroid oracle, and a generator that shifts and adds noise."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from robustboard import jsons
from robustboard.registry.testsets import TestSetEntry
from robustboard.runners.samples import Samples, fingerprint
from robustboard.runners.sources.pixels import ArrayImages
from robustboard.runners.testsets.attempts import Material
from robustboard.runners.testsets.judging import Floats, Produced, Verdict
from robustboard.runners.testsets.manifest import MANIFEST, Part, Role, identity_sha256

KEYS = tuple(str(number) for number in range(10))
Maker = Callable[[Floats, int, int], Floats]
"""(image, label, seed) → image."""


def part(role: Role, name: str, version: int = 1) -> Part:
    identity: dict[str, Any] = {"version": version}
    return Part(role=role, id=name, license="MIT", identity=identity, sha256=identity_sha256(identity))


@cache
def digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Test images (600, 8, 8) with values 0 to 16, their labels, and the mean of each class of the others."""
    found = load_digits()
    known, labels = found.data[:1197] / 16, found.target[:1197]
    means = np.stack([known[labels == label].mean(0) for label in range(10)])
    return (
        found.images[1197:].astype(np.uint8),
        found.target[1197:].astype(np.int64),
        means,
    )


def samples(count: int = 200) -> Samples:
    images, labels, _ = digits()
    array = ArrayImages(np.ascontiguousarray(images[:count, :, :, None]), 16)
    digests = tuple(array.digests())
    ids = tuple(f"{row:05d}" for row in range(count))
    return Samples(
        ids=ids,
        labels=labels[:count],
        fingerprint=fingerprint(ids, labels[:count], digests),
        shape=(1, 8, 8),
        facts={},
        skipped=(),
        digests=digests,
        rows=tuple(range(count)),
        images=array,
    )


def noisy(image: Floats, label: int, seed: int) -> Floats:
    """Gaussian noise of the seed's own."""
    del label
    drawn = np.random.default_rng(seed).normal(0, 0.25, image.shape)
    return np.clip(image + drawn, 0, 1).astype(np.float32)


def blank(image: Floats, label: int, seed: int) -> Floats:
    """A content filter's black picture."""
    del label, seed
    return np.zeros_like(image)


@dataclass
class Digits:
    """Makes images by a function of one image; the oracle is the nearest class mean."""

    maker: Maker = noisy
    version: int = 1
    calls: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def parts(self) -> tuple[Part, ...]:
        return part("generator", "noise", self.version), part("oracle", "centroids")

    def produce(self, images: Floats, labels: npt.NDArray[np.int64], seeds: Sequence[int]) -> Produced:
        self.calls += 1
        self.sizes.append(len(images))
        known = self.judge(images).predicted == labels
        made = [
            self.maker(image, int(label), seed)
            for image, label, seed in zip(images, labels, seeds, strict=True)
        ]
        return Produced(
            np.stack(made),
            ["accepted" if each else "source-rejected" for each in known],
            [3 if each else 0 for each in known],
        )

    def judge(self, images: Floats) -> Verdict:
        _, _, means = digits()
        flat = images.reshape(len(images), -1)
        distances = np.linalg.norm(flat[:, None] - means[None], axis=2)
        shares = np.exp(-4 * distances.astype(np.float64))
        shares /= shares.sum(1, keepdims=True)
        top = np.sort(shares, axis=1)
        return Verdict(shares.argmax(1).astype(np.int64), top[:, -1], top[:, -1] - top[:, -2])


def recipe(**changes: Any) -> TestSetEntry:
    version = changes.get("version", "1.0.0")
    values: dict[str, Any] = {
        "id": f"noisy-digits-{version}",
        "set": "noisy-digits",
        "version": version,
        "name": "Noisy digits",
        "summary": "Digits under noise that the nearest class mean still knows.",
        "dataset": "digits",
        "generator": "noise",
        "oracle": "centroids",
        "budget": 5,
        "per_class": 6,
        "attempts": 3,
        "seed": 1,
        "license": "CC BY 4.0",
        "added": date(2026, 1, 31),
    }
    return TestSetEntry(**{**values, **changes})


def material(producer: Digits | None = None, *, count: int = 200, **changes: Any) -> Material:
    return Material(
        recipe=recipe(**changes),
        samples=samples(count),
        source=part("dataset", "digits"),
        classes={key: f"digit {key}" for key in KEYS},
        producer=producer or Digits(),
        software={"numpy": "2"},
    )


def files(folder: Path) -> dict[str, bytes]:
    """Path → bytes of everything in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit a manifest, and seal it again as an attacker would."""
    value = json.loads((folder / MANIFEST).read_bytes())
    value.pop("sha256")
    change(value)
    sealed = {**value, "sha256": jsons.digest("robustboard.seal/1", value)}
    (folder / MANIFEST).write_bytes(jsons.canonical(sealed))
