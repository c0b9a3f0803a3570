"""Random points of a budget."""

from __future__ import annotations

import pytest
import torch

from robustboard.benchmarks.attacks.starts import ball_start, surface_start
from robustboard.benchmarks.seeds import sample_generator


def test_random_starts_are_uniform_in_the_budget() -> None:
    """Linf: variance eps^2 / 3 a pixel. L2 in d dimensions: mean radius eps * d / (d + 1)."""
    images = torch.full((400, 1, 4, 4), 0.5)
    generators = [sample_generator("k", str(row), "p") for row in range(400)]
    linf = ball_start(images, "linf", 0.1, generators) - images
    assert linf.abs().max() <= 0.1 + 1e-6
    assert float(linf.var()) == pytest.approx(0.01 / 3, rel=0.03)
    l2 = (ball_start(images, "l2", 0.1, generators) - images).flatten(1)
    radius = l2.norm(dim=1)
    assert radius.max() <= 0.1 + 1e-6
    assert float(radius.mean()) == pytest.approx(0.1 * 16 / 17, rel=0.01)
    assert l2.mean(0).abs().max() < 0.01


def test_surface_starts_touch_the_budget_and_stay_in_range() -> None:
    images = torch.full((50, 3, 4, 4), 0.5)
    images[25:] = 1.0  # where half of the directions lead out of [0, 1]
    generators = [sample_generator("k", str(row), "p") for row in range(50)]
    linf = surface_start(images, "linf", 0.1, generators)
    l2 = surface_start(images, "l2", 0.1, generators)
    assert (linf - images)[:25].abs().amax((1, 2, 3)).tolist() == pytest.approx([0.1] * 25, abs=1e-6)
    assert (l2 - images)[:25].flatten(1).norm(dim=1).tolist() == pytest.approx([0.1] * 25, abs=1e-6)
    assert max(linf.max(), l2.max()) <= 1
    assert (linf - images).abs().max() <= 0.1 + 1e-6
    assert (l2 - images).flatten(1).norm(dim=1).max() <= 0.1 + 1e-6
