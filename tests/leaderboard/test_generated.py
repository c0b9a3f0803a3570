"""Ranks, agreement and bias over results on generated images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from robustboard.benchmarks.entries import GeneratedSetting
from robustboard.benchmarks.generated import GeneratorUse
from robustboard.leaderboard.generated import analyse, rank_agreement
from robustboard.runners.generation import replace_columns
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.record import Result, RunKey, Score
from tests.leaderboard.made_up import facts

SETTING = GeneratedSetting(
    datasets=("digits",),
    generators=(GeneratorUse(generator="vq"), GeneratorUse(generator="floor")),
    oracles=("clip", "net"),
)


def fmr(condition: str, number: float | None) -> Score:
    return Score(
        metric="fmr",
        condition=condition,
        value=number,
        low=None,
        high=None,
        n=10,
        unit="percent",
        interval="none",
        status="ok" if number is not None else "undefined",
        reason=None if number is not None else "none was accepted",
    )


def models(numbers: dict[str, Sequence[float | None]], run_key: RunKey) -> list[Result]:
    """Made-up results whose FMR under each condition is the number at the model's place."""
    count = len(next(iter(numbers.values())))
    found = []
    for place in range(count):
        key = run_key.model_copy(update={"model": f"model-{place}", "benchmark": "fmr-v1"})
        found.append(
            Result(
                key=key,
                key_digest=key.digest,
                status="verified",
                images=6,
                evaluated=6,
                skipped=0,
                headline="fmr@vq by clip",
                scores=tuple(fmr(condition, each[place]) for condition, each in numbers.items()),
                shards=(),
                facts=facts(),
            )
        )
    return found


def test_tau_of_a_ranking_and_of_one_with_two_neighbours_exchanged(run_key: RunKey) -> None:
    """Of the 6 pairs of 4 models one is exchanged: (5 - 1) / 6."""
    made = models({"a": [10.0, 20.0, 30.0, 40.0], "b": [1.0, 2.0, 4.0, 3.0]}, run_key)
    assert rank_agreement(made, "a", "a").tau == pytest.approx(1.0)
    assert rank_agreement(made, "a", "b").tau == pytest.approx(4 / 6)


def test_models_without_a_number_are_left_out_and_few_models_give_no_tau(run_key: RunKey) -> None:
    found = rank_agreement(models({"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]}, run_key), "a", "b")
    assert (found.models, found.tau) == (2, None)
    assert "3 or more models" in found.reason


def table() -> PredictionTable:
    """Six images of two classes: all of class 0 accepted, one of three of class 1."""
    labels = [0, 0, 0, 1, 1, 1]
    ids = [f"{row}" for row in range(6)]
    status: list[SampleStatus] = ["accepted", "accepted", "accepted", "accepted"]
    status += ["rejected-at-0", "reconstruction-only"]

    def rows(condition: str, predicted: Sequence[int]) -> PredictionTable:
        return PredictionTable.of(
            sample_id=ids,
            condition=condition,
            label=np.array(labels),
            predicted=np.array(predicted),
            confidence=np.ones(6),
            distance=np.ones(6),
            status=["ok"] * 6,
        )

    parts = [rows("clean", labels), rows("oracle clip", labels), rows("oracle net", [0, 0, 1, 1, 1, 0])]
    parts += [rows("reconstruction by vq", labels), rows("reconstruction by floor", labels)]
    for pair in ("vq by clip", "vq by net", "floor by clip", "floor by net"):
        parts += [replace_columns(rows(pair, labels), status, ["1"] * 6), rows(f"verdict of {pair}", labels)]
    return PredictionTable.concat(parts)


def test_bias_and_agreement_are_those_counted_by_hand(run_key: RunKey) -> None:
    """4 accepted, 3 and 1 by class; of 6 originals the oracles agree on 4."""
    found = analyse(SETTING, models({"vq by clip": [50.0]}, run_key), {"model-0": table()})
    bias = next(each for each in found.bias if each.pair == "vq by clip")
    assert (bias.accepted, bias.lowest_class) == (4, 1)
    assert bias.lowest_rate == pytest.approx(1 / 3)
    # Shares 3/4 and 1/4: 0.811 bits of 1. Chi-square (3 - 2)^2 / 2 * 2 = 1 with one degree of freedom.
    assert bias.entropy == pytest.approx(0.811278, abs=1e-6)
    assert bias.p_value == pytest.approx(0.317311, abs=1e-6)
    assert found.agreement[0].share == pytest.approx(4 / 6)
    assert len(found.generators) == 2
    assert len(found.oracles) == 2
