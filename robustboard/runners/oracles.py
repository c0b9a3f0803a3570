"""Oracles ready to judge, their identity, and the gate that they must pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard import jsons
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.calibration import brier_score, expected_calibration_error
from robustboard.benchmarks.oracle_loop import NO_VERDICT, OracleAnswer
from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec
from robustboard.registry.labels import LabelSpace
from robustboard.registry.oracles import (
    ClassifierJudge,
    EnsembleJudge,
    ModelClip,
    OracleEntry,
    ProbeJudge,
    TrainedClip,
    ZeroShotJudge,
)
from robustboard.runners import identity
from robustboard.runners.classifier import Classifier
from robustboard.runners.clip_training import train_clip
from robustboard.runners.competence import Competence, keep_competence, read_competence
from robustboard.runners.components import Component, Setup, trained_component
from robustboard.runners.loaders import load_classifier
from robustboard.runners.samples import Samples
from robustboard.runners.weights import locate_weights
from robustboard.runners.zeroshot import class_prompts, load_towers, zero_shot_classifier
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
        return self.answer(self.shares(images))

    def shares(self, images: Tensor) -> npt.NDArray[np.float64]:
        """(n, classes) softmax shares of images as in `judge`; of an ensemble the shares of its votes."""
        found = [
            torch.softmax(member.logits(images.to(self.device)).double(), dim=1).cpu().numpy()
            for member in self.members.values()
        ]
        if not isinstance(self.entry.judge, EnsembleJudge):
            return np.asarray(found[0])
        return shares_of_votes(np.stack([each.argmax(1) for each in found]), found[0].shape[1])

    def answer(self, shares: npt.NDArray[np.float64]) -> OracleAnswer:
        """What it says of images whose `shares` are known."""
        if not isinstance(self.entry.judge, EnsembleJudge):
            return _alone(shares)
        return verdict(shares, self.entry.judge.rule)


def _alone(shares: npt.NDArray[np.float64]) -> OracleAnswer:
    """The answer of one network from its softmax shares (n, k)."""
    top = np.sort(shares, axis=1)[:, ::-1]
    margin = top[:, 0] - top[:, 1] if shares.shape[1] > 1 else top[:, 0]
    return OracleAnswer(
        shares.argmax(1).astype(np.int64), top[:, 0].astype(np.float32), margin.astype(np.float32)
    )


def shares_of_votes(choices: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.float64]:
    """(n, classes) share of the members that chose each class, from their choices (members, n)."""
    return np.stack([(choices == each).mean(0) for each in range(classes)], axis=1)


def verdict(shares: npt.NDArray[np.float64], rule: str) -> OracleAnswer:
    """What an ensemble says, from the shares of its votes (n, classes).

    majority: the class with most votes, no verdict (-1) where two classes share the top. all-agree: no
    verdict unless every member says the same.
    """
    top = np.sort(shares, axis=1)[:, ::-1]
    second = top[:, 1] if shares.shape[1] > 1 else np.zeros(len(shares))
    clear = top[:, 0] == 1 if rule == "all-agree" else top[:, 0] > second
    predicted = np.where(clear, shares.argmax(1), NO_VERDICT).astype(np.int64)
    confidence = np.where(clear, top[:, 0], 0.0).astype(np.float32)
    return OracleAnswer(predicted, confidence, (top[:, 0] - second).astype(np.float32))


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
    elif isinstance(entry.judge, ProbeJudge):
        classifier, told = _load_probe(entry.judge, setup)
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
    folder, told = _towers(judge, setup)
    told["prompts"] = [[key, list(texts)] for key, texts in prompts.items()]
    return zero_shot_classifier(entry.id, folder, prompts, judge.input), told


def _load_probe(judge: ProbeJudge, setup: Setup) -> tuple[Classifier, dict[str, object]]:
    """The classifier of a linear probe, trained now where it is not stored yet."""
    from robustboard.runners.probes import probe_classifier, train_probe  # noqa: PLC0415 - scikit-learn

    base = setup.catalog.oracle(judge.features).judge
    if not isinstance(base, ZeroShotJudge):
        raise CellError("load", f"expected a zero-shot oracle with features, got {judge.features}")
    folder, told = _towers(base, setup)
    model, _ = load_towers(judge.features, folder, base.input)
    component = trained_component(
        {"probe": judge.recipe.model_dump(mode="json"), "features": told},
        judge.recipe.dataset,
        judge.recipe.images,
        lambda material: train_probe(model, judge.recipe, base.input, material),
        setup,
    )
    told["probe"] = component.sha256
    return probe_classifier(model, component, base.input), told


def _towers(judge: ZeroShotJudge, setup: Setup) -> tuple[Path, dict[str, object]]:
    """The folder of a zero-shot oracle's model, and what shapes its embeddings."""
    told: dict[str, object] = {"input": judge.input.model_dump(mode="json")}
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
    return folder, told


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
    """Measure an oracle on a dataset's own images.

    Raises CellError (incompetent) where the entry does not offer to judge this dataset.
    """
    if oracle.entry.competence_on(dataset) is None:
        offered = ", ".join(each.dataset for each in oracle.entry.competence)
        raise CellError("incompetent", f"oracle {oracle.entry.id} judges {offered}, not {dataset}")
    confidence, right, of_label, squares = [], [], [], []
    for start in range(0, len(samples.ids), AT_ONCE):
        rows = range(start, min(start + AT_ONCE, len(samples.ids)))
        shares = oracle.shares(torch.from_numpy(np.array(samples.pixels(rows), np.float32)))
        labels = samples.labels[rows.start : rows.stop]
        answer = oracle.answer(shares)
        confidence.append(answer.confidence)
        right.append(answer.predicted == labels)
        of_label.append(shares[np.arange(len(rows)), labels])
        squares.append((shares**2).sum(1))
    hits = np.concatenate(right)
    log_share = np.log(np.maximum(np.concatenate(of_label), np.finfo(np.float64).tiny))
    return Competence(
        oracle=oracle.entry.id,
        identity=oracle.identity,
        dataset=dataset,
        fingerprint=samples.fingerprint,
        images=len(hits),
        right=int(hits.sum()),
        expected_calibration_error=expected_calibration_error(np.concatenate(confidence), hits),
        brier_score=max(brier_score(log_share, np.concatenate(squares)), 0.0),
    )


def need_competent(oracle: Oracle, samples: Samples, dataset: str, workspace: Workspace) -> Competence:
    """The gate, measured once for each oracle and set of images and kept below runs/competence.

    Raises CellError (incompetent) with the measured accuracy where it is below what is demanded.
    """
    demand = oracle.entry.competence_on(dataset)
    found = None
    if demand is not None:
        found = read_competence(workspace, oracle.identity, samples.fingerprint)
    if demand is None or found is None:
        found = gate(oracle, samples, dataset)
        keep_competence(workspace, found)
    if demand is not None and Fraction(found.right, found.images) < demand.accuracy:
        raise CellError(
            "incompetent",
            f"oracle {oracle.entry.id} classifies {100 * found.accuracy:.1f} % of the {found.images} images"
            f" of {dataset} right, below the {100 * float(demand.accuracy):g} % that its entry demands:"
            " it judges none",
        )
    return found
