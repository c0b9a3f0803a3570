"""Images at the size and channels that a network takes, and back at those of the originals."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from robustboard.benchmarks.oracle_loop import Origin

SYMMETRIC = (-1.0, 1.0)
"""Pixel range of diffusers' networks."""
GREY = 1


def fitted(images: Tensor, size: int, channels: int) -> Tensor:
    """Images at another size (bilinear) and number of channels; left alone where both are right."""
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True) if channels == GREY else images.expand(-1, channels, -1, -1)
    if images.shape[2:] != (size, size):
        images = functional.interpolate(images, size=(size, size), mode="bilinear", antialias=True)
    return images


def restored(images: Tensor, origin: Origin) -> Tensor:
    """Images at the size and channels of the originals."""
    _, channels, height, width = origin.images.shape
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True) if channels == GREY else images.expand(-1, channels, -1, -1)
    if images.shape[2:] != (height, width):
        images = functional.interpolate(images, size=(height, width), mode="bilinear", antialias=True)
    return images
