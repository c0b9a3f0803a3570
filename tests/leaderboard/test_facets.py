"""Training data of a board's models, counted: unknown is a number of its own, never a no."""

from __future__ import annotations

from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.facets import Contamination, contamination
from robustboard.runners.keys import Cell
from tests.leaderboard.made_up import World
from tests.leaderboard.test_trust import ENTRY


def test_answers_are_counted_and_silence_is_unknown(world: World) -> None:
    answers = {
        "a": {"overlap": {"squares": "yes"}, "sources": {"squares": "its paper"}},
        "b": {"overlap": {"squares": "no"}},
        "c": {"overlap": {"squares": "no"}, "sources": {"squares": "its card"}},
        "d": {"overlap": {"squares": "unknown"}, "sources": {"squares": "nobody says"}},
        "e": {},
    }
    models = [
        world.add_model(f"net-{name}", training={"datasets": ["web"], **more})
        for name, more in answers.items()
    ]
    found = contamination(["squares", "paints"], models)
    assert found["squares"] == Contamination(yes=1, no=2, unknown=2, sourced=2)
    assert found["paints"] == Contamination(yes=0, no=0, unknown=5, sourced=0)


def test_a_board_counts_its_rows_alone(world: World) -> None:
    for name in ("good", "waiting"):
        world.add_model(name, training={"datasets": ["x"], "overlap": {"squares": "no"}})
    results = {Cell("good", "clean-v1", "squares"): world.result("good")}
    board = build_board(ENTRY, world.catalog, Measured.of(results, world.catalog, world.benchmarks))
    assert board.as_data()["contamination"] == {"squares": {"yes": 0, "no": 1, "unknown": 0, "sourced": 0}}
