"""FAB-T: the nearest misclassified point, by steps onto the linearised border to one class a row.

Croce and Hein 2020, "Minimally distorted adversarial examples with a fast adaptive boundary attack",
section 3, in the targeted form of Croce and Hein 2020, "Reliable evaluation of adversarial
robustness with an ensemble of diverse parameter-free attacks", section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from robustboard.benchmarks.attacks.budget import distance, per_image, project
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt, is_zero
from robustboard.benchmarks.attacks.losses import targeted_margin
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.attacks.starts import surface_start
from robustboard.benchmarks.attacks.targets import first_of_each, ranked_targets, together
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm

MOST_BIAS = 0.1
"""Largest weight of the step from the original image (alpha_max in the paper)."""
OVERSHOOT = 1.05
"""Steps go this much beyond the border (eta in the paper)."""
BACK = 0.9
"""After a success, the point moves back to this share of its distance (beta in the paper)."""
_MOST_NEWTON = 60


def onto_plane(points: Tensor, normals: Tensor, rise: Tensor, norm: Norm) -> Tensor:
    """The least change, in the norm, that lifts <normal, point> by `rise` and stays in [0, 1].

    The change is min(r, room) in each pixel for linf and min(r * |normal|, room) for l2, along the
    normal's sign, room being the way to 0 or 1. The lift is then a concave, piecewise linear function
    of r, which Newton's method from r = 0 solves in finitely many steps. Where no change in [0, 1]
    lifts enough, the pixels go to their limits. Images with a zero normal stay.

    Args:
        points: (n, c, h, w) in [0, 1].
        normals: (n, c, h, w).
        rise: (n,) wanted lift, of any sign.
        norm: To be least in.

    Returns:
        (n, c, h, w) changes.
    """
    slope = normals.flatten(1) * torch.where(rise < 0, -1.0, 1.0).unsqueeze(1)
    flat = points.flatten(1)
    room = torch.where(slope > 0, 1 - flat, flat)
    size = slope.abs()
    pace = (size > 0).to(size.dtype) if norm == "linf" else size
    need = rise.abs().double()
    reach = torch.zeros_like(need)
    for _ in range(_MOST_NEWTON):
        free = room > reach.to(size.dtype).unsqueeze(1) * pace
        change = torch.minimum(reach.to(size.dtype).unsqueeze(1) * pace, room)
        missing = need - (size * change).sum(1, dtype=torch.float64)
        gain = (size * pace * free).sum(1, dtype=torch.float64)
        open_ = (missing > 1e-6 * need) & (gain > 0)
        if not bool(open_.any()):
            break
        reach = torch.where(open_, reach + missing / gain.clamp_min(torch.finfo(torch.float64).tiny), reach)
    change = torch.minimum(reach.to(size.dtype).unsqueeze(1) * pace, room)
    short = (need - (size * change).sum(1, dtype=torch.float64) > 1e-4 * need).unsqueeze(1)
    change = torch.where(short, room * (size > 0), change)
    return (change * slope.sign()).view_as(points)


@dataclass(slots=True)
class _Search:
    """Rows still searched, one an image and target; every field has one entry a row."""

    owners: Tensor
    """Place of the row's image in the batch; rises, and an image's rows stand together."""
    images: Tensor
    labels: Tensor
    aims: Tensor
    current: Tensor
    nearest: Tensor
    """Nearest misclassified point so far."""
    least: Tensor
    """Its distance, float64; infinite before the first."""

    def keep(self, mask: Tensor) -> _Search:
        """Only the rows at True."""
        return _Search(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def note(self, fooled: Tensor, norm: Norm) -> None:
        """Remember misclassified points that are the nearest so far, and step back from them."""
        size = distance(self.current, self.images, norm)
        nearer = fooled & (size < self.least)
        self.least = torch.where(nearer, size, self.least)
        self.nearest = torch.where(per_image(nearer, self.images).bool(), self.current, self.nearest)
        back = self.images + BACK * (self.current - self.images)
        self.current = torch.where(per_image(fooled, self.images).bool(), back, self.current)


def _next(search: _Search, logits: Tensor, gradients: Tensor, norm: Norm) -> Tensor:
    """The convex step between the border's points nearest to the current point and to the original."""
    value = targeted_margin(logits, search.aims).double()
    offset = (gradients * (search.images - search.current)).flatten(1).sum(1, dtype=torch.float64)
    here = onto_plane(search.current, gradients, -value, norm)
    there = onto_plane(search.images, gradients, -value - offset, norm)
    zero = torch.zeros_like(here)
    way, straight = distance(here, zero, norm), distance(there, zero, norm)
    bias = (way / (way + straight).clamp_min(torch.finfo(torch.float64).tiny)).clamp(0.0, MOST_BIAS)
    weight = per_image(bias, search.images)
    moved = (search.current + OVERSHOOT * here) * (1 - weight) + (search.images + OVERSHOOT * there) * weight
    return moved.clamp(0.0, 1.0)


