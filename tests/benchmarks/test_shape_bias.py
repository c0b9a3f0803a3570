"""Shape bias counts decisions for one of two cues."""

from __future__ import annotations

import pytest

from robustboard.benchmarks.shape_bias import cue_conflict


def test_the_toy_has_its_published_value() -> None:
    """Answers shape, shape, texture, neither, texture: half of the decisions go by shape."""
    shape, texture = [0, 1, 2, 3, 4], [5, 5, 5, 5, 5]
    found = cue_conflict([0, 1, 5, 9, 5], shape, texture)
    assert (found.images, found.shape, found.texture, found.shape_bias) == (5, 2, 2, 0.5)
    assert cue_conflict([0, 1, 5, 9, 5, 7], [*shape, 7], [*texture, 7]) == found


def test_without_a_decision_there_is_no_bias() -> None:
    assert cue_conflict([9], [0], [1]).shape_bias is None
    assert cue_conflict([0], [0], [0]).shape_bias is None


def test_lists_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        cue_conflict([0], [0, 1], [1, 0])
