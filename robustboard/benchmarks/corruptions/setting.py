"""What every corruption takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.corruptions.parameters import Variant

Pixels = npt.NDArray[np.uint8]
"""(h, w, c) uint8, c is 1 or 3 (RGB)."""
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

TOLERANCE = 2.0**-10
"""Added, in units of 1/255, before a result is cut down to an integer.

The authors' code cuts, so a blurred constant image turned one level darker wherever the weights summed to a
hair below 1. A thousandth of a level undoes that and changes one value in a thousand by one level."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One severity of one corruption."""

    values: tuple[float, ...]
    """A row of `PARAMETERS`."""
    variant: Variant = "imagenet"
    textures: Sequence[Pixels] | None = None
    """Frost pictures (h, w, 3) at the variant's scale; None for this project's own."""


Function = Callable[[Pixels, Setting, np.random.Generator], Pixels]
"""(image, setting, generator) → a new image of the same shape; modifies neither image nor setting."""


def cut(levels: npt.NDArray[np.floating]) -> Pixels:
    """Values in units of 1/255, clipped to [0, 255] and cut down to integers."""
    return np.clip(levels + levels.dtype.type(TOLERANCE), 0, 255).astype(np.uint8)
