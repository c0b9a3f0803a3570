"""Predictions on fixed benchmarks: images as they are, at several temperatures, corrupted, or of no class.

Nothing here depends on the model but its outputs: corrupted images are drawn from seeds of dataset and
protocol, so that all models see the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard import jsons
from robustboard.benchmarks.attacks import Model
from robustboard.benchmarks.conditions import TEMPERATURE, Condition, perturbations
from robustboard.benchmarks.entries import CLEAN, Clean, Corruption, CueConflict, OutOfDistribution, Scope
from robustboard.benchmarks.seeds import sample_generator
from robustboard.errors import CellError, echo
from robustboard.runners.predictions import OUTSIDE, Outputs, PredictionTable, SampleStatus
from robustboard.runners.record import RunKey

Pixels = npt.NDArray[np.float32]
Corrupted = Callable[[Condition], Pixels]
"""Gives the images of a shard under one corruption and severity: (n, c, h, w) in [0, 1]."""
Fixed = Clean | Corruption | OutOfDistribution | CueConflict
"""Procedures whose images do not depend on the model."""
WHITE = 255


@dataclass(frozen=True, slots=True)
class _Shard:
    """Images with what is known of them."""

    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    """Labels as columns of the outputs; of images outside, any."""
    groups: tuple[str, ...] | None
    columns: npt.NDArray[np.int64] | None
    """Classes that the outputs stand for; all when None."""

    def table(self, condition: str, logits: Tensor, moved: npt.NDArray[np.float64]) -> PredictionTable:
        """Rows of one condition from (n, k) float64 logits and the largest change of a pixel, each (n,)."""
        predicted = logits.argmax(1).cpu().numpy()
        outside = self.labels == OUTSIDE
        status: list[SampleStatus] = ["outside" if each else "ok" for each in outside]
        return PredictionTable.of(
            sample_id=self.ids,
            condition=condition,
            label=self.labels,
            predicted=predicted if self.columns is None else self.columns[predicted],
            confidence=torch.softmax(logits, dim=1).amax(1).cpu().numpy(),
            distance=moved,
            status=status,
            outputs=outputs_of(logits, self.positions, outside),
            group=self.groups,
        )


def outputs_of(logits: Tensor, positions: npt.NDArray[np.int64], outside: npt.NDArray[np.bool_]) -> Outputs:
    """What calibration and detection need of (n, k) float64 logits; labels are columns of them."""
    log_shares = torch.log_softmax(logits, dim=1)
    own = log_shares.cpu().numpy()[np.arange(len(positions)), positions]
    shares = log_shares.exp()
    return Outputs(
        label_log_share=np.where(outside, 0.0, own),
        square_sum=shares.square().sum(1).cpu().numpy(),
        entropy=-(shares * log_shares).sum(1).cpu().numpy(),
        max_logit=logits.amax(1).cpu().numpy(),
        energy=torch.logsumexp(logits, dim=1).cpu().numpy(),
    )


def corruption_digest(key: RunKey, procedure: Corruption) -> str:
    """What the draws of corruptions are seeded by: data, settings and seed.

    No model, and no reference errors either: every protocol of these settings sees the same images.
    """
    return jsons.digest("robustboard.corruption/1", [key.dataset_digest, procedure.variant, key.seed])


def corrupt(
    images: Pixels, ids: Sequence[str], condition: Condition, procedure: Corruption, digest: str
) -> Pixels:
    """Images (n, c, h, w) in [0, 1] rounded to 8 bits and corrupted, each from its own generator.

    Raises CellError where the extra `corruptions` is not installed, or an image is too small.
    """
    try:
        from robustboard.benchmarks.corruptions.table import apply  # noqa: PLC0415 - numba is an extra
    except ImportError as error:
        raise CellError(
            "extra-missing", f"{error.name} is missing: pip install 'robustboard[corruptions]'"
        ) from error
    found = np.empty_like(images)
    for row, image in enumerate(images):
        stored = np.rint(image.transpose(1, 2, 0) * WHITE).astype(np.uint8)
        generator = sample_generator(digest, ids[row], condition.name)
        spoilt = apply(
            condition.kind, stored, int(condition.budget), generator=generator, variant=procedure.variant
        )
        found[row] = spoilt.transpose(2, 0, 1).astype(np.float32) / WHITE
    return found


def _need_textures(ids: Sequence[str], groups: Sequence[str] | None) -> None:
    """Raise CellError for the first image without the number of its texture's class."""
    for name, group in zip(ids, groups or [""] * len(ids), strict=True):
        if not (group.isascii() and group.isdigit()):
            raise CellError(
                "labels",
                f"{echo(name)}: expected the number of its texture's class as group, got {echo(group)};"
                " declare group_column or group_from in the dataset's entry",
            )


def measure_fixed(
    procedure: Fixed,
    setting: Scope,
    *,
    model: Model,
    columns: npt.NDArray[np.int64] | None,
    images: Pixels,
    labels: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    ids: Sequence[str],
    key: RunKey,
    groups: Sequence[str] | None = None,
    corrupted: Corrupted | None = None,
) -> PredictionTable:
    """Predictions of one shard under every condition of a protocol without attacks.

    Args:
        procedure: What to do.
        setting: Of the protocol, for this dataset.
        model: The network, cut to the dataset's classes.
        columns: Class of each output; None where outputs are the classes.
        images: (n, c, h, w) in [0, 1].
        labels: (n,) classes, -1 for images of none.
        positions: (n,) labels as columns of the outputs.
        ids: Sample ids.
        key: Names the run.
        groups: What the dataset says of each image beside its label.
        corrupted: Stored corrupted images, for protocols that read them.
    """
    if isinstance(procedure, CueConflict):
        _need_textures(ids, groups)
    shard = _Shard(tuple(ids), labels, positions, tuple(groups) if groups is not None else None, columns)
    still = np.zeros(len(images))
    clean = model.logits(torch.from_numpy(images).to(model.device)).double()
    tables = [shard.table(CLEAN, clean, still)]
    for step in perturbations(procedure, setting):
        if step.kind == TEMPERATURE:
            tables.append(shard.table(step.name, clean / float(step.budget), still))
            continue
        if not isinstance(procedure, Corruption):
            raise TypeError(f"expected corruptions or temperatures, got {step.kind}")
        if corrupted:
            spoilt = corrupted(step)
        else:
            spoilt = corrupt(images, ids, step, procedure, corruption_digest(key, procedure))
        if spoilt.shape != images.shape:
            raise CellError("decode", f"{step.name}: expected images {images.shape}, got {spoilt.shape}")
        logits = model.logits(torch.from_numpy(spoilt).to(model.device)).double()
        moved = np.abs(spoilt.astype(np.float64) - images).max(axis=(1, 2, 3))
        tables.append(shard.table(step.name, logits, moved))
    return PredictionTable.concat(tables)
