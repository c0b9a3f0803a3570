"""Distances and the way back into a budget."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.benchmarks.attacks.budget import TOLERANCE, distance, inside, project
from robustboard.registry.entries import Norm


def _pair(seed: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(seed)
    images = generator.random((4, 2, 3, 5)).astype(np.float32)
    images[0], images[1] = 0, 1
    moved = (images + generator.normal(0, spread, images.shape)).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(moved)


@given(
    seed=st.integers(0, 1000),
    spread=st.sampled_from([1e-8, 1e-3, 0.3, 1e4]),
    eps=st.sampled_from([0.0, 1e-6, 1 / 255, 0.3, 3.0]),
    norm=st.sampled_from(["linf", "l2"]),
)
@settings(max_examples=60, deadline=None)
def test_projection_keeps_budget_and_range(seed: int, spread: float, eps: float, norm: Norm) -> None:
    """B040: largest change at most eps + 1e-6 and values in [0, 1], whatever comes in."""
    images, moved = _pair(seed, spread)
    before = (images.clone(), moved.clone())
    kept = project(moved, images, norm, eps)
    delta = (kept.double() - images.double()).flatten(1).numpy()
    size = np.abs(delta).max(1) if norm == "linf" else np.sqrt((delta**2).sum(1))
    assert (size <= eps + 1e-6).all()
    assert kept.min() >= 0
    assert kept.max() <= 1
    assert inside(kept, images, norm, eps).all()
    assert torch.equal(images, before[0])
    assert torch.equal(moved, before[1])
    if eps == 0:
        assert torch.equal(kept, images)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_images_already_inside_stay_as_they_are(norm: Norm) -> None:
    images = torch.full((2, 1, 4, 4), 0.5)
    moved = images + torch.tensor([0.01, -0.02]).view(2, 1, 1, 1)
    assert torch.equal(project(moved, images, norm, 0.1), moved)


def test_a_change_of_exactly_eps_is_within() -> None:
    """B044: no strict comparison with the budget."""
    images = torch.full((1, 1, 2, 2), 100 / 255)
    moved = images + 8 / 255
    assert inside(moved, images, "linf", 8 / 255).all()
    assert torch.equal(project(moved, images, "linf", 8 / 255), moved)


def test_l2_budget_holds_where_every_pixel_rounds_the_same_way() -> None:
    """150,528 equal pixels moved equally: float32 rounding alone would exceed the tolerance."""
    images = torch.full((1, 3, 224, 224), 0.7)
    for eps in (0.5, 3.0):
        kept = project(images + 0.2, images, "l2", eps)
        assert distance(kept, images, "l2").item() <= eps + TOLERANCE
        assert distance(kept, images, "l2").item() > eps * 0.9999


def test_l2_projection_keeps_the_direction() -> None:
    images = torch.full((1, 1, 1, 2), 0.5)
    kept = project(images + torch.tensor([0.3, 0.4]), images, "l2", 0.1)
    assert torch.allclose(kept - images, torch.tensor([0.06, 0.08]), atol=1e-6)


def test_each_image_is_projected_alone() -> None:
    images, moved = _pair(3, 0.3)
    together = project(moved, images, "l2", 0.3)
    for row in range(4):
        alone = project(moved[row : row + 1], images[row : row + 1], "l2", 0.3)
        assert torch.equal(alone, together[row : row + 1])


def test_inside_sees_each_fault() -> None:
    images = torch.full((3, 1, 2, 2), 0.95)
    moved = images + torch.tensor([0.01, 0.03, 0.06]).view(3, 1, 1, 1)
    assert inside(moved, images, "linf", 0.02).tolist() == [True, False, False]
    assert inside(moved, images, "linf", 0.1).tolist() == [True, True, False]
    assert inside(-moved, -images, "linf", 0.1).tolist() == [False, False, False]
