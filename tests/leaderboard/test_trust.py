"""What boards make of checks and invalidations: shown with the reason, never ranked."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from robustboard.errors import ContentError
from robustboard.leaderboard.board import Board, build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.trust import load_invalidations, standings
from robustboard.runners.keys import Cell
from robustboard.runners.verifications import Check, Standing, Tier, predictions_digest, standing_of
from robustboard.workspace import Workspace
from tests.leaderboard.made_up import World, made

ENTRY = made(
    BoardEntry,
    {
        "id": "shapes", "name": "Shapes", "label_space": "shapes", "datasets": ["squares"],
        "order": "clean", "summary": "A test.",
        "columns": [{"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}],
    },
)  # fmt: skip
INVALID = """\
model: good
benchmark: clean-v1
dataset: squares
key: "{key}"
reason: Measured with another crop than the entry says.
by: A tester
day: 2026-02-03
"""


def board(world: World, trust: dict[Cell, Standing] | None) -> Board:
    """Models good and fair, and what is known of their results."""
    counts = {"good": 550, "fair": 400}
    for name in counts:
        world.add_model(name)
    results = {cell(name): world.result(name, correct=count) for name, count in counts.items()}
    measured = Measured.of(results, world.catalog, world.benchmarks, trust=trust)
    return build_board(ENTRY, world.catalog, measured)


def cell(name: str) -> Cell:
    return Cell(name, "clean-v1", "squares")


@pytest.mark.parametrize(
    ("tier", "rank"),
    [("reported", None), ("smoke", None), ("recomputed", (1, 1)), ("verified", (1, 1)), ("adaptive", (1, 1))],
)
def test_only_what_somebody_vouches_for_has_a_rank(world: World, tier: Tier, rank: object) -> None:
    found = board(world, {cell("good"): Standing(tier), cell("fair"): Standing("verified")})
    row = next(row for row in found.rows if row.model == "good")
    assert row.ranks == rank
    assert row.provenance == tier
    assert row.unranked == (None if rank else "Clean: unchecked")
    assert row.cells[0].value == 550 / 600
    assert next(r for r in found.rows if r.model == "fair").ranks == ((2, 2) if rank else (1, 1))


def test_an_invalidated_result_leaves_the_ranks_and_stays_with_its_reason(world: World) -> None:
    wrong = Standing("verified", (), "wrong crop (A tester, 2026-02-03)")
    found = board(world, {cell("good"): wrong, cell("fair"): Standing("verified")})
    row = next(row for row in found.rows if row.model == "good")
    assert (row.ranks, row.cells[0].status) == (None, "invalidated")
    assert row.cells[0].reason == "wrong crop (A tester, 2026-02-03)"
    assert row.cells[0].value == 550 / 600
    data = found.as_data()["rows"]
    shown = next(each for each in data if each["model"] == "good")["cells"]["clean"]
    assert (shown["status"], shown["provenance"]) == ("invalidated", "verified")


def test_results_that_nobody_vouches_for_cannot_make_those_of_others_old(world: World) -> None:
    """Two unchecked results on other image bytes outnumber a verified one, and change nothing of it."""
    names = ("good", "fair", "poor")
    for name in names:
        world.add_model(name)
    results = {cell(name): world.result(name) for name in names}
    for name in names[1:]:
        key = results[cell(name)].key.model_copy(update={"data_fingerprint": "f" * 64})
        results[cell(name)] = results[cell(name)].model_copy(update={"key": key})
    tiers: dict[str, Tier] = {"good": "verified", "fair": "reported", "poor": "reported"}
    trust = {cell(name): Standing(tier) for name, tier in tiers.items()}
    found = build_board(
        ENTRY, world.catalog, Measured.of(results, world.catalog, world.benchmarks, trust=trust)
    )
    assert {row.model: (row.ranks, row.cells[0].status) for row in found.rows} == {
        "good": ((1, 1), "ok"),
        "fair": (None, "unchecked"),
        "poor": (None, "unchecked"),
    }


def test_the_board_s_data_say_who_checked_what_and_when(world: World) -> None:
    result = world.result(world.add_model("good").id)
    values = {
        "tier": "recomputed", "how": "recomputation", "who": "A tester", "day": date(2026, 1, 31),
        "key_digest": result.key_digest, "predictions": predictions_digest(result.shards),
        "record_sha256": "0" * 64, "evidence": {"integers": 8},
    }  # fmt: skip
    standing = standing_of(result, [Check.model_validate(values)])
    found = board(world, {cell("good"): standing})
    shown = next(r for r in found.as_data()["rows"] if r["model"] == "good")["cells"]["clean"]
    assert shown["provenance"] == "recomputed"
    (check,) = shown["checks"]
    assert (check["who"], check["day"], check["record_sha256"]) == ("A tester", "2026-01-31", "0" * 64)


def test_entries_that_invalidate_name_one_run_and_no_later_one(world: World, tmp_path: Path) -> None:
    place = Workspace(tmp_path, tmp_path)
    result = world.result(world.add_model("good").id)
    folder = tmp_path / "leaderboard" / "invalidated"
    folder.mkdir(parents=True)
    (folder / "good-crop.yaml").write_text(INVALID.format(key=result.key_digest))
    assert standings(place, {cell("good"): result})[cell("good")].invalid == (
        "Measured with another crop than the entry says. (A tester, 2026-02-03)"
    )
    again = world.result("good", seed=3)
    assert standings(place, {cell("good"): again})[cell("good")].invalid is None


def test_a_broken_invalidation_is_told_with_file_line_and_field(tmp_path: Path) -> None:
    folder = tmp_path / "leaderboard" / "invalidated"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text(INVALID.format(key="0" * 63))
    with pytest.raises(ContentError, match=r"leaderboard/invalidated/bad\.yaml:4: key: expected a SHA-256"):
        load_invalidations(Workspace(tmp_path, tmp_path))
