"""What every attack owes: the right answer, its budget, and no trace."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.attacks import ATTACKS, AttackParameters, Model
from robustboard.benchmarks.attacks.budget import inside
from robustboard.benchmarks.attacks.losses import LossName
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]

SETTINGS = {
    "fgsm": AttackParameters("linf", 0.05),
    "pgd": AttackParameters("linf", 0.05, steps=20, relative_step=0.25, random_start=True),
    "apgd-ce": AttackParameters("linf", 0.05, steps=30),
    "apgd-dlr": AttackParameters("linf", 0.05, steps=30),
    "apgd-targeted": AttackParameters("linf", 0.05, steps=20),
    "fab-targeted": AttackParameters("linf", 0.05, steps=20),
    "square": AttackParameters("linf", 0.05, queries=300),
}
REACH = {
    ("fab-targeted", "linf"): 0.98,
    ("fab-targeted", "l2"): 0.98,
    ("square", "linf"): 0.7,
    ("square", "l2"): 0.4,
}
"""Share of the budget that is certain to be used against a straight border, where it is not all. Square
splits an l2 budget evenly among channels, whatever their weight."""
NORMS: tuple[Norm, ...] = ("linf", "l2")
"""B039's images: score 0.08 and 0.8; a budget of 0.05 moves the score by 0.2 (linf) or 0.1 (l2)."""
IMAGES = torch.tensor([0.52, 0.70]).view(2, 1, 1, 1).expand(2, 1, 2, 2).contiguous()
LABELS = torch.tensor([0, 0])


def draws(count: int) -> Draws:
    return Draws("0" * 64, tuple(f"image-{row}" for row in range(count)), "test")


def test_every_attack_has_a_row_in_this_table() -> None:
    assert set(SETTINGS) == set(ATTACKS)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_linear_model_with_a_known_answer(two_class: nn.Module, name: str, norm: Norm, classes: int) -> None:
    """B039: one image is in reach, the other is not; also with a third and fourth class far away."""

    def network(images: Tensor) -> Tensor:
        logits: Tensor = two_class(images)
        return torch.cat([logits, logits.new_full((len(logits), classes - 2), -9.0)], dim=1)

    attempt = ATTACKS[name](Model(network), IMAGES, LABELS, replace(SETTINGS[name], norm=norm), draws(2))
    assert two_class(attempt.images).argmax(1).tolist() == [1, 0]
    assert attempt.blind.tolist() == [False, False]


@given(
    seed=st.integers(0, 10_000),
    norm=st.sampled_from(NORMS),
    eps=st.sampled_from([0.02, 0.1]),
    loss=st.sampled_from(["cross-entropy", "margin"]),
)
@settings(max_examples=8, deadline=None)
def test_linear_models_are_broken_exactly_where_arithmetic_says(
    seed: int, norm: Norm, eps: float, loss: LossName
) -> None:
    """An image of score s falls exactly when s is below eps times the dual norm of the weights."""
    generator = np.random.default_rng(seed)
    weights = torch.from_numpy(generator.normal(0, 1, 12).astype(np.float32))
    images = torch.from_numpy(generator.uniform(0.3, 0.7, (32, 3, 2, 2)).astype(np.float32))
    middle = float(np.median(images.flatten(1) @ weights))  # between two images, on none

    def network(batch: Tensor) -> Tensor:
        score = batch.flatten(1) @ weights - middle
        return torch.stack([score, -score], dim=1)

    scores = network(images)[:, 0].abs().double()
    reach = eps * float(weights.abs().sum() if norm == "linf" else weights.norm())
    labels = network(images).argmax(1)
    for name, parameters in SETTINGS.items():
        attempt = ATTACKS[name](
            Model(network), images, labels, replace(parameters, norm=norm, eps=eps, loss=loss), draws(32)
        )
        broken = network(attempt.images).argmax(1) != labels
        assert not broken[scores > 1.001 * reach].any(), name
        assert broken[scores < REACH.get((name, norm), 0.999) * reach].all(), name


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("eps", [0.0, 1 / 255, 0.3])
def test_budget_and_range_hold(standard_net: nn.Module, name: str, norm: Norm, eps: float) -> None:
    """B040: images of all 0, all 1 and random pixels; budget 0 gives the images back, exactly."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(6, 1, 8, 8, generator=generator)
    images[0], images[1] = 0, 1
    labels = standard_net(images).argmax(1)
    parameters = replace(SETTINGS[name], norm=norm, eps=eps, targets=3)
    attempt = ATTACKS[name](Model(standard_net), images, labels, parameters, draws(6))
    assert attempt.images.shape == images.shape
    assert inside(attempt.images, images, norm, eps).all()
    if eps == 0:
        assert torch.equal(attempt.images, images)
        assert torch.equal(standard_net(attempt.images).argmax(1), labels)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_trace_is_left(digits_test: Labelled, standard_net: nn.Module, name: str) -> None:
    """B045: parameters, buffers, images, labels, global randomness and grad mode are as before."""
    images, labels = torch.from_numpy(digits_test[0][:10]), torch.from_numpy(digits_test[1][:10])
    before = (images.clone(), labels.clone(), copy.deepcopy(standard_net.state_dict()))
    state = torch.get_rng_state()
    numpy_state = repr(np.random.get_state())  # noqa: NPY002  # the global generator is what must not move
    ATTACKS[name](Model(standard_net), images, labels, replace(SETTINGS[name], eps=0.1, targets=2), draws(10))
    assert torch.equal(images, before[0])
    assert torch.equal(labels, before[1])
    after = standard_net.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before[2].items())
    assert torch.equal(torch.get_rng_state(), state)
    assert repr(np.random.get_state()) == numpy_state  # noqa: NPY002  # as above
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", ATTACKS)
def test_called_where_gradients_are_off(two_class: nn.Module, name: str) -> None:
    """B046: no_grad, inference_mode on tensors made there, frozen parameters: the same answer."""
    two_class.requires_grad_(requires_grad=False)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            attempt = ATTACKS[name](Model(two_class), IMAGES * 1, LABELS * 1, SETTINGS[name], draws(2))
            assert two_class(attempt.images).argmax(1).tolist() == [1, 0]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_model_without_gradient_is_marked(two_class: nn.Module, name: str) -> None:
    """B046: a forward pass that rounds its input has no gradient to follow."""

    def rounding(images: Tensor) -> Tensor:
        logits: Tensor = two_class((images * 255).round() / 255)
        return logits

    attempt = ATTACKS[name](Model(rounding), IMAGES, LABELS, SETTINGS[name], draws(2))
    assert attempt.blind.tolist() == [name != "square"] * 2


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("norm", NORMS)
def test_an_image_meets_the_same_fate_in_any_company(
    digits_test: Labelled, standard_net: nn.Module, name: str, norm: Norm
) -> None:
    """Order, neighbours and batch size change neither the image found nor the mark."""
    images, labels = torch.from_numpy(digits_test[0][:24]), torch.from_numpy(digits_test[1][:24])
    parameters = replace(SETTINGS[name], norm=norm, eps=0.15 if norm == "linf" else 0.6)
    parameters = replace(parameters, restarts=2, targets=2, queries=130)
    whole = ATTACKS[name](Model(standard_net), images, labels, parameters, draws(24))
    rows = torch.tensor([21, 7, 8, 20])
    ids = Draws("0" * 64, tuple(f"image-{row}" for row in rows.tolist()), "test")
    part = ATTACKS[name](Model(standard_net, batch_size=1), images[rows], labels[rows], parameters, ids)
    assert torch.equal(part.images, whole.images[rows])
    assert torch.equal(part.blind, whole.blind[rows])
