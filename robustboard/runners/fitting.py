"""The one training loop of all networks trained here: AdamW, one-cycle learning rate, a seeded order."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import torch
from torch import Tensor, nn

from robustboard.errors import CellError

Progress = Callable[[str, float], None]
"""Called with a stage in words and the fraction of it that is done, 0 to 1."""


class Recipe(Protocol):
    """What all recipes of training say."""

    @property
    def epochs(self) -> int:
        """How often each image is seen."""

    @property
    def batch_size(self) -> int:
        """Images a step; those that do not fill a batch are left out of an epoch."""

    @property
    def learning_rate(self) -> Fraction:
        """The highest of the cycle."""

    @property
    def weight_decay(self) -> Fraction:
        """Of AdamW."""


def fit(
    network: nn.Module,
    recipe: Recipe,
    loss_of: Callable[[Tensor, torch.Generator], Tensor],
    *,
    images: int,
    seed: int,
    warm_up: float,
    progress: Progress,
) -> float:
    """Train a network in place, and leave it in evaluation mode.

    Args:
        network: What is trained.
        recipe: How long, and how fast.
        loss_of: The loss of the images at these positions (b,), with the source of the training's randomness,
            the one that the order of images is drawn from.
        images: How many there are.
        seed: Of the order and of what `loss_of` draws.
        warm_up: Share of the steps in which the schedule rises to the learning rate.
        progress: Called after each step.

    Returns:
        The mean loss of the last epoch.

    Raises CellError: load for fewer images than a batch has, non-finite when the loss is.
    """
    generator = torch.Generator().manual_seed(seed)
    steps = images // recipe.batch_size
    if steps == 0:
        raise CellError("load", f"expected at least {recipe.batch_size} training images, got {images}")
    peak, total = float(recipe.learning_rate), recipe.epochs * steps
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=peak, weight_decay=float(recipe.weight_decay), fused=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=peak, total_steps=total, pct_start=warm_up
    )
    network.train()
    mean = 0.0
    for epoch in range(recipe.epochs):
        order, losses = torch.randperm(images, generator=generator), []
        for step in range(steps):
            chosen = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
            loss = loss_of(chosen, generator)
            if not torch.isfinite(loss):
                raise CellError("non-finite", f"the training loss became {loss.item()} in epoch {epoch + 1}")
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            progress("training", (epoch * steps + step + 1) / total)
        mean = sum(losses) / len(losses)
    network.eval()
    return mean
