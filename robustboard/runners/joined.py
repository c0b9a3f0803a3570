"""A set in distribution and one out of it as the samples of one run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from robustboard.errors import CellError
from robustboard.runners.predictions import OUTSIDE
from robustboard.runners.samples import Samples
from robustboard.runners.sources.pixels import Content, Floats, Images

WHITE = 255


@dataclass(frozen=True, slots=True, eq=False)
class _Both:
    """Images of two sets in one numbering: those of the first, then those of the second."""

    inside: Samples
    outside: Samples

    @property
    def content(self) -> Content:
        """As of the first set."""
        return self.inside.images.content

    def pixels(self, rows: Sequence[int]) -> Floats:
        """float32 (k, c, h, w) in [0, 1], all of the first set's shape."""
        split = len(self.inside.ids)
        first = [row for row in rows if row < split]
        second = [row - split for row in rows if row >= split]
        found = np.empty((len(rows), *self.inside.shape), np.float32)
        chosen = np.asarray(rows) < split
        if first:
            found[chosen] = self.inside.pixels(first)
        if second:
            found[~chosen] = _resized(self.outside.pixels(second), self.inside.shape)
        return found

    def prepare(self, rows: Sequence[int]) -> None:
        """Let both sets make ready what comes next."""
        split = len(self.inside.ids)
        for samples, chosen in (
            (self.inside, [row for row in rows if row < split]),
            (self.outside, [row - split for row in rows if row >= split]),
        ):
            if chosen:
                samples.images.prepare([samples.rows[row] for row in chosen])


def _resized(images: Floats, shape: tuple[int, int, int]) -> Floats:
    """Images at another height and width: 8-bit, bilinear with antialiasing, as Pillow does it."""
    if images.shape[1:] == shape:
        return images
    found = np.empty((len(images), *shape), np.float32)
    size = (shape[2], shape[1])
    for row, image in enumerate(images):
        for channel, plane in enumerate(image):
            grey = Image.fromarray(np.rint(plane * WHITE).astype(np.uint8))
            found[row, channel] = np.asarray(grey.resize(size, Image.Resampling.BILINEAR), np.float32) / WHITE
    return found


def join(inside: Samples, outside: Samples) -> Samples:
    """Both sets as one: ids begin with `in/` or `out/`, labels of the second set are -1.

    Fixed-size images of another size than the first set's are resized to it. Raises CellError
    `decode` where the numbers of channels differ.
    """
    if inside.shape[0] != outside.shape[0]:
        raise CellError(
            "decode",
            f"expected images of {inside.shape[0]} channels out of distribution, got {outside.shape[0]}",
        )
    images: Images = _Both(inside, outside)
    total = len(inside.ids) + len(outside.ids)
    labels = np.concatenate([inside.labels, np.full(len(outside.ids), OUTSIDE, np.int64)])
    labels.setflags(write=False)
    text = f"robustboard.joined/1 {inside.fingerprint} {outside.fingerprint}"
    facts = dict(inside.facts)
    if inside.shape != outside.shape:
        facts["out of distribution"] = (
            f"resized from {outside.shape[1]} x {outside.shape[2]}, 8-bit, bilinear with antialiasing"
        )
    return replace(
        inside,
        ids=(*(f"in/{name}" for name in inside.ids), *(f"out/{name}" for name in outside.ids)),
        labels=labels,
        fingerprint=hashlib.sha256(text.encode("ascii")).hexdigest(),
        facts=facts,
        skipped=(*(f"in/{name}" for name in inside.skipped), *(f"out/{name}" for name in outside.skipped)),
        digests=(*inside.digests, *outside.digests),
        rows=tuple(range(total)),
        images=images,
        groups=None,
    )
