"""Flagged rows: shown, ranked by the worst known number, and random models kept out; all made up."""

from __future__ import annotations

from typing import Any

import pytest

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import Board, build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.runners.verifications import Standing, Tier
from tests.leaderboard.made_up import World, made
from tests.leaderboard.test_board import CLEAN, PGD, board
from tests.leaderboard.test_flags import PROTOCOLS, drawn, falling, flag

RAND = {"id": "rand", "title": "Rand", "benchmark": "rand-v1", "dataset": "squares"}
AREA = {**PGD, "id": "area", "title": "Area", "score": "area_under_curve@linf"}
UNBOUNDED = flag("unbounded-survivors", "linf unbounded", 0.25)


@pytest.fixture
def attacked(world: World) -> World:
    """The made-up registry with more protocols and three models."""
    for name, procedure in PROTOCOLS.items():
        values = {"id": name, "name": name, "summary": name, "source": "made up", "added": "2026-01-31"}
        world.benchmarks[name] = made(BenchmarkEntry, {**values, "procedure": procedure})
    for name in ("net", "better", "worse"):
        world.add_model(name)
    return world


def with_flags(result: Result, *flags: Any) -> Result:
    return result.model_copy(update={"flags": flags})


def pgd(world: World, model: str, robust: int, *flags: Any) -> Result:
    return with_flags(world.result(model, "pgd-v1", falling=falling(robust)), *flags)


def standings(found: Board) -> list[tuple[str, int | None]]:
    return [(row.model, row.place) for row in found.rows]


def test_a_flagged_row_is_ranked_by_the_lowest_number_known_of_it(attacked: World) -> None:
    """PGD leaves 450 of the flagged model's images, Square 150: it stands below 300 and 200."""
    results = [
        pgd(attacked, "net", 450, UNBOUNDED),
        attacked.result("net", "square-v1", falling=falling(150)),
        attacked.result("net", "full-v1", falling=falling(151)),
        pgd(attacked, "better", 300),
        pgd(attacked, "worse", 200),
    ]
    found = board(attacked, results, PGD, order="pgd")
    assert standings(found) == [("better", 1), ("worse", 2), ("net", 3)]
    row = found.rows[-1]
    assert row.ranks == (3, 3)
    assert row.cells[0].value == 450 / 600
    assert row.flagged.known is not None
    assert (row.flagged.known.benchmark, row.flagged.known.score.value) == ("square-v1", 0.25)
    assert [each.flag.name for each in row.flagged.flags] == ["unbounded-survivors"]


def test_a_row_without_flags_keeps_its_own_number(attacked: World) -> None:
    """A stronger attack with gradients lowers what is known, but casts no doubt on the model."""
    results = [
        pgd(attacked, "net", 450),
        attacked.result("net", "apgd-v1", falling=falling(150)),
        pgd(attacked, "better", 300),
    ]
    found = board(attacked, results, PGD, order="pgd")
    assert standings(found) == [("net", 1), ("better", 2)]
    assert found.rows[0].flagged.flags == ()
    assert found.rows[0].flagged.known is None


def test_a_flagged_row_with_nothing_lower_keeps_its_number_and_its_mark(attacked: World) -> None:
    found = board(
        attacked, [pgd(attacked, "net", 450, UNBOUNDED), pgd(attacked, "better", 300)], PGD, order="pgd"
    )
    assert standings(found) == [("net", 1), ("better", 2)]
    assert found.rows[0].flagged.names == ("unbounded-survivors",)
    assert found.rows[0].flagged.text == "! unbounded-survivors"


def test_worst_draws_of_uniform_noise_count_and_other_budgets_images_and_models_do_not(
    attacked: World,
) -> None:
    base = [pgd(attacked, "net", 450, UNBOUNDED), attacked.result("better", "square-v1", falling=falling(1))]
    part = attacked.result("net", "square-v1", falling=falling(2), skipped=1)
    for more, expected in (
        (drawn(attacked, 0, 420, 0, 0), ("noise-v1", 0.7)),
        (drawn(attacked, 0, 420, 0, 0, kind="gaussian"), None),
        (part, None),
        (attacked.result("net", "square-v1", falling=falling(3), code=99), None),
    ):
        known = board(attacked, [*base, more], PGD, order="pgd").rows[0].flagged.known
        assert (None if known is None else (known.benchmark, known.score.value)) == expected


def test_a_note_on_the_protocol_is_no_doubt(attacked: World) -> None:
    results = [
        pgd(attacked, "net", 450, flag("few-classes")),
        attacked.result("net", "apgd-v1", falling=falling(1)),
    ]
    assert board(attacked, results, PGD, order="pgd").rows[0].flagged.flags == ()


def test_flags_of_a_column_that_does_not_order_mark_the_row_but_do_not_move_it(attacked: World) -> None:
    results = [
        attacked.result("net", correct=500),
        pgd(attacked, "net", 450, UNBOUNDED),
        attacked.result("net", "full-v1", falling=falling(1)),
    ]
    (row,) = board(attacked, results, CLEAN, PGD, order="clean").rows
    assert row.flagged.names == ("unbounded-survivors",)
    assert row.flagged.known is None
    assert row.ranks == (1, 1)


