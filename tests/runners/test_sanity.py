"""What a look at a model finds, on networks for which the answer is known by construction."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustboard.benchmarks.entries import Attack, Cascade, CascadeStep, Ladder, Procedure
from robustboard.runners import sanity
from robustboard.runners.flags import is_random
from robustboard.runners.record import Checks, RunKey
from tests.conftest import Labelled
from tests.runners.measuring import CLEAN, Reading, coded, fgsm, flat, noise, pgd
from tests.runners.test_randomness import Noisy

HALF = Fraction(1, 2)


def look(
    procedure: Procedure,
    network: nn.Module,
    images: Any,
    labels: Any,
    key: RunKey,
    *,
    classes: tuple[int, ...] | None = None,
) -> Checks:
    return sanity.look(
        procedure,
        procedure.settings[0],
        classifier=network,
        classes=classes,
        images=images,
        labels=np.asarray(labels, np.int64),
        ids=[f"image-{row}" for row in range(len(images))],
        key=key,
        device="cpu",
    )


def cascade(*names: str, norm: Any = "linf") -> Cascade:
    steps = tuple(CascadeStep(attack=name, steps=10, queries=20) for name in names)  # type: ignore[arg-type]
    setting = Ladder(datasets=("digits",), budgets=(HALF,), headline=HALF)
    return Cascade(kind="cascade", norm=norm, attacks=steps, settings=(setting,))


class Wrapped(nn.Module):
    """Something done around a network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network


class Softmax(Wrapped):
    """Probabilities instead of logits."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.softmax(self.network(images), dim=1)


class Cleaning(Wrapped):
    """Moves its input by a gradient step before it classifies."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.enable_grad():
            moved = images.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.network(moved).logsumexp(1).sum(), moved)
        answer: Tensor = self.network(images + 0.01 * slope)
        return answer


class Backward(Wrapped):
    """Does the same by calling backward on a tensor."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.enable_grad():
            moved = images.detach().clone().requires_grad_()
            self.network(moved).logsumexp(1).sum().backward()
        assert moved.grad is not None
        answer: Tensor = self.network(images + 0.01 * moved.grad)
        return answer


class Functional(Wrapped):
    """Does the same by torch.func."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.enable_grad():
            slope = torch.func.grad(lambda x: self.network(x).logsumexp(1).sum())(images.detach())
        answer: Tensor = self.network(images + 0.01 * slope)
        return answer


class Tossing(nn.Module):
    """Logits far closer than any limit, whose order is tossed for each pass."""

    def forward(self, images: Tensor) -> Tensor:
        coins = 1e-6 * torch.rand(len(images), 2)
        return coins + 0 * images.flatten(1).sum(1, keepdim=True)


class Deaf(nn.Module):
    """Looks at the first pixel through a step: no gradient, whatever the budget."""

    def forward(self, images: Tensor) -> Tensor:
        bright = (images[:, 0, 0, :1] > 0.5).float() + 0 * images.flatten(1).sum(1, keepdim=True)
        return torch.cat([bright, 1 - bright], dim=1)


@pytest.mark.parametrize("procedure", [CLEAN, noise("1/10"), fgsm("1/10"), pgd("1/10", steps=4)])
def test_a_sound_model_shows_nothing(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey, procedure: Procedure
) -> None:
    found = look(procedure, standard_net, digits_test[0][:40], digits_test[1][:40], run_key)
    assert (found.images, found.spread, found.flips, found.classes) == (16, 0.0, 0, 10)
    assert not found.softmax
    assert not found.inner_gradients
    assert not is_random(found)


@pytest.mark.parametrize(
    ("wrapper", "softmax", "inner"),
    [(Softmax, True, False), (Cleaning, False, True), (Backward, False, True), (Functional, False, True)],
)
def test_probabilities_and_inner_gradients_are_seen(
    standard_net: nn.Module,
    digits_test: Labelled,
    run_key: RunKey,
    wrapper: type[Wrapped],
    *,
    softmax: bool,
    inner: bool,
) -> None:
    found = look(CLEAN, wrapper(standard_net), digits_test[0][:16], digits_test[1][:16], run_key)
    assert (found.softmax, found.inner_gradients) == (softmax, inner)


