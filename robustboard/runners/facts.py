"""Circumstances of a measurement: machine, versions, cost. None of it is part of a run's key."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from functools import cache
from importlib import metadata

import torch

from robustboard.environment import unusual_endpoint
from robustboard.runners.device import describe, peak_memory_bytes
from robustboard.runners.record import Checks, Facts

DISTRIBUTIONS = ("robustboard", "torch", "timm", "open_clip_torch", "numpy", "pillow", "pyarrow")


@cache
def environment() -> dict[str, str]:
    """Versions and kind of machine, and the Hub where it is not the usual one; no host name, path or user."""
    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    unusual = unusual_endpoint()
    return found | ({"hub": unusual} if unusual else {})


def shard_facts(
    *,
    seconds: float,
    batch_size: int,
    device: torch.device,
    parameters: int,
    macs: int | None,
    preparation: dict[str, str],
    checks: Checks | None = None,
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
        environment=dict(environment()),
        checks=checks,
        preparation=preparation,
        finished_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
