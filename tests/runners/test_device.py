"""Device, threads and memory."""

from __future__ import annotations

import psutil
import pytest
import torch

from robustboard.errors import UserError
from robustboard.runners.device import describe, peak_memory_bytes, prepare


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
