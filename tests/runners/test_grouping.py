"""Outputs of categories: by their definitions, differentiable, and as the registry groups them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from robustboard import workspace
from robustboard.registry.catalog import load_catalog
from robustboard.registry.labels import Aggregation
from robustboard.runners.grouping import Grouped
from robustboard.workspace import Workspace

ROOT = workspace.PACKAGE.parent
CATALOG = load_catalog(Workspace(ROOT, ROOT))
GROUPS = ((3, 0), (1,), (4, 5, 2))


class Logits(nn.Module):
    """Hands its input over: (n, k, 1, 1) as (n, k)."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)


def outputs(logits: npt.NDArray[np.float64], aggregation: Aggregation) -> npt.NDArray[np.float64]:
    images = torch.from_numpy(np.asarray(logits, np.float64))[:, :, None, None]
    found: npt.NDArray[np.float64] = Grouped(Logits(), GROUPS, aggregation)(images).numpy()
    return found


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-30, 30), min_size=7, max_size=7), min_size=1, max_size=4))
def test_max_logit_is_the_highest_of_each_group(rows: list[list[float]]) -> None:
    found = outputs(np.array(rows), "max-logit")
    assert found.tolist() == [[max(row[i] for i in group) for group in GROUPS] for row in rows]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-30, 30), min_size=7, max_size=7), min_size=1, max_size=4))
def test_mean_share_is_the_mean_probability_over_all_classes(rows: list[list[float]]) -> None:
    """Specs 7.4: softmax over all classes, mean over each category; class 6 is in none and still counts."""
    found = np.exp(outputs(np.array(rows), "mean-share"))
    shares = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    wanted = np.stack([shares[:, list(group)].mean(1) for group in GROUPS], 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-20)


def test_the_mean_and_the_maximum_choose_differently() -> None:
    """One strong class of three loses against a single class by the mean, and wins by the maximum."""
    logits = np.array([[0.0, 1.0, 0.0, 0.0, 1.5, 0.0, 0.0]])
    assert outputs(logits, "max-logit").argmax() == 2
    assert outputs(logits, "mean-share").argmax() == 1


@pytest.mark.parametrize("aggregation", ["max-logit", "mean-share"])
def test_gradients_reach_the_images_and_are_finite(aggregation: Aggregation) -> None:
    images = torch.randn(4, 7, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    images.requires_grad_()
    grouped = Grouped(Logits(), GROUPS, aggregation)
    assert torch.autograd.gradcheck(grouped, (images,))
    (slope,) = torch.autograd.grad(grouped(images)[:, 2].sum(), images)
    assert torch.isfinite(slope).all()
    assert (slope[:, [2, 4, 5]] != 0).any(1).all()


def test_the_registry_knows_the_categories_of_the_literature() -> None:
    """Specs 1.3 and 12: sizes, and chair of ObjectNet accepts 423, 559 and 765."""
    expected = {"objectnet": (113, 125), "restricted-imagenet": (9, 203), "sixteen-class-imagenet": (16, 207)}
    space = list(CATALOG.label_space("imagenet-1k").classes)
    for name, (categories, classes) in expected.items():
        groups = CATALOG.class_groups[name].classes
        assert (len(groups), sum(map(len, groups.values()))) == (categories, classes)
    objectnet = CATALOG.class_groups["objectnet"].classes
    assert sorted(space.index(key) for key in objectnet["Chair"]) == [423, 559, 765]
    several = {name.lower() for name, keys in objectnet.items() if len(keys) > 1}
    names = "alarm clock, bicycle, chair, helmet, pen, skirt, still camera, tie, wheel"
    assert several == set(names.split(", "))
    restricted = CATALOG.class_groups["restricted-imagenet"].classes
    ranges = {"dog": (151, 268), "cat": (281, 285), "frog": (30, 32), "turtle": (33, 37), "bird": (80, 100)}
    ranges |= {"primate": (365, 382), "fish": (389, 397), "crab": (118, 121), "insect": (300, 319)}
    for name, (first, last) in ranges.items():
        assert [space.index(key) for key in restricted[name]] == list(range(first, last + 1))
