"""Types of what a run is and yields refuse what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from robustboard.errors import StoreError
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Result, RunKey, Score, Subset
from tests.runners.small import Made


def table(**changes: Any) -> PredictionTable:
    columns: dict[str, Any] = {
        "sample_id": ["a", "b", "c"],
        "condition": "clean",
        "label": np.array([0, 1, 2]),
        "predicted": np.array([0, 1, 1]),
        "confidence": np.array([0.5, 1.0, 0.0]),
        "distance": np.zeros(3),
        "status": ["ok"] * 3,
    }
    return PredictionTable.of(**{**columns, **changes})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sample_id": ["a", "b", "a"]}, "a sample stands twice in one condition"),
        ({"label": np.array([0, -1, 2])}, "a label or predicted class is negative"),
        ({"predicted": np.array([0, -1, 2])}, "a label or predicted class is negative"),
        ({"confidence": np.array([0.5, np.nan, 0.5])}, "confidence holds a number that is not finite"),
        ({"distance": np.array([0.0, np.inf, 0.0])}, "distance holds a number that is not finite"),
        ({"confidence": np.array([0.5, 1.01, 0.5])}, r"confidence holds a number outside \[0, 1\]"),
        ({"confidence": np.array([0.5, -0.01, 0.5])}, r"confidence holds a number outside \[0, 1\]"),
        ({"distance": np.array([0.0, -0.1, 0.0])}, "distance holds a negative number"),
        ({"status": ["ok", "fine", "ok"]}, "expected status among"),
    ],
)
def test_a_table_refuses_rows_that_cannot_be(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(StoreError, match=complaint):
        table(**changes)


def test_a_table_refuses_other_columns() -> None:
    good = table().table
    with pytest.raises(StoreError, match="expected columns"):
        PredictionTable(good.drop_columns(["status"]))
    with pytest.raises(StoreError, match="expected columns"):
        PredictionTable(good.set_column(2, pa.field("label", pa.int64()), [[0, 1, 2]]))


def test_a_skipped_sample_has_no_class_and_conditions_keep_their_order() -> None:
    skipped = table(predicted=np.array([0, 1, -1]), status=["ok", "ok", "skipped"])
    both = PredictionTable.concat([table(condition="linf 1/10"), skipped])
    assert both.conditions() == ["linf 1/10", "clean"]
    assert both.only("clean").column("predicted").tolist() == [0, 1, -1]


def score(**changes: Any) -> Score:
    fields: dict[str, Any] = {
        "metric": "clean_accuracy",
        "condition": "clean",
        "value": 0.5,
        "low": 0.3,
        "high": 0.7,
        "n": 20,
        "correct": 10,
    }
    return Score(**{**fields, **changes})


UNDEFINED: dict[str, Any] = {"value": None, "low": None, "high": None, "correct": None}


@pytest.mark.parametrize(
    "changes",
    [
        {"value": 1.2, "high": 1.3},
        {"value": -0.1, "low": -0.2},
        {"value": float("nan")},
        {"value": float("inf"), "unit": "ratio"},
        {"low": 0.6},
        {"low": None},
        {"correct": 21},
        {"correct": 11},
        {"n": 19},
        {"n": -1},
        {"n": True},
        {"n": 20.0},
        {"value": None},
        {"status": "undefined"},
        {"reason": "why"},
        {**UNDEFINED, "status": "undefined"},
        {**UNDEFINED, "reason": "why"},
        {**UNDEFINED, "low": 0.1, "high": 0.2, "status": "undefined", "reason": "why"},
        {"unit": "pounds"},
        {"unit": "difference", "value": -1.1, "low": -1.2, "correct": None},
        {"direction": "up"},
        {"extra": 1},
    ],
)
def test_a_score_refuses_what_no_score_can_be(changes: dict[str, Any]) -> None:
    """D1: NaN, above 1, negative, true for 1, undefined without a reason or with a number."""
    score()
    with pytest.raises(ValidationError):
        score(**changes)


def test_an_undefined_score_has_a_reason_and_no_number() -> None:
    """B066."""
    found = score(**UNDEFINED, status="undefined", reason="no image was right")
    assert found.model_dump(mode="json")["value"] is None


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(25, 10, [(0, 10), (10, 20), (20, 25)]), (20, 10, [(0, 10), (10, 20)]), (3, 10, [(0, 3)])],
)
def test_shards_are_contiguous_and_cover_each_sample_once(
    made: Made, count: int, size: int, expected: list[tuple[int, int]]
) -> None:
    key = made.key.model_copy(update={"shard_size": size})
    plan = made.plan.model_copy(update={"key": key, "evaluated": count})
    assert [(part.start, part.stop) for part in plan.shards] == expected


@pytest.mark.parametrize("name", ["batch_size", "threads", "device", "finished_at"])
def test_circumstances_have_no_place_in_a_key(run_key: RunKey, name: str) -> None:
    with pytest.raises(ValidationError):
        RunKey.model_validate({**run_key.model_dump(), name: 1})


def test_only_a_whole_run_is_complete(run_key: RunKey, made: Made) -> None:
    """B014: partial runs are marked, by the subset in the key or by images left out."""
    whole = Result(
        key=run_key,
        key_digest=run_key.digest,
        status="verified",
        images=20,
        evaluated=20,
        skipped=0,
        headline="clean_accuracy@clean",
        scores=(score(),),
        shards=(),
        facts=made.facts,
    )
    part = run_key.model_copy(update={"subset": Subset(count=10, seed=0)})
    assert whole.complete
    assert not whole.model_copy(update={"key": part, "evaluated": 10}).complete
    assert not whole.model_copy(update={"evaluated": 19, "skipped": 1}).complete
