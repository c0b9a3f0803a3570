"""Which wrong classes a targeted attack aims at."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

ROW_BYTES = 128 * 2**20
"""Pixels of the rows, one an image and target, that are searched at once; a search keeps about eight
tensors of that size."""


def ranked_targets(logits: Tensor, labels: Tensor, count: int) -> Tensor:
    """The wrong classes of highest logit, best first: `count` of them, or all where there are fewer.

    Args:
        logits: (n, k) of the unperturbed images.
        labels: (n,).
        count: Wanted targets, at least 1.

    Returns:
        (n, count or fewer) classes, none of them the label.
    """
    wrong = logits.scatter(1, labels.unsqueeze(1), float("-inf"))
    order = torch.argsort(wrong, dim=1, descending=True, stable=True)
    return order[:, : min(count, logits.shape[1] - 1)]


def together(images: Tensor, chosen: Tensor, width: int, least: int) -> Iterator[Tensor]:
    """The chosen places in runs whose rows, `width` an image, may be searched at once.

    Args:
        images: (n, c, h, w) the images that are chosen from.
        chosen: (k,) places among them.
        width: Rows an image.
        least: Rows that may be searched at once whatever their size.
    """
    rows = max(ROW_BYTES // max(1, images[:1].nbytes), least)
    yield from torch.split(chosen, max(1, rows // width))


def first_of_each(owners: Tensor) -> Tensor:
    """(n,) whether each entry of a rising sequence is the first of its value."""
    first = torch.ones_like(owners, dtype=torch.bool)
    first[1:] = owners[1:] != owners[:-1]
    return first
