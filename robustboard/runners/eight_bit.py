"""Attacked images on the 8-bit grid that files hold, without leaving the budget. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from robustboard.registry.entries import Norm
from robustboard.runners.imagesets.image_set import LEVELS

SLACK = 5e-7
"""How far past the budget a grid value may lie: half of what a reader allows, so that rounding to float32
on the way never costs an image."""

SCALES = 64
"""Steps in which a perturbation is shortened until its rounding fits an L2 budget."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Images on the grid, and what that took."""

    values: npt.NDArray[np.uint8]
    """(n, c, h, w)."""
    held: npt.NDArray[np.int64]
    """(n,) pixels whose nearest grid value would break the budget, so that another one was taken."""
    lost: npt.NDArray[np.int64]
    """(n,) pixels (linf), or all pixels of an image (l2), that no grid value brings inside the budget. Never
    where the original itself is on the grid."""


def to_eight_bits(images: Floats, originals: Floats, norm: Norm, eps: float) -> Rounded:
    """Each pixel as the nearest k/255, ties to even, that keeps the image inside its budget.

    Linf: the nearest grid value within eps of the original pixel, which is the original itself where
    nothing else is that near. L2: the nearest grid image of the perturbation as it is, else of the
    perturbation shortened in steps of 1/64 until the rounded image fits.

    Args:
        images: (n, c, h, w) in [0, 1], inside their budget.
        originals: (n, c, h, w) in [0, 1].
        norm: Of the budget.
        eps: The budget in units of [0, 1].
    """
    wide, clean = images.astype(np.float64), originals.astype(np.float64)
    nearest = np.rint(wide * LEVELS)
    if norm == "l2":
        values, lost = _l2(wide, clean, eps)
    else:
        low = np.maximum(np.ceil((clean - eps - SLACK) * LEVELS), 0)
        high = np.minimum(np.floor((clean + eps + SLACK) * LEVELS), LEVELS)
        values = np.clip(nearest, low, high)
        lost = low > high
    held = values != nearest
    each = tuple(range(1, wide.ndim))
    return Rounded(values.astype(np.uint8), (held & ~lost).sum(each), lost.sum(each))


def _l2(
    images: npt.NDArray[np.float64], originals: npt.NDArray[np.float64], eps: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    values = np.rint(originals * LEVELS)
    open_rows = np.arange(len(images))
    for step in range(SCALES, -1, -1):
        moved = originals[open_rows] + (images[open_rows] - originals[open_rows]) * (step / SCALES)
        tried = np.rint(moved * LEVELS)
        stored = (tried.astype(np.float32) / np.float32(LEVELS)).astype(np.float64)
        away = (stored - originals[open_rows]).reshape(len(open_rows), -1)
        fits = np.linalg.norm(away, axis=1) <= eps + SLACK
        values[open_rows[fits]] = tried[fits]
        open_rows = open_rows[~fits]
        if not open_rows.size:
            break
    lost = np.zeros(images.shape, np.bool_)
    lost[open_rows] = True
    return values, lost
