"""Compiled networks: equal, or left as they were."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from robustboard.registry.entries import InputSpec
from robustboard.runners.classifier import Classifier
from robustboard.runners.compiling import compile_network
from robustboard.runners.macs import macs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own parts


@pytest.fixture
def classifier(standard_net: nn.Module) -> Classifier:
    """A trained network, which each test may compile."""
    spec = InputSpec.model_validate({"size": 8, "channels": 1, "normalization": "inside"})
    return Classifier(deepcopy(standard_net), spec, 10)


def some(count: int) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(3))


def counting(calls: list[int]) -> Callable[[fx.GraphModule, list[Tensor]], Callable[..., Any]]:
    """A backend that runs what it is given and counts its passes."""

    def backend(graph: fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            calls.append(1)
            return graph(*args)

        return run

    return backend


def test_a_compiled_network_answers_as_before_and_the_facts_say_so(classifier: Classifier) -> None:
    before = classifier(some(5))
    assert compile_network(classifier, "aot_eager")
    torch.testing.assert_close(classifier(some(5)), before, rtol=1e-5, atol=1e-5)
    assert classifier.facts["compiled"] == "aot_eager"


def test_one_that_answers_otherwise_is_refused(classifier: Classifier) -> None:
    """The control: a compiler that doubles the logits."""

    def lying(graph: fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        return lambda *args: tuple(2 * each for each in graph(*args))

    before = classifier(some(2))
    assert not compile_network(classifier, lying)
    assert torch.equal(classifier(some(2)), before)
    assert classifier.facts["compiled"].startswith("no: logits or gradients differ")


def test_a_compiler_that_fails_leaves_the_network(classifier: Classifier) -> None:
    def broken(*_: object) -> Callable[..., Any]:
        raise RuntimeError("no compiler here")

    before = classifier(some(2))
    assert not compile_network(classifier, broken)
    assert torch.equal(classifier(some(2)), before)


def test_multiplications_are_counted_in_the_network_as_written(classifier: Classifier) -> None:
    plain, calls = macs(classifier, (1, 8, 8), torch.device("cpu")), list[int]()
    compile_network(classifier, counting(calls))
    seen = len(calls)
    assert macs(classifier, (1, 8, 8), torch.device("cpu")) == plain
    assert len(calls) == seen
    classifier(some(2))
    assert len(calls) > seen


@pytest.mark.long
def test_the_default_compiler_keeps_the_decisions_of_an_attack(classifier: Classifier) -> None:
    """PGD on the same images with the network as written and compiled breaks the same images."""
    from robustboard.benchmarks.attacks import ATTACKS, AttackParameters, Model
    from robustboard.benchmarks.seeds import Draws

    images = some(64)
    labels = classifier(images).argmax(1)
    draws = Draws("0" * 64, tuple(str(each) for each in range(64)), "linf 1/10")

    def broken() -> Tensor:
        model = Model(classifier, batch_size=64)
        settings = AttackParameters(norm="linf", eps=0.1, steps=20, random_start=True)
        attempt = ATTACKS["pgd"](model, images.clone(), labels.clone(), settings, draws)
        found: Tensor = model.logits(attempt.images).argmax(1) != labels
        return found

    plain = broken()
    assert compile_network(classifier)
    assert bool((broken() == plain).all())
    assert 0 < int(plain.sum()) <= 64
