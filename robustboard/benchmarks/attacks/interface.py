"""What every attack takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from robustboard.benchmarks.attacks.losses import LossName
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm


@dataclass(frozen=True, slots=True)
class AttackParameters:
    """Settings of one attack at one budget; each attack reads those that it has."""

    norm: Norm
    eps: float
    """Budget in units of the [0, 1] pixel range (linf), or L2 length in that range."""
    steps: int = 1
    relative_step: float = 1.0
    """Step size divided by eps."""
    loss: LossName = "cross-entropy"
    random_start: bool = False
    restarts: int = 1
    targets: int = 9
    """Wrong classes that a targeted attack aims at, best first; never more than there are."""
    queries: int = 5000
    """Forward passes of an attack without gradients."""
    average_over: int = 1
    """Passes averaged for each gradient of a model that answers differently each time (EoT)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attack found; a proposal that the runner checks and judges afresh."""

    images: Tensor
    """(n, c, h, w) float32."""
    blind: Tensor
    """(n,) bool: the attack asked for gradients of this image and all of them were zero."""


Perturb = Callable[[Model, Tensor, Tensor, AttackParameters, Draws], Attempt]
"""(model, images (n, c, h, w) float32 in [0, 1], labels (n,) int64 in the model's columns, settings,
randomness) → Attempt. Images are classified right on entry. An attack modifies none of its arguments."""


def direction(gradients: Tensor, norm: Norm) -> Tensor:
    """The unit step of steepest ascent an image: the sign (linf), or the gradient at length 1 (l2).

    Zero gradients give zero steps. Scaled by the largest entry first, so that tiny gradients do
    not underflow when squared; lengths are summed in float64, where the order of the sum, which
    may depend on the number of images, does not show.
    """
    if norm == "linf":
        return gradients.sign()
    flat = gradients.flatten(1)
    largest = flat.abs().amax(1, keepdim=True)
    scaled = flat / torch.where(largest > 0, largest, 1.0)
    length = torch.linalg.vector_norm(scaled.double(), dim=1, keepdim=True).to(scaled.dtype)
    return (scaled / torch.where(length > 0, length, 1.0)).view_as(gradients)


def is_zero(gradients: Tensor) -> Tensor:
    """(n,) whether every entry of an image's gradient is exactly 0."""
    return gradients.flatten(1).abs().amax(1) == 0
