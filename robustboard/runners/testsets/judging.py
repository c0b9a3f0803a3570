"""From what a generator gave to an image of the set, or to the reason why it is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from robustboard.runners.testsets.manifest import Part, Reason
from robustboard.runners.testsets.shards import DECIMALS

Floats = npt.NDArray[np.float32]
LEVELS = 255
BLANK_LEVELS = 8
"""An image is blank when its darkest and brightest values are less than this apart, of 255."""

ACCEPTED = "accepted"
REJECTED_AT_0 = "rejected-at-0"
SOURCE_REJECTED = "source-rejected"
EARLY: dict[str, Reason] = {SOURCE_REJECTED: "oracle wrong on source", REJECTED_AT_0: "rejected at 0"}
"""Status without an image → why there is none."""

RULES = 1
"""Raised by hand when the same images would be judged otherwise than before."""


@dataclass(frozen=True, slots=True, eq=False)
class Produced:
    """What a generator made of n images."""

    images: Floats
    """(n, c, h, w), meant to lie in [0, 1]; anything may be in it."""
    status: Sequence[str]
    """accepted, reconstruction-only, rejected-at-0 or source-rejected, one an image."""
    steps: Sequence[int]
    """Accepted steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What the oracle says of n images."""

    predicted: npt.NDArray[np.int64]
    """(n,) classes; below 0 where it abstains."""
    confidence: npt.NDArray[np.float64]
    """(n,) in the predicted class, 0 to 1."""
    margin: npt.NDArray[np.float64]
    """(n,) above the next class."""


class Producer(Protocol):
    """Makes images and judges them; equal arguments give equal answers."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Generator, oracle and perhaps the model, as the manifest states them."""

    def produce(self, images: Floats, labels: npt.NDArray[np.int64], seeds: Sequence[int]) -> Produced:
        """Perturb images (n, c, h, w) in [0, 1] that the oracle knows, each with a seed of its own."""

    def judge(self, images: Floats) -> Verdict:
        """The oracle's answer to images (n, c, h, w) in [0, 1]."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What became of one try."""

    reason: Reason | None
    """Why it gave no image; None for an image of the set."""
    pixels: npt.NDArray[np.uint8] | None
    """(c, h, w) of an image of the set."""
    status: str
    steps: int
    distance: float
    confidence: float
    margin: float


def words(clipped_at_most: Fraction) -> dict[str, str]:
    """The rules as the manifest states them."""
    return {
        "version": str(RULES),
        "source": "the oracle gives the source image its own label",
        "blank": f"brightest and darkest value less than {BLANK_LEVELS} of {LEVELS} apart",
        "clipped": f"more than {clipped_at_most} of the values newly on 0 or 1",
        "NaN": "a value is no finite number",
        "unchanged": "no 8-bit value differs from the source image",
        "judged": "the oracle judges the 8-bit image as it is stored",
    }


def to_bytes(images: Floats) -> npt.NDArray[np.uint8]:
    """[0, 1] → 0 to 255, nearest; values outside are clamped."""
    return np.rint(np.clip(images, 0.0, 1.0).astype(np.float64) * LEVELS).astype(np.uint8)


def judge_batch(
    producer: Producer,
    images: Floats,
    labels: npt.NDArray[np.int64],
    seeds: Sequence[int],
    clipped_at_most: Fraction,
) -> list[Judged]:
    """Perturb and judge source images (n, c, h, w); one answer an image, in order.

    Images that pass every rule on pixels are shown to the oracle once more, in 8 bits as they are stored.
    """
    made = producer.produce(images, labels, seeds)
    found: list[Judged] = []
    good: list[int] = []
    for row, source in enumerate(images):
        status, steps = made.status[row], int(made.steps[row])
        image = np.asarray(made.images[row], np.float32)
        reason = _reason(image, source, status, clipped_at_most)
        found.append(_lost(reason or "rejected by oracle", status, steps))
        if reason is None:
            good.append(row)
    if not good:
        return found
    stored = to_bytes(made.images[good])
    verdict = producer.judge(stored.astype(np.float32) / np.float32(LEVELS))
    for number, row in enumerate(good):
        if int(verdict.predicted[number]) == int(labels[row]):
            found[row] = Judged(
                reason=None,
                pixels=stored[number],
                status=made.status[row],
                steps=int(made.steps[row]),
                distance=_distance(stored[number], images[row]),
                confidence=round(float(verdict.confidence[number]), DECIMALS),
                margin=round(float(verdict.margin[number]), DECIMALS),
            )
    return found


def _lost(reason: Reason, status: str = "", steps: int = 0) -> Judged:
    return Judged(reason, None, status, steps, 0.0, 0.0, 0.0)


def _reason(image: Floats, source: Floats, status: str, clipped_at_most: Fraction) -> Reason | None:
    """Why an image as the generator gave it cannot be in the set, before the oracle sees it again."""
    if status in EARLY:
        return EARLY[status]
    if not np.isfinite(image).all():
        return "NaN"
    pixels, before = to_bytes(image), to_bytes(source)
    if int(pixels.max()) - int(pixels.min()) < BLANK_LEVELS:
        return "blank"
    ends = (pixels == 0) | (pixels == LEVELS)
    fresh = np.count_nonzero(ends & (pixels != before))
    if Fraction(int(fresh), pixels.size) > clipped_at_most:
        return "clipped"
    if np.array_equal(pixels, before):
        return "unchanged"
    return None if status == ACCEPTED else "no accepted step"


def _distance(pixels: npt.NDArray[np.uint8], source: Floats) -> float:
    difference = pixels.astype(np.float64) / LEVELS - source.astype(np.float64)
    return round(float(np.sqrt((difference**2).sum())), DECIMALS)
