"""Randomness that belongs to one image of one run.

A draw depends on the run key, the sample's id and a stated purpose: never on the batch the image
came in, the order of shards, the worker, or a global generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustboard import jsons


def sample_generator(key_digest: str, sample_id: str, purpose: str) -> np.random.Generator:
    """A fresh generator for one image and purpose; equal arguments, equal draws.

    Philox keyed by the first 128 bits of a SHA-256 over the three texts.
    """
    seed = jsons.digest("robustboard.seed/1", [key_digest, sample_id, purpose])
    return np.random.Generator(np.random.Philox(key=int(seed[:32], 16)))


@dataclass(frozen=True, slots=True)
class Draws:
    """Where an attack on several images gets its randomness: one generator an image and purpose."""

    key_digest: str
    sample_ids: tuple[str, ...]
    """One id an image, in the order of the images."""
    purpose: str
    """What is being measured, such as the condition `linf 8/255`."""

    def generators(self, purpose: str, rows: Sequence[int] | None = None) -> list[np.random.Generator]:
        """Fresh generators of the images (or of those at `rows`) for one part of the attack."""
        ids = self.sample_ids if rows is None else [self.sample_ids[row] for row in rows]
        return [sample_generator(self.key_digest, each, f"{self.purpose}: {purpose}") for each in ids]