@dataclass(slots=True)
class _Finds:
    """The nearest misclassified point of each image, of all its rows."""

    points: Tensor
    least: Tensor
    """(n,) float64; infinite where there is none."""
    blind: Tensor

    def take(self, search: _Search) -> None:
        """Take in what rows found; of points as near as each other, the first row's counts."""
        order = torch.argsort(search.least, stable=True)
        order = order[torch.argsort(search.owners[order], stable=True)]
        order = order[first_of_each(search.owners[order])]
        order = order[search.least[order] < self.least[search.owners[order]]]
        owners = search.owners[order]
        self.points[owners], self.least[owners] = search.nearest[order], search.least[order]


def _run(model: Model, search: _Search, finds: _Finds, parameters: AttackParameters) -> None:
    """Search from all rows; an image leaves, with its rows, once a nearest point is inside its budget.

    One gradient and one look a step, as in algorithm 1 of the paper: where the look finds a
    misclassified point, the next gradient is taken on the way back from it.
    """
    norm = parameters.norm
    for _ in range(parameters.steps):
        logits, gradients = model.gradients(search.current, search.aims, targeted_margin)
        finds.blind[search.owners[~is_zero(gradients)]] = False
        search.current = _next(search, logits, gradients, norm)
        fooled = model.logits(search.current).argmax(1) != search.labels
        search.note(fooled, norm)
        inside = search.least <= parameters.eps
        if not bool(inside.any()):
            continue
        done = torch.zeros_like(finds.blind)
        done[search.owners[inside]] = True
        leaving = done[search.owners]
        finds.take(search.keep(leaving))
        search = search.keep(~leaving)
        if not len(search.owners):
            return
    finds.take(search)


def fab_targeted(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
) -> Attempt:
    """FAB towards all of the best wrong classes at once, once a restart.

    The first restart begins at the image, later ones at a random point half the budget away. An
    image is done once a misclassified point lies inside its budget; the others get the nearest
    misclassified point found, moved into the budget.
    """
    norm, eps = parameters.norm, parameters.eps
    targets = ranked_targets(model.logits(images), labels, parameters.targets)
    width = targets.shape[1]
    finds = _Finds(
        points=images.clone(),
        least=torch.full((len(images),), torch.inf, dtype=torch.float64, device=images.device),
        blind=torch.ones(len(images), dtype=torch.bool, device=images.device),
    )
    for restart in range(parameters.restarts):
        left = torch.nonzero(finds.least > eps).squeeze(1)
        for part in together(images, left, width, 2 * model.rows):
            owners = part.repeat_interleave(width)
            start = images[owners]
            if restart:
                starts = [
                    surface_start(images[part], norm, eps / 2, draws.generators(each, part.tolist()))
                    for each in (f"fab-t target {rank} restart {restart}" for rank in range(width))
                ]
                start = torch.stack(starts, dim=1).flatten(0, 1)
            search = _Search(
                owners=owners,
                images=images[owners],
                labels=labels[owners],
                aims=torch.stack([labels[owners], targets[part].flatten()], dim=1),
                current=start,
                nearest=images[owners],
                least=torch.full((len(owners),), torch.inf, dtype=torch.float64, device=images.device),
            )
            _run(model, search, finds, parameters)
    return Attempt(project(finds.points, images, norm, eps), finds.blind)
