"""The training image nearest to each generated one."""

from __future__ import annotations

import numpy as np
import pytest

from robustboard.runners import near_training
from robustboard.runners.near_training import nearest


def test_distances_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against every difference taken by itself; blocks of references change nothing."""
    drawn = np.random.default_rng(0)
    images, references = drawn.random((7, 20), np.float32), drawn.random((31, 20), np.float32)
    wanted = np.linalg.norm(images[:, None] - references[None], axis=2).min(1)
    assert nearest(images, references) == pytest.approx(wanted, abs=1e-4)
    monkeypatch.setattr(near_training, "AT_ONCE", 4)
    assert nearest(images, references) == pytest.approx(wanted, abs=1e-4)


def test_an_image_among_the_references_is_at_distance_0() -> None:
    images = np.random.default_rng(1).random((3, 64), np.float32)
    assert nearest(images, images[::-1].copy()) == pytest.approx([0, 0, 0], abs=5e-3)
