"""The loop inside a build: without a model images wander until the oracle objects; NaN costs one image."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import OracleAnswer, Origin
from robustboard.runners.testsets.judging import SOURCE_REJECTED
from robustboard.runners.testsets.producing import Aimless, LoopProducer, Wandering
from tests.runners.testsets.sets import recipe


@dataclass(frozen=True)
class Brightening:
    """Adds its latent to the image, a tenth more a step; NaN where the image begins above `fails_above`."""

    fails_above: float = 2.0
    differentiable: bool = False
    image_range: tuple[float, float] = (0.0, 1.0)

    def encode(self, origin: Origin) -> Tensor:
        return torch.zeros(len(origin.images), 1)

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        bad = origin.images.mean((1, 2, 3)) > self.fails_above
        moved = origin.images + latents[:, :, None, None]
        return torch.where(bad[:, None, None, None], torch.nan, moved)

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        del origin, step
        return latents + 0.1


class Threshold:
    """Class 0 for images darker than 0.55 in the mean, else class 1."""

    def judge(self, images: Tensor) -> OracleAnswer:
        means = images.mean((1, 2, 3)).numpy()
        return OracleAnswer(
            (means >= 0.55).astype(np.int64),
            np.full(len(means), 0.75, np.float32),
            np.full(len(means), 0.5, np.float32),
        )


def producer(generator: Any, budget: int = 8) -> LoopProducer:
    def model() -> Model:
        return Model(Aimless(2))

    return LoopProducer(
        recipe(budget=budget), (), cast("Any", Threshold()), Wandering(generator, 0.1), model, 16
    )


def grey(*values: float) -> Any:
    return np.stack([np.full((1, 2, 2), value, np.float32) for value in values])


def test_images_wander_until_the_oracle_objects() -> None:
    """By hand: 0.2 takes three steps of 0.1 below 0.55, 0.4 one, 0.5 none, and 0.6 is not known."""
    made = producer(Brightening()).produce(grey(0.2, 0.4, 0.5, 0.6), np.zeros(4, np.int64), [1, 2, 3, 4])

    assert list(made.steps) == [3, 1, 0, 0]
    assert list(made.status) == ["accepted", "accepted", "reconstruction-only", SOURCE_REJECTED]
    assert np.allclose(made.images[:, 0, 0, 0], [0.5, 0.5, 0.5, 0.6], atol=1e-6)


def test_the_budget_bounds_the_walk() -> None:
    made = producer(Brightening(), budget=2).produce(grey(0.1), np.zeros(1, np.int64), [1])
    assert list(made.steps) == [2]


def test_nan_costs_the_image_that_has_it_and_no_other() -> None:
    """B059: counted for one image, the others come out as without it."""
    pair = producer(Brightening(fails_above=0.45))
    made = pair.produce(grey(0.2, 0.5, 0.4), np.zeros(3, np.int64), [1, 2, 3])
    alone = pair.produce(grey(0.2), np.zeros(1, np.int64), [1])

    assert np.isnan(made.images[1]).all()
    assert np.array_equal(made.images[0], alone.images[0])
    assert [made.steps[0], made.steps[2]] == [3, 1]


def test_a_generator_with_gradients_and_no_model_walks_at_random() -> None:
    """Latents move by Gaussian noise of each image's seed: the same in any company, else another walk."""

    class Smooth:
        differentiable = True
        image_range = (0.0, 1.0)
        encode: Callable[..., Tensor] = Brightening.encode
        decode = Brightening.decode
        fails_above = 2.0

    one = producer(Smooth()).produce(grey(0.2), np.zeros(1, np.int64), [7])
    two = producer(Smooth()).produce(grey(0.3, 0.2, 0.2), np.zeros(3, np.int64), [5, 7, 8])
    assert np.array_equal(one.images[0], two.images[1])
    assert not np.array_equal(two.images[1], two.images[2])


def test_every_look_of_an_aimless_model_raises_the_loss_of_every_class() -> None:
    model = Aimless(3)
    images, labels = torch.zeros(3, 1, 2, 2), torch.arange(3)
    losses = [torch.nn.functional.cross_entropy(model(images), labels, reduction="none") for _ in range(30)]
    for before, after in itertools.pairwise(losses):
        assert (after > before).all()
