"""The other corruption libraries, and a way to hand them the random draws that ours took.

imagecorruptions and imagenet-c call functions that NumPy and scikit-image no longer have; they get them back
here, and imagenet-c, which ships no frost pictures, borrows those of imagecorruptions. Nothing else of theirs
is touched.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Corrupt = Callable[[str, Pixels, int], Pixels]
"""(name, image (h, w, 3) uint8, severity) → image."""

REFERENCE = "imagenet-c"
"""The authors' own package."""
PEERS = {"imagecorruptions": "imagecorruptions", "imagenet-c": "imagenet_c", "corrupt-tta": "corrupt_tta"}
"""Distribution → package, whose module `corruptions` has the functions."""
OTHER: dict[str, dict[str, str]] = {
    "imagecorruptions": {
        "snow": "keeps the upper left of the zoomed flakes, smears before rounding",
        "frost": "enlarges the pictures by 1.1",
        "elastic_transform": "other parameters, no affine map",
    },
    "imagenet-c": {},
    "corrupt-tta": {
        "glass_blur": "swaps, in another order",
        "motion_blur": "a box along a rotated line",
        "snow": "smeared with that box",
        "frost": "all six pictures",
        "fog": "one decay for all severities",
        "elastic_transform": "224 where the original has 244",
        "spatter": "another model",
    },
}
"""Peer → corruption → where its definition departs from the original's."""


LENT = ("np", "sk", "random_noise")
"""Names in the libraries' modules through which they draw."""


class Drawn:
    """numpy.random as the peers know it, giving what our functions draw from an equal generator."""

    def __init__(self, generator: np.random.Generator, pairs: int) -> None:
        """`pairs`: how many steps glass_blur takes in all."""
        self.generator = generator
        self.pairs = pairs
        self.steps: Iterator[npt.NDArray[np.int64]] | None = None

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        return loc + scale * self.generator.standard_normal(size, dtype=np.float32).astype(np.float64)

    def uniform(self, low: float, high: float, size: tuple[int, ...] | None = None) -> Any:
        if size is None or size == (3, 2):  # an angle, or the corners of the affine map
            return self.generator.uniform(low, high, size)
        return low + (high - low) * self.generator.random(size, dtype=np.float32).astype(np.float64)

    def poisson(self, means: npt.NDArray[np.float64]) -> Any:
        from scipy import stats

        draws = self.generator.integers(0, 2**32, means.shape, dtype=np.uint32)
        return stats.poisson.ppf((draws + 0.5) / 2**32, means)

    def randint(self, low: int, high: int | None = None, size: tuple[int, ...] | None = None) -> Any:
        if size is None:
            return int(self.generator.integers(low, high))
        if size != (2,):
            return self.generator.integers(low, high, size)
        if self.steps is None:
            steps = self.generator.integers(low, high, (self.pairs, 2), dtype=np.int8)
            self.steps = iter(steps.astype(np.int64))
        return next(self.steps)


class Impulses(np.random.Generator):
    """What scikit-image asks for salt and pepper: first which values, then, from bytes as ours, which way."""

    asked = 0

    def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:
        del dtype, out
        self.asked += 1
        if self.asked == 1:
            return super().random(size, dtype=np.float32)
        return (self.integers(0, 256, size, dtype=np.uint8) + 0.5) / 256


@dataclass(frozen=True, slots=True)
class Peer:
    """One library."""

    name: str
    module: types.ModuleType
    """With its functions."""
    corrupt: Corrupt

    @contextmanager
    def drawing(self, generator: np.random.Generator, pairs: int) -> Iterator[None]:
        """Inside, the library's randomness is ours."""
        from skimage import color, util

        names = vars(self.module)
        noise = partial(util.random_noise, rng=Impulses(generator.bit_generator))
        kept: dict[str, Any] = {name: names[name] for name in LENT if name in names}
        numpy = _numpy()
        numpy.random = Drawn(generator, pairs)  # type: ignore[attr-defined]  # a copy of the module
        lent: dict[str, Any] = {"np": numpy, "random_noise": noise}
        lent["sk"] = types.SimpleNamespace(util=types.SimpleNamespace(random_noise=noise), color=color)
        names.update({name: lent[name] for name in kept})
        try:
            yield
        finally:
            names.update(kept)


def _numpy() -> types.ModuleType:
    """A copy of numpy's namespace with two functions of older versions."""
    copy = types.ModuleType("numpy")
    vars(copy).update(vars(np))
    vars(copy).update(float_=np.float64, fromstring=np.frombuffer)
    return copy


def _gaussian(*args: Any, multichannel: bool = False, **options: Any) -> Any:
    from skimage import filters

    smooth: Callable[..., Any] = filters.gaussian
    return smooth(*args, channel_axis=-1 if multichannel else None, **options)


def missing() -> list[str]:
    """One line a library that cannot be imported."""
    lines = []
    for name, package in PEERS.items():
        try:
            with warnings.catch_warnings(action="ignore"):
                importlib.import_module(package)
        except (ImportError, OSError) as error:  # Wand raises ImportError where ImageMagick is missing
            lines.append(f"{name}: {str(error).splitlines()[0]}")
    return lines


def versions() -> dict[str, str]:
    """Distribution → installed version."""
    found = {name: metadata.version(name) for name in PEERS}
    wand = importlib.import_module("wand.version")
    return {**found, "ImageMagick": ".".join(map(str, wand.MAGICK_VERSION_INFO))}


def textures() -> Path:
    """The folder of the original frost pictures."""
    return Path(str(importlib.import_module("imagecorruptions").__file__)).parent / "frost"


def load(names: Sequence[str] = tuple(PEERS)) -> list[Peer]:
    """The libraries, with what they miss given back."""
    found = []
    for name in names:
        with warnings.catch_warnings(action="ignore"):
            package = importlib.import_module(PEERS[name])
        module = sys.modules[f"{PEERS[name]}.corruptions"]
        vars(module)["np"] = _numpy()
        if name != "corrupt-tta":
            vars(module)["gaussian"] = _gaussian
        if name == REFERENCE:
            vars(module)["resource_filename"] = lambda _package, path: str(textures() / Path(path).name)
        found.append(Peer(name, module, partial(_call, package.corrupt)))
    return found


def _call(corrupt: Callable[..., Any], name: str, image: Pixels, severity: int) -> Pixels:
    return np.asarray(corrupt(image, corruption_name=name, severity=severity)).astype(np.uint8)
