"""FAB-T: projections onto planes, and nearest points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from torch import Tensor

from robustboard.benchmarks.attacks import AttackParameters, Model
from robustboard.benchmarks.attacks.fab import fab_targeted, onto_plane
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm


def _problem(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = np.random.default_rng(seed)
    points = generator.random((3, 1, 2, 3)).astype(np.float32)
    normals = generator.normal(0, 1, (3, 1, 2, 3)).astype(np.float32)
    normals[0, 0, 0, 0] = 0
    # A lift that some point of [0, 1] gives, so that the plane meets the range of pixels.
    target = generator.random((3, 1, 2, 3))
    rise = ((target - points) * normals).reshape(3, -1).sum(1)
    return torch.from_numpy(points), torch.from_numpy(normals), torch.from_numpy(rise)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_least_largest_change_equals_a_linear_programme(seed: int) -> None:
    """Minimise t with |d| <= t, 0 <= x + d <= 1 and <w, d> = rise."""
    points, normals, rise = _problem(seed)
    change = onto_plane(points, normals, rise, "linf").flatten(1).double().numpy()
    for x, w, lift, ours in zip(
        points.flatten(1).numpy(), normals.flatten(1).numpy(), rise, change, strict=True
    ):
        size = x.size
        cost = np.append(np.zeros(size), 1.0)
        above = np.hstack([np.eye(size), -np.ones((size, 1))])
        below = np.hstack([-np.eye(size), -np.ones((size, 1))])
        solved = linprog(
            cost,
            A_ub=np.vstack([above, below]),
            b_ub=np.zeros(2 * size),
            A_eq=np.append(w, 0.0)[None],
            b_eq=[float(lift)],
            bounds=[*zip(-x, 1 - x, strict=True), (0, None)],
        )
        assert np.abs(ours).max() == pytest.approx(solved.fun, abs=2e-5)
        assert float(ours @ w) == pytest.approx(float(lift), abs=1e-5)
        assert (x + ours >= -1e-6).all()
        assert (x + ours <= 1 + 1e-6).all()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_shortest_change_equals_a_quadratic_programme(seed: int) -> None:
    points, normals, rise = _problem(seed)
    change = onto_plane(points, normals, rise, "l2").flatten(1).double().numpy()
    for x, w, lift, ours in zip(
        points.flatten(1).numpy(), normals.flatten(1).numpy(), rise, change, strict=True
    ):
        weights = w.astype(np.float64)
        solved = minimize(
            lambda d: float(d @ d),
            np.zeros(x.size),
            jac=lambda d: 2 * d,
            bounds=list(zip(-x.astype(float), 1 - x.astype(float), strict=True)),
            constraints={
                "type": "eq",
                "fun": lambda d, weights=weights, lift=lift: d @ weights - float(lift),
            },
            options={"ftol": 1e-12, "maxiter": 300},
        )
        assert np.linalg.norm(ours) == pytest.approx(np.linalg.norm(solved.x), abs=1e-4)
        assert float(ours @ weights) == pytest.approx(float(lift), abs=1e-5)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_plane_out_of_reach_sends_pixels_to_their_limits(norm: Norm) -> None:
    points = torch.tensor([0.25, 0.5, 1.0]).view(1, 1, 1, 3)
    normals = torch.tensor([1.0, -2.0, 0.0]).view(1, 1, 1, 3)
    change = onto_plane(points, normals, torch.tensor([100.0]), norm)
    assert (points + change).flatten().tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_slope_and_no_rise_give_no_change(norm: Norm) -> None:
    points = torch.rand(2, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    assert not onto_plane(points, torch.zeros_like(points), torch.tensor([1.0, -1.0]), norm).any()
    assert not onto_plane(points, torch.ones_like(points), torch.zeros(2), norm).any()


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_nearest_class_of_a_linear_model_is_found(norm: Norm, dual: int, classes: int) -> None:
    """Distance to the border of class k: (z_y - z_k) / dual norm of (w_k - w_y); the least decides."""
    generator = np.random.default_rng(classes)
    weights = torch.from_numpy(generator.normal(0, 1, (classes, 12)).astype(np.float32))
    images = torch.from_numpy(generator.uniform(0.4, 0.6, (20, 3, 2, 2)).astype(np.float32))

    def network(batch: Tensor) -> Tensor:
        return batch.flatten(1) @ weights.T - weights.sum(1) / 2

    logits = network(images)
    labels = logits.argmax(1)
    gaps = logits.gather(1, labels.unsqueeze(1)) - logits
    slopes = torch.linalg.vector_norm(weights[labels].unsqueeze(1) - weights, ord=dual, dim=2)
    nearest = (gaps / slopes.clamp_min(1e-9)).scatter(1, labels.unsqueeze(1), torch.inf).amin(1)
    eps = float(nearest.median())
    ids = Draws("0" * 64, tuple(map(str, range(20))), "test")
    attempt = fab_targeted(Model(network), images, labels, AttackParameters(norm, eps, steps=30), ids)
    broken = network(attempt.images).argmax(1) != labels
    assert broken[nearest < 0.98 * eps].all()
    assert not broken[nearest > 1.001 * eps].any()
