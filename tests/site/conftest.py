"""The made-up registry of the board tests, for the tests of pages."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from robustboard.leaderboard.board import Measured, build_board
from robustboard.leaderboard.entries import BoardEntry
from robustboard.runners.keys import Cell
from robustboard.site.environment import environment
from robustboard.site.render import SiteInput

REPOSITORY = Path(__file__).resolve().parents[2]
CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
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


@pytest.fixture
def site(world: Any) -> Any:
    """A function from results and board columns to all that pages are made of."""

    def make(
        results: Any = (),
        columns: Any = (CLEAN,),
        reported: Any = None,
        *,
        order: str = "clean",
        datasets: Any = ("squares",),
    ) -> SiteInput:
        cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
        measured = Measured.of(cells, world.catalog, world.benchmarks)
        entry = {
            "id": "squares",
            "name": "Squares",
            "summary": "Squares in two classes.",
            "label_space": "shapes",
            "datasets": list(datasets),
            "columns": list(columns),
            "order": order,
            "reported": [{"source": name} for name in reported or {}],
        }
        board = build_board(BoardEntry.model_validate_json(json.dumps(entry)), world.catalog, measured)
        return SiteInput(
            world.catalog, world.benchmarks, {"squares": board}, measured, reported or {}, "0.0.0"
        )

    return make


@pytest.fixture
def templates() -> Any:
    """The templates of this repository."""
    return environment(REPOSITORY / "site" / "templates")
