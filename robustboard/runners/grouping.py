"""Outputs of a classifier, one number a category where several of its classes are one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from robustboard.registry.labels import Aggregation

WORDS: dict[Aggregation, str] = {
    "max-logit": "the highest logit of their classes",
    "mean-share": "the mean softmax share of their classes",
}
"""How categories are compared, for the record."""


class Grouped(nn.Module):
    """A classifier whose outputs are those of categories; differentiable.

    With max-logit a category's output is the highest logit of its classes, as imagenet-testbed scores
    ObjectNet. With mean-share it is the logarithm of the mean of their shares in the softmax over
    all classes, as model-vs-human scores cue conflicts: the order of the logarithms is that of the
    means, and their softmax is each category's part of the means' sum.
    """

    members: Tensor
    absent: Tensor
    counts: Tensor

    def __init__(
        self, classifier: nn.Module, groups: Sequence[Sequence[int]], aggregation: Aggregation
    ) -> None:
        """Take a classifier, the output columns of each category (none empty), and the rule."""
        super().__init__()
        self.classifier = classifier
        self.aggregation = aggregation
        width = max(map(len, groups))
        padded = [[*group, *[group[0]] * (width - len(group))] for group in groups]
        counts = torch.tensor([len(group) for group in groups])
        self.register_buffer("members", torch.tensor(padded), persistent=False)
        self.register_buffer("absent", torch.arange(width) >= counts[:, None], persistent=False)
        self.register_buffer("counts", counts.float(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images float32 (n, c, h, w) in [0, 1] → float (n, categories), finite where the logits are."""
        logits: Tensor = self.classifier(images)
        if self.aggregation == "mean-share":
            logits = torch.log_softmax(logits, dim=1)
        among = logits[:, self.members].masked_fill(self.absent, -math.inf)
        if self.aggregation == "mean-share":
            return torch.logsumexp(among, dim=2) - self.counts.log()
        return among.amax(dim=2)

    def facts(self) -> dict[str, str]:
        """How outputs became categories, in words."""
        return {"categories": f"{len(self.counts)}, compared by {WORDS[self.aggregation]}"}
