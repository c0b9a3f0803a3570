"""Random points of a budget, drawn an image at a time from its own generator."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from robustboard.benchmarks.attacks.budget import project
from robustboard.registry.entries import Norm


def ball_start(images: Tensor, norm: Norm, eps: float, generators: list[np.random.Generator]) -> Tensor:
    """A point drawn uniformly from each image's budget, clipped to [0, 1].

    Linf: each pixel uniform in [-eps, eps). L2: uniform in the ball, a normal direction at length
    eps * u^(1/d) with u uniform and d the number of pixel values.
    """
    shape = images.shape[1:]
    offsets = np.empty(images.shape, np.float32)
    for row, generator in enumerate(generators):
        if norm == "linf":
            offsets[row] = generator.uniform(-eps, eps, shape)
        else:
            normal = generator.standard_normal(shape)
            radius = eps * generator.uniform() ** (1 / normal.size)
            offsets[row] = normal * (radius / np.linalg.norm(normal))
    return project(images + torch.from_numpy(offsets).to(images.device), images, norm, eps)


def surface_start(images: Tensor, norm: Norm, eps: float, generators: list[np.random.Generator]) -> Tensor:
    """A random point on the surface of each image's budget, clipped to [0, 1].

    Linf: uniform numbers scaled so that the largest touches eps. L2: a normal direction of length eps.
    """
    offsets = np.empty(images.shape, np.float32)
    for row, generator in enumerate(generators):
        if norm == "linf":
            drawn = generator.uniform(-1.0, 1.0, images.shape[1:])
            offsets[row] = drawn * (eps / np.abs(drawn).max())
        else:
            drawn = generator.standard_normal(images.shape[1:])
            offsets[row] = drawn * (eps / np.linalg.norm(drawn))
    return project(images + torch.from_numpy(offsets).to(images.device), images, norm, eps)
