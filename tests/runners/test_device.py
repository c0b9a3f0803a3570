"""Device, threads and memory."""

from __future__ import annotations

import sys

import numpy as np
import psutil
import pytest
import torch

from robustboard.errors import UserError
from robustboard.runners.device import describe, forget_peak_memory, peak_memory_bytes, prepare


def test_cpu_with_so_many_threads() -> None:
    before = torch.get_num_threads()
    try:
        assert prepare("cpu", threads=2) == torch.device("cpu")
        assert torch.get_num_threads() == 2
        assert describe(torch.device("cpu")) == "cpu"
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:x", ""])
def test_a_device_of_no_known_kind_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="expected cpu, cuda or cuda:N"):
        prepare(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_gpu_is_said_in_one_line() -> None:
    with pytest.raises(UserError, match="found none; use cpu"):
        prepare("cuda")


def test_peak_memory_is_in_bytes() -> None:
    """At least what the process holds now, and not a thousand times it."""
    held = psutil.Process().memory_info().rss
    assert 0.5 * held <= peak_memory_bytes(torch.device("cpu")) <= 20 * held


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can forget a peak")
def test_a_small_cell_does_not_inherit_the_peak_of_a_large_one() -> None:
    device = torch.device("cpu")
    forget_peak_memory(device)
    large = np.ones(200_000_000, np.uint8)
    peak = peak_memory_bytes(device)
    del large
    assert peak_memory_bytes(device) >= peak
    forget_peak_memory(device)
    assert peak_memory_bytes(device) < peak - 100_000_000
