from __future__ import annotations

import pytest

from tests.leaderboard.made_up import World


@pytest.fixture
def world() -> World:
    """A fresh made-up registry."""
    return World()
