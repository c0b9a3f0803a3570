"""Oracles: prompts paired by key, identities, votes, and the gate."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from robustboard.errors import CellError
from robustboard.registry.labels import LabelSpace
from robustboard.registry.oracles import OracleEntry
from robustboard.runners.competence import read_competence
from robustboard.runners.components import Setup
from robustboard.runners.oracles import (
    gate,
    load_oracle,
    need_competent,
    oracle_prompts,
    shares_of_votes,
    verdict,
)
from robustboard.runners.samples import Samples, load_samples
from robustboard.runners.sharing import shared
from tests.runners.small import Place, plant_digits

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def entry(
    *, heads: int = 4, accuracy: str = "0.6", names: tuple[str, ...] = (), template: str = "a {}"
) -> OracleEntry:
    return OracleEntry.model_validate(
        {
            "id": "tiny-clip",
            "name": "Tiny CLIP",
            "summary": "For tests.",
            "judge": {
                "kind": "zero-shot",
                "weights": {
                    "kind": "trained-here",
                    "seed": 1,
                    "recipe": {
                        "method": "contrastive",
                        "dataset": "digits-train",
                        "epochs": 8 if heads == 4 else 1,
                        "batch_size": 32,
                        "learning_rate": "0.003",
                        "captions": ("a {}",),
                    },
                    "network": {
                        "patch": 2,
                        "width": 32,
                        "heads": heads,
                        "layers": 2,
                        "text_layers": 1,
                        "embedding": 32,
                        "context": 8,
                    },
                },
                "templates": (template,),
                "class_names": {str(key): name for key, name in enumerate(names)},
                "input": {"size": 8, "channels": 3, "normalization": "inside"},
            },
            "label_space": "digits",
            "competence": ({"dataset": "digits", "accuracy": accuracy},),
            "license": "MIT",
            "added": "2026-01-01",
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(plant_digits(tmp_path_factory.mktemp("oracles")))


@pytest.fixture(scope="module")
def setup(place: Place) -> Setup:
    return Setup(place.workspace, place.catalog, place.lock)


@pytest.fixture(scope="module")
def samples(place: Place) -> Samples:
    dataset = place.catalog.dataset("digits")
    model = place.catalog.model("tiny")
    space = place.catalog.label_space("digits")
    return load_samples(dataset, space, workspace=place.workspace, lock=place.lock, input=model.input)


def test_an_oracle_with_wrong_prompts_is_refused_with_the_number(
    setup: Setup, samples: Samples, place: Place
) -> None:
    """The same weights pass with the right names, and fail with each class called by the next one's."""
    good = load_oracle(entry(), setup)
    assert need_competent(good, samples, "digits", place.workspace).accuracy >= 0.6
    digits = tuple(str((key + 1) % 10) for key in range(10))
    weak = load_oracle(entry(names=digits), setup)
    found = gate(weak, samples, "digits")
    assert found.accuracy < 0.2
    told = f"{100 * found.accuracy:.1f} % of the {found.images} images of digits right, below the 60 %"
    with pytest.raises(CellError, match=told) as caught:
        need_competent(weak, samples, "digits", place.workspace)
    assert caught.value.kind == "incompetent"
    with pytest.raises(CellError, match=told):  # from what was kept the first time
        need_competent(weak, samples, "digits", place.workspace)


def test_the_gate_keeps_how_well_the_oracle_is_calibrated(
    setup: Setup, samples: Samples, place: Place
) -> None:
    """Both numbers by their definitions, from softmax shares taken here."""
    oracle = load_oracle(entry(), setup)
    kept = need_competent(oracle, samples, "digits", place.workspace)
    assert read_competence(place.workspace, oracle.identity, samples.fingerprint) == kept
    network = oracle.members["tiny-clip"]
    logits = network.logits(torch.from_numpy(np.array(samples.pixels(range(100))))).double().numpy()
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wanted = np.eye(10)[samples.labels]
    assert kept.brier_score == pytest.approx(float(((shares - wanted) ** 2).sum(1).mean()), abs=1e-6)
    sure, right = shares.max(1).astype(np.float32), shares.argmax(1) == samples.labels
    gap = sum(
        abs(float(sure[held].sum()) - int(right[held].sum()))
        for held in ((sure > low / 15) & (sure <= (low + 1) / 15) for low in range(15))
    )
    assert kept.expected_calibration_error == pytest.approx(gap / 100, abs=1e-6)
    assert kept.right == int(right.sum())


def test_a_dataset_that_the_entry_does_not_offer_is_refused(setup: Setup, samples: Samples) -> None:
    oracle = load_oracle(entry(), setup)
    with pytest.raises(CellError, match="judges digits, not svhn"):
        gate(oracle, samples, "svhn")


