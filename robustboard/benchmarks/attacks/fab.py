"""FAB-T: the nearest misclassified point, by steps onto the linearised border to one class at a time.

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
from robustboard.benchmarks.attacks.targets import ranked_targets
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
    """Images still searched; every field has one entry an image."""

    rows: Tensor
    images: Tensor
    labels: Tensor
    aims: Tensor
    current: Tensor
    nearest: Tensor
    """Nearest misclassified point so far."""
    least: Tensor
    """Its distance, float64; infinite before the first."""

    def keep(self, mask: Tensor) -> _Search:
        """Only the images at True."""
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


@dataclass(frozen=True, slots=True)
class _Nearest:
    """Where a search ended: places, nearest misclassified points, their distances (float64)."""

    rows: Tensor
    points: Tensor
    distances: Tensor


def _search_target(model: Model, search: _Search, blind: Tensor, parameters: AttackParameters) -> _Nearest:
    """Search towards one target; an image leaves once its nearest point is inside the budget."""
    norm, done = parameters.norm, list[_Search]()
    logits, gradients = model.gradients(search.current, search.aims, targeted_margin)
    for _ in range(parameters.steps):
        blind[search.rows] &= is_zero(gradients)
        search.current = _next(search, logits, gradients, norm)
        logits, gradients = model.gradients(search.current, search.aims, targeted_margin)
        fooled = logits.argmax(1) != search.labels
        search.note(fooled, norm)
        inside = search.least <= parameters.eps
        done.append(search.keep(inside))
        search, fooled = search.keep(~inside), fooled[~inside]
        if not len(search.rows):
            break
        logits, gradients = logits[~inside], gradients[~inside]
        if bool(fooled.any()):  # these went back towards the original: look there
            again = model.gradients(search.current[fooled], search.aims[fooled], targeted_margin)
            logits[fooled], gradients[fooled] = again
    done.append(search)
    return _Nearest(
        torch.cat([part.rows for part in done]),
        torch.cat([part.nearest for part in done]),
        torch.cat([part.least for part in done]),
    )


def fab_targeted(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
) -> Attempt:
    """FAB towards each of the best wrong classes in turn, once a restart.

    The first restart begins at the image, later ones at a random point half the budget away. An
    image is done once a misclassified point lies inside its budget; the others get the nearest
    misclassified point found, moved into the budget.
    """
    norm, eps = parameters.norm, parameters.eps
    logits = model.logits(images)
    found = images.clone()
    least = torch.full((len(images),), torch.inf, dtype=torch.float64, device=images.device)
    blind = torch.ones(len(images), dtype=torch.bool, device=images.device)
    for restart in range(parameters.restarts):
        for rank, target in enumerate(ranked_targets(logits, labels, parameters.targets)):
            left = torch.nonzero(least > eps).squeeze(1)
            if not len(left):
                break
            start = images[left]
            if restart:
                generators = draws.generators(f"fab-t target {rank} restart {restart}", left.tolist())
                start = surface_start(start, norm, eps / 2, generators)
            search = _Search(
                rows=left,
                images=images[left],
                labels=labels[left],
                aims=torch.stack([labels, target], dim=1)[left],
                current=start,
                nearest=images[left],
                least=torch.full_like(least[left], torch.inf),
            )
            ended = _search_target(model, search, blind, parameters)
            nearer = ended.distances < least[ended.rows]
            rows = ended.rows[nearer]
            found[rows], least[rows] = ended.points[nearer], ended.distances[nearer]
    return Attempt(project(found, images, norm, eps), blind)
