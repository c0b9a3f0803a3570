"""Rounding to 8 bits keeps every budget, and takes the nearest value that does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.benchmarks.attacks.budget import TOLERANCE, inside
from robustboard.registry.entries import Norm
from robustboard.runners.eight_bit import SLACK, to_eight_bits
from robustboard.runners.imagesets.image_set import TOLERANCE as CLAMPED

NORM = st.sampled_from(["linf", "l2"])


def drawn(data: st.DataObject, norm: Norm, *, on_grid: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Originals, images inside the budget, and the budget."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape = (
        3,
        data.draw(st.sampled_from([1, 3])),
        data.draw(st.integers(1, 9)),
        data.draw(st.integers(1, 9)),
    )
    eps = data.draw(st.floats(0, 0.6) | st.sampled_from([0.0, 0.4 / 255, 8 / 255, 1 / 255, 0.5 / 255]))
    originals = generator.random(shape, np.float32)
    if on_grid:
        originals = np.rint(originals * 255).astype(np.float32) / np.float32(255)
    away = generator.uniform(-1, 1, shape) * data.draw(st.sampled_from([1.0, 0.3]))
    if data.draw(st.booleans()):
        away = np.sign(away)
    sizes = (np.abs(away).max((1, 2, 3)) if norm == "linf" else np.sqrt((away**2).sum((1, 2, 3))))[
        :, None, None, None
    ]
    moved = np.clip(originals + away / np.maximum(sizes, 1e-9) * eps, 0, 1).astype(np.float32)
    return originals, moved, eps


@settings(deadline=None, max_examples=200)
@given(data=st.data(), norm=NORM, on_grid=st.booleans())
def test_a_rounded_image_keeps_its_budget_or_is_named(data: st.DataObject, norm: Norm, on_grid: bool) -> None:  # noqa: FBT001 - a case
    originals, moved, eps = drawn(data, norm, on_grid=on_grid)
    rounded = to_eight_bits(moved, originals, norm, eps)
    stored = torch.from_numpy(rounded.values.astype(np.float32) / np.float32(255))
    kept = inside(stored, torch.from_numpy(originals), norm, eps).numpy()
    assert kept[rounded.lost == 0].all()
    if on_grid:
        assert (rounded.lost == 0).all()


@settings(deadline=None, max_examples=100)
@given(data=st.data(), on_grid=st.booleans())
def test_linf_takes_the_nearest_value_that_fits(data: st.DataObject, on_grid: bool) -> None:  # noqa: FBT001 - a case
    """Against a search over all 256 values of each pixel."""
    originals, moved, eps = drawn(data, "linf", on_grid=on_grid)
    rounded = to_eight_bits(moved, originals, "linf", eps)
    grid = np.arange(256) / 255
    fits = np.abs(grid - originals[..., None].astype(np.float64)) <= eps + SLACK
    far = np.where(fits, np.abs(grid - moved[..., None].astype(np.float64)), np.inf)
    lost = ~fits.any(-1)
    assert np.array_equal(rounded.lost, lost.sum((1, 2, 3)))
    chosen = np.take_along_axis(far, rounded.values[..., None].astype(np.int64), -1)[..., 0]
    assert np.allclose(chosen[~lost], far.min(-1)[~lost], rtol=0, atol=1e-12)
    plain = np.rint(moved.astype(np.float64) * 255)
    assert np.array_equal(rounded.held, ((plain != rounded.values) & ~lost).sum((1, 2, 3)))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_budget_zero_gives_the_original_back(norm: Norm) -> None:
    originals = (np.arange(256, dtype=np.float32) / np.float32(255)).reshape(1, 1, 16, 16)
    rounded = to_eight_bits(originals, originals, norm, 0.0)
    assert rounded.values.ravel().tolist() == list(range(256))
    assert rounded.held.tolist() == rounded.lost.tolist() == [0]


def test_originals_between_the_levels_may_have_no_value() -> None:
    """1/16 is 15.94 of 255: within 0.05/255 there is none, within 0.1/255 there is 16."""
    originals = np.full((1, 1, 1, 2), 1 / 16, np.float32)
    assert to_eight_bits(originals, originals, "linf", 0.05 / 255).lost.tolist() == [2]
    assert to_eight_bits(originals, originals, "linf", 0.1 / 255).values.ravel().tolist() == [16, 16]
    assert to_eight_bits(originals, originals, "l2", 0.05 / 255).lost.tolist() == [2]


def test_readers_and_attacks_agree_on_what_rounding_may_do() -> None:
    assert CLAMPED == TOLERANCE
    assert TOLERANCE > SLACK
