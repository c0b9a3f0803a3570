"""Whether a network goes by shape or by texture where the two disagree. No torch here.

Geirhos et al. 2019, "ImageNet-trained CNNs are biased towards texture", with the later advice to
average the softmax shares of the classes of a category.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CueConflict:
    """Counts over images whose shape and texture show different categories."""

    images: int
    shape: int
    texture: int

    @property
    def shape_bias(self) -> float | None:
        """Shape decisions among decisions for one of the two cues; None where there is none."""
        decided = self.shape + self.texture
        return self.shape / decided if decided else None


def cue_conflict(predicted: Sequence[int], shape: Sequence[int], texture: Sequence[int]) -> CueConflict:
    """Count decisions by shape, by texture and by neither.

    Images whose shape and texture agree do not count. Raises ValueError for lists of unequal length.
    """
    rows = [row for row in zip(predicted, shape, texture, strict=True) if row[1] != row[2]]
    return CueConflict(
        images=len(rows),
        shape=sum(answer == by_shape for answer, by_shape, _ in rows),
        texture=sum(answer == by_texture for answer, _, by_texture in rows),
    )
