"""Oracles ready to judge, their identity, and the gate that they must pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard import durable, jsons
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import NO_VERDICT, OracleAnswer
from robustboard.errors import CellError, StoreError
from robustboard.registry.entries import InputSpec
from robustboard.registry.labels import LabelSpace
from robustboard.registry.oracles import (
    ClassifierJudge,
    EnsembleJudge,
    ModelClip,
    OracleEntry,
    TrainedClip,
    ZeroShotJudge,
)
from robustboard.runners import identity
from robustboard.runners.classifier import Classifier
from robustboard.runners.clip_training import train_clip
from robustboard.runners.components import Component, Setup, trained_component
from robustboard.runners.loaders import load_classifier
from robustboard.runners.samples import Samples
from robustboard.runners.weights import locate_weights
from robustboard.runners.zeroshot import class_prompts, zero_shot_classifier
from robustboard.workspace import Workspace

AT_ONCE = 1000
"""Images read together for the gate."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """An oracle with its networks, frozen."""

    entry: OracleEntry
    identity: str
    """64 hex digits over weights, architecture, preprocessing, prompts and rule: equal identity, equal
    answers."""
    members: Mapping[str, Model]
    """The networks that vote, by oracle id; one where it is no ensemble."""
    device: str = "cpu"

    def judge(self, images: Tensor) -> OracleAnswer:
        """What it says of (n, c, h, w) float32 images in [0, 1], each preprocessed as a member wants it."""
        shares = [
            torch.softmax(member.logits(images.to(self.device)).double(), dim=1).cpu().numpy()
            for member in self.members.values()
        ]
        if not isinstance(self.entry.judge, EnsembleJudge):
            return _alone(shares[0])
        return vote(np.stack([each.argmax(1) for each in shares]), shares[0].shape[1], self.entry.judge.rule)

    def votes(self, images: Tensor) -> dict[str, npt.NDArray[np.int64]]:
        """Member → its classes (n,)."""
        return {
            name: member.logits(images.to(self.device)).argmax(1).cpu().numpy()
            for name, member in self.members.items()
        }


@dataclass(frozen=True, slots=True)
class Competence:
    """How an oracle did on a dataset's own images."""

    accuracy: float
    n: int
    demanded: float
    passed: bool


def _alone(shares: npt.NDArray[np.float64]) -> OracleAnswer:
    """The answer of one network from its softmax shares (n, k)."""
    top = np.sort(shares, axis=1)[:, ::-1]
    margin = top[:, 0] - top[:, 1] if shares.shape[1] > 1 else top[:, 0]
    return OracleAnswer(
        shares.argmax(1).astype(np.int64), top[:, 0].astype(np.float32), margin.astype(np.float32)
    )


def vote(choices: npt.NDArray[np.int64], classes: int, rule: str) -> OracleAnswer:
    """The verdict of several members on n images.

    Args:
        choices: (members, n) classes.
        classes: Number of classes.
        rule: majority: most votes, no verdict (-1) where two classes share the top; all-agree: no verdict
            unless every member says the same.
    """
    members, count = choices.shape
    counts = np.stack([(choices == each).sum(0) for each in range(classes)], axis=1)
    top = np.sort(counts, axis=1)[:, ::-1]
    second = top[:, 1] if classes > 1 else np.zeros(count, np.int64)
    clear = top[:, 0] == members if rule == "all-agree" else top[:, 0] > second
    predicted = np.where(clear, counts.argmax(1), NO_VERDICT).astype(np.int64)
    confidence = np.where(clear, top[:, 0] / members, 0.0).astype(np.float32)
    return OracleAnswer(predicted, confidence, ((top[:, 0] - second) / members).astype(np.float32))


def load_oracle(entry: OracleEntry, setup: Setup) -> Oracle:
    """An oracle whose weights are here, checked, or are trained now; members of an ensemble with it.

    Raises CellError like `weights.locate_weights` and `loaders.load_classifier`.
    """
    if isinstance(entry.judge, EnsembleJudge):
        members = [load_oracle(setup.catalog.oracle(name), setup) for name in entry.judge.members]
        parts = {"rule": entry.judge.rule, "members": [member.identity for member in members]}
        networks = {
            name: network
            for name, member in zip(entry.judge.members, members, strict=True)
            for network in member.members.values()
        }
        return Oracle(entry, jsons.digest("robustboard.oracle/1", parts), networks, setup.device)
    space = setup.catalog.label_space(entry.label_space)
    if isinstance(entry.judge, ClassifierJudge):
        classifier, told = _load_classifier(entry.judge.model, space, setup)
    else:
        classifier, told = _load_zero_shot(entry, entry.judge, space, setup)
    told["labels"] = identity.labels_digest(space)
    network = Model(classifier.eval().to(setup.device), batch_size=setup.rows, device=setup.device)
    return Oracle(entry, jsons.digest("robustboard.oracle/1", told), {entry.id: network}, setup.device)


