"""Controls and bias of generated images, against counts by hand and tests of SciPy's definitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import pytest

from robustboard.leaderboard.generation_bias import class_bias, leak, margin_halves
from robustboard.runners.columns import Columns, columns_of
from robustboard.runners.generation import replace_columns
from robustboard.runners.predictions import PredictionTable, SampleStatus

PAIR = "vq by clip"
NAMES = ("clean", "oracle clip", "reconstruction by vq", PAIR, f"verdict of {PAIR}")


def columns(
    *,
    labels: Sequence[int],
    clean: Sequence[int],
    rebuilt: Sequence[int] | None = None,
    after: Sequence[int] | None = None,
    oracle: Sequence[int] | None = None,
    margins: Sequence[float] | None = None,
    accepted: Sequence[bool] | None = None,
) -> Columns:
    """From predicted classes; what is not given is right, accepted, and of margin 1."""
    ids = [f"{row:02d}" for row in range(len(labels))]

    def rows(
        condition: str, predicted: Sequence[int], group: Sequence[float] | None = None
    ) -> PredictionTable:
        ones = np.ones(len(ids))
        told = None if group is None else [f"{each:.6f}" for each in group]
        return PredictionTable.of(
            sample_id=ids,
            condition=condition,
            label=np.array(labels),
            predicted=np.array(predicted),
            confidence=ones,
            distance=ones,
            status=["ok"] * len(ids),
            group=told,
        )

    taken = [True] * len(ids) if accepted is None else accepted
    status: list[SampleStatus] = ["accepted" if each else "reconstruction-only" for each in taken]
    table = PredictionTable.concat(
        [
            rows("clean", clean),
            rows("oracle clip", oracle or labels, margins or [1.0] * len(ids)),
            rows("reconstruction by vq", rebuilt or labels),
            replace_columns(rows(PAIR, after or labels), status, ["1"] * len(ids)),
            rows(f"verdict of {PAIR}", labels),
        ]
    )
    return columns_of(table, NAMES)


def test_the_control_counts_what_the_generator_alone_breaks_and_mends() -> None:
    """8 images: 6 lost, 1 gained; of 7 changed images 6 or more one way, both ways: 2 (7 + 1) / 2^7."""
    found = leak("m", "vq", columns(labels=[0] * 8, clean=[0] * 7 + [1], rebuilt=[1] * 6 + [0, 0]))
    assert found is not None
    assert (found.lost, found.gained, found.images) == (6, 1, 8)
    assert found.clean_accuracy == pytest.approx(7 / 8)
    assert found.reconstruction_accuracy == pytest.approx(2 / 8)
    assert found.p_value == pytest.approx(2 * (comb(7, 6) + comb(7, 7)) / 2**7)


def test_a_generator_that_changes_nothing_leaks_nothing() -> None:
    found = leak("m", "vq", columns(labels=[0, 1], clean=[0, 0], rebuilt=[0, 0]))
    assert found is not None
    assert (found.lost, found.gained, found.p_value) == (0, 0, 1.0)


def test_halves_are_split_at_the_median_of_the_images_that_the_oracle_sees_right() -> None:
    """Margins .1 .2 .3 .9 of right originals, so .25; the fifth original is wrong and counts nowhere."""
    low, high = margin_halves(
        "m",
        PAIR,
        columns(
            labels=[0] * 5,
            clean=[0, 1, 0, 0, 0],
            oracle=[0, 0, 0, 0, 1],
            margins=[0.1, 0.2, 0.3, 0.9, 0.95],
            after=[1, 0, 0, 0, 0],
            accepted=[True, True, True, False, True],
        ),
    )
    assert (low.half, high.half) == ("low", "high")
    assert low.margin == pytest.approx(0.25)
    assert (low.images, high.images) == (2, 2)
    assert (low.validation_rate, high.validation_rate) == (1.0, 0.5)
    assert (low.perturbed_accuracy, high.perturbed_accuracy) == (0.5, 1.0)
    assert (low.clean_accuracy, high.clean_accuracy) == (0.5, 1.0)


def test_a_half_without_an_image_has_no_shares() -> None:
    """An ensemble of two that always agrees has the margin 1 everywhere: nothing lies above the median."""
    _, high = margin_halves("m", PAIR, columns(labels=[0, 0], clean=[0, 0]))
    assert (high.images, high.validation_rate, high.perturbed_accuracy, high.low) == (0, None, None, None)


def test_models_that_lose_most_where_the_oracle_errs_correlate_fully() -> None:
    """Three classes of two images: the oracle errs on 0, 1 and 2 originals, the model loses 0, 1 and 2."""
    found = class_bias(
        "m",
        PAIR,
        columns(
            labels=[0, 0, 1, 1, 2, 2],
            clean=[0, 0, 1, 1, 2, 2],
            oracle=[0, 0, 1, 0, 0, 0],
            after=[0, 0, 1, 0, 0, 0],
        ),
    )
    assert found.correlation == pytest.approx(1.0)


def test_without_differences_between_classes_there_is_no_correlation() -> None:
    found = class_bias("m", PAIR, columns(labels=[0, 1, 2], clean=[0, 1, 2]))
    assert found.correlation is None
