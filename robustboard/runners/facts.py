"""Circumstances of a measurement: machine, versions, cost. None of it is part of a run's key."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from robustboard.errors import CellError
from robustboard.runners.device import describe, peak_memory_bytes
from robustboard.runners.record import Facts

DISTRIBUTIONS = ("robustboard", "torch", "timm", "open_clip_torch", "numpy", "pillow", "pyarrow")


def environment() -> dict[str, str]:
    """Versions and kind of machine; no host name, path or user."""
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def parameters(network: nn.Module) -> int:
    """Number of trainable and frozen weights, without buffers."""
    return sum(parameter.numel() for parameter in network.parameters())


def macs(network: nn.Module, shape: tuple[int, int, int], device: torch.device) -> int | None:
    """Multiply-accumulates of one image of shape (c, h, w), convolutions and matrix products alone.

    None where nothing was counted, as for networks whose operators the counter does not know.
    """
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            network(torch.zeros((1, *shape), device=device))
    except CellError:
        return None
    return counter.get_total_flops() // 2 or None


def shard_facts(
    *,
    seconds: float,
    batch_size: int,
    device: torch.device,
    parameters: int,
    macs: int | None,
    preparation: dict[str, str],
) -> Facts:
    """The circumstances of one shard, now."""
    return Facts(
        seconds=round(seconds, 3),
        peak_memory_bytes=peak_memory_bytes(device),
        batch_size=batch_size,
        threads=torch.get_num_threads(),
        device=describe(device),
        parameters=parameters,
        macs=macs,
        environment=environment(),
        preparation=preparation,
        finished_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
