"""The made-up registry of the board tests, for the tests of pages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

NAME = "made_up_world"


def _made_up() -> Any:
    """The module with the made-up registry; test folders are no packages, so it is loaded by its path."""
    if NAME not in sys.modules:
        path = Path(__file__).resolve().parents[1] / "leaderboard" / "conftest.py"
        spec = importlib.util.spec_from_file_location(NAME, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[NAME]


@pytest.fixture
def world() -> Any:
    """A fresh made-up registry."""
    return _made_up().World()
