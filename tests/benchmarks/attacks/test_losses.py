"""What attacks climb."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.benchmarks.attacks.losses import (
    LOSSES,
    cross_entropy,
    dlr,
    margin,
    targeted_dlr,
    targeted_margin,
)


def _logits(seed: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(generator.normal(0, 3, (6, classes)).astype(np.float32))
    return logits, torch.from_numpy(generator.integers(0, classes, 6))


@given(seed=st.integers(0, 1000), classes=st.sampled_from([2, 3, 10]))
@settings(max_examples=25, deadline=None)
def test_cross_entropy_rises_and_points_where_torchs_does(seed: int, classes: int) -> None:
    logits, labels = _logits(seed, classes)
    ours = logits.clone().requires_grad_()
    theirs = logits.double().requires_grad_()
    value = cross_entropy(ours, labels)
    expected = torch.nn.functional.cross_entropy(theirs, labels, reduction="none")
    assert torch.allclose(torch.nn.functional.softplus(value).double(), expected, atol=1e-5)
    (slope,) = torch.autograd.grad(value.sum(), ours)
    (reference,) = torch.autograd.grad(expected.sum(), theirs)
    assert torch.allclose(
        torch.nn.functional.normalize(slope).double(), torch.nn.functional.normalize(reference), atol=1e-5
    )


def test_cross_entropy_still_points_where_the_model_is_certain() -> None:
    """torch's cross-entropy has the gradient 0 here: its softmax rounds to 1."""
    logits = torch.tensor([[300.0, 1.0, 0.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(cross_entropy(logits, torch.tensor([0])).sum(), logits)
    assert torch.allclose(slope, torch.tensor([[-1.0, 0.7311, 0.2689]]), atol=1e-4)


def test_margin_is_the_best_wrong_logit_minus_the_right_one() -> None:
    logits = torch.tensor([[3.0, 1.0, 2.5], [3.0, 1.0, 2.5], [0.0, 4.0, 1.0]])
    assert margin(logits, torch.tensor([0, 2, 1])).tolist() == [-0.5, 0.5, -3.0]


def test_every_loss_treats_each_image_alone_and_leaves_logits_alone() -> None:
    logits, labels = _logits(0, 5)
    before = logits.clone()
    for loss in LOSSES.values():
        whole = loss(logits, labels)
        assert whole.shape == (6,)
        assert torch.equal(whole[2:3], loss(logits[2:3], labels[2:3]))
    assert torch.equal(logits, before)


def test_difference_of_logits_ratio_by_hand() -> None:
    """Sorted logits 9, 5, 3, 1; label 5: -(5 - 9) / (9 - 3). Target 3: -(5 - 3) / (9 - (3 + 1) / 2)."""
    logits = torch.tensor([[3.0, 9.0, 1.0, 5.0]])
    aims = torch.tensor([[3, 0]])
    assert dlr(logits, torch.tensor([3])).item() == pytest.approx(4 / 6)
    assert dlr(logits, torch.tensor([1])).item() == pytest.approx(-4 / 6)
    assert targeted_dlr(logits, aims).item() == pytest.approx(-2 / 7)
    assert targeted_margin(logits, aims).item() == -2


def test_difference_of_logits_ratio_ignores_scale_and_offset() -> None:
    logits, labels = _logits(1, 6)
    aims = torch.stack([labels, (labels + 1) % 6], dim=1)
    for loss, second in ((dlr, labels), (targeted_dlr, aims)):
        assert torch.allclose(loss(logits, second), loss(logits * 100 + 7, second), atol=1e-4)
        assert torch.isfinite(loss(torch.zeros(6, 6), second)).all()
