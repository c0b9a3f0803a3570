"""APGD: its schedule, its strength, its way with few classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.attacks import ATTACKS, AttackParameters, Model, Perturb
from robustboard.benchmarks.attacks.apgd import apgd_ce, apgd_dlr, apgd_targeted, checkpoints
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def survivors(
    attack: Perturb, net: nn.Module, data: Labelled, parameters: AttackParameters
) -> tuple[Tensor, Model]:
    """(n,) flags of the images right before and after, and the model with its counters."""
    images, labels = map(torch.from_numpy, data)
    right = net(images).argmax(1) == labels
    model = Model(net)
    ids = Draws("0" * 64, tuple(str(row) for row in torch.nonzero(right).squeeze(1).tolist()), "test")
    attempt = attack(model, images[right], labels[right], parameters, ids)
    flags = right.clone()
    flags[right] = net(attempt.images).argmax(1) == labels[right]
    return flags, model


def test_checkpoints_of_100_steps_are_those_of_the_paper() -> None:
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]


@pytest.mark.parametrize("steps", [1, 2, 5, 10, 20, 37, 1000])
def test_checkpoints_rise_within_the_steps(steps: int) -> None:
    marks = checkpoints(steps)
    assert marks == sorted(set(marks))
    assert all(1 <= mark <= steps for mark in marks)


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.15), ("l2", 0.6)])
def test_not_weaker_than_pgd_with_its_hand_set_step(
    digits_test: Labelled, robust_net: nn.Module, norm: Norm, eps: float
) -> None:
    """At most one image in 70 more survives than under 100 steps of PGD."""
    data = (digits_test[0][:70], digits_test[1][:70])
    parameters = AttackParameters(norm, eps, steps=100, relative_step=0.05, random_start=True, targets=3)
    pgd, _ = survivors(ATTACKS["pgd"], robust_net, data, parameters)
    ours, _ = survivors(apgd_ce, robust_net, data, parameters)
    targeted, _ = survivors(apgd_targeted, robust_net, data, parameters)
    assert int(ours.sum()) <= int(pgd.sum()) + 1
    assert int(targeted.sum()) <= int(pgd.sum()) + 1


def test_scaled_logits_do_not_shield_a_model(digits_test: Labelled, standard_net: nn.Module) -> None:
    """Logits times 1e6: cross-entropy in float32 is flat there; the attack sees through it."""

    class Scaled(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = standard_net(images) * 1e6
            return logits

    data = (digits_test[0][:60], digits_test[1][:60])
    parameters = AttackParameters("linf", 0.15, steps=30)
    for attack in (apgd_ce, apgd_dlr):
        plain, _ = survivors(attack, standard_net, data, parameters)
        scaled, _ = survivors(attack, Scaled(), data, parameters)
        assert abs(int(plain.sum()) - int(scaled.sum())) <= 2


@pytest.mark.parametrize("classes", [2, 3, 4, 6])
def test_few_classes_need_no_third_logit(
    digits_test: Labelled, standard_net: nn.Module, classes: int
) -> None:
    """B039: a digits net cut to so many classes is broken by each variant, without an index error."""
    labels = digits_test[1]
    chosen = np.flatnonzero(labels < classes)[:40]
    cut = nn.Sequential(standard_net, _First(classes))
    data = (digits_test[0][chosen], labels[chosen])
    parameters = AttackParameters("linf", 0.4, steps=20)
    for attack in (apgd_ce, apgd_dlr, apgd_targeted):
        flags, _ = survivors(attack, cut, data, parameters)
        assert int(flags.sum()) == 0


class _First(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, logits: Tensor) -> Tensor:
        return logits[:, : self.classes]


def test_broken_images_cost_nothing_further(digits_test: Labelled, standard_net: nn.Module) -> None:
    """All fall within a few of 100 steps, and later targets and restarts see none of them."""
    data = (digits_test[0][:60], digits_test[1][:60])
    parameters = AttackParameters("linf", 0.6, steps=100, restarts=3)
    for attack in (apgd_ce, apgd_targeted):
        flags, model = survivors(attack, standard_net, data, parameters)
        assert not flags.any()
        assert model.gradient_rows < 60 * 15


class Jittery(nn.Module):
    """Adds noise to its logits: another answer each time."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.net(images)
        return logits + 3 * torch.randn(logits.shape, generator=self.generator)


def test_gradients_of_a_random_model_are_averaged(digits_test: Labelled, standard_net: nn.Module) -> None:
    """The mean of 20 passes lies nearer to the noiseless logits than one pass does."""
    images, labels = torch.from_numpy(digits_test[0][:16]), torch.from_numpy(digits_test[1][:16])
    truth = standard_net(images)
    model = Model(Jittery(standard_net))
    one, _ = model.gradients(images, labels, lambda logits, _: logits[:, 0])
    many, slopes = model.gradients(images, labels, lambda logits, _: logits[:, 0], average_over=20)
    assert (many - truth).abs().mean() < (one - truth).abs().mean() / 3
    exact = Model(standard_net).gradients(images, labels, lambda logits, _: logits[:, 0])[1]
    assert torch.allclose(slopes, exact, atol=1e-6)
    assert model.gradient_rows == 16 * 21
