"""The size of passes is the fastest of a few, and changes no prediction."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn

from robustboard.runners.batching import fastest_rows, is_worth, sizes

CPU = torch.device("cpu")
SHAPE = (1, 4, 4)


class Timed(nn.Module):
    """Takes so many seconds a pass by its number of images, on a clock of its own."""

    def __init__(self, seconds: dict[int, float]) -> None:
        super().__init__()
        self.seconds = seconds
        self.now = 0.0

    def forward(self, images: Tensor) -> Tensor:
        if len(images) not in self.seconds:
            raise RuntimeError("expected another number of images")
        self.now += self.seconds[len(images)]
        return images.flatten(1)[:, :3]


def chosen(seconds: dict[int, float], most: int = 64) -> int:
    network = Timed(seconds)
    return fastest_rows(network, SHAPE, most, CPU, clock=lambda: network.now)


@pytest.mark.parametrize(
    ("most", "expected"),
    [(64, [64, 32, 16]), (256, [256, 128, 64, 32, 16]), (40, [32, 16]), (8, [8]), (16, [16])],
)
def test_sizes_are_multiples_of_the_grain(most: int, expected: list[int]) -> None:
    assert sizes(most) == expected


def test_the_size_of_least_time_an_image_is_chosen() -> None:
    assert chosen({64: 64.0, 32: 16.0, 16: 16.0}) == 32
    assert chosen({64: 10.0, 32: 16.0, 16: 16.0}) == 64


def test_a_hair_less_time_is_no_reason_for_smaller_passes() -> None:
    assert chosen({64: 64.0, 32: 31.5, 16: 16.0}) == 64


def test_sizes_that_fail_are_passed_over() -> None:
    assert chosen({16: 5.0}) == 16
    assert chosen({}) == 64


def test_a_short_run_is_not_kept_waiting() -> None:
    assert not is_worth(600, 64)
    assert is_worth(1_000_000, 64)
    assert not is_worth(1_000_000, 16)


def test_a_real_network_is_left_as_it_is() -> None:
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3)).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    started = time.perf_counter()
    assert fastest_rows(network, SHAPE, 64, CPU) in sizes(64)
    assert time.perf_counter() - started < 10
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert not network.training
    assert all(parameter.grad is None for parameter in network.parameters())