def test_a_mean_over_budgets_has_no_lower_number_to_go_by(attacked: World) -> None:
    results = [pgd(attacked, "net", 450, UNBOUNDED), attacked.result("net", "full-v1", falling=falling(1))]
    (row,) = board(attacked, results, AREA, order="area").rows
    assert row.flagged.names == ("unbounded-survivors",)
    assert row.flagged.known is None


def test_a_random_model_has_no_rank_in_a_standard_column(attacked: World) -> None:
    """B047: kept out, with the reason; the flag was seen in another protocol on the same images."""
    results = [
        with_flags(attacked.result("net", "clean-v1"), flag("non-deterministic")),
        pgd(attacked, "net", 450),
        pgd(attacked, "better", 300),
    ]
    found = board(attacked, results, PGD, order="pgd")
    assert standings(found) == [("better", 1), ("net", None)]
    assert found.rows[1].unranked == "PGD: its answers change from pass to pass"
    assert found.rows[1].flagged.names == ("non-deterministic",)


def test_a_random_model_is_ranked_where_the_protocol_averages(attacked: World) -> None:
    """B047: by the mean of many passes, and with no doubt cast for its randomness."""
    results = [
        with_flags(attacked.result("net", "rand-v1", falling=falling(100)), flag("non-deterministic")),
        attacked.result("better", "rand-v1", falling=falling(300)),
    ]
    found = board(attacked, results, RAND, order="rand")
    assert standings(found) == [("better", 1), ("net", 2)]
    assert found.rows[1].flagged.flags == ()


def test_data_and_text_say_what_is_doubted_and_what_ranks(attacked: World) -> None:
    results = [
        pgd(attacked, "net", 450, UNBOUNDED),
        attacked.result("net", "full-v1", falling=falling(150)),
        pgd(attacked, "better", 300),
    ]
    found = board(attacked, results, PGD, order="pgd")
    assert found.text_headings() == ("rank", "model", "PGD", "flags")
    assert [row[-1] for row in found.text_rows()] == [
        "",
        "! unbounded-survivors; worst known 25.0 % (full-v1)",
    ]
    first, second = found.as_data()["rows"]
    assert (first["flags"], first["ranked_by"]) == ([], None)
    (only,) = second["flags"]
    assert only == {"benchmark": "pgd-v1", "dataset": "squares", **UNBOUNDED.model_dump()}
    assert (second["ranked_by"]["benchmark"], second["ranked_by"]["value"]) == ("full-v1", 0.25)
    assert second["cells"]["pgd"]["value"] == 0.75


def test_a_control_is_shown_and_never_ranked(attacked: World) -> None:
    attacked.add_model("masked", control=True)
    found = board(attacked, [pgd(attacked, "masked", 450), pgd(attacked, "better", 300)], PGD, order="pgd")
    assert standings(found) == [("better", 1), ("masked", None)]
    assert found.rows[1].unranked == "a control, not a contender"


def test_a_number_is_doubted_where_a_lower_one_is_known_or_the_attack_itself_failed(attacked: World) -> None:
    """Square's own number, the lowest, stands; PGD, which it beats, does not."""
    square = {"id": "square", "title": "Square", "benchmark": "square-v1", "dataset": "squares"}
    results = [pgd(attacked, "net", 450), attacked.result("net", "square-v1", falling=falling(150))]
    (row,) = board(attacked, results, PGD, square, order="pgd").rows
    assert row.flagged.doubted == {"pgd"}
    assert [each.flag.value for each in row.flagged.worst] == [0.5]
    alone = board(attacked, [pgd(attacked, "net", 450, UNBOUNDED)], PGD, AREA, order="pgd").rows[0]
    assert alone.flagged.doubted == {"pgd", "area"}


@pytest.mark.parametrize(
    ("tier", "place", "names"), [("reported", 1, ()), ("verified", None, ("non-deterministic",))]
)
def test_what_nobody_vouches_for_doubts_no_other_number_of_a_model(
    attacked: World, tier: Tier, place: int | None, names: tuple[str, ...]
) -> None:
    """Anybody can hand in a result of somebody's model that says its answers are random."""
    random = with_flags(attacked.result("net"), flag("non-deterministic", None, 1.0))
    results = {
        cell_of(each): each for each in (pgd(attacked, "net", 450), random, pgd(attacked, "better", 300))
    }
    trust = {cell: Standing("verified") for cell in results} | {cell_of(random): Standing(tier)}
    entry = made(BoardEntry, {
        "id": "squares", "name": "Squares", "label_space": "shapes", "datasets": ["squares"],
        "order": "pgd", "summary": "A test.", "columns": [PGD],
    })  # fmt: skip
    found = build_board(
        entry, attacked.catalog, Measured.of(results, attacked.catalog, attacked.benchmarks, trust=trust)
    )
    row = next(each for each in found.rows if each.model == "net")
    assert (row.place, row.flagged.names) == (place, names)


def cell_of(result: Result) -> Cell:
    return Cell(result.key.model, result.key.benchmark, result.key.dataset)
