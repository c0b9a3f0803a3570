"""What attacks climb: one number an image, larger is closer to a wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

_TINY = 1e-12
"""Added to differences of logits before dividing by them: all logits may be equal."""
LossName = Literal["cross-entropy", "margin", "dlr"]
Loss = Callable[[Tensor, Tensor], Tensor]
"""(logits (n, k), aims (n, ...)) → (n,) losses; `aims` is the label, or what a loss needs beside it."""


def _without(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits with minus infinity at the label."""
    return logits.scatter(1, labels.unsqueeze(1), float("-inf"))


def _at(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy by a rising function of it: u = log(sum of exp of the wrong logits) - right logit.

    The cross-entropy is log(1 + exp(u)): it rises exactly when u rises, and its gradient is that of
    u times the share of the wrong classes. Attacks use the direction only, and u keeps it where the
    model is so sure that the share, and with it the gradient of the cross-entropy, rounds to 0.
    """
    return torch.logsumexp(_without(logits, labels), dim=1) - _at(logits, labels)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Largest wrong logit minus the label's logit; above 0 exactly when the image is misclassified."""
    return _without(logits, labels).amax(dim=1) - _at(logits, labels)


def dlr(logits: Tensor, labels: Tensor) -> Tensor:
    """Difference of logits ratio: the margin divided by (largest - third largest logit).

    Indifferent to the scale and offset of the logits (Croce and Hein 2020, "Reliable evaluation of
    adversarial robustness with an ensemble of diverse parameter-free attacks", section 4). Needs
    three classes.
    """
    top = logits.topk(3, dim=1).values
    return margin(logits, labels) / (top[:, 0] - top[:, 2] + _TINY)


def targeted_margin(logits: Tensor, aims: Tensor) -> Tensor:
    """The target's logit minus the label's; aims are (n, 2), label and target."""
    return _at(logits, aims[:, 1]) - _at(logits, aims[:, 0])


def targeted_dlr(logits: Tensor, aims: Tensor) -> Tensor:
    """The targeted margin divided by (largest - mean of third and fourth largest logit).

    Same paper, equation 7. Needs four classes; aims are (n, 2), label and target.
    """
    top = logits.topk(4, dim=1).values
    return targeted_margin(logits, aims) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2 + _TINY)


LOSSES: dict[LossName, Loss] = {"cross-entropy": cross_entropy, "margin": margin, "dlr": dlr}
"""Untargeted losses: aims are the labels."""
