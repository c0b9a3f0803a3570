"""The machine that a run uses: device, threads, memory."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

from robustboard.errors import UserError

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts resident memory."""


def prepare(device: str, threads: int | None = None) -> torch.device:
    """The device to compute on, with exact float32 arithmetic and reproducible kernels.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        threads: CPU threads of one operation; None leaves torch's choice.

    Raises UserError when the device is not there.
    """
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise UserError(f"device: expected cpu, cuda or cuda:N, got {device!r}") from None
    if chosen.type not in ("cpu", "cuda"):
        raise UserError(f"device: expected cpu, cuda or cuda:N, got {device!r}")
    if threads is not None:
        torch.set_num_threads(threads)
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError("device: expected a CUDA device, found none; use cpu")
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise UserError(f"device: {device} does not exist, there are {torch.cuda.device_count()}")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
    return chosen


def forget_peak_memory(device: torch.device) -> None:
    """Let `peak_memory_bytes` begin anew, so that a small model does not inherit a large one's peak.

    On a CPU this takes Linux; elsewhere the peak stays that of the whole process.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory used since it was forgotten: on the GPU, or resident of this process on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def describe(device: torch.device) -> str:
    """One line for a result: `cpu`, or the GPU's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
