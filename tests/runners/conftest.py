"""Runs and stores of made-up predictions, and a small registry of real digits to measure."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from robustboard import jsons
from robustboard.registry.entries import ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.record import RunKey
from robustboard.runners.store import Store
from robustboard.workspace import Workspace
from tests.runners.small import Made, Place, plant_digits

if TYPE_CHECKING:
    from torch import nn

    from robustboard.runners.classifier import Classifier
    from robustboard.runners.weights import Weights


@pytest.fixture
def made(run_key: RunKey) -> Made:
    """25 samples in shards of 10."""
    count = 25
    return Made(
        key=run_key.model_copy(update={"shard_size": 10}),
        ids=tuple(f"{number:05d}" for number in range(count)),
        labels=np.arange(count, dtype=np.int64) % 10,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def digits_place(tmp_path: Path) -> Workspace:
    """The workspace of `plant_digits`, nothing trained yet."""
    return plant_digits(tmp_path / "place")


@pytest.fixture(scope="session")
def trained_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose model is trained; to be copied, not to be used."""
    from robustboard.runners.weights import locate_weights

    root = tmp_path_factory.mktemp("trained")
    place = Place(plant_digits(root))
    entry = place.catalog.model("tiny")
    locate_weights(entry, workspace=place.workspace, lock=place.lock, train=True)
    return root


@pytest.fixture
def place(trained_root: Path, tmp_path: Path) -> Place:
    """A workspace of its own with a trained model, nothing measured yet."""
    root = tmp_path / "place"
    shutil.copytree(trained_root, root)
    return Place(Workspace(root, root))


@pytest.fixture
def readers(place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, nn.Module]:
    """Model id → network; models of these ids need no weights, `reader` is registered."""
    from robustboard.runners import session
    from robustboard.runners.classifier import Classifier
    from robustboard.runners.weights import Weights
    from tests.runners.readers import SPEC, Reader

    networks: dict[str, nn.Module] = {"reader": Reader()}
    place.model("reader", input=SPEC)

    def locate(entry: ModelEntry, **_: object) -> Weights:
        return Weights(Path("nowhere"), jsons.digest("test", entry.id))

    def load(entry: ModelEntry, space: LabelSpace, _: Weights, *, allow_plugins: bool) -> Classifier:
        assert not allow_plugins
        return Classifier(networks[entry.id], entry.input, len(space.classes))

    monkeypatch.setattr(session, "locate_weights", locate)
    monkeypatch.setattr(session, "load_classifier", load)
    return networks
