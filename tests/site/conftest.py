from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from jinja2 import Environment

from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.registry.reported import Reported
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.site.environment import environment
from robustboard.site.render import SiteInput
from tests.leaderboard.made_up import World

REPOSITORY = Path(__file__).resolve().parents[2]
CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
Site = Callable[..., SiteInput]


def site_of(
    world: World,
    results: Sequence[Result] = (),
    columns: Sequence[Mapping[str, str]] = (CLEAN,),
    reported: Mapping[str, Reported] | None = None,
    *,
    order: str = "clean",
    datasets: Sequence[str] = ("squares",),
) -> SiteInput:
    """All that pages are made of: one board over the results."""
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
    return SiteInput(world.catalog, world.benchmarks, {"squares": board}, measured, reported or {}, "0.0.0")


@pytest.fixture
def world() -> World:
    """A fresh made-up registry."""
    return World()


@pytest.fixture
def site(world: World) -> Site:
    """A function from results and board columns to all that pages are made of."""

    def make(*arguments: object, **options: object) -> SiteInput:
        return site_of(world, *arguments, **options)  # type: ignore[arg-type] # checked by site_of's users

    return make


@pytest.fixture(scope="session")
def templates() -> Environment:
    """The templates of this repository."""
    return environment(REPOSITORY / "site" / "templates")
