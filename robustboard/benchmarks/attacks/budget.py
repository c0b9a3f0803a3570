"""Distances between images, and the way back into a budget and into [0, 1]."""

from __future__ import annotations

import torch
from torch import Tensor

from robustboard.registry.entries import Norm

TOLERANCE = 1e-6
"""How far, in pixel units or L2 length, rounding may carry an image past its budget."""
_ROUNDS = 6


def per_image(values: Tensor, like: Tensor) -> Tensor:
    """(n,) values shaped so that they multiply (n, c, h, w) images."""
    return values.to(like.dtype).view(-1, *([1] * (like.ndim - 1)))


def lengths(delta: Tensor, norm: Norm) -> Tensor:
    """(n,) float64 sizes of (n, ...) perturbations: largest entry (linf) or Euclidean length (l2)."""
    flat = delta.flatten(1).double()
    return flat.abs().amax(1) if norm == "linf" else torch.linalg.vector_norm(flat, dim=1)


def distance(perturbed: Tensor, images: Tensor, norm: Norm) -> Tensor:
    """(n,) float64 distances between two batches (n, c, h, w), subtracted in float64."""
    return lengths(perturbed.double() - images.double(), norm)


def _shrink(perturbed: Tensor, images: Tensor, norm: Norm, eps: Tensor) -> Tensor:
    limit = per_image(eps, images)
    if norm == "linf":
        moved = torch.minimum(torch.maximum(perturbed, images - limit), images + limit)
    else:
        delta = perturbed - images
        size = lengths(delta, norm)
        factor = torch.where(size > eps, eps / size.clamp_min(torch.finfo(torch.float64).tiny), 1.0)
        moved = images + delta * per_image(factor, images)
        moved = torch.where(per_image(size > eps, images).bool(), moved, perturbed)
    return moved.clamp(0.0, 1.0)


def project(perturbed: Tensor, images: Tensor, norm: Norm, eps: float) -> Tensor:
    """The images moved back into the budget around `images`, then clipped to [0, 1].

    Linf: every pixel to within eps. L2: along the line to the original until the length is eps;
    where rounding leaves an image outside by more than 1e-7, it is pulled in a little more. Each
    image is treated alone. Budget 0 gives the originals, exactly.

    Args:
        perturbed: (n, c, h, w) float32, finite.
        images: (n, c, h, w) float32 in [0, 1].
        norm: Of the budget.
        eps: Budget, at least 0.
    """
    if eps == 0:
        return images.clone()
    target = torch.full((len(images),), eps, dtype=torch.float64, device=images.device)
    moved = _shrink(perturbed, images, norm, target)
    if norm == "linf":
        return moved  # one rounding of one pixel, at most 6e-8
    for _ in range(_ROUNDS):
        excess = distance(moved, images, norm) - eps
        outside = excess > TOLERANCE / 10
        if not bool(outside.any()):
            break
        target = torch.where(outside, target - 2 * excess, target).clamp_min(0.0)
        again = _shrink(perturbed, images, norm, target)
        moved = torch.where(per_image(outside, images).bool(), again, moved)
    return moved


def inside(perturbed: Tensor, images: Tensor, norm: Norm, eps: float) -> Tensor:
    """(n,) whether each image keeps its budget (to 1e-6) and the range [0, 1]."""
    kept = distance(perturbed, images, norm) <= eps + TOLERANCE
    flat = perturbed.flatten(1)
    return kept & (flat.amin(1) >= 0) & (flat.amax(1) <= 1)
