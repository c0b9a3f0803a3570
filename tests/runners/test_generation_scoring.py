"""Scores of generated images: the toy of the definition, and what is undefined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest

from robustboard.benchmarks.entries import BenchmarkEntry, Generated, GeneratedSetting
from robustboard.benchmarks.generated import GeneratorUse
from robustboard.runners.generation import replace_columns
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.record import Score
from robustboard.runners.scoring import scores

SETTING = GeneratedSetting(
    datasets=("digits",), generators=(GeneratorUse(generator="vq"),), oracles=("clip",)
)
PAIR = "vq by clip"


def scored(
    *,
    clean: Sequence[int],
    after: Sequence[int],
    verdict: Sequence[int],
    status: Sequence[SampleStatus],
    labels: Sequence[int],
    rebuilt: Sequence[int] | None = None,
    steps: int = 2,
) -> Mapping[str, Score]:
    """`metric@condition` → score, from predicted classes."""
    ids = [f"{row:02d}" for row in range(len(labels))]
    wanted = np.array(labels)

    def rows(condition: str, predicted: Sequence[int]) -> PredictionTable:
        told: list[SampleStatus] = ["no-verdict" if each < 0 else "ok" for each in predicted]
        ones = np.ones(len(ids))
        return PredictionTable.of(
            sample_id=ids,
            condition=condition,
            label=wanted,
            predicted=np.array(predicted),
            confidence=ones,
            distance=ones / 2,
            status=told,
        )

    table = PredictionTable.concat(
        [
            rows("clean", clean),
            rows("oracle clip", labels),
            rows("reconstruction by vq", clean if rebuilt is None else rebuilt),
            replace_columns(rows(PAIR, after), status, [str(steps)] * len(ids)),
            rows(f"verdict of {PAIR}", verdict),
        ]
    )
    procedure = Generated(kind="generated", settings=(SETTING,))
    benchmark = BenchmarkEntry.model_validate(
        {
            "id": "fmr-v9",
            "name": "FMR",
            "summary": "toy",
            "procedure": procedure.model_dump(),
            "source": "toy",
            "added": "2026-01-01",
        }
    )
    found, headline = scores(benchmark, SETTING, table)
    assert headline == f"fmr@{PAIR}"
    return {f"{score.metric}@{score.condition}": score for score in found}


def test_the_toy_of_the_definition() -> None:
    """10 images, 8 right; 6 accepted of which 3 right: SA 0.8, PA 0.5, VR 0.6, FMR 62.5."""
    status: list[SampleStatus] = ["accepted"] * 6
    status += ["reconstruction-only", "reconstruction-only", "rejected-at-0", "source-rejected"]
    found = scored(
        labels=[0] * 10,
        clean=[0] * 8 + [1] * 2,
        after=[0] * 3 + [1] * 3 + [0, 0, 1, 1],
        verdict=[0] * 10,
        status=status,
    )
    assert found["clean_accuracy@clean"].value == pytest.approx(0.8)
    # The oracle is right on all 10, and sure of each.
    assert found["expected_calibration_error@oracle clip"].value == 0
    assert found[f"perturbed_accuracy@{PAIR}"].value == pytest.approx(0.5)
    assert found[f"validation_rate@{PAIR}"].value == pytest.approx(0.6)
    fmr = found[f"fmr@{PAIR}"]
    assert fmr.value == pytest.approx(62.5)
    assert fmr.low is not None
    assert fmr.high is not None
    assert fmr.low < 62.5 < fmr.high
    assert found[f"accepted_clean_accuracy@{PAIR}"].value == pytest.approx(1.0)
    assert found[f"fmr_matched@{PAIR}"].value == pytest.approx(50.0)
    assert found[f"perturbed_accuracy_unrejected@{PAIR}"].value == pytest.approx(5 / 8)
    assert found[f"perturbed_accuracy_all@{PAIR}"].value == pytest.approx(0.5)
    assert found[f"accepted_steps@{PAIR}"].value == pytest.approx(2.0)
    counts = ("accepted", "reconstruction_only", "rejected_at_0", "source_rejected", "lost_to_rounding")
    assert [found[f"{name}_images@{PAIR}"].value for name in counts] == [6, 2, 1, 1, 0]


def test_what_the_generator_alone_costs_is_told_apart() -> None:
    """Of 5 images, 4 accepted: 4 originals right, 2 reconstructions, 1 generated image: 1/2 is lost later."""
    status: list[SampleStatus] = ["accepted"] * 4
    found = scored(
        labels=[0] * 5,
        clean=[0] * 5,
        rebuilt=[0, 0, 1, 1, 0],
        after=[0, 1, 1, 1, 0],
        verdict=[0] * 5,
        status=[*status, "rejected-at-0"],
    )
    assert found["reconstruction_accuracy@reconstruction by vq"].value == pytest.approx(3 / 5)
    assert found[f"accepted_reconstruction_accuracy@{PAIR}"].value == pytest.approx(1 / 2)
    assert found[f"fmr_matched@{PAIR}"].value == pytest.approx(25.0)
    assert found[f"fmr_net@{PAIR}"].value == pytest.approx(50.0)


def test_without_a_right_reconstruction_the_net_ratio_is_null_with_a_reason() -> None:
    found = scored(labels=[0], clean=[0], rebuilt=[1], after=[1], verdict=[0], status=["accepted"])
    assert found[f"fmr_net@{PAIR}"].reason == "the model classifies none of the reconstructions right"


def test_images_that_the_oracle_rejects_as_files_do_not_count_as_accepted() -> None:
    """Rounding to 8 bits turned the verdict on one of four; no verdict of an ensemble is a rejection too."""
    found = scored(
        labels=[1] * 4, clean=[1] * 4, after=[1, 0, 0, 1], verdict=[1, 1, 0, -1], status=["accepted"] * 4
    )
    assert found[f"validation_rate@{PAIR}"].value == pytest.approx(0.5)
    assert found[f"lost_to_rounding_images@{PAIR}"].value == 2
    assert found[f"perturbed_accuracy@{PAIR}"].correct == 1


def test_without_an_accepted_image_scores_are_null_with_a_reason() -> None:
    found = scored(
        labels=[0] * 3, clean=[0] * 3, after=[0] * 3, verdict=[0] * 3, status=["rejected-at-0"] * 3
    )
    for metric in ("fmr", "perturbed_accuracy", "fmr_matched", "accepted_steps", "l2_distance"):
        score = found[f"{metric}@{PAIR}"]
        assert (score.value, score.reason) == (None, "the oracle accepted no generated image")
    assert found[f"validation_rate@{PAIR}"].value == 0


def test_without_a_right_original_fmr_is_null_with_a_reason() -> None:
    found = scored(labels=[0, 0], clean=[1, 1], after=[0, 1], verdict=[0, 0], status=["accepted"] * 2)
    assert found[f"fmr@{PAIR}"].reason == "the model classifies none of the originals right"


def test_class_with_nothing_left_has_no_accuracy() -> None:
    """B059: nothing of class 1 is accepted: no accuracy for it, no division by zero, VR says so."""
    found = scored(
        labels=[0, 0, 1, 1],
        clean=[0, 0, 1, 1],
        after=[0, 1, 0, 0],
        verdict=[0, 0, 0, 0],
        status=["accepted"] * 4,
    )
    assert found[f"perturbed_accuracy@{PAIR} class 0"].value == pytest.approx(0.5)
    assert found[f"perturbed_accuracy@{PAIR} class 1"].value is None
    assert found[f"validation_rate@{PAIR} class 1"].value == 0


def test_equal_rows_give_equal_intervals() -> None:
    labels, after = [0] * 20, [0, 1] * 10
    first, second = (
        scored(labels=labels, clean=[0] * 20, after=after, verdict=labels, status=["accepted"] * 20)
        for _ in range(2)
    )
    assert first == second
    assert Fraction(1, 2) == first[f"perturbed_accuracy@{PAIR}"].value
