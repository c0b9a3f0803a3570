"""From images to predictions under every condition of a protocol.

The runner distrusts attacks: it moves what they propose back into the budget and into [0, 1], checks
it, and classifies it afresh. That prediction is the one stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard.benchmarks.attacks import ATTACKS, WITHOUT_GRADIENTS, AttackParameters, Attempt, Model
from robustboard.benchmarks.attacks.budget import distance, inside, project
from robustboard.benchmarks.conditions import Condition, perturbations
from robustboard.benchmarks.entries import (
    CLEAN,
    Attack,
    AttackSetting,
    Cascade,
    Clean,
    Corruption,
    CueConflict,
    External,
    Ladder,
    OutOfDistribution,
    Procedure,
    Scope,
)
from robustboard.benchmarks.noise import DISTRIBUTIONS, noise_generators, perturb
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.entries import Norm
from robustboard.runners.inputs import Pixels, positions_of, valid_pixels
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.randomness import clean_seed, mean_logits, seeded
from robustboard.runners.record import RunKey
from robustboard.runners.shifts import Corrupted, measure_fixed

Keep = Callable[[str, Sequence[str], Pixels], None]
"""Takes (condition, sample ids, images (n, c, h, w)) as each attack leaves them; for one image and condition
the last call stands."""
POOL_BYTES = 64 * 2**20
"""Images attacked together, so that those that survive fill whole batches."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Images of one pool with their clean predictions."""

    images: Tensor
    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    positions: Tensor
    """(n,) labels as columns of the model's outputs."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Columns of a prediction table for one pool and condition."""

    predicted: npt.NDArray[np.int64]
    confidence: npt.NDArray[np.float32]
    distance: npt.NDArray[np.float32]
    status: list[SampleStatus]
    attack: list[str]
    """The attack that broke each image, or nothing."""


