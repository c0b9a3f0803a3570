"""Which wrong classes a targeted attack aims at."""

from __future__ import annotations

import torch
from torch import Tensor


def ranked_targets(logits: Tensor, labels: Tensor, count: int) -> list[Tensor]:
    """The wrong classes of highest logit, best first: `count` of them, or all where there are fewer.

    Args:
        logits: (n, k) of the unperturbed images.
        labels: (n,).
        count: Wanted targets, at least 1.

    Returns:
        One (n,) tensor of classes a rank, none of them the label.
    """
    wrong = logits.scatter(1, labels.unsqueeze(1), float("-inf"))
    order = torch.argsort(wrong, dim=1, descending=True, stable=True)
    return [order[:, rank] for rank in range(min(count, logits.shape[1] - 1))]
