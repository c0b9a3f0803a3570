"""The loop against a case worked out by hand, and its independence of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import (
    LoopSettings,
    OracleAnswer,
    Origin,
    Perturbed,
    Rule,
    perturb,
)
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.generators import Floor
from robustboard.runners.generators import FloorGenerator
from tests.conftest import Labelled

SHIFT = 0.25


class Linear(nn.Module):
    """Logits (s, -s) of 1x2 images with s = pixel 0 - 0.4; pixel 1 plays no part."""

    def forward(self, images: Tensor) -> Tensor:
        score = images[:, 0, 0, 0] - 0.4
        return torch.stack([score, -score], dim=1)


@dataclass
class Decoder:
    """Latents are the images less 1/4; the decoder adds it, and a fault to reconstructions where asked."""

    fault: float = 0.0
    differentiable: bool = True
    image_range: tuple[float, float] = (0.0, 1.0)

    def encode(self, origin: Origin) -> Tensor:
        return origin.images - SHIFT + self.fault

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        return (latents + SHIFT).view(origin.images.shape)


@dataclass
class Walking(Decoder):
    """Proposes to take 1/8 off pixel 0 at odd steps, and to add it at even ones."""

    differentiable: bool = False

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        return latents + torch.tensor([-0.125 if step % 2 else 0.125, 0.0]).to(origin.images)


class Threshold:
    """Class 0 while pixel 0 is at least a threshold; counts the images that it was shown."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.shown = 0

    def judge(self, images: Tensor) -> OracleAnswer:
        self.shown += len(images)
        predicted = np.where(images[:, 0, 0, 0].numpy() >= self.threshold, 0, 1).astype(np.int64)
        ones = np.ones(len(images), np.float32)
        return OracleAnswer(predicted, ones, ones)


def origin(*pixels: float) -> Origin:
    images = torch.tensor([[[[pixel, 0.5]]] for pixel in pixels])
    ids = tuple(f"{row}" for row in range(len(pixels)))
    return Origin(images, torch.zeros(len(pixels), dtype=torch.int64), Draws("0" * 64, ids, "toy"))


def run(
    pixels: Sequence[float],
    *,
    threshold: float = 0.2,
    generator: Decoder | None = None,
    rule: Rule = "sgd",
    budget: int = 6,
    mask: Tensor | None = None,
) -> Perturbed:
    model = Model(Linear())
    settings = LoopSettings(budget=budget, step_size=1 / 16, update_rule=rule, mask=mask)
    return perturb(model, Threshold(threshold), generator or Decoder(), origin(*pixels), settings)


def test_accepted_steps_and_accuracy_are_those_worked_out_by_hand() -> None:
    """The loss of class 0 is -2 s, so each step of size 1/16 takes 1/8 off pixel 0.

    From 0.9: 0.775, 0.65, 0.525, 0.4, 0.275 are accepted, 0.15 is below 0.2: five steps. From 0.5: 0.375,
    0.25: two. From 0.3: the first step is below: none. From 0.1 the oracle sees class 1 in the source.
    """
    made = run([0.9, 0.5, 0.3, 0.1])
    assert made.status == ["accepted", "accepted", "reconstruction-only", "source-rejected"]
    assert made.steps.tolist() == [5, 2, 0, 0]
    assert torch.allclose(made.images[:, 0, 0, 0], torch.tensor([0.275, 0.25, 0.3, 0.1]))
    assert torch.equal(made.images[:, 0, 0, 1], torch.full((4,), 0.5))
    assert made.distances == pytest.approx([0.625, 0.25, 0.0, 0.0], abs=1e-6)
    assert made.linf == pytest.approx([0.625, 0.25, 0.0, 0.0], abs=1e-6)
    # s = pixel 0 - 0.4 is below 0 on both accepted images: SA is 2/4, PA is 0.
    assert (Linear()(made.images[:2]).argmax(1) == 0).tolist() == [False, False]


def test_the_budget_ends_what_the_oracle_does_not() -> None:
    made = run([0.9], budget=3)
    assert made.steps.tolist() == [3]
    assert torch.allclose(made.images[0, 0, 0, 0], torch.tensor(0.525))


@pytest.mark.parametrize("rule", ["adam", "sign"])
def test_first_step_of_adam_and_sign_is_the_step_size(rule: Rule) -> None:
    made = run([0.9], budget=1, rule=rule)
    assert made.images[0, 0, 0, 0].item() == pytest.approx(0.9 - 1 / 16, abs=1e-6)


def test_a_generator_that_changes_the_class_alone_is_rejected_and_the_original_kept() -> None:
    made = run([0.3, 0.9], generator=Decoder(fault=-0.15))
    assert made.status == ["rejected-at-0", "accepted"]
    assert torch.equal(made.images[0], origin(0.3).images[0])


def test_masked_coordinates_do_not_move() -> None:
    made = run([0.9], mask=torch.tensor([[[0.0, 1.0]]]))
    assert torch.allclose(made.images, origin(0.9).images)
    assert made.steps.tolist() == [6]


def test_proposals_that_do_not_raise_the_loss_are_passed_over_and_not_judged() -> None:
    """Odd steps take 1/8 off pixel 0: 0.775, 0.65, 0.525 after steps 1, 3, 5; even ones lower the loss."""
    judge = Threshold(0.2)
    settings = LoopSettings(budget=6, step_size=1.0)
    made = perturb(Model(Linear()), judge, Walking(), origin(0.9), settings)
    assert made.steps.tolist() == [5]
    assert made.images[0, 0, 0, 0].item() == pytest.approx(0.525, abs=1e-6)
    assert judge.shown == 2 + 3


def test_numbers_that_are_not_finite_are_an_error_and_no_image() -> None:
    with pytest.raises(CellError, match="NaN"):
        run([0.9], generator=Decoder(fault=float("nan")))


class Voter:
    """A network as oracle."""

    def __init__(self, network: nn.Module) -> None:
        self.model = Model(network)

    def judge(self, images: Tensor) -> OracleAnswer:
        logits = self.model.logits(images)
        ones = np.ones(len(images), np.float32)
        return OracleAnswer(logits.argmax(1).numpy(), ones, ones)


def test_what_becomes_of_an_image_does_not_depend_on_its_company(
    standard_net: nn.Module, robust_net: nn.Module, digits_test: Labelled
) -> None:
    """Forty images at once, in passes of 16, and each alone: equal to the bit."""
    images, labels = torch.from_numpy(digits_test[0][:40]), torch.from_numpy(digits_test[1][:40])
    ids = tuple(f"{row}" for row in range(40))
    generator = FloorGenerator(Floor(kind="transformations", transformations=("affine", "colour", "elastic")))

    def made(rows: Sequence[int], batch: int) -> Perturbed:
        chosen = torch.tensor(rows)
        part = Origin(images, labels, Draws("0" * 64, ids, "toy")).select(chosen)
        settings = LoopSettings(budget=8, step_size=0.1, rows=batch)
        return perturb(Model(standard_net), Voter(robust_net), generator, part, settings)

    whole = made(range(40), 64)
    assert {"accepted"} <= set(whole.status)
    assert len(set(whole.steps.tolist())) > 2
    small = made(range(40), 16)
    assert torch.equal(whole.images, small.images)
    assert whole.status == small.status
    for row in (0, 7, 39):
        alone = made([row], 64)
        assert torch.equal(alone.images[0], whole.images[row])
        assert (alone.status[0], alone.steps[0]) == (whole.status[row], whole.steps[row])
