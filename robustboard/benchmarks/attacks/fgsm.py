"""FGSM: one step of the whole budget along the gradient's sign (Goodfellow et al. 2015, section 4)."""

from __future__ import annotations

from torch import Tensor

from robustboard.benchmarks.attacks.budget import project
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt, direction, is_zero
from robustboard.benchmarks.attacks.losses import LOSSES
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.seeds import Draws


def fgsm(model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws) -> Attempt:
    """One step: x' = clip(x + eps * direction of the gradient at x); no random start, true label.

    For norm l2 the direction is the gradient at length 1 (the fast gradient method).
    """
    del draws  # it has no randomness
    _, gradients = model.gradients(images, labels, LOSSES[parameters.loss])
    moved = images + parameters.eps * direction(gradients, parameters.norm)
    return Attempt(project(moved, images, parameters.norm, parameters.eps), is_zero(gradients))
