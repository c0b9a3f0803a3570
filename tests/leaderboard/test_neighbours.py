"""Models next to each other on a board, tested by pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robustboard.leaderboard.board import Board, build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.neighbours import neighbours
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, pack
from tests.leaderboard.made_up import World, made

N = 10_000
Flags = np.ndarray[Any, Any]


def first(count: int) -> Flags:
    return np.arange(N) < count


def board_of(world: World, rights: dict[str, Flags]) -> tuple[Board, Measured]:
    """One column of clean accuracy, with outcomes of every image."""
    world.add_dataset("squares", size=N)
    cells, outcomes = {}, {}
    for name, right in rights.items():
        world.add_model(name)
        result = world.result(name, correct=int(right.sum()))
        cell = Cell(name, "clean-v1", "squares")
        cells[cell] = result
        outcomes[cell] = PerImage(
            key_digest=result.key_digest, images=N, samples="s", right={"clean": pack(right)}
        )
    values = {"id": "xx", "name": "x", "summary": "x", "label_space": "shapes", "datasets": ["squares"]}
    column = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
    entry = made(BoardEntry, {**values, "columns": [column], "order": "clean"})
    measured = Measured.of(cells, world.catalog, world.benchmarks, outcomes=outcomes)
    return build_board(entry, world.catalog, measured), measured


def test_two_copies_under_two_names_share_one_rank_and_cannot_be_told_apart(world: World) -> None:
    copy = np.random.default_rng(1).random(N) < 0.8
    board, measured = board_of(world, {"one": copy, "two": copy, "far": first(2000)})
    assert [row.ranks for row in board.rows] == [(1, 2), (1, 2), (3, 3)]
    same, far = neighbours(board, measured)
    assert (same.difference.verdict, same.difference.adjusted) == ("tied", 1.0)
    assert far.difference.verdict == "clear"


def test_a_gap_of_a_tenth_of_a_point_on_ten_thousand_images_is_a_tie(world: World) -> None:
    """Two models whose mistakes have little in common: 80.0 and 80.1 %."""
    generator = np.random.default_rng(2)
    a, b = (generator.permutation(first(count)) for count in (8010, 8000))
    board, measured = board_of(world, {"aa": a, "bb": b})
    assert [row.ranks for row in board.rows] == [(1, 2), (1, 2)]
    assert neighbours(board, measured)[0].difference.verdict == "tied"


def test_pairs_separate_what_rank_ranges_cannot(world: World) -> None:
    """80.0 and 80.5 %: the intervals overlap, but every image that the second gets right, the first does."""
    board, measured = board_of(world, {"aa": first(8050), "bb": first(8000)})
    assert [row.ranks for row in board.rows] == [(1, 2), (1, 2)]
    (pair,) = neighbours(board, measured)
    assert pair.difference.verdict == "clear"
    assert pair.difference.adjusted == pytest.approx(2 / 2**50)


def test_unranked_models_have_no_neighbours(world: World) -> None:
    board, measured = board_of(world, {"one": first(5000)})
    assert neighbours(board, measured) == ()