class _Measurement:
    """A model on one shard, condition by condition."""

    def __init__(
        self,
        model: Model,
        columns: npt.NDArray[np.int64] | None,
        key: RunKey,
        keep: Keep | None,
        average_over: int,
    ) -> None:
        self.model = model
        self.columns = columns
        self.key_digest, self.clean_seed = key.digest, clean_seed(key)
        self.keep = keep
        self.average_over = average_over

    def judge(self, images: Tensor) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Predicted classes in the whole label space, and their softmax shares."""
        logits = mean_logits(self.model, images, self.average_over)
        predicted = logits.argmax(1).cpu().numpy()
        shares = torch.softmax(logits, dim=1).amax(1).float().cpu().numpy()
        return predicted if self.columns is None else self.columns[predicted], shares

    def clean(self, batch: _Batch) -> _Judged:
        """Predictions on the images as they are."""
        predicted, confidence = self.judge(batch.images)
        zeros = np.zeros(len(predicted), np.float32)
        return _Judged(predicted, confidence, zeros, ["ok"] * len(predicted), [""] * len(predicted))

    def noise(self, batch: _Batch, condition: Condition) -> _Judged:
        """Predictions under noise; distance is the largest change of a pixel, for both distributions."""
        distribution = DISTRIBUTIONS[condition.kind]
        noisy = torch.from_numpy(
            perturb(
                batch.images.cpu().numpy(),
                distribution=distribution,
                size=condition.budget,
                generators=noise_generators(self.key_digest, batch.ids, condition.name),
            )
        ).to(self.model.device)
        predicted, confidence = self.judge(noisy)
        moved = distance(noisy, batch.images, "linf").float().cpu().numpy()
        return _Judged(predicted, confidence, moved, ["ok"] * len(predicted), [""] * len(predicted))

    def attack(self, batch: _Batch, clean: _Judged, rungs: Sequence[Rung], condition: Condition) -> _Judged:
        """Predictions on attacked images; those wrong from the start are not attacked.

        Each attack meets the images that all before it left right. Survivors carry the prediction
        and distance of the last attack.
        """
        rows = np.flatnonzero(clean.predicted == batch.labels)
        status: list[SampleStatus] = ["already-wrong"] * len(clean.predicted)
        judged = _Judged(
            clean.predicted.copy(),
            clean.confidence.copy(),
            np.zeros(len(clean.predicted), np.float32),
            status,
            [""] * len(clean.predicted),
        )
        blind = any(rung.attack not in WITHOUT_GRADIENTS for rung in rungs)
        for row in rows:
            status[row] = "no-gradient" if blind else "ok"
        for rung in rungs:
            if not rows.size:
                break
            rows = self._climb(batch, judged, rung, rows, condition)
        return judged

    def _climb(
        self,
        batch: _Batch,
        judged: _Judged,
        rung: Rung,
        rows: npt.NDArray[np.intp],
        condition: Condition,
    ) -> npt.NDArray[np.intp]:
        """One attack on some rows, written into the columns; the rows that are still right."""
        chosen = torch.from_numpy(rows).to(batch.images.device)
        originals = batch.images[chosen]
        draws = Draws(self.key_digest, tuple(batch.ids[row] for row in rows), condition.name)
        attempt = ATTACKS[rung.attack](
            self.model, originals.clone(), batch.positions[chosen].clone(), rung.parameters, draws
        )
        perturbed = checked(attempt, originals, rung.parameters)
        if self.keep is not None:
            self.keep(condition.name, draws.sample_ids, perturbed.cpu().numpy())
        judged.predicted[rows], judged.confidence[rows] = self.judge(perturbed)
        moved = distance(perturbed, originals, rung.parameters.norm).float().cpu().numpy()
        judged.distance[rows] = moved
        broken = judged.predicted[rows] != batch.labels[rows]
        seen = ~attempt.blind.cpu().numpy() & (rung.attack not in WITHOUT_GRADIENTS)
        for row, fooled, gradient in zip(rows, broken, seen, strict=True):
            if fooled:
                judged.attack[row] = rung.attack
            if fooled or gradient:
                judged.status[row] = "ok"
        left: npt.NDArray[np.intp] = rows[~broken]
        return left

    def external(
        self, batch: _Batch, clean: _Judged, attacked: Mapping[str, Pixels], norm: Norm, eps: float
    ) -> _Judged:
        """Predictions on images attacked elsewhere; where there is none the clean row stands.

        Raises CellError `budget` for an image that leaves its budget: it is never moved back.
        """
        unharmed = clean.predicted == batch.labels
        judged = replace(
            clean,
            predicted=clean.predicted.copy(),
            confidence=clean.confidence.copy(),
            distance=clean.distance.copy(),
            status=["ok" if right else "already-wrong" for right in unharmed],
            attack=list(clean.attack),
        )
        rows = np.array([i for i, each in enumerate(batch.ids) if unharmed[i] and each in attacked], np.intp)
        if not rows.size:
            return judged
        originals = batch.images[torch.from_numpy(rows).to(batch.images.device)]
        images = torch.from_numpy(np.stack([attacked[batch.ids[row]] for row in rows])).to(originals)
        if not bool(inside(images, originals, norm, eps).all()):
            raise CellError("budget", f"a handed-in image left its budget {eps} ({norm})")
        judged.predicted[rows], judged.confidence[rows] = self.judge(images)
        judged.distance[rows] = distance(images, originals, norm).float().cpu().numpy()
        for row in rows[judged.predicted[rows] != batch.labels[rows]]:
            judged.attack[row] = "external"
        return judged


@dataclass(frozen=True, slots=True)
class Rung:
    """One attack with its settings at one budget."""

    attack: str
    parameters: AttackParameters


def ladder(procedure: Attack | Cascade, setting: Ladder, condition: Condition) -> list[Rung]:
    """The attacks of a protocol at one budget, in turn."""
    if isinstance(procedure, Cascade):
        return [
            Rung(
                step.attack,
                AttackParameters(
                    norm=procedure.norm,
                    eps=float(condition.budget),
                    steps=step.steps,
                    restarts=step.restarts,
                    targets=step.targets,
                    queries=step.queries,
                    average_over=step.average_over,
                    random_start=True,
                ),
            )
            for step in procedure.attacks
        ]
    if not isinstance(setting, AttackSetting):
        raise TypeError(f"expected a setting with steps for an attack, got {type(setting).__name__}")
    parameters = AttackParameters(
        norm=procedure.norm,
        eps=float(condition.budget),
        steps=setting.steps,
        relative_step=float(setting.relative_step),
        loss=procedure.loss,
        random_start=procedure.random_start,
        restarts=procedure.restarts,
    )
    return [Rung(procedure.attack, parameters)]


def checked(attempt: Attempt, originals: Tensor, settings: AttackParameters) -> Tensor:
    """What an attack proposes, moved into the budget and [0, 1].

    Raises CellError `budget` when the proposal has another shape, holds numbers that are not
    finite, or cannot be brought inside.
    """
    proposed = attempt.images.detach()
    if proposed.shape != originals.shape or attempt.blind.shape != (len(originals),):
        raise CellError(
            "budget", f"the attack gave shape {tuple(proposed.shape)} for images {tuple(originals.shape)}"
        )
    if not bool(torch.isfinite(proposed).all()):
        raise CellError("budget", "the attack gave pixels that are not finite")
    moved = project(proposed.to(originals), originals, settings.norm, settings.eps)
    if not bool(inside(moved, originals, settings.norm, settings.eps).all()):
        raise CellError("budget", f"an attacked image left its budget {settings.eps} ({settings.norm})")
    return moved


def _pools(
    images: Pixels,
    ids: Sequence[str],
    labels: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    device: torch.device,
) -> Iterator[_Batch]:
    """The images in runs small enough to be held several times over."""
    size = max(1, POOL_BYTES // max(1, images[:1].nbytes))
    for start in range(0, len(images), size):
        rows = slice(start, start + size)
        yield _Batch(
            torch.from_numpy(images[rows]).to(device),
            tuple(ids[rows]),
            labels[rows],
            torch.from_numpy(positions[rows]).to(device),
        )


def measure(
    procedure: Procedure,
    setting: Scope,
    *,
    classifier: torch.nn.Module,
    classes: tuple[int, ...] | None,
    images: Pixels,
    labels: npt.NDArray[np.int64],
    ids: Sequence[str],
    key: RunKey,
    batch_size: int,
    device: str,
    attacked: Mapping[str, Pixels] | None = None,
    keep: Keep | None = None,
    groups: Sequence[str] | None = None,
    corrupted: Corrupted | None = None,
) -> PredictionTable:
    """Predictions of one shard under every condition: condition by condition, samples as given.

    Batch size, the images around one, and the caller's gradient mode change nothing. The classifier
    is in evaluation mode afterwards; its parameters, the arrays and random states are left alone.
    A network that draws random numbers itself gives the same answers for the same key, images and
    batch size; protocols that average over passes judge by the mean of their softmax shares.

    Args:
        procedure: What to do.
        setting: The protocol's setting for this dataset.
        classifier: (n, c, h, w) float32 in [0, 1] → (n, classes) logits, on `device`.
        classes: Label-space indices that occur in the dataset, in its order; outputs are cut to
            these columns before the softmax. None keeps all.
        images: (n, c, h, w) in [0, 1]; up to 1e-6 outside is clamped.
        labels: (n,) class indices of the label space; -1 for images of no class, in detection alone.
        ids: Sample ids, which with the key fix all randomness.
        key: Names the run.
        batch_size: Images a pass through the network.
        device: Where to compute.
        attacked: Sample id → image (c, h, w) made elsewhere, for external sets.
        keep: Takes the images that attacks leave.
        groups: What the dataset says of each image beside its label; kept by protocols without attacks.
        corrupted: Stored corrupted images, for protocols that read them.

    Raises:
        CellError: pixels or labels out of range, logits that are not finite, memory that does not
            suffice for one image, an attack that cannot be held to its budget.
    """
    pixels = valid_pixels(images)
    if not len(pixels) == len(labels) == len(ids):
        raise ValueError(f"expected as many images as labels and ids, got {len(labels)} and {len(ids)}")
    positions = positions_of(labels, classes)
    classifier.eval()
    autocast = key.precision == "bfloat16"
    model = Model(classifier, batch_size=batch_size, classes=classes, device=device, autocast=autocast)
    columns = None if classes is None else np.array(classes, np.int64)
    if isinstance(procedure, Clean | Corruption | CueConflict | OutOfDistribution):
        seed = clean_seed(key), ids[0], CLEAN
        with torch.inference_mode(mode=False), torch.no_grad(), seeded(*seed, model.device):
            return measure_fixed(
                procedure,
                setting,
                model=model,
                columns=columns,
                images=pixels,
                labels=labels,
                positions=positions,
                ids=ids,
                key=key,
                groups=groups,
                corrupted=corrupted,
            )
    passes = procedure.average_over if isinstance(procedure, Cascade) else 1
    measurement = _Measurement(model, columns, key, keep, passes)
    pools = _pools(pixels, ids, labels, positions, model.device)
    found = _by_condition(procedure, setting, measurement, pools, attacked or {})
    return PredictionTable.concat([_table(name, parts, ids, labels) for name, parts in found.items()])


def _by_condition(
    procedure: Procedure,
    setting: Scope,
    measurement: _Measurement,
    pools: Iterator[_Batch],
    attacked: Mapping[str, Pixels],
) -> dict[str, list[_Judged]]:
    """What each pool gives under `clean` and under every perturbation of the protocol, in order."""
    device, steps = measurement.model.device, perturbations(procedure, setting)
    found: dict[str, list[_Judged]] = {CLEAN: [], **{step.name: [] for step in steps}}
    with torch.inference_mode(mode=False), torch.no_grad():
        for batch in pools:
            with seeded(measurement.clean_seed, batch.ids[0], CLEAN, device):
                clean = measurement.clean(batch)
            found[CLEAN].append(clean)
            for step in steps:
                with seeded(measurement.key_digest, batch.ids[0], step.name, device):
                    if isinstance(procedure, Attack | Cascade) and isinstance(setting, Ladder):
                        judged = measurement.attack(batch, clean, ladder(procedure, setting, step), step)
                    elif isinstance(procedure, External):
                        budget = procedure.norm, float(step.budget)
                        judged = measurement.external(batch, clean, attacked, *budget)
                    else:
                        judged = measurement.noise(batch, step)
                found[step.name].append(judged)
    return found


def _table(
    condition: str, parts: list[_Judged], ids: Sequence[str], labels: npt.NDArray[np.int64]
) -> PredictionTable:
    """The rows of one condition from those of its pools."""
    return PredictionTable.of(
        sample_id=ids,
        condition=condition,
        label=labels,
        predicted=np.concatenate([part.predicted for part in parts]),
        confidence=np.concatenate([part.confidence for part in parts]),
        distance=np.concatenate([part.distance for part in parts]),
        status=[status for part in parts for status in part.status],
        attack=[name for part in parts for name in part.attack],
    )
