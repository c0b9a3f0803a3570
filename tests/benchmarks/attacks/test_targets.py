"""Which wrong classes are aimed at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.attacks import ATTACKS, AttackParameters, Model, targets
from robustboard.benchmarks.attacks.targets import first_of_each, ranked_targets, together
from robustboard.benchmarks.seeds import Draws

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]

LOGITS = torch.tensor([[1.0, 4.0, 3.0, 2.0], [9.0, 0.0, 0.0, 5.0]])


def test_best_wrong_classes_come_first_and_the_label_never() -> None:
    assert ranked_targets(LOGITS, torch.tensor([1, 0]), 2).tolist() == [[2, 3], [3, 1]]


def test_never_more_targets_than_wrong_classes() -> None:
    """B039: nine targets wanted, four classes there: three targets; two classes: one."""
    assert ranked_targets(LOGITS, torch.tensor([1, 0]), 9).shape == (2, 3)
    assert ranked_targets(LOGITS[:, :2], torch.tensor([1, 0]), 9).tolist() == [[0], [1]]


def test_runs_of_images_hold_as_many_rows_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 48 bytes, three an image, 480 bytes: three images a run; one where not even that fits."""
    images, chosen = torch.zeros(9, 3, 2, 2), torch.tensor([0, 2, 4, 6, 8])
    monkeypatch.setattr(targets, "ROW_BYTES", 480)
    assert [part.tolist() for part in together(images, chosen, 3, 1)] == [[0, 2, 4], [6, 8]]
    assert [len(part) for part in together(images, chosen, 3, 12)] == [4, 1]
    monkeypatch.setattr(targets, "ROW_BYTES", 1)
    assert [len(part) for part in together(images, chosen, 3, 1)] == [1] * 5


def test_first_of_each_owner() -> None:
    assert first_of_each(torch.tensor([0, 0, 3, 7, 7, 7])).tolist() == [True, False, True, True, False, False]
    assert first_of_each(torch.zeros(0, dtype=torch.long)).tolist() == []


@pytest.mark.parametrize("name", ["apgd-targeted", "fab-targeted"])
def test_an_image_that_falls_to_one_target_alone_is_found(name: str) -> None:
    """The likeliest wrong classes hardly move with the pixels; the third is 0.95 of the budget away."""
    slopes = torch.tensor([0.0, 0.01, 0.01, 10.0])
    offsets = torch.tensor([3.0, 2.9, 2.8, 3.0 - 10 * 0.095])

    def network(images: Tensor) -> Tensor:
        """Each class looks at a pixel of its own."""
        return (images.flatten(1)[:, :4] - 0.5) * slopes + offsets

    images = torch.full((3, 1, 4, 4), 0.5)
    images[1, 0, 0, 3] -= 0.02  # out of reach
    labels, ids = torch.zeros(3, dtype=torch.long), Draws("0" * 64, ("a", "b", "c"), "test")
    parameters = AttackParameters("linf", 0.1, steps=50)

    three = ATTACKS[name](Model(network), images, labels, parameters, ids)
    two = ATTACKS[name](Model(network), images, labels, replace(parameters, targets=2), ids)

    assert network(three.images).argmax(1).tolist() == [3, 0, 3]
    assert network(two.images).argmax(1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["apgd-targeted", "fab-targeted"])
def test_what_is_searched_together_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, digits_test: Labelled, robust_net: nn.Module, name: str
) -> None:
    """All images at once, or few rows at a time."""
    images, labels = torch.from_numpy(digits_test[0][:20]), torch.from_numpy(digits_test[1][:20])
    parameters = AttackParameters("linf", 0.15, steps=12, restarts=2, targets=4)
    ids = Draws("0" * 64, tuple(map(str, range(20))), "test")
    whole = ATTACKS[name](Model(robust_net), images, labels, parameters, ids)
    monkeypatch.setattr(targets, "ROW_BYTES", 1)
    parts = ATTACKS[name](Model(robust_net, batch_size=16), images, labels, parameters, ids)
    standing = robust_net(whole.images).argmax(1) == labels

    assert 0 < int(standing.sum()) < 20
    assert torch.equal(parts.images, whole.images)
    assert torch.equal(parts.blind, whole.blind)
