"""Means over columns, and several trainings of one recipe."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robustboard.leaderboard.board import Board, build_board
from robustboard.leaderboard.cells import CellView, Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.means import seed_rows
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, pack
from tests.leaderboard.made_up import World, made

CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
PGD = {"id": "pgd", "title": "PGD", "benchmark": "pgd-v1", "dataset": "squares"}
BOTH = {"id": "both", "title": "Mean", "derive": "mean", "of": ["clean", "pgd"]}


def entry_of(*columns: dict[str, Any], order: str = "pgd", **more: Any) -> BoardEntry:
    values = {"id": "xx", "name": "x", "summary": "x", "label_space": "shapes", "datasets": ["squares"]}
    return made(BoardEntry, {**values, "columns": list(columns), "order": order, **more})


def board_of(
    world: World, results: list[Any], outcomes: dict[Cell, PerImage] | None = None, **more: Any
) -> Board:
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    measured = Measured.of(cells, world.catalog, world.benchmarks, outcomes=outcomes)
    return build_board(entry_of(CLEAN, PGD, BOTH, **more), world.catalog, measured)


def attacked(world: World, name: str, clean: int, robust: int) -> list[Any]:
    """Clean and PGD results of a model, `robust` images right at 1/10."""
    falling = [robust, robust, 0, 0]
    return [world.result(name, correct=clean), world.result(name, "pgd-v1", correct=clean, falling=falling)]


def cell_of(board: Board, name: str) -> CellView:
    return next(row.cells[2] for row in board.rows if row.model == name)


def test_a_mean_gives_every_column_the_same_weight(world: World) -> None:
    world.add_model("one")
    view = cell_of(board_of(world, attacked(world, "one", 540, 300)), "one")
    assert view.value == pytest.approx((0.9 + 0.5) / 2)


def test_without_outcomes_the_interval_runs_from_the_mean_of_lower_to_that_of_upper_ends(
    world: World,
) -> None:
    world.add_model("one")
    board = board_of(world, attacked(world, "one", 540, 300))
    row = board.rows[0]
    ends = [view.bounds or (0.0, 0.0) for view in row.cells]
    assert ends[2] == pytest.approx(np.mean(ends[:2], axis=0).tolist())
    assert row.cells[2].score is not None
    assert row.cells[2].score.interval == "ends-95"


def test_with_outcomes_the_interval_is_a_bootstrap_over_the_images_of_both_columns(world: World) -> None:
    """540 right of 600, 300 of them under attack: an image gives 1, 1/2 or 0."""
    world.add_model("one")
    results = attacked(world, "one", 540, 300)
    clean, robust = np.arange(600) < 540, np.arange(600) < 300
    rights = ({"clean": clean}, {"clean": clean, "linf 1/10": robust})
    outcomes = {
        Cell("one", r.key.benchmark, "squares"): PerImage(
            key_digest=r.key_digest,
            images=600,
            samples="s",
            right={name: pack(f) for name, f in right.items()},
        )
        for r, right in zip(results, rights, strict=True)
    }
    view = cell_of(board_of(world, results, outcomes), "one")
    each = (clean.astype(float) + robust) / 2
    error = each.std() / np.sqrt(600)
    low, high = view.bounds or (0, 0)
    assert (low, high) == pytest.approx((0.7 - 1.96 * error, 0.7 + 1.96 * error), abs=2e-3)
    assert view.score is not None
    assert view.score.interval == "bootstrap-95"


def test_a_model_that_lacks_a_part_has_no_mean_and_the_cell_says_how_many(world: World) -> None:
    """A gap must not raise a mean, nor count as 0."""
    for name in ("whole", "half"):
        world.add_model(name)
    board = board_of(world, [*attacked(world, "whole", 500, 100), world.result("half", correct=600)])
    view = cell_of(board, "half")
    assert (view.status, view.value, view.reason) == ("undefined", None, "1 of 2: PGD is not run")


def test_a_board_may_be_ranked_by_a_mean_and_keeps_incomplete_rows_out(world: World) -> None:
    for name in ("good", "better", "half"):
        world.add_model(name)
    results = [
        *attacked(world, "good", 400, 50),
        *attacked(world, "better", 580, 500),
        world.result("half", correct=600),
    ]
    board = board_of(world, results, order="both")
    assert [(row.model, row.ranks) for row in board.rows] == [
        ("better", (1, 1)),
        ("good", (2, 2)),
        ("half", None),
    ]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({**BOTH, "of": ["clean"]}, "two or more columns"),
        ({**BOTH, "of": ["clean", "clean"]}, "each once"),
        ({**BOTH, "of": ["clean", "pdg"]}, "measured columns of the board"),
        ({**PGD, "id": "x", "of": ["clean", "pgd"]}, "none, unless derive is mean"),
        ({**BOTH, "score": "robust_accuracy@linf 1/10"}, "none for a mean"),
        ({"id": "x", "title": "x", "dataset": "squares"}, "expected a value"),
    ],
)
def test_a_mean_that_says_not_what_it_is_of_is_refused(column: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BoardEntry.model_validate_json(
            json.dumps(
                entry_of(CLEAN, PGD).model_dump(mode="json", exclude={"columns"})
                | {"columns": [CLEAN, PGD, column]}
            )
        )


def test_trainings_of_one_recipe_are_told_together(world: World) -> None:
    """Three seeds at 300, 330 and 360 of 600: mean 0.55, deviation 0.05, Student's t with two degrees."""
    names = ("a1", "a2", "a3")
    for name in names:
        world.add_model(name)
    results = [
        r
        for name, hits in zip(names, (300, 330, 360), strict=True)
        for r in attacked(world, name, hits, hits)
    ]
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    measured = Measured.of(cells, world.catalog, world.benchmarks)
    entry = entry_of(CLEAN, PGD, seeds=[{"name": "Net a", "models": list(names)}])
    board = build_board(entry, world.catalog, measured)
    (row,) = seed_rows(entry, {found.model: found.cells for found in board.rows})
    spread = row.spreads[0]
    assert spread is not None
    assert (spread.count, spread.mean, spread.deviation) == pytest.approx((3, 0.55, 0.05))
    interval = stats.t.interval(0.95, 2, 0.55, 0.05 / np.sqrt(3))
    assert (spread.low, spread.high) == pytest.approx(interval)


def test_one_training_has_no_spread(world: World) -> None:
    world.add_model("a1")
    entry = entry_of(CLEAN, PGD, seeds=[{"name": "Net a", "models": ["a1", "gone"]}])
    (row,) = seed_rows(entry, {"a1": [CellView("not run", None, None, None)] * 2})
    assert row.spreads == (None, None)
