"""Cost of one forward pass."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from robustboard.errors import CellError


def parameters(network: nn.Module) -> int:
    """Number of trainable and frozen weights, without buffers."""
    return sum(parameter.numel() for parameter in network.parameters())


def macs(network: nn.Module, shape: tuple[int, int, int], device: torch.device) -> int | None:
    """Multiply-accumulates of one image of shape (c, h, w): convolutions and matrix products alone.

    Attention is taken in its plain form, since the counter does not know the fused kernels of CPUs.
    A compiled network is counted as it was written. None where nothing could be counted.
    """
    counter = FlopCounterMode(display=False)
    try:
        with torch.compiler.set_stance("force_eager"), torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
            network(torch.zeros((1, *shape), device=device))
    except (CellError, RuntimeError, NotImplementedError):
        return None
    return counter.get_total_flops() // 2 or None
