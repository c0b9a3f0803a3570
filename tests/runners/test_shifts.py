"""Fixed benchmarks: outputs by their definitions, corruptions that are the same for every model."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from scipy.stats import entropy
from torch import Tensor, nn

from robustboard.benchmarks.corruptions.table import apply
from robustboard.benchmarks.entries import (
    Clean,
    Corruption,
    CorruptionSetting,
    CueConflict,
    DetectionSetting,
    OutOfDistribution,
    Procedure,
)
from robustboard.benchmarks.seeds import sample_generator
from robustboard.errors import CellError
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.procedures import measure
from robustboard.runners.record import RunKey
from robustboard.runners.shifts import corruption_digest
from tests.runners.measuring import SCOPE

SIDE = 12


class Linear(nn.Module):
    """Logits from fixed random weights."""

    def __init__(self, seed: int = 0, classes: int = 5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(classes, SIDE * SIDE, generator=generator) / 4)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T


IMAGES = np.random.default_rng(0).integers(0, 256, (7, 1, SIDE, SIDE)).astype(np.float32) / 255
LABELS = np.array([0, 1, 2, 3, 4, 0, 1])
IDS = [f"image-{row}" for row in range(7)]


def measured(
    procedure: Procedure, key: RunKey, network: nn.Module | None = None, **changes: Any
) -> PredictionTable:
    options: dict[str, Any] = {"images": IMAGES, "labels": LABELS, "classes": None, "batch_size": 16}
    return measure(
        procedure,
        procedure.settings[0],
        classifier=network or Linear(),
        ids=IDS,
        key=key,
        device="cpu",
        **{**options, **changes},
    )


def logits_of(images: NDArray[Any], network: nn.Module | None = None) -> NDArray[np.float64]:
    with torch.no_grad():
        found: NDArray[np.float64] = (network or Linear())(torch.from_numpy(images)).double().numpy()
    return found


CLEAN = Clean(kind="clean", temperatures=(Fraction(1, 2), Fraction(1), Fraction(2)), settings=(SCOPE,))
FOG = Corruption(
    kind="corruption",
    variant="cifar",
    images="in-memory",
    corruptions=("shot_noise", "contrast"),
    severities=(1, 4),
    settings=(CorruptionSetting(datasets=("digits",)),),
)


def test_outputs_are_those_of_scipy(run_key: RunKey) -> None:
    rows = measured(CLEAN, run_key).only("clean")
    logits = logits_of(IMAGES)
    log_shares = log_softmax(logits, axis=1)
    expected = {
        "label_log_share": log_shares[np.arange(7), LABELS],
        "square_sum": np.exp(2 * log_shares).sum(1),
        "entropy": entropy(np.exp(log_shares), axis=1),
        "max_logit": logits.max(1),
        "energy": logsumexp(logits, axis=1),
        "confidence": np.exp(log_shares).max(1),
        "predicted": logits.argmax(1),
    }
    for name, values in expected.items():
        assert rows.column(name) == pytest.approx(values, rel=1e-5), name


def test_outputs_are_of_the_classes_of_the_dataset_alone(run_key: RunKey) -> None:
    """The mask comes before the softmax: shares are over the classes that occur."""
    labels = np.array([4, 1, 4, 1, 4, 1, 4])
    rows = measured(CLEAN, run_key, classes=(4, 1), labels=labels).only("clean")
    masked = logits_of(IMAGES)[:, [4, 1]]
    own = log_softmax(masked, axis=1)[np.arange(7), np.where(labels == 4, 0, 1)]
    assert rows.column("label_log_share") == pytest.approx(own, rel=1e-5)
    assert rows.column("predicted").tolist() == [[4, 1][column] for column in masked.argmax(1)]


def test_temperatures_divide_logits_and_leave_decisions(run_key: RunKey) -> None:
    table = measured(CLEAN, run_key)
    assert table.conditions() == ["clean", "temperature 1/2", "temperature 1", "temperature 2"]
    for temperature in (0.5, 1, 2):
        rows = table.only(f"temperature {Fraction(temperature)}")
        own = log_softmax(logits_of(IMAGES) / temperature, axis=1)[np.arange(7), LABELS]
        assert rows.column("label_log_share") == pytest.approx(own, rel=1e-5)
        assert rows.column("predicted").tolist() == table.only("clean").column("predicted").tolist()


def test_each_image_is_corrupted_from_its_own_seed(run_key: RunKey) -> None:
    """The stored predictions are those on images corrupted by hand, whatever company an image has."""
    table = measured(FOG, run_key)
    assert table.conditions() == ["clean", "shot_noise 1", "shot_noise 4", "contrast 1", "contrast 4"]
    digest = corruption_digest(run_key, FOG)
    for name in table.conditions()[1:]:
        kind, severity = name.split()
        spoilt = np.stack(
            [
                apply(
                    kind,
                    np.rint(image[0] * 255).astype(np.uint8),
                    int(severity),
                    generator=sample_generator(digest, sample, name),
                    variant="cifar",
                )[None]
                for sample, image in zip(IDS, IMAGES, strict=True)
            ]
        )
        logits = logits_of(spoilt.astype(np.float32) / 255)
        rows = table.only(name)
        assert rows.column("predicted").tolist() == logits.argmax(1).tolist()
        moved = np.abs(spoilt / 255 - IMAGES).max((1, 2, 3))
        assert rows.column("distance") == pytest.approx(moved, abs=1e-6)


def test_all_models_see_the_same_corrupted_images(run_key: RunKey) -> None:
    """The largest change of a pixel is a fingerprint of the image; another seed gives other images."""
    other = run_key.model_copy(
        update={"model": "another", "model_digest": "f" * 64, "weights_sha256": "e" * 64}
    )
    first, second = measured(FOG, run_key), measured(FOG, other, Linear(seed=1))
    assert first.column("distance").tolist() == second.column("distance").tolist()
    reseeded = measured(FOG, run_key.model_copy(update={"seed": 99}))
    assert first.only("shot_noise 4").column("distance").tolist() != (
        reseeded.only("shot_noise 4").column("distance").tolist()
    )


def test_stored_corrupted_images_are_taken_as_they_are(run_key: RunKey) -> None:
    stored = FOG.model_copy(update={"images": "stored"})
    table = measured(
        stored, run_key, corrupted=lambda step: IMAGES[:, :, ::-1].copy() * float(step.budget) / 4
    )
    expected = logits_of(IMAGES[:, :, ::-1].copy()).argmax(1)
    assert table.only("contrast 4").column("predicted").tolist() == expected.tolist()


def test_images_of_no_class_are_never_right(run_key: RunKey) -> None:
    procedure = OutOfDistribution(
        kind="out-of-distribution",
        settings=(DetectionSetting(datasets=("digits",), out_of_distribution="letters"),),
    )
    labels = np.array([0, 1, 2, 3, -1, -1, -1])
    rows = measured(procedure, run_key, labels=labels).only("clean")
    assert rows.column("status").tolist() == ["ok"] * 4 + ["outside"] * 3
    assert rows.column("label_log_share")[4:].tolist() == [0, 0, 0]
    assert rows.column("energy") == pytest.approx(logsumexp(logits_of(IMAGES), axis=1), rel=1e-5)


def test_groups_stand_beside_predictions(run_key: RunKey) -> None:
    groups = ["north", "south", "north", "south", "north", "south", "north"]
    assert measured(CLEAN, run_key, groups=groups).only("clean").column("group").tolist() == groups


@pytest.mark.parametrize("groups", [None, ["0", "1", "2", "3", "4", "0", "bear"]])
def test_cue_conflict_without_numbers_of_textures_fails_before_it_is_measured(
    run_key: RunKey, groups: list[str] | None
) -> None:
    """Not after hours, and not with the words of a Python function."""
    procedure = CueConflict(kind="cue-conflict", settings=(SCOPE,))
    name = "image-0" if groups is None else "image-6"
    with pytest.raises(CellError, match=f"'{name}': expected the number of its texture's class") as caught:
        measured(procedure, run_key, groups=groups)
    assert caught.value.kind == "labels"
