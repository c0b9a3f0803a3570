"""PGD: repeated small steps, each projected back into the budget (Madry et al. 2018, section 2.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from robustboard.benchmarks.attacks.budget import project
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt, direction, is_zero
from robustboard.benchmarks.attacks.losses import LOSSES
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.attacks.starts import ball_start
from robustboard.benchmarks.seeds import Draws


def pgd(model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws) -> Attempt:
    """Climb the loss from the image, or from a random point of the budget, once a restart.

    Scored as *fooled at any iterate*: an image leaves the batch as soon as an iterate, the start
    included, is misclassified, and that iterate is its answer. An image that never is gets the last
    iterate of the last restart. Step size is relative_step * eps.
    """
    found = images.clone()
    blind = torch.ones(len(images), dtype=torch.bool, device=images.device)
    left = torch.arange(len(images), device=images.device)
    loss, norm, eps = LOSSES[parameters.loss], parameters.norm, parameters.eps
    for restart in range(parameters.restarts):
        if not len(left):
            break
        rows, current = left, images[left]
        if parameters.random_start:
            generators = draws.generators(f"restart {restart}", rows.tolist())
            current = ball_start(current, norm, eps, generators)
        for _ in range(parameters.steps):
            logits, gradients = model.gradients(current, labels[rows], loss, labels=labels[rows])
            fooled = logits.argmax(1) != labels[rows]
            found[rows[fooled]] = current[fooled]
            blind[rows] &= is_zero(gradients) & ~fooled
            rows, current, gradients = rows[~fooled], current[~fooled], gradients[~fooled]
            if not len(rows):
                break
            step = parameters.relative_step * eps * direction(gradients, norm)
            current = project(current + step, images[rows], norm, eps)
        found[rows] = current
        if len(rows) and restart + 1 < parameters.restarts:
            rows = rows[model.logits(current).argmax(1) == labels[rows]]
        left = rows
    return Attempt(found, blind)
