"""How many images a pass: found by timing a few sizes on this machine. No number depends on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from robustboard.benchmarks.attacks.losses import margin
from robustboard.benchmarks.attacks.model import GRAIN, Model
from robustboard.errors import CellError

GAIN = 0.95
"""A smaller size must take less than this share of the time of a larger one to be preferred."""
WORTH = 50
"""A probe is made where the work is so many times its own."""


def sizes(most: int) -> list[int]:
    """The sizes to try, largest first: the most, half of it, and so on, in whole multiples of the grain."""
    found = [most // 2**step // GRAIN * GRAIN for step in range(most.bit_length())]
    return [size for size in dict.fromkeys(found) if size >= GRAIN] or [most]


def is_worth(work: int, most: int) -> bool:
    """Whether so many forward passes of one image pay for a probe of four passes a size and image."""
    return len(sizes(most)) > 1 and work > WORTH * 4 * sum(sizes(most))


def fastest_rows(
    network: nn.Module,
    shape: tuple[int, int, int],
    most: int,
    device: torch.device,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Images a pass that take the least time each, forward and back to the pixels.

    A size that does not fit in memory, or that the network refuses, is passed over; `most` where none
    is left. The network is left as it is.

    Args:
        network: (n, c, h, w) float32 in [0, 1] → (n, classes) logits, on `device`.
        shape: (c, h, w).
        most: The largest size that may be chosen.
        device: Where to compute.
        clock: Seconds, from anywhere.
    """
    best, least = most, math.inf
    for size in sizes(most):
        model = Model(network, batch_size=size, device=device)
        images = torch.full((size, *shape), 0.5, device=device)
        labels = torch.zeros(size, dtype=torch.int64, device=device)
        try:
            seconds = _seconds(model, images, labels, clock) / size
        except (CellError, RuntimeError, MemoryError):
            continue
        if model.rows == size and seconds < GAIN * least:
            best, least = size, seconds
    return best


def _seconds(model: Model, images: Tensor, labels: Tensor, clock: Callable[[], float]) -> float:
    """Time of one gradient of each image, after one to warm up."""
    model.gradients(images, labels, margin)
    if images.device.type == "cuda":
        torch.cuda.synchronize(images.device)
    started = clock()
    model.gradients(images, labels, margin)
    if images.device.type == "cuda":
        torch.cuda.synchronize(images.device)
    return clock() - started
