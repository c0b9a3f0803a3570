"""Sparse masks: the regression on latents made up here, and one fitted to a real loop."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import LoopSettings, Origin, encoded, perturb
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.generators import GeneratorEntry
from robustboard.registry.oracles import OracleEntry
from robustboard.runners.components import Setup
from robustboard.runners.generators import LoadedGenerator, load_generator
from robustboard.runners.loaders import load_classifier
from robustboard.runners.oracles import load_oracle
from robustboard.runners.sparse_masks import l1_support
from robustboard.runners.weights import locate_weights
from tests.conftest import Labelled
from tests.runners.small import Place, plant_digits

COMMON = {"name": "Tiny", "summary": "For tests.", "license": "MIT", "added": "2026-01-01"}


def sparse(share: str = "0.4") -> GeneratorEntry:
    mask = {
        "dataset": "digits-train",
        "images": 60,
        "model": "tiny",
        "oracle": "judge",
        "budget": 4,
        "step_size": "0.1",
        "share": share,
    }
    method = {"kind": "sparse", "generator": "floor", "mask": mask}
    return GeneratorEntry.model_validate({"id": "few", "method": method, **COMMON})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    found = Place(plant_digits(tmp_path_factory.mktemp("masks")))
    floor = {"kind": "transformations", "transformations": ("affine", "colour", "blur")}
    judge = {
        "id": "judge",
        "judge": {"kind": "classifier", "model": "tiny"},
        "label_space": "digits",
        "competence": ({"dataset": "digits", "accuracy": "0.1"},),
        **COMMON,
    }
    found.catalog = replace(
        found.catalog,
        generators={"floor": GeneratorEntry.model_validate({"id": "floor", "method": floor, **COMMON})},
        oracles={"judge": OracleEntry.model_validate(judge)},
    )
    return found


@pytest.fixture(scope="module")
def setup(place: Place) -> Setup:
    return Setup(place.workspace, place.catalog, place.lock)


@pytest.fixture(scope="module")
def few(setup: Setup) -> LoadedGenerator:
    return load_generator(sparse(), setup)


def test_the_coordinates_that_carry_the_change_are_found() -> None:
    """40 coordinates of noise, three of which shift at the end of the loop, one of them most."""
    drawn = np.random.default_rng(0)
    features = drawn.standard_normal((400, 40)) * np.linspace(0.5, 5, 40)
    after = np.arange(400) >= 200
    features[after, 7] += 2.0 * np.linspace(0.5, 5, 40)[7]
    features[after, 20] += 4.0 * np.linspace(0.5, 5, 40)[20]
    features[after, 33] -= 2.0 * np.linspace(0.5, 5, 40)[33]
    found = l1_support(features, after, 3)
    assert np.flatnonzero(found.moving).tolist() == [7, 20, 33]
    assert found.accuracy > 0.95
    assert np.flatnonzero(l1_support(features, after, 1).moving).tolist() == [20]


def test_a_mask_has_the_latents_shape_and_is_stored_with_what_it_came_from(
    few: LoadedGenerator, setup: Setup
) -> None:
    """Of 10 parameters at most 4 may move; the files tell how many did."""
    assert few.mask is not None
    assert few.mask.shape == (10,)
    assert set(few.mask.tolist()) == {0.0, 1.0}
    assert 1 <= few.mask.sum() <= 4
    (path,) = (setup.workspace.runs / "weights").glob("*/mask.json")
    facts = json.loads(path.read_text())
    assert (facts["coordinates"], facts["moving"]) == (10, int(few.mask.sum()))
    assert torch.equal(load_file(path.with_name("mask.safetensors"))["mask"].float(), few.mask)


def test_it_is_fitted_once_and_is_part_of_the_identity(few: LoadedGenerator, setup: Setup) -> None:
    before = sorted((setup.workspace.runs / "weights").iterdir())
    again = load_generator(sparse(), setup)
    assert again.identity == few.identity
    assert sorted((setup.workspace.runs / "weights").iterdir()) == before
    assert again.identity != load_generator(setup.catalog.generator("floor"), setup).identity


def test_frozen_coordinates_stay_where_they_were(
    few: LoadedGenerator, setup: Setup, place: Place, digits_test: Labelled
) -> None:
    images, labels = (torch.from_numpy(each[:20]) for each in digits_test)
    entry = place.catalog.model("tiny")
    weights = locate_weights(entry, workspace=place.workspace, lock=place.lock, train=True)
    assert weights is not None
    classifier = load_classifier(entry, place.catalog.label_space("digits"), weights)
    origin = Origin(images, labels, Draws("5" * 64, tuple(map(str, range(20))), "x"))
    judge = load_oracle(place.catalog.oracle("judge"), setup)
    settings = LoopSettings(budget=4, step_size=0.1, mask=few.mask)
    made = perturb(Model(classifier.eval()), judge, few.generator, origin, settings)
    moved = made.latents - encoded(few.generator, origin, 64)
    assert few.mask is not None
    assert (moved[:, few.mask == 0] == 0).all()
    assert (moved[:, few.mask == 1] != 0).any()


def test_a_share_that_leaves_no_coordinate_is_refused(setup: Setup) -> None:
    with pytest.raises(CellError, match="10 coordinates: `share` leaves none"):
        load_generator(sparse("0.05"), setup)
