from __future__ import annotations

import csv
import io
import json
from typing import Any, get_args

import pytest

from robustboard import jsons
from robustboard.leaderboard.cells import CellStatus
from robustboard.runners.verifications import Tier
from robustboard.site import downloads

PGD = {"id": "pgd", "title": "PGD", "benchmark": "pgd-v1", "dataset": "squares"}
CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}


def rows_of(made: Any) -> list[dict[str, str]]:
    found = downloads.records(made.catalog, made.measured, made.boards)
    return list(csv.DictReader(io.StringIO(downloads.leaderboard_csv(found))))


def test_every_score_and_every_gap_has_a_row(world: Any, site: Any) -> None:
    world.add_model("net")
    world.add_model("new")
    rows = rows_of(site([world.result("net")], [CLEAN, PGD]))
    assert [(row["model"], row["benchmark"], row["status"]) for row in rows] == [
        ("net", "clean-v1", "ok"),
        ("net", "pgd-v1", "not run"),
        ("new", "clean-v1", "not run"),
        ("new", "pgd-v1", "not run"),
    ]
    first, gap = rows[0], rows[1]
    assert (first["correct"], first["n"], first["provenance"], first["headline"]) == (
        "500",
        "600",
        "verified",
        "yes",
    )
    assert float(first["value"]) == 500 / 600
    assert float(first["low"]) < 500 / 600 < float(first["high"])
    assert (gap["value"], gap["low"], gap["provenance"], gap["reason"]) == ("", "", "", "nobody has run it")


def test_undefined_is_empty_in_csv_and_null_in_strict_json(world: Any, site: Any) -> None:
    """B066: null plus a reason; a strict parser reads it."""
    world.add_model("net")
    made = site([world.result("net", undefined=["clean_accuracy"])])
    found = downloads.records(made.catalog, made.measured, made.boards)
    value = jsons.strict(downloads.leaderboard_json(found, made.boards).encode(), "leaderboard.json")
    score = value["scores"][0]
    assert (score["value"], score["low"], score["status"]) == (None, None, "undefined")
    assert score["reason"] == "made up to be undefined"
    assert value["boards"][0]["rows"][0]["ranks"] is None
    assert rows_of(made)[0]["value"] == ""


def test_values_keep_every_digit(world: Any, site: Any) -> None:
    world.add_model("net")
    made = site([world.result("net", correct=1)])
    assert float(rows_of(made)[0]["value"]) == 1 / 600


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@x", "\tx", "\r=1", " =1", "＝1", "－1", "=cmd|' /C calc'!A0"],  # noqa: RUF001 - full-width signs are the point
)
def test_text_that_a_spreadsheet_would_run_gets_a_quote(text: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(downloads.csv_text([], [[text]]).split("\n", 1)[1], newline="")))
    assert cell.startswith("'")


def test_harmless_text_and_negative_numbers_stay_as_they_are() -> None:
    text = downloads.csv_text(["a", "b", "c"], [["net-1", -0.5, None], ["", 3, "nan"]])
    assert text == "a,b,c\nnet-1,-0.5,\n,3,nan\n"


def test_a_model_called_like_a_missing_value_survives(world: Any, site: Any) -> None:
    world.add_model("null")
    world.add_model("nan")
    assert [row["model"] for row in rows_of(site([world.result("null"), world.result("nan")]))] == [
        "nan",
        "null",
    ]


def test_json_says_what_its_columns_mean(world: Any, site: Any) -> None:
    world.add_model("net")
    made = site([world.result("net")])
    found = downloads.records(made.catalog, made.measured, made.boards)
    value = json.loads(downloads.leaderboard_json(found, made.boards))
    assert set(value["scores"][0]) == set(value["columns"]) == set(downloads.COLUMNS)
    assert value["boards"][0]["rows"][0]["ranks"] == [1, 1]


def test_every_word_that_a_column_may_hold_is_explained() -> None:
    """A status or tier that is added later has to be told of."""
    assert [word for word in get_args(CellStatus) if word not in downloads.COLUMNS["status"]] == []
    assert [word for word in get_args(Tier) if f"{word}:" not in downloads.COLUMNS["provenance"]] == []
