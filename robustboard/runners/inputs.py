"""Images and labels as a measurement takes them: checked once, on the way in."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.attacks.budget import TOLERANCE
from robustboard.errors import CellError
from robustboard.runners.predictions import OUTSIDE

Pixels = npt.NDArray[np.float32]


def valid_pixels(images: Pixels) -> Pixels:
    """The images clamped to [0, 1], the same array where that changes nothing and it may be written.

    Refused when further outside than rounding explains.
    """
    if images.ndim != len("nchw") or not len(images):
        raise ValueError(f"expected images (n, c, h, w), got shape {images.shape}")
    # Both are NaN where any pixel is.
    low, high = float(images.min(initial=0.0)), float(images.max(initial=0.0))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise CellError("decode", "expected pixels in [0, 1], got numbers that are not finite")
    if low < -TOLERANCE or high > 1 + TOLERANCE:
        raise CellError("decode", f"expected pixels in [0, 1], got {low:.6g} to {high:.6g}")
    if low >= 0 and high <= 1 and images.dtype == np.float32 and images.flags.writeable:
        return images
    return np.clip(images, 0.0, 1.0).astype(np.float32)


def positions_of(labels: npt.NDArray[np.int64], classes: tuple[int, ...] | None) -> npt.NDArray[np.int64]:
    """Labels as columns of outputs cut to `classes`; 0 for images of no class."""
    labels = np.where(labels == OUTSIDE, 0 if classes is None else classes[0], labels)
    if classes is None:
        return labels
    column = {each: position for position, each in enumerate(classes)}
    strangers = sorted(set(labels.tolist()) - set(column))
    if strangers:
        raise CellError("labels", f"labels {strangers[:5]} are not in the dataset's class subset")
    return np.array([column[each] for each in labels.tolist()], np.int64)
