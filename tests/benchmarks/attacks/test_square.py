"""Square: its schedule, its budget, its queries, and what it sees that gradients do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.attacks import ATTACKS, AttackParameters, Model
from robustboard.benchmarks.attacks.budget import lengths
from robustboard.benchmarks.attacks.square import bump, share, side, square
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def _draws(count: int) -> Draws:
    return Draws("0" * 64, tuple(map(str, range(count))), "test")


def test_squares_shrink_by_the_schedule_of_the_paper() -> None:
    at = (0, 10, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)
    halvings = (0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert [share(iteration) for iteration in at] == [0.8 / 2**times for times in halvings]
    assert side(0, 32, 32) == 29
    assert side(4999, 32, 32) == 3
    assert side(4999, 2, 2) == 1
    assert side(0, 4, 100) == 4


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_a_bump_has_length_one_and_two_opposed_halves(size: int) -> None:
    pattern = bump(size)
    assert np.linalg.norm(pattern) == pytest.approx(1)
    assert (pattern[: size // 2] > 0).all()
    assert (pattern[size // 2 :] < 0).all()
    if size >= 6:  # highest in the middle of each half
        upper = pattern[: size // 2]
        assert upper[1, size // 2] == upper.max() > upper[0, 0]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_whole_budget_is_used_and_kept(robust_net: nn.Module, digits_test: Labelled, norm: Norm) -> None:
    """Surviving points lie on the budget's surface (l2: but for what [0, 1] cuts off)."""
    images = torch.full((6, 1, 8, 8), 0.5) + torch.from_numpy(digits_test[0][:6]) * 0.2
    labels = robust_net(images).argmax(1)
    model = Model(robust_net)
    parameters = AttackParameters(norm, 0.01, queries=120)
    attempt = square(model, images, labels, parameters, _draws(6))
    sizes = lengths(attempt.images - images, norm)
    standing = robust_net(attempt.images).argmax(1) == labels
    assert standing.any()
    assert sizes[standing].tolist() == pytest.approx([0.01] * int(standing.sum()), abs=1e-5)
    assert model.gradient_rows == 0


def test_queries_are_counted_and_end_with_success(two_class: nn.Module) -> None:
    """Score 0.08 falls at once or soon, score 0.8 never: at most 50 + 50 passes, no gradient."""
    images = torch.tensor([0.52, 0.70]).view(2, 1, 1, 1).expand(2, 1, 2, 2).contiguous()
    model = Model(two_class)
    attempt = square(
        model, images, torch.tensor([0, 0]), AttackParameters("linf", 0.05, queries=50), _draws(2)
    )
    assert two_class(attempt.images).argmax(1).tolist() == [1, 0]
    assert 50 < model.forward_rows < 100
    alone = Model(two_class)
    square(alone, images[1:], torch.tensor([0]), AttackParameters("linf", 0.05, queries=50), _draws(1))
    assert alone.forward_rows == 50


def test_hidden_gradients_do_not_hide_from_queries(digits_test: Labelled, standard_net: nn.Module) -> None:
    """A net that rounds its pixels to 16 levels has no gradient: PGD is blind, Square is not."""

    class Rounding(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = standard_net((images * 16).round() / 16)
            return logits

    net = Rounding()
    images, labels = torch.from_numpy(digits_test[0][:60]), torch.from_numpy(digits_test[1][:60])
    right = net(images).argmax(1) == labels
    images, labels = images[right], labels[right]
    parameters = AttackParameters("linf", 0.2, steps=10, relative_step=0.25, queries=300)
    blind = ATTACKS["pgd"](Model(net), images, labels, parameters, _draws(len(images)))
    assert blind.blind.all()
    attempt = square(Model(net), images, labels, parameters, _draws(len(images)))
    assert float((net(attempt.images).argmax(1) == labels).float().mean()) < 0.5
