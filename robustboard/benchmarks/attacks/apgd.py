"""APGD: projected ascent that chooses its own step sizes.

Croce and Hein 2020, "Reliable evaluation of adversarial robustness with an ensemble of diverse
parameter-free attacks", section 3, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from robustboard.benchmarks.attacks.budget import per_image, project
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt, direction, is_zero
from robustboard.benchmarks.attacks.losses import (
    Loss,
    cross_entropy,
    dlr,
    margin,
    targeted_dlr,
    targeted_margin,
)
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.attacks.starts import surface_start
from robustboard.benchmarks.attacks.targets import first_of_each, ranked_targets, together
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm

INERTIA = 0.75
"""Weight of the new step against the momentum of the last one (alpha in the paper)."""
RISES = 0.75
"""Share of steps that must raise the loss, or the step size is halved (rho in the paper)."""
FIRST_STEP = 2.0
"""First step size divided by eps."""
DLR_CLASSES = 3
TARGETED_DLR_CLASSES = 4


def checkpoints(steps: int) -> list[int]:
    """Numbers of steps after which step sizes are reviewed.

    Gaps of 22 % of the steps, then 3 % fewer each time, never fewer than 6 % (section 3.1 of the
    paper): 22, 41, 57, 70, 80, 87, 93, 99 of 100.
    """
    gap, less, least = (max(int(share * steps), 1) for share in (0.22, 0.03, 0.06))
    marks = []
    mark = gap
    while mark <= steps:
        marks.append(mark)
        gap = max(gap - less, least)
        mark += gap
    return marks


@dataclass(slots=True)
class _Climbers:
    """Images still climbing; every field has one entry an image."""

    rows: Tensor
    """Places in the batch that was handed in."""
    images: Tensor
    current: Tensor
    previous: Tensor
    gradient: Tensor
    loss: Tensor
    best: Tensor
    best_gradient: Tensor
    best_loss: Tensor
    step: Tensor
    rises: Tensor
    """Steps since the last checkpoint that raised the loss."""
    checked_loss: Tensor
    """Best loss at the last checkpoint."""
    halved: Tensor
    """Whether the last checkpoint halved the step."""

    def keep(self, mask: Tensor) -> _Climbers:
        """Only the images at True."""
        return _Climbers(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def advance(self, norm: Norm, eps: float, inertia: float) -> None:
        """One step with momentum, projected."""
        step = per_image(self.step, self.images) * direction(self.gradient, norm)
        ahead = project(self.current + step, self.images, norm, eps)
        moved = (
            self.current + inertia * (ahead - self.current) + (1 - inertia) * (self.current - self.previous)
        )
        self.previous, self.current = self.current, project(moved, self.images, norm, eps)

    def note(self, loss: Tensor, gradient: Tensor) -> None:
        """Take in the loss and gradient at the current point."""
        self.rises += loss > self.loss
        better = loss > self.best_loss
        self.loss, self.gradient = loss, gradient
        self.best_loss = torch.where(better, loss, self.best_loss)
        wide = per_image(better, self.images).bool()
        self.best = torch.where(wide, self.current, self.best)
        self.best_gradient = torch.where(wide, gradient, self.best_gradient)

    def review(self, gap: int) -> None:
        """At a checkpoint: halve the step and go back to the best point where progress is poor."""
        slow = self.rises <= RISES * gap
        stuck = ~self.halved & (self.best_loss <= self.checked_loss)
        poor = slow | stuck
        wide = per_image(poor, self.images).bool()
        self.step = torch.where(poor, self.step / 2, self.step)
        self.current = torch.where(wide, self.best, self.current)
        self.gradient = torch.where(wide, self.best_gradient, self.gradient)
        self.loss = torch.where(poor, self.best_loss, self.loss)
        self.rises, self.checked_loss, self.halved = torch.zeros_like(self.rises), self.best_loss, poor


@dataclass(frozen=True, slots=True)
class Round:
    """One climb of all images that still stand, from one or several rows an image."""

    purposes: Sequence[str]
    """Names the randomness of each of an image's rows."""
    aims: Tensor
    """(n, rows an image, ...) second argument of the loss."""
    loss: Loss


