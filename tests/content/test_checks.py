"""Every published result has been run or recomputed here, and says by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from robustboard.leaderboard.results import read_results
from robustboard.leaderboard.trust import standings
from robustboard.runners.keys import Cell
from robustboard.runners.verifications import Standing
from robustboard.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
PLACE = Workspace(ROOT, ROOT)
RESULTS = read_results([PLACE.committed_results])


@pytest.fixture(scope="module")
def trust() -> dict[Cell, Standing]:
    return standings(PLACE, RESULTS)


@pytest.mark.parametrize("cell", list(RESULTS), ids=lambda cell: cell.name)
def test_a_published_result_has_earned_its_tier(cell: Cell, trust: dict[Cell, Standing]) -> None:
    """Where this fails, commit leaderboard/verifications as `robustboard run` or `score` wrote them."""
    standing = trust[cell]
    assert standing.tier in ("recomputed", "verified", "adaptive")
    assert all(check.who and check.record_sha256 for check in standing.checks)


def test_no_check_is_of_a_model_that_is_not_registered() -> None:
    folders = {path.parent.name for path in (ROOT / "leaderboard" / "verifications").glob("*/*.json")}
    assert folders <= {path.stem for path in (ROOT / "registry" / "models").glob("*.yaml")}