def test_the_watch_ends_with_its_block_also_after_an_error() -> None:
    x = torch.ones(2, requires_grad=True)

    def fail(watch: sanity.GradientWatch) -> None:
        with watch:
            raise RuntimeError("stop")

    watch = sanity.GradientWatch()
    with pytest.raises(RuntimeError, match="stop"):
        fail(watch)
    (slope,) = torch.autograd.grad((x * x).sum(), x)
    assert slope.tolist() == [2.0, 2.0]
    assert not watch.seen


def test_a_subset_of_the_classes_does_not_hide_probabilities(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey
) -> None:
    """Three columns of a softmax no longer sum to 1; the outputs are looked at whole."""
    found = look(
        CLEAN,
        Softmax(standard_net),
        digits_test[0][:16],
        np.full(16, 2),
        run_key,
        classes=(2, 5, 7),
    )
    assert found.softmax
    assert found.classes == 3


def test_noise_in_the_forward_pass_is_seen_and_leaves_the_random_state_alone(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey
) -> None:
    """B047: standard deviation 0.3."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found = look(CLEAN, Noisy(standard_net), digits_test[0][:16], digits_test[1][:16], run_key)
    assert torch.equal(torch.rand(2), expected)
    assert found.spread > 0.1
    assert is_random(found)
    again = look(CLEAN, Noisy(standard_net), digits_test[0][:16], digits_test[1][:16], run_key)
    assert again == found


def test_other_classes_at_nearly_equal_logits_are_random_too(run_key: RunKey) -> None:
    found = look(CLEAN, Tossing(), flat(*[0.5] * 16), [0] * 16, run_key)
    assert found.spread < 1e-4
    assert found.flips > 0
    assert is_random(found)


@pytest.mark.parametrize(
    ("procedure", "survivors"),
    [
        (pgd("1/10", steps=20), 0),
        (pgd("1/2", norm="l2", steps=20), 0),
        (cascade("square", "apgd-ce"), 0),
        (fgsm("1/10"), None),
        (cascade("square"), None),
        (cascade("fab-targeted"), None),
        (noise("1/10"), None),
        (CLEAN, None),
    ],
    ids=lambda each: each if isinstance(each, int) else getattr(each, "kind", "none"),
)
def test_an_attack_of_many_steps_gets_the_whole_range_and_breaks_a_linear_model(
    two_class: nn.Module, run_key: RunKey, procedure: Procedure, survivors: int | None
) -> None:
    """B039's model: s = sum of pixels - 2; from all 0.7 a budget of 0.2 a pixel reaches the other class."""
    found = look(procedure, two_class, flat(0.52, 0.7, 0.9, 0.3), [0, 0, 0, 0], run_key)
    assert found.unbounded == survivors
    assert found.attacked == (0 if survivors is None else 3)


def test_the_whole_range_of_l2_is_the_root_of_the_number_of_pixels() -> None:
    rung = sanity.unbounded_rung(
        pgd("1/2", norm="l2"), pgd("1/2", norm="l2").settings[0], torch.zeros(1, 3, 4, 4)
    )
    assert rung is not None
    assert rung.parameters.eps == 48**0.5


def test_survivors_of_an_attack_without_gradients_to_follow_are_counted(run_key: RunKey) -> None:
    """FGSM-like steps of size 0 stay where they began; without a random start every right image survives."""
    start = pgd("1/10", steps=5)
    procedure = Attack(kind="attack", attack="pgd", norm="linf", random_start=False, settings=start.settings)
    found = look(procedure, Deaf(), flat(0.9, 0.8, 0.1), [0, 0, 0], run_key)
    assert (found.unbounded, found.attacked) == (2, 2)


def test_only_the_first_sixteen_images_are_looked_at_and_only_right_ones_attacked(run_key: RunKey) -> None:
    images = coded(*[1] * 20)
    found = look(pgd("1/10", steps=2), Reading(3), images, [1] * 4 + [0] * 16, run_key)
    assert (found.images, found.attacked) == (16, 4)


def test_the_worst_of_parts_sums_counts_and_takes_the_extremes_of_the_rest() -> None:
    one = Checks(images=16, spread=0.1, softmax=False, inner_gradients=True, classes=10)
    two = Checks(
        images=4, spread=0.2, flips=3, softmax=True, inner_gradients=False, classes=8, unbounded=1, attacked=4
    )
    expected = Checks(
        images=20, spread=0.2, flips=3, softmax=True, inner_gradients=True, classes=8, unbounded=1, attacked=4
    )
    assert Checks.worst([one, two]) == Checks.worst([two, one]) == expected
    assert Checks.worst([one]) == one
    assert Checks.worst([]) is None
