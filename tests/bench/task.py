"""What the contenders of the benchmark are given, and what they give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor, nn

from robustboard.benchmarks.attacks.budget import project

QUERIES = 5000
"""Of Square in the standard AutoAttack (Croce and Hein 2020, section 6)."""


@dataclass(frozen=True, slots=True)
class Task:
    """Linf attacks on the true labels of some images."""

    classifier: nn.Module
    """(n, c, h, w) float32 in [0, 1] → (n, classes) logits; frozen, in eval mode, shared by all."""
    images: Tensor
    """(n, c, h, w) float32 in [0, 1]."""
    labels: Tensor
    """(n,) int64."""
    classes: int
    eps: Fraction
    steps: int
    """Iterations of each gradient attack."""
    relative_step: Fraction = Fraction(1, 4)
    """Step size of PGD divided by eps."""
    queries: int = QUERIES
    """Forward passes of Square."""

    def brief(self) -> Task:
        """The same in a few iterations: enough to compare batch sizes and to warm up."""
        return replace(self, steps=2, queries=4)


Run = Callable[[Task, int], Tensor]
"""(task, images a batch) → (n, c, h, w) attacked images, not yet judged; or (n,) bool, which images stand."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do a task."""

    name: str
    run: Run
    equal_work: bool = True
    """Whether it runs as many iterations as the task says; only then does its time count."""
    many_rows: bool = False
    """Whether it sends several rows an image through the network, so that batches beyond the images pay."""
    note: str = ""


def predicted(task: Task, images: Tensor) -> Tensor:
    """(n,) classes, 16 images at a time so that nobody's batch size shows."""
    with torch.no_grad():
        return torch.cat([task.classifier(part).argmax(1) for part in torch.split(images, 16)])


def standing(task: Task, found: Tensor) -> Tensor:
    """(n,) bool: images classified right before and after.

    Attacked images are moved into the budget first, so that nobody gains by leaving it.
    """
    if found.dtype == torch.bool:
        return found
    perturbed = project(found.detach().to(task.images), task.images, "linf", float(task.eps))
    right = predicted(task, task.images) == task.labels
    return right & (predicted(task, perturbed) == task.labels)
