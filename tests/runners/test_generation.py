"""One shard of generated images with real small networks: rows, 8-bit files, the batch, what is shared."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.conditions import conditions
from robustboard.benchmarks.entries import Generated, GeneratedSetting
from robustboard.benchmarks.generated import GeneratorUse
from robustboard.registry.generators import Floor
from robustboard.registry.oracles import OracleEntry
from robustboard.runners.flags import doubts
from robustboard.runners.generation import Cast, eight_bit, measure_generated
from robustboard.runners.generators import FloorGenerator
from robustboard.runners.oracles import Oracle
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from robustboard.runners.sharing import shared, sharing_flags, told
from tests.conftest import Labelled
from tests.runners.small import Place, plant_digits

SETTING = GeneratedSetting(
    datasets=("digits",),
    generators=(GeneratorUse(generator="floor", step_size=Fraction(1, 10)),),
    oracles=("judge",),
)
PROCEDURE = Generated(kind="generated", budget=5, settings=(SETTING,))
PAIR = "floor by judge"
Bytes = npt.NDArray[np.uint8]


def oracle_entry(model: str = "tiny") -> OracleEntry:
    return OracleEntry.model_validate(
        {
            "id": "judge",
            "name": "Judge",
            "summary": "For tests.",
            "judge": {"kind": "classifier", "model": model},
            "label_space": "digits",
            "competence": ({"dataset": "digits", "accuracy": "0.5"},),
            "license": "MIT",
            "added": "2026-01-01",
        }
    )


def measured(
    model: nn.Module,
    judge: nn.Module,
    data: Labelled,
    key: RunKey,
    *,
    batch_size: int = 64,
    kept: dict[str, Bytes] | None = None,
) -> PredictionTable:
    floor = FloorGenerator(Floor(kind="transformations", transformations=("affine", "colour")))
    cast = Cast({"floor": floor}, {"judge": Oracle(oracle_entry(), "0" * 64, {"judge": Model(judge)})})
    store: dict[str, Bytes] = {} if kept is None else kept
    return measure_generated(
        PROCEDURE,
        SETTING,
        cast,
        classifier=model,
        classes=None,
        images=data[0],
        labels=data[1],
        ids=[f"{row:05d}" for row in range(len(data[1]))],
        key=key,
        batch_size=batch_size,
        device="cpu",
        keep=store.__setitem__,
    )


@pytest.fixture(scope="module")
def few(digits_test: Labelled) -> Labelled:
    return digits_test[0][:40], digits_test[1][:40]


def test_rows_are_those_that_the_protocol_names(
    standard_net: nn.Module, robust_net: nn.Module, few: Labelled, run_key: RunKey
) -> None:
    table = measured(standard_net, robust_net, few, run_key)
    assert table.conditions() == list(conditions(PROCEDURE, SETTING))
    names = ["clean", "oracle judge", "reconstruction by floor", PAIR, f"verdict of {PAIR}"]
    assert table.conditions() == names
    made = table.only(PAIR)
    accepted = made.column("status") == "accepted"
    assert accepted.any()
    assert (made.column("group")[accepted].astype(int) > 0).all()
    assert (made.column("distance")[accepted] > 0).all()


def test_a_generator_that_changes_nothing_by_itself_costs_no_accuracy(
    standard_net: nn.Module, robust_net: nn.Module, few: Labelled, run_key: RunKey
) -> None:
    """Transformations start as they are; to 8 bits the digits, multiples of 1/16, move by at most 1/510."""
    table = measured(standard_net, robust_net, few, run_key)
    alone = table.only("reconstruction by floor")
    assert np.array_equal(alone.column("predicted"), table.only("clean").column("predicted"))
    assert (alone.column("distance") <= 8 / 510).all()


def test_an_oracles_rows_tell_its_margin(
    standard_net: nn.Module, robust_net: nn.Module, few: Labelled, run_key: RunKey
) -> None:
    table = measured(standard_net, robust_net, few, run_key)
    shares = torch.softmax(Model(robust_net).logits(torch.from_numpy(few[0])).double(), 1)
    first, second = shares.topk(2).values.unbind(1)
    told = table.only("oracle judge").column("group").astype(float)
    assert told == pytest.approx((first - second).numpy(), abs=1e-5)


def test_model_and_oracle_judge_the_images_that_8_bit_files_hold(
    standard_net: nn.Module, robust_net: nn.Module, few: Labelled, run_key: RunKey
) -> None:
    """B050: what is stored is classified once more here, from the bytes, with the same answers."""
    kept: dict[str, Bytes] = {}
    table = measured(standard_net, robust_net, few, run_key, kept=kept)
    images = torch.from_numpy(kept[PAIR].astype(np.float32) / 255)
    assert images.shape == few[0].shape
    seen = Model(standard_net).logits(images).argmax(1).numpy()
    said = Model(robust_net).logits(images).argmax(1).numpy()
    assert np.array_equal(table.only(PAIR).column("predicted"), seen)
    assert np.array_equal(table.only(f"verdict of {PAIR}").column("predicted"), said)


def test_the_batch_size_changes_nothing(
    standard_net: nn.Module, robust_net: nn.Module, few: Labelled, run_key: RunKey
) -> None:
    large = measured(standard_net, robust_net, few, run_key, batch_size=64)
    small = measured(standard_net, robust_net, few, run_key, batch_size=16)
    assert large.table.equals(small.table)


def test_rounding_is_to_the_nearest_of_256_levels() -> None:
    values = torch.tensor([0.0, 0.49 / 255, 1.4 / 255, 254.6 / 255, 1.0]).view(5, 1, 1, 1)
    assert eight_bit(values).ravel().tolist() == [0, 0, 1, 255, 255]


def test_an_oracle_with_the_models_own_weights_casts_doubt(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Place(plant_digits(tmp_path_factory.mktemp("sharing")))
    model = place.catalog.model("tiny")
    found = shared(model, oracle_entry(), place.catalog)
    assert {each.what for each in found} == {"weights", "data"}
    flags = sharing_flags(told(found))
    assert {flag.name for flag in flags} == {"oracle-shares-weights", "oracle-shares-data"}
    assert [flag.name for flag in doubts(flags)] == ["oracle-shares-weights"]
    assert {flag.condition for flag in flags} == {f"by {oracle_entry().id}"}
    other = model.model_copy(
        update={
            "id": "other",
            "source": model.source.model_copy(update={"seed": 99}),
            "training": model.training.model_copy(update={"datasets": ("something-else",)}),
        }
    )
    assert shared(other, oracle_entry(), place.catalog) == ()
