"""Square: its schedule, its budget, its queries, and what it sees that gradients do not."""

from __future__ import annotations

from importlib import import_module

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


class Steady:
    """Looks so many proposals ahead, whatever it is told."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def note(self, used: float, seconds: float) -> None:
        assert used >= 1
        assert seconds >= 0


def looking(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    module = import_module("robustboard.benchmarks.attacks.square")  # the package has a function of that name
    monkeypatch.setattr(module, "Pace", lambda _first: Steady(depth))


def test_queries_are_counted_and_end_with_success(
    two_class: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Score 0.08 falls at once or soon, score 0.8 never. One at a time, at most as many passes as queries."""
    looking(monkeypatch, 1)
    images = torch.tensor([0.52, 0.70]).view(2, 1, 1, 1).expand(2, 1, 2, 2).contiguous()
    model = Model(two_class)
    parameters = AttackParameters("linf", 0.05, queries=50)
    attempt = square(model, images, torch.tensor([0, 0]), parameters, _draws(2))
    assert two_class(attempt.images).argmax(1).tolist() == [1, 0]
    assert 2 < model.forward_rows < 100

    for queries in (1, 2, 7, 50):
        alone = Model(two_class)
        square(
            alone, images[1:], torch.tensor([0]), AttackParameters("linf", 0.05, queries=queries), _draws(1)
        )
        assert queries / 4 < alone.forward_rows - 1 <= queries  # one look whether it answers the same twice


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("queries", [2, 130, 260])
def test_looking_ahead_changes_nothing(
    digits_test: Labelled, robust_net: nn.Module, monkeypatch: pytest.MonkeyPatch, norm: Norm, queries: int
) -> None:
    """One proposal a pass, or up to 100 with those after a success void: the same points to the bit."""
    images, labels = torch.from_numpy(digits_test[0][:12]), torch.from_numpy(digits_test[1][:12])
    parameters = AttackParameters(norm, 0.15 if norm == "linf" else 0.6, queries=queries)
    found = []
    for depth in (1, 3, 100):
        looking(monkeypatch, depth)
        found.append(square(Model(robust_net), images, labels, parameters, _draws(12)).images)
    assert 0 < int((robust_net(found[0]).argmax(1) == labels).sum()) < 12 or queries == 2
    assert torch.equal(found[1], found[0])
    assert torch.equal(found[2], found[0])


def test_a_random_model_gets_one_try_a_pass(two_class: nn.Module) -> None:
    """Proposals that change no pixel are tried as well: another draw may be a success."""

    class Random(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            asked.append(len(batch))
            logits: Tensor = two_class(batch)
            return logits + torch.rand(logits.shape, generator=generator) / 1000

    generator, asked = torch.Generator().manual_seed(0), list[int]()
    model = Model(Random())
    images = torch.full((3, 1, 2, 2), 0.7)
    square(
        model, images, torch.zeros(3, dtype=torch.long), AttackParameters("linf", 0.05, queries=50), _draws(3)
    )
    assert model.forward_rows == 3 * 50 + 3  # and one look whether it answers the same twice
    assert len(asked) == 50 + 1


def test_proposals_that_change_no_pixel_need_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pixel, at the image plus or minus the budget: after a try of each there is nothing new."""

    class Parabola(nn.Module):
        """Class 0 stands, and the start of either sign is the best point already."""

        def forward(self, batch: Tensor) -> Tensor:
            asked.append(len(batch))
            return torch.stack([torch.ones(len(batch)), (batch[:, 0, 0, 0] - 0.5).abs()], dim=1)

    asked: list[int] = []
    looking(monkeypatch, 1)
    model = Model(Parabola())
    attempt = square(
        model,
        torch.full((1, 1, 1, 1), 0.5),
        torch.tensor([0]),
        AttackParameters("linf", 0.25, queries=200),
        _draws(1),
    )
    assert attempt.images.flatten().tolist() in ([0.25], [0.75])
    assert 60 < model.forward_rows < 140  # the other sign, about half of the time, never better


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
