from __future__ import annotations

import json
from typing import Any

import pytest

from robustboard.errors import StoreError
from robustboard.leaderboard.board import Board, build_board, rank_text
from robustboard.leaderboard.cells import Measured, cell_text, find_score
from robustboard.leaderboard.entries import BoardEntry
from robustboard.runners.failures import Failure
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result, Subset

CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
PGD = {"id": "pgd", "title": "PGD", "benchmark": "pgd-v1", "dataset": "squares"}


def entry(*columns: dict[str, str], order: str = "clean") -> BoardEntry:
    return BoardEntry.model_validate_json(
        json.dumps(
            {
                "id": "squares",
                "name": "Squares",
                "summary": "Squares.",
                "label_space": "shapes",
                "datasets": ["squares"],
                "columns": list(columns or (CLEAN,)),
                "order": order,
            }
        )
    )


def board(world: Any, results: list[Result], *columns: dict[str, str], order: str = "clean") -> Board:
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    measured = Measured.of(cells, world.catalog, world.benchmarks)
    return build_board(entry(*columns, order=order), world.catalog, measured)


def test_rows_are_ordered_by_unrounded_value_and_missing_ones_come_last(world: Any) -> None:
    """B068: equal values share a place, the next is skipped; the order within a tie is that of ids."""
    world.add_dataset("squares", size=100_000)
    shares = [0.095, 0.102, 1.0, None, 0.81249, 0.81251, 0.5, 0.5]
    results = []
    for number, share in enumerate(shares):
        name = f"net{number}"
        world.add_model(name)
        if share is not None:
            results.append(world.result(name, correct=round(share * 100_000)))
        results.append(world.result(name, "pgd-v1"))
    found = board(world, results, CLEAN, PGD)
    assert [row.cells[0].value for row in found.rows] == [1.0, 0.81251, 0.81249, 0.5, 0.5, 0.102, 0.095, None]
    assert [row.place for row in found.rows] == [1, 2, 3, 4, 4, 6, 7, None]
    assert [row.model for row in found.rows[3:5]] == ["net6", "net7"]
    assert found.rows[-1].unranked == "Clean: not run"


