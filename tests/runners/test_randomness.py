"""Networks that draw random numbers: same key same numbers, nothing left changed, verdicts by a mean."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustboard.benchmarks.entries import Cascade, CascadeStep, Ladder
from robustboard.runners.randomness import clean_seed, seeded
from robustboard.runners.record import RunKey
from tests.runners.measuring import CLEAN, SCOPE, Labelled, fgsm, flat, noise, pgd, run

CPU = torch.device("cpu")


class Noisy(nn.Module):
    """A network behind Gaussian noise of standard deviation 0.3, drawn anew in each pass."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.network(images + 0.3 * torch.randn_like(images))
        return answer


class Coin(nn.Module):
    """Says class 0 with a chance of 3 in 5 for each image and pass, else class 1."""

    def forward(self, images: Tensor) -> Tensor:
        heads = (torch.rand(len(images), 1) < 0.6).float() + 0 * images.flatten(1).sum(1, keepdim=True)
        return 4 * torch.cat([heads, 1 - heads], dim=1)


def averaging(passes: int) -> Cascade:
    setting = Ladder(datasets=("digits",), budgets=(Fraction(1, 20),), headline=Fraction(1, 20))
    step = CascadeStep(attack="apgd-ce", steps=3, average_over=passes)
    return Cascade(kind="cascade", norm="linf", attacks=(step,), settings=(setting,))


@pytest.mark.parametrize("procedure", [CLEAN, noise("1/10"), pgd("1/10", steps=3)], ids=lambda p: p.kind)
def test_the_same_key_gives_the_same_numbers_and_another_seed_others(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey, procedure: object
) -> None:
    """B047: clean, noise and PGD, twice with the same seed and once with another."""
    images, labels = digits_test[0][:64], digits_test[1][:64]
    network = Noisy(standard_net)
    torch.manual_seed(1)
    first = run(procedure, network, images, labels, run_key)  # type: ignore[arg-type]  # a Procedure each
    torch.manual_seed(2)
    torch.rand(7)
    again = run(procedure, network, images, labels, run_key)  # type: ignore[arg-type]  # a Procedure each
    other = run(procedure, network, images, labels, run_key.model_copy(update={"seed": 1}))  # type: ignore[arg-type]
    assert again.table.equals(first.table)
    assert not other.table.equals(first.table)


def test_the_callers_random_state_is_left_alone(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(pgd("1/10", steps=1), Noisy(standard_net), digits_test[0][:20], digits_test[1][:20], run_key)
    assert torch.equal(torch.rand(3), expected)


def test_the_state_comes_back_after_an_error() -> None:
    def fail() -> None:
        with seeded("key", "image", "clean", CPU):
            torch.rand(3)
            raise RuntimeError("stop")

    before = torch.random.get_rng_state()
    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_each_of_the_three_texts_changes_the_draws() -> None:
    drawn = []
    for texts in (("a", "b", "c"), ("x", "b", "c"), ("a", "x", "c"), ("a", "b", "x"), ("a", "b", "c")):
        with seeded(*texts, CPU):
            drawn.append(tuple(torch.rand(4).tolist()))
    assert drawn[0] == drawn[-1]
    assert len(set(drawn)) == 4


def test_all_protocols_see_the_same_clean_answers(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey
) -> None:
    """Runs of one randomised model can be joined into a worst case; other weights draw otherwise."""
    images, labels = digits_test[0][:32], digits_test[1][:32]
    network = Noisy(standard_net)
    fgsm_key = run_key.model_copy(update={"benchmark": "fgsm-v1", "protocol_digest": "9" * 64})
    one = run(pgd("1/10", steps=1), network, images, labels, run_key).only("clean")
    two = run(fgsm("1/10"), network, images, labels, fgsm_key).only("clean")
    assert one.table.equals(two.table)
    assert clean_seed(run_key) != clean_seed(run_key.model_copy(update={"weights_sha256": "9" * 64}))


def test_a_mean_over_passes_judges_and_not_one_lucky_pass(run_key: RunKey) -> None:
    """B047: three heads in five is class 0 in the mean of 400 passes, and often class 1 in a single one.

    The mean share of class 0 is a draw from a binomial: 0.6 s + 0.4 (1 - s), s = softmax(4, 0)[0], give or
    take four standard errors.
    """
    images, labels = flat(*[0.5] * 40), np.zeros(40, np.int64)
    single = run(averaging(1), Coin(), images, labels, run_key).only("clean")
    assert 5 < int((single.column("predicted") == 1).sum()) < 35
    table = run(averaging(400), Coin(), images, labels, run_key)
    for condition in ("clean", "linf 1/20"):
        rows = table.only(condition)
        assert set(rows.column("predicted")) == {0}
        share = float(torch.softmax(torch.tensor([4.0, 0.0]), 0)[0])
        expected = 0.6 * share + 0.4 * (1 - share)
        error = (2 * share - 1) * (0.24 / 400) ** 0.5
        assert np.abs(rows.column("confidence") - expected).max() < 4 * error


def test_averaging_changes_nothing_where_a_network_always_answers_alike(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey
) -> None:
    images, labels = digits_test[0][:40], digits_test[1][:40]
    one = run(averaging(1), standard_net, images, labels, run_key).only("clean")
    many = run(averaging(20), standard_net, images, labels, run_key).only("clean")
    assert (one.column("predicted") == many.column("predicted")).all()
    assert many.column("confidence") == pytest.approx(one.column("confidence"), abs=1e-6)


def test_a_cascade_is_judged_by_the_most_passes_that_an_attack_averages() -> None:
    steps = (
        CascadeStep(attack="apgd-ce", average_over=20),
        CascadeStep(attack="square"),
        CascadeStep(attack="apgd-dlr", average_over=5),
    )
    setting = Ladder(datasets=SCOPE.datasets, budgets=(Fraction(1, 20),), headline=Fraction(1, 20))
    assert Cascade(kind="cascade", norm="linf", attacks=steps, settings=(setting,)).average_over == 20
