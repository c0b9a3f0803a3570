"""A workspace in a temporary folder, and an encoder of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from robustboard.workspace import Workspace
from tests.runners.sources.lab import Lab, encode


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.delenv("ROBUSTBOARD_DATA", raising=False)
    (tmp_path / "data").mkdir()
    return Lab(Workspace(tmp_path, tmp_path))


@pytest.fixture
def png() -> Callable[..., bytes]:
    """Encodes an array, or noise from a seed, as a PNG file."""
    return encode
