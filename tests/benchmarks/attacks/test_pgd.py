"""PGD: strength, starts, early leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.attacks import ATTACKS, AttackParameters, Model
from robustboard.benchmarks.seeds import Draws

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]
STEPS = 40
CASES = [
    AttackParameters("linf", 0.1, STEPS, 1 / 30),
    AttackParameters("l2", 0.6, STEPS, 0.1),
]


def robust_accuracy(net: nn.Module, images: Tensor, labels: Tensor, parameters: AttackParameters) -> float:
    """Share of all images right before and after PGD."""
    right = net(images).argmax(1) == labels
    ids = Draws("0" * 64, tuple(str(row) for row in range(int(right.sum()))), "test")
    attempt = ATTACKS["pgd"](Model(net), images[right], labels[right], parameters, ids)
    return float((net(attempt.images).argmax(1) == labels[right]).sum()) / len(labels)


def textbook_pgd(net: nn.Module, images: Tensor, labels: Tensor, case: AttackParameters) -> Tensor:
    """The loop of Madry et al. as papers print it: last iterate, plain cross-entropy, no early leave."""
    current, eps, step = images.clone(), case.eps, case.relative_step * case.eps
    for _ in range(case.steps):
        current.requires_grad_()
        loss = nn.functional.cross_entropy(net(current), labels, reduction="sum")
        (slope,) = torch.autograd.grad(loss, current)
        with torch.no_grad():
            if case.norm == "linf":
                delta = (current + step * slope.sign() - images).clamp(-eps, eps)
            else:
                unit = slope / slope.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, 1, 1, 1)
                delta = current + step * unit - images
                delta *= (eps / delta.flatten(1).norm(dim=1).clamp_min(1e-12)).clamp(max=1).view(-1, 1, 1, 1)
            current = (images + delta).clamp(0, 1)
    return current


@pytest.mark.parametrize("case", CASES, ids=["linf", "l2"])
@pytest.mark.parametrize("kind", ["standard_net", "robust_net"])
def test_agrees_with_the_textbook_and_is_not_weaker(
    request: pytest.FixtureRequest, digits_test: Labelled, kind: str, case: AttackParameters
) -> None:
    """The same steps without early leave break at most one image in 300 more, and hardly fewer."""
    net: nn.Module = request.getfixturevalue(kind)
    images, labels = (torch.from_numpy(array[:300]) for array in digits_test)
    ours = round(300 * robust_accuracy(net, images, labels, case))
    moved = textbook_pgd(net, images, labels, case)
    theirs = int(((net(images).argmax(1) == labels) & (net(moved).argmax(1) == labels)).sum())
    assert theirs - 6 <= ours <= theirs + 1


@pytest.mark.parametrize("case", CASES, ids=["linf", "l2"])
@pytest.mark.parametrize("kind", ["standard_net", "robust_net"])
def test_at_least_as_strong_as_foolbox(
    request: pytest.FixtureRequest, digits_test: Labelled, kind: str, case: AttackParameters
) -> None:
    """Robust accuracy at most half a point above foolbox's PGD with the same steps and random starts."""
    foolbox = pytest.importorskip("foolbox", reason="foolbox lives in the environment of the benchmarks")
    net: nn.Module = request.getfixturevalue(kind)
    images, labels = (torch.from_numpy(array[:300]) for array in digits_test)
    attack = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[case.norm](
        steps=case.steps, rel_stepsize=case.relative_step, random_start=True
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _, _, success = attack(foolbox.PyTorchModel(net, bounds=(0, 1)), images, labels, epsilons=case.eps)
    theirs = 1 - float(success.float().mean())
    assert robust_accuracy(net, images, labels, replace(case, random_start=True)) <= theirs + 0.005


def test_more_restarts_and_larger_budgets_never_help_the_model(
    digits_test: Labelled, standard_net: nn.Module
) -> None:
    images, labels = (torch.from_numpy(array[:150]) for array in digits_test)
    one, three = (
        robust_accuracy(
            standard_net,
            images,
            labels,
            AttackParameters("linf", 0.1, 10, 0.25, random_start=True, restarts=restarts),
        )
        for restarts in (1, 3)
    )
    assert three <= one
    wide = AttackParameters("linf", 0.9, 40, 0.1, random_start=True)
    assert robust_accuracy(standard_net, images, labels, wide) == 0


def test_a_broken_image_leaves_at_once(two_class: nn.Module) -> None:
    """Score 0.08 falls at the first step, score 0.8 never: 1 + 10 gradients in 10 steps, not 20."""
    images = torch.tensor([0.52, 0.70]).view(2, 1, 1, 1).expand(2, 1, 2, 2).contiguous()
    model = Model(two_class)
    parameters = AttackParameters("linf", 0.05, steps=10, relative_step=0.5)
    attempt = ATTACKS["pgd"](model, images, torch.tensor([0, 0]), parameters, Draws("", ("a", "b"), ""))
    assert model.gradient_rows == 2 + 2 + 8
    assert torch.allclose(attempt.images[0], torch.tensor(0.495))


def test_margin_loss_breaks_where_cross_entropy_is_saturated(
    digits_test: Labelled, standard_net: nn.Module
) -> None:
    """Logits scaled by 1,000: the softmax is 0 or 1, and neither loss loses its direction."""
    images, labels = (torch.from_numpy(array[:150]) for array in digits_test)

    class Certain(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            logits: Tensor = standard_net(batch) * 1000
            return logits

    plain = AttackParameters("linf", 0.1, STEPS, 1 / 30)
    reference = robust_accuracy(standard_net, images, labels, plain)
    assert robust_accuracy(Certain(), images, labels, plain) <= reference + 0.02
    sharp = AttackParameters("linf", 0.1, STEPS, 1 / 30, loss="margin")
    assert robust_accuracy(Certain(), images, labels, sharp) <= reference + 0.02
