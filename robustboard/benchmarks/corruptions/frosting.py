"""Pictures of frost: this project's own, or the authors' where somebody has them.

The pictures of ImageNet-C come from the web under licences that nobody states, so they are not copied. Ours
are grown from a fixed seed: crossing feathers of ridged noise, each picture with about the mean and spread of
one of the five that the original draws from. Results with them are not those of the original frost; their
facts name `parameters.FROST`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from robustboard.benchmarks.corruptions.compiled import compiled
from robustboard.benchmarks.corruptions.parameters import TEXTURE_SCALE, Variant
from robustboard.benchmarks.corruptions.setting import Doubles, Pixels
from robustboard.errors import UserError

DRAWN = 5
"""Pictures that take part, the first in order."""
NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
"""The authors' files, in the order of their code."""
HEIGHT, WIDTH = 400, 600
SEED = 1

TINTS: tuple[tuple[tuple[int, int, int], int], ...] = (
    ((78, 149, 166), 20),
    ((201, 205, 214), 22),
    ((201, 205, 214), 22),
    ((138, 153, 165), 28),
    ((112, 123, 135), 43),
)
"""Mean red, green and blue, and spread, of each picture, before clipping."""
DIRECTIONS = ((1.0, 0.0), (0.8, 0.6), (0.28, 0.96), (-0.6, 0.8), (-0.96, 0.28))
"""Unit vectors that are exact in a few digits; feathers grow along them."""
OCTAVES = 4
TORUS = 64
"""Side of the lattice of random values that noise is smoothed from."""


def _values(source: np.random.Philox) -> Doubles:
    """(TORUS, TORUS) values in [0, 1) from raw draws, whose stream never changes."""
    raw = source.random_raw(TORUS * TORUS) >> np.uint64(11)
    values: Doubles = raw.astype(np.float64).reshape(TORUS, TORUS) * 2.0**-53
    return values


@compiled
def _noise(rows: Doubles, columns: Doubles, values: Doubles) -> Doubles:
    """Smooth noise in [0, 1) at places (h, w) of a torus of values.

    Only sums and products, so that every machine gets the same bits.
    """
    found = np.empty(rows.shape)
    last = values.shape[0] - 1  # the side is a power of two
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            top, left = np.floor(rows[row, column]), np.floor(columns[row, column])
            down, across = rows[row, column] - top, columns[row, column] - left
            down, across = down * down * (3 - 2 * down), across * across * (3 - 2 * across)
            y, x = int(top) & last, int(left) & last
            below, right = (y + 1) & last, (x + 1) & last
            upper = values[y, x] * (1 - across) + values[y, right] * across
            lower = values[below, x] * (1 - across) + values[below, right] * across
            found[row, column] = upper * (1 - down) + lower * down
    return found


def _feathers(number: int) -> Doubles:
    """(HEIGHT, WIDTH) crossing ridges, of mean 0 and standard deviation 1."""
    source = np.random.Philox(key=(SEED << 8) + number)
    rows, columns = np.meshgrid(np.arange(HEIGHT) / 16, np.arange(WIDTH) / 16, indexing="ij")
    bend = 3 * _noise(rows / 4, columns / 4, _values(source)) + _noise(rows, columns, _values(source))
    total: Doubles = np.zeros((HEIGHT, WIDTH))
    for turn in range(3):
        x, y = DIRECTIONS[(number + turn) % len(DIRECTIONS)]
        along, side = columns * x + rows * y, rows * x - columns * y
        for octave in range(OCTAVES):
            grain = 2.0**octave
            noise = _noise((side + bend) * grain, (along + bend) * grain / 4, _values(source))
            ridge = 1 - np.abs(2 * noise - 1)
            total = total + ridge * ridge * ridge / grain**0.5
    grit = _noise(rows * 8, columns * 8, _values(source))
    total = total + grit * grit
    found: Doubles = (total - total.mean()) / total.std()
    return found


@lru_cache(maxsize=1)
def _grown() -> tuple[Pixels, ...]:
    pictures = []
    for number, (tint, spread) in enumerate(TINTS):
        levels = _feathers(number)[..., None] * spread + np.array(tint)
        pictures.append(np.rint(np.clip(levels, 0, 255)).astype(np.uint8))
    return tuple(pictures)


def _scaled(picture: Pixels, variant: Variant) -> Pixels:
    scale = TEXTURE_SCALE[variant]
    if scale == 1:
        return picture
    return np.asarray(cv2.resize(picture, (0, 0), fx=scale, fy=scale), dtype=np.uint8)


@lru_cache(maxsize=2)
def textures(variant: Variant) -> tuple[Pixels, ...]:
    """This project's frost, uint8 (h, w, 3) RGB, at the variant's scale; grown once a process."""
    return tuple(_scaled(picture, variant) for picture in _grown())


def read(folder: Path, variant: Variant) -> tuple[Pixels, ...]:
    """The authors' frost pictures from a folder, at the variant's scale.

    Raises UserError where one of the five files of `NAMES` is missing or cannot be read.
    """
    pictures = []
    for name in NAMES:
        try:
            with Image.open(folder / name) as picture:
                pixels = np.array(picture.convert("RGB"))
        except OSError as error:
            raise UserError(f"{folder / name}: expected a frost picture, got {error}") from error
        pictures.append(_scaled(pixels, variant))
    return tuple(pictures)


def fitted(picture: Pixels, height: int, width: int) -> Pixels:
    """The picture, enlarged where it does not exceed (height, width), so that a piece can be cut out."""
    if picture.shape[0] > height and picture.shape[1] > width:
        return picture
    factor = max((height + 1) / picture.shape[0], (width + 1) / picture.shape[1])
    rows = max(round(picture.shape[0] * factor), height + 1)
    columns = max(round(picture.shape[1] * factor), width + 1)
    return np.asarray(cv2.resize(picture, (columns, rows), interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