def test_identity_holds_weights_prompts_and_architecture(setup: Setup) -> None:
    """B056: registrations that differ in prompts or one architecture setting never share an identity."""
    found = {
        load_oracle(each, setup).identity
        for each in (entry(), entry(template="the {}"), entry(heads=2), entry(names=NAMES))
    }
    assert len(found) == 4
    assert load_oracle(entry(accuracy="0.1"), setup).identity in found


def probe(inverse_penalty: str = "10") -> OracleEntry:
    judge = {
        "kind": "probe",
        "features": "tiny-clip",
        "recipe": {"dataset": "digits-train", "images": 300, "inverse_penalty": inverse_penalty},
    }
    told = entry().model_dump() | {"id": "probe", "judge": judge}
    return OracleEntry.model_validate(told)


def test_a_probe_is_a_logistic_regression_on_frozen_features(
    setup: Setup, samples: Samples, place: Place
) -> None:
    """Against scikit-learn's own answers on embeddings taken here; the tower is not trained again."""
    catalog = dataclasses.replace(setup.catalog, oracles={"tiny-clip": entry()})
    setup = dataclasses.replace(setup, catalog=catalog)
    load_oracle(entry(), setup)
    before = len(list((place.workspace.runs / "weights").glob("*.json")))
    judge = load_oracle(probe(), setup)
    assert len(list((place.workspace.runs / "weights").glob("*.json"))) == before + 1
    network: Any = judge.members["probe"].network
    dataset, space = place.catalog.dataset("digits-train"), place.catalog.label_space("digits")
    spec = place.catalog.model("tiny").input
    train = load_samples(dataset, space, workspace=place.workspace, lock=place.lock, input=spec)

    def embedded(pixels: Any) -> Any:
        shown = network.preprocess(torch.from_numpy(np.array(pixels)))
        with torch.no_grad():
            return torch.nn.functional.normalize(network.network.model.encode_image(shown), dim=-1).numpy()

    regression = LogisticRegression(C=10, max_iter=1000)
    regression.fit(embedded(train.pixels(range(300))), train.labels[:300])
    images = samples.pixels(range(100))
    wanted = regression.predict_proba(embedded(images))
    assert judge.shares(torch.from_numpy(np.array(images))) == pytest.approx(wanted, abs=1e-3)
    assert load_oracle(probe("1"), setup).identity != judge.identity
    assert load_oracle(probe(), setup).identity == judge.identity
    found = shared(place.catalog.model("tiny"), judge.entry, setup.catalog)
    assert {each.what for each in found} == {"data"}


def test_damaged_weights_are_not_used(setup: Setup, place: Place) -> None:
    load_oracle(entry(heads=1), setup)
    folders = [path for path in (place.workspace.runs / "weights").iterdir() if path.is_dir()]
    newest = max(folders, key=lambda path: path.stat().st_mtime_ns)
    tensors = newest / "open_clip_model.safetensors"
    data = bytearray(tensors.read_bytes())
    data[-1] ^= 1
    tensors.write_bytes(data)
    with pytest.raises(CellError, match="changed since it was trained"):
        load_oracle(entry(heads=1), setup)


def test_prompts_are_paired_with_classes_by_key() -> None:
    """B056: names keyed in the order c, a, b still go to classes a, b, c; two names for three are refused."""
    space = LabelSpace.model_validate(
        {"id": "abc", "name": "abc", "source": "test", "classes": {"a": "a", "b": "b", "c": "c"}}
    )
    judge = entry().judge.model_copy(update={"class_names": {"c": "cat", "a": "ant", "b": "bee"}})
    assert oracle_prompts(judge, space) == {"a": ("a ant",), "b": ("a bee",), "c": ("a cat",)}  # type: ignore[arg-type]  # a zero-shot judge
    short = judge.model_copy(update={"class_names": {"c": "cat", "a": "ant"}})
    with pytest.raises(CellError, match="class b"):
        oracle_prompts(short, space)  # type: ignore[arg-type]  # a zero-shot judge


def test_ties_and_disagreement_are_no_verdict() -> None:
    choices = np.array([[0, 0, 1, 2], [0, 1, 1, 2], [1, 2, 1, 0]])
    shares = shares_of_votes(choices, 3)
    majority = verdict(shares, "majority")
    assert majority.predicted.tolist() == [0, -1, 1, 2]
    assert majority.confidence == pytest.approx([2 / 3, 0, 1, 2 / 3])
    assert verdict(shares, "all-agree").predicted.tolist() == [-1, -1, 1, -1]


def test_answers_do_not_depend_on_the_batch(setup: Setup, samples: Samples) -> None:
    oracle = load_oracle(entry(), setup)
    images = torch.from_numpy(np.array(samples.pixels(range(20))))
    whole = oracle.judge(images)
    alone = oracle.judge(images[7:8])
    assert alone.confidence[0] == whole.confidence[7]
    assert alone.predicted[0] == whole.predicted[7]