def _load_classifier(name: str, space: LabelSpace, setup: Setup) -> tuple[Classifier, dict[str, object]]:
    model = setup.catalog.model(name)
    weights = locate_weights(
        model, workspace=setup.workspace, lock=setup.lock, train=True, progress=setup.progress
    )
    if weights is None:
        raise CellError("missing", f"there are no weights of {name}")
    told = {"weights": weights.sha256, "model": identity.model_digest(model)}
    return load_classifier(model, space, weights), dict(told)


def _load_zero_shot(
    entry: OracleEntry, judge: ZeroShotJudge, space: LabelSpace, setup: Setup
) -> tuple[Classifier, dict[str, object]]:
    """The classifier, and everything that shapes its answers."""
    prompts = oracle_prompts(judge, space)
    told: dict[str, object] = {
        "prompts": [[key, list(texts)] for key, texts in prompts.items()],
        "input": judge.input.model_dump(mode="json"),
    }
    if isinstance(judge.weights, ModelClip):
        model = setup.catalog.model(judge.weights.model)
        weights = locate_weights(model, workspace=setup.workspace, lock=setup.lock, train=False)
        if weights is None:
            raise CellError("missing", f"there are no weights of {model.id}")
        folder, told["weights"] = weights.path, weights.sha256
        told["architecture"] = model.architecture.model_dump(mode="json")
    else:
        component = _trained_clip(judge.weights, judge.input, setup)
        folder, told["weights"] = component.folder, component.sha256
        told["architecture"] = judge.weights.network.model_dump(mode="json")
    return zero_shot_classifier(entry.id, folder, prompts, judge.input), told


def _trained_clip(source: TrainedClip, spec: InputSpec, setup: Setup) -> Component:
    recipe = {"source": source.model_dump(mode="json"), "input": spec.model_dump(mode="json")}
    return trained_component(
        recipe,
        source.recipe.dataset,
        source.recipe.images,
        lambda material: train_clip(source, spec, material, setup.progress),
        setup,
    )


def oracle_prompts(judge: ZeroShotJudge, space: LabelSpace) -> dict[str, tuple[str, ...]]:
    """Class key → its prompts, in the order of the label space, names paired with classes by key."""
    if not judge.class_names:
        return class_prompts(judge.templates, space)
    missing = [key for key in space.classes if key not in judge.class_names]
    if missing:
        raise CellError("labels", f"expected a name in prompts for class {missing[0]}, got none")
    named = {key: judge.class_names[key] for key in space.classes}
    return class_prompts(judge.templates, space.model_copy(update={"classes": named}))


def gate(oracle: Oracle, samples: Samples, dataset: str) -> Competence:
    """Measure an oracle on a dataset's own images, against what its entry demands there.

    Raises CellError (incompetent) where the entry does not offer to judge this dataset.
    """
    demand = oracle.entry.competence_on(dataset)
    if demand is None:
        offered = ", ".join(each.dataset for each in oracle.entry.competence)
        raise CellError("incompetent", f"oracle {oracle.entry.id} judges {offered}, not {dataset}")
    right = 0
    for start in range(0, len(samples.ids), AT_ONCE):
        rows = range(start, min(start + AT_ONCE, len(samples.ids)))
        answer = oracle.judge(torch.from_numpy(np.array(samples.pixels(rows), np.float32)))
        right += int((answer.predicted == samples.labels[rows.start : rows.stop]).sum())
    accuracy = right / len(samples.ids)
    wanted = float(demand.accuracy)
    return Competence(accuracy, len(samples.ids), wanted, passed=accuracy >= wanted)


def need_competent(oracle: Oracle, samples: Samples, dataset: str, workspace: Workspace) -> Competence:
    """The gate, measured once for each oracle and set of images and kept below runs/competence.

    Raises CellError (incompetent) with the measured accuracy where it is below what is demanded.
    """
    demand = oracle.entry.competence_on(dataset)
    key = jsons.digest("robustboard.competence/1", [oracle.identity, samples.fingerprint])
    path = workspace.runs / "competence" / f"{key}.json"
    found = _kept(path, workspace) if demand is not None else None
    if demand is None or found is None:
        found = gate(oracle, samples, dataset)
        durable.make_folder(path.parent)
        durable.write(path, jsons.canonical({"accuracy": found.accuracy, "images": found.n}))
    else:
        wanted = float(demand.accuracy)
        found = Competence(found.accuracy, found.n, wanted, passed=found.accuracy >= wanted)
    if not found.passed:
        raise CellError(
            "incompetent",
            f"oracle {oracle.entry.id} classifies {100 * found.accuracy:.1f} % of the {found.n} images of"
            f" {dataset} right, below the {100 * found.demanded:g} % that its entry demands: it judges none",
        )
    return found


def _kept(path: Path, workspace: Workspace) -> Competence | None:
    """What was measured before; the demand is filled in by the caller."""
    if not path.is_file():
        return None
    name = workspace.show(path)
    found = jsons.strict(path.read_bytes(), name)
    accuracy = found.get("accuracy") if isinstance(found, dict) else None
    images = found.get("images") if isinstance(found, dict) else None
    if not isinstance(accuracy, float | int) or not isinstance(images, int):
        raise StoreError(f"{name}: damaged: delete it to measure again")
    return Competence(float(accuracy), images, 1.0, passed=False)
