"""Built-in transformations whose parameters are a latent: the floor that a learned generator must beat.

Each takes images (n, c, h, w) in [0, 1] and parameters (n, k) near 0, where 0 changes nothing, and lets
gradients through to the parameters. A parameter of 1 is a strong change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from robustboard.registry.generators import Transformation

LARGEST_ANGLE = math.pi / 6
LARGEST_SCALE = 0.4
"""As a natural logarithm."""
LARGEST_SHIFT = 0.25
"""As a share of half the side."""
LARGEST_SHEAR = 0.5
LARGEST_TONE = 0.5
LARGEST_WARP = 0.25
"""As a share of half the side."""
CONTROL = 3
"""Control points of an elastic warp along each side."""
PATCH = 0.25
"""Half the side of an occluding patch, as a share of half the image's side."""
EDGE = 12.0
"""Steepness of an occluding patch's edge."""


def _grid(images: Tensor, matrices: Tensor) -> Tensor:
    return functional.affine_grid(matrices, list(images.shape), align_corners=False)


def _sample(images: Tensor, grid: Tensor) -> Tensor:
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def affine(images: Tensor, parameters: Tensor) -> Tensor:
    """Rotation, logarithm of the scale, two shifts and a shear."""
    angle, scale, right, down, shear = parameters.tanh().unbind(1)
    angle, size = angle * LARGEST_ANGLE, (scale * LARGEST_SCALE).exp()
    cosine, sine, slant = angle.cos() / size, angle.sin() / size, shear * LARGEST_SHEAR
    top = torch.stack([cosine, -sine + slant * cosine, right * LARGEST_SHIFT], dim=1)
    bottom = torch.stack([sine, cosine + slant * sine, down * LARGEST_SHIFT], dim=1)
    return _sample(images, _grid(images, torch.stack([top, bottom], dim=1)))


def colour(images: Tensor, parameters: Tensor) -> Tensor:
    """Brightness, contrast around the image's mean, and the logarithm of a gamma."""
    bright, contrast, gamma = (parameters.tanh() * LARGEST_TONE)[:, :, None, None, None].unbind(1)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    changed = (images - mean) * (2 * contrast).exp() + mean + bright
    inside = changed.clamp(1e-4, 1)
    return changed + (inside ** (2 * gamma).exp() - inside)


def blur(images: Tensor, parameters: Tensor) -> Tensor:
    """A mixture with the image blurred by 3x3 and by 5x5 means; a negative parameter sharpens a little."""
    narrow, wide = parameters.tanh()[:, :, None, None, None].unbind(1)
    once = _mean(images, 1)
    twice = _mean(images, 2)
    return images + narrow.clamp_min(-0.5) * (once - images) + wide.clamp_min(-0.5) * (twice - images)


def _mean(images: Tensor, reach: int) -> Tensor:
    padded = functional.pad(images, (reach,) * 4, mode="replicate")
    return functional.avg_pool2d(padded, 2 * reach + 1, stride=1)


def occlusion(images: Tensor, parameters: Tensor) -> Tensor:
    """A grey square with soft edges: where it lies, and how opaque it is."""
    right, down, strength = parameters.tanh()[:, :, None, None].unbind(1)
    height, width = images.shape[2:]
    rows = torch.linspace(-1, 1, height, device=images.device)[None, :, None]
    columns = torch.linspace(-1, 1, width, device=images.device)[None, None, :]
    inside = torch.sigmoid(EDGE * (PATCH - (rows - down).abs())) * torch.sigmoid(
        EDGE * (PATCH - (columns - right).abs())
    )
    opaque = (strength.square() * inside).unsqueeze(1)
    return images * (1 - opaque) + 0.5 * opaque


def elastic(images: Tensor, parameters: Tensor) -> Tensor:
    """A smooth warp given by shifts at 3 by 3 control points."""
    count, (height, width) = len(images), images.shape[2:]
    shifts = parameters.tanh().view(count, 2, CONTROL, CONTROL) * LARGEST_WARP
    smooth = functional.interpolate(shifts, size=(height, width), mode="bicubic", align_corners=True)
    same = torch.eye(2, 3, device=images.device).expand(count, 2, 3)
    return _sample(images, _grid(images, same) + smooth.permute(0, 2, 3, 1))


@dataclass(frozen=True, slots=True)
class Change:
    """One transformation and how many parameters it takes."""

    apply: Callable[[Tensor, Tensor], Tensor]
    parameters: int
    start: float = 0.0
    """Value of every parameter at the start: 0 changes nothing, but where the gradient at 0 is 0 the start is
    a little beside it."""


CHANGES: Mapping[Transformation, Change] = {
    "affine": Change(affine, 5),
    "colour": Change(colour, 3),
    "blur": Change(blur, 2),
    "occlusion": Change(occlusion, 3, start=0.05),
    "elastic": Change(elastic, 2 * CONTROL * CONTROL),
}