def test_the_order_does_not_depend_on_the_order_of_results(world: Any) -> None:
    results = []
    for number in range(12):
        world.add_model(f"net{number:02}")
        results.append(world.result(f"net{number:02}", correct=300 + number // 3))
    straight = board(world, results)
    assert board(world, results[::-1]) == straight


def test_where_lower_is_better_the_lowest_comes_first_and_missing_ones_still_last(world: Any) -> None:
    """B068: missing last in both directions."""
    column = {**PGD, "score": "attack_success_rate@linf 1/10"}
    results = []
    for name, hits in (("bad", 500), ("good", 100), ("none", 0)):
        world.add_model(name)
        result = world.result(name, "pgd-v1")
        scores = [s for s in result.scores if not s.metric.startswith("area")]
        made = scores[1].model_copy(
            update={
                "metric": "attack_success_rate",
                "condition": "linf 1/10",
                "direction": "lower",
                "value": hits / 600 if name != "none" else None,
                "low": hits / 600 if name != "none" else None,
                "high": hits / 600 if name != "none" else None,
                "status": "ok" if name != "none" else "undefined",
                "reason": None if name != "none" else "nothing was right before the attack",
            }
        )
        results.append(result.model_copy(update={"scores": (*scores, made)}))
    found = board(world, results, column, order="pgd")
    assert [row.model for row in found.rows] == ["good", "bad", "none"]
    assert [row.ranks for row in found.rows] == [(1, 1), (2, 2), None]


def test_two_copies_of_one_model_share_place_and_ranks(world: Any) -> None:
    for name in ("first", "copy", "weak"):
        world.add_model(name)
    found = board(world, [world.result("first"), world.result("copy"), world.result("weak", correct=100)])
    assert [(row.model, row.place, row.ranks) for row in found.rows] == [
        ("copy", 1, (1, 2)),
        ("first", 1, (1, 2)),
        ("weak", 3, (3, 3)),
    ]
    assert [row.model for row in found.leaders] == ["copy", "first"]


def test_a_row_with_any_missing_cell_is_not_ranked_and_moves_nobody(world: Any) -> None:
    """The best clean accuracy of all earns no rank while PGD is missing."""
    for name in ("whole", "other", "half"):
        world.add_model(name)
    results = [world.result("whole"), world.result("other", correct=100), world.result("half", correct=600)]
    results += [world.result("whole", "pgd-v1"), world.result("other", "pgd-v1")]
    found = board(world, results, CLEAN, PGD)
    assert [(row.model, row.ranks) for row in found.rows] == [
        ("whole", (1, 1)),
        ("other", (2, 2)),
        ("half", None),
    ]
    half = found.rows[-1]
    assert half.unranked == "PGD: not run"
    assert half.cells[1].reason == "nobody has run it"


def test_partial_results_show_their_number_but_never_rank(world: Any) -> None:
    for name in ("all", "part", "holes"):
        world.add_model(name)
    found = board(
        world,
        [
            world.result("all"),
            world.result("part", correct=99, subset=Subset(count=100, seed=0)),
            world.result("holes", correct=590, skipped=3),
        ],
    )
    rows = {row.model: row for row in found.rows}
    assert rows["all"].ranks == (1, 1)
    assert rows["part"].ranks is None
    assert rows["part"].cells[0].value == 0.99
    assert rows["part"].cells[0].reason == "measured on 100 of 600 images"
    assert rows["holes"].ranks is None
    assert rows["holes"].cells[0].reason == "3 of 600 images could not be read"


def test_an_undefined_score_is_no_number_and_says_why(world: Any) -> None:
    """B066: undefined sorts last and takes part in no rank."""
    for name in ("sound", "broken"):
        world.add_model(name)
    found = board(
        world, [world.result("broken", undefined=["clean_accuracy"]), world.result("sound", correct=1)]
    )
    assert [row.model for row in found.rows] == ["sound", "broken"]
    cell = found.rows[1].cells[0]
    assert (cell.status, cell.value, cell.bounds, cell.margin) == ("undefined", None, None, None)
    assert cell.reason == "made up to be undefined"
    assert cell_text(cell) == "undefined"


def test_a_failure_is_shown_with_its_kind(world: Any) -> None:
    world.add_model("net")
    world.add_model("twin")
    results = {Cell("twin", "clean-v1", "squares"): world.result("twin")}
    failure = Failure(
        model="net",
        benchmark="clean-v1",
        dataset="squares",
        kind="out-of-memory",
        reason="even one image was too much",
    )
    failures = {Cell("net", "clean-v1", "squares"): failure}
    measured = Measured.of(results, world.catalog, world.benchmarks, failures)
    found = build_board(entry(), world.catalog, measured)
    cell = found.rows[1].cells[0]
    assert (cell.status, cell.reason) == ("failed", "out-of-memory: even one image was too much")
    assert found.rows[1].unranked == "Clean: failed"


def test_a_result_that_lacks_a_named_score_stops_the_build_by_name(world: Any) -> None:
    """B066: record and field are named."""
    world.add_model("net")
    column = {**CLEAN, "score": "balanced_accuracy@clean"}
    with pytest.raises(StoreError) as caught:
        board(world, [world.result("net")], column)
    message = "net/clean-v1--squares.json: scores: expected balanced_accuracy@clean, found none"
    assert str(caught.value) == message


def test_models_of_another_label_space_are_never_on_the_board(world: Any) -> None:
    world.add_model("net")
    world.add_model("painter", label_space="colours")
    results = [world.result("net"), world.result("painter", dataset="paints")]
    found = board(world, results)
    assert [row.model for row in found.rows] == ["net"]
    assert found.waiting == ()


def test_models_without_any_result_wait_outside_the_table(world: Any) -> None:
    for name in ("net", "new", "busy"):
        world.add_model(name)
    world.add_dataset("circles", size=600)
    found = board(world, [world.result("net"), world.result("busy", dataset="circles")])
    assert [row.model for row in found.rows] == ["net"]
    assert found.waiting == ("new",)


def test_images_seen_in_training_are_noted(world: Any) -> None:
    training = {"datasets": ["everything"], "overlap": {"squares": "yes"}}
    world.add_model("net", training=training)
    assert board(world, [world.result("net")]).rows[0].notes == ("squares: test images were in training",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_digest": "0" * 64}, "the model's entry has changed since"),
        ({"dataset_digest": "0" * 64}, "the dataset's entry has changed since"),
        ({"labels_digest": "0" * 64}, "the label space has changed since"),
        ({"protocol_digest": "0" * 64}, "the protocol has changed since"),
        ({"seed": 7}, "the seed has changed since"),
        ({"code": 99}, "the evaluation code has changed since"),
        ({"precision": "bfloat16"}, "measured in bfloat16, not in float32"),
    ],
)
def test_a_result_of_other_entries_is_outdated_and_not_ranked(
    world: Any, changes: dict[str, Any], reason: str
) -> None:
    """B063: rows of other versions are not in one ranked column without a mark."""
    world.add_model("old")
    world.add_model("new")
    found = board(world, [world.result("old", correct=600, **changes), world.result("new")])
    assert [(row.model, row.ranks) for row in found.rows] == [("new", (1, 1)), ("old", None)]
    assert (found.rows[1].cells[0].status, found.rows[1].cells[0].reason) == ("outdated", reason)


def test_results_on_other_image_bytes_than_most_are_outdated(world: Any) -> None:
    """B016, B063: the same dataset entry, yet not the same pictures."""
    for name in ("one", "two", "odd"):
        world.add_model(name)
    odd = world.result("odd", data_fingerprint="9" * 64)
    found = board(world, [world.result("one"), world.result("two"), odd])
    assert {row.model: row.cells[0].status for row in found.rows} == {
        "one": "ok",
        "two": "ok",
        "odd": "outdated",
    }
    even = board(world, [world.result("one"), odd])
    assert {row.cells[0].status for row in even.rows} == {"outdated"}


def test_an_empty_board_is_a_board(world: Any) -> None:
    found = board(world, [])
    assert (found.rows, found.leaders, found.directions) == ((), (), ("higher",))


def test_plain_text_has_a_word_in_every_cell(world: Any) -> None:
    for name in ("net", "half"):
        world.add_model(name)
    results = [world.result("net"), world.result("half", correct=400), world.result("net", "pgd-v1")]
    found = board(world, results, CLEAN, PGD)
    assert found.text_headings() == ("rank", "model", "Clean", "PGD")
    assert found.text_rows() == [
        ("1", "net", "83.3 ±3.2", "83.3 ±3.2"),
        ("-", "half", "66.7 ±3.9", "not run"),
    ]


def test_plain_text_never_claims_perfection_or_nothing(world: Any) -> None:
    """One image of 10,000 is not 0.0, as on the pages."""
    world.add_model("net")
    result = world.result("net")
    (score, *rest) = result.scores
    few = score.model_copy(update={"correct": 1, "n": 10000, "value": 0.0001, "low": 0.00001, "high": 0.0006})
    found = board(world, [result.model_copy(update={"scores": (few, *rest)})], CLEAN)
    assert found.text_rows() == [("1", "net", "0.1 ±0.1")]


def test_rank_text() -> None:
    assert [rank_text(ranks) for ranks in ((1, 1), (2, 5), None)] == ["1", "2-5", ""]


def test_find_score_takes_the_headline_without_a_name(world: Any) -> None:
    world.add_model("net")
    result = world.result("net", "noise-v1", falling=[9, 8, 7, 6])
    assert find_score(result, None).correct == 8
    assert find_score(result, "noise_accuracy@uniform 3/10").correct == 6


def test_a_partial_result_is_partial_not_outdated(world: Any) -> None:
    """Its fingerprint is that of fewer images; it says nothing about the others'."""
    for name in ("one", "two"):
        world.add_model(name)
    part = world.result("two", correct=9, subset=Subset(count=10, seed=0), data_fingerprint="9" * 64)
    found = board(world, [world.result("one"), part])
    assert {row.model: row.cells[0].status for row in found.rows} == {"one": "ok", "two": "partial"}