class _Search:
    """What one climb has seen so far, image by image."""

    def __init__(
        self, model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, turn: Round
    ) -> None:
        self.model, self.labels, self.turn = model, labels, turn
        self.average_over, self.aims = parameters.average_over, turn.aims.flatten(0, 1)
        self.owners = torch.arange(len(images), device=images.device).repeat_interleave(len(turn.purposes))
        """(n * rows an image,) the image of each row."""
        self.found = images.clone()
        self.broken = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        self.blind = torch.ones_like(self.broken)

    def look(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Losses and gradients at new points, and which rows' images still stand."""
        owner, aims, loss = self.owners[rows], self.aims[rows], self.turn.loss
        logits, gradients = self.model.gradients(
            points, aims, loss, self.average_over, labels=self.labels[owner]
        )
        right = logits.argmax(1) == self.labels[owner]
        self.blind[owner[~right | ~is_zero(gradients)]] = False
        if not bool(right.all()):
            fooled, places = owner[~right], points[~right]
            first = first_of_each(fooled)
            self.found[fooled[first]], self.broken[fooled] = places[first], True
        return loss(logits, aims), gradients, ~self.broken[owner]


def climb(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, *, start: Tensor, turn: Round
) -> tuple[Attempt, Tensor]:
    """The attempt on each image, and (n,) whether some iterate was misclassified.

    An image leaves, with all its rows, as soon as an iterate of one of them, the start included, is
    misclassified; of several rows that are at the same step, the first counts. The others get the
    point of highest loss of all their rows.

    Args:
        model: To fool.
        images: (n, c, h, w) in [0, 1].
        labels: (n,).
        parameters: Settings.
        start: (n * rows an image, c, h, w); an image's rows stand together.
        turn: What to climb.
    """
    width = len(turn.purposes)
    search = _Search(model, images, labels, parameters, turn)
    rows = torch.arange(len(search.owners), device=images.device)
    value, gradient, standing = search.look(start, rows)
    climbers = _Climbers(
        rows=rows,
        images=images[search.owners],
        current=start,
        previous=start,
        gradient=gradient,
        loss=value,
        best=start,
        best_gradient=gradient,
        best_loss=value,
        step=torch.full_like(value, FIRST_STEP * parameters.eps),
        rises=torch.zeros_like(rows),
        checked_loss=value,
        halved=torch.ones_like(standing),
    ).keep(standing)
    marks = [0, *checkpoints(parameters.steps)]
    for step in range(1, parameters.steps + 1):
        if not len(climbers.rows):
            break
        climbers.advance(parameters.norm, parameters.eps, INERTIA if step > 1 else 1.0)
        value, gradient, standing = search.look(climbers.current, climbers.rows)
        climbers.note(value, gradient)
        climbers = climbers.keep(standing)
        if step in marks:
            climbers.review(step - marks[marks.index(step) - 1])
    highest = climbers.best_loss.view(-1, width).argmax(1)
    chosen = torch.arange(len(highest), device=images.device) * width + highest
    search.found[search.owners[climbers.rows[chosen]]] = climbers.best[chosen]
    return Attempt(search.found, search.blind), search.broken


def _in_turn(
    model: Model,
    images: Tensor,
    labels: Tensor,
    parameters: AttackParameters,
    draws: Draws,
    *,
    turns: Iterable[Round],
) -> Attempt:
    """Climb once a round; images that fell take no part in later rounds."""
    found = images.clone()
    blind = torch.ones(len(images), dtype=torch.bool, device=images.device)
    left = torch.arange(len(images), device=images.device)
    for turn in turns:
        fallen = torch.zeros_like(blind)
        for part in together(images, left, len(turn.purposes), 2 * model.rows):
            chosen = part.tolist()
            starts = [
                surface_start(images[part], parameters.norm, parameters.eps, draws.generators(each, chosen))
                for each in turn.purposes
            ]
            attempt, broken = climb(
                model,
                images[part],
                labels[part],
                parameters,
                start=torch.stack(starts, dim=1).flatten(0, 1),
                turn=Round(turn.purposes, turn.aims[part], turn.loss),
            )
            found[part] = attempt.images
            blind[part] &= attempt.blind
            fallen[part] = broken
        left = left[~fallen[left]]
        if not len(left):
            break
    return Attempt(found, blind)


def apgd_ce(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
) -> Attempt:
    """APGD on the cross-entropy, from a random point of the surface, once a restart."""
    turns = (
        Round([f"apgd-ce restart {restart}"], labels.unsqueeze(1), cross_entropy)
        for restart in range(parameters.restarts)
    )
    return _in_turn(model, images, labels, parameters, draws, turns=turns)


def apgd_dlr(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
) -> Attempt:
    """APGD on the difference of logits ratio; on the margin where there are only two classes."""
    classes = model.logits(images[:1]).shape[1]
    loss = dlr if classes >= DLR_CLASSES else margin
    turns = (
        Round([f"apgd-dlr restart {restart}"], labels.unsqueeze(1), loss)
        for restart in range(parameters.restarts)
    )
    return _in_turn(model, images, labels, parameters, draws, turns=turns)


def apgd_targeted(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
) -> Attempt:
    """APGD towards the best wrong classes, on the targeted difference of logits ratio.

    On the difference of the two logits where there are fewer than four classes. All targets of an
    image climb at once, each from its own start.
    """
    logits = model.logits(images)
    loss = targeted_dlr if logits.shape[1] >= TARGETED_DLR_CLASSES else targeted_margin
    targets = ranked_targets(logits, labels, parameters.targets)
    aims = torch.stack([labels.unsqueeze(1).expand_as(targets), targets], dim=2)
    turns = (
        Round([f"apgd-t target {rank} restart {restart}" for rank in range(targets.shape[1])], aims, loss)
        for restart in range(parameters.restarts)
    )
    return _in_turn(model, images, labels, parameters, draws, turns=turns)
