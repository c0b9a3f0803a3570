"""Do images generated against one model fool another? The matrix of accuracies over stored images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.generated import verdict_name
from robustboard.errors import StoreError
from robustboard.runners.generation import LEVELS
from robustboard.runners.generation_scoring import ACCEPTED
from robustboard.runners.session import Session
from robustboard.runners.store import StoredRun


@dataclass(frozen=True, slots=True)
class Transfer:
    """Images of one source model, judged by every model."""

    pair: str
    source: str
    images: int
    """Accepted images."""
    accuracy: dict[str, float | None]
    """Target model → share classified right; the source's own is its PA. None without an image."""


def transfer(session: Session, runs: Mapping[str, StoredRun], pair: str) -> list[Transfer]:
    """One row a source model, in the order of names.

    Args:
        session: Loads the models.
        runs: Model → its finished run of one protocol on one dataset.
        pair: Generator and oracle, as the condition is named.

    Raises StoreError where the images of a run are no longer stored or are not as many as its rows.
    """
    accepted = {name: _accepted(session, run, pair) for name, run in sorted(runs.items())}
    right: dict[tuple[str, str], float | None] = {}
    for target, run in sorted(runs.items()):
        dataset = session.catalog.dataset(run.record.plan.key.dataset)
        classes = session.catalog.classes(dataset)
        model = Model(
            session.model(target).classifier,
            batch_size=session.profile.batch_size,
            classes=classes,
            device=session.device,
        )
        columns = None if classes is None else np.array(classes, np.int64)
        for source, (images, labels) in accepted.items():
            right[source, target] = _accuracy(model, columns, images, labels)
    return [
        Transfer(pair, source, len(labels), {target: right[source, target] for target in sorted(runs)})
        for source, (_, labels) in accepted.items()
    ]


def _accuracy(
    model: Model,
    columns: npt.NDArray[np.int64] | None,
    images: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.int64],
) -> float | None:
    if not len(labels):
        return None
    pixels = torch.from_numpy(images.astype(np.float32) / LEVELS).to(model.device)
    predicted = model.logits(pixels).argmax(1).cpu().numpy()
    return float(np.mean((predicted if columns is None else columns[predicted]) == labels))


def _accepted(
    session: Session, run: StoredRun, pair: str
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The accepted images (n, c, h, w) of a run, and their labels."""
    made, said = run.predictions.only(pair), run.predictions.only(verdict_name(pair))
    folder = session.generated_folder(run.record.plan.key_digest, pair)
    images = _stored(folder, session)
    labels = made.column("label").astype(np.int64)
    if len(images) != len(labels):
        shown = session.workspace.show(folder)
        raise StoreError(f"{shown}: expected {len(labels)} images, got {len(images)}")
    taken = (made.column("status") == ACCEPTED) & (said.column("predicted") == labels)
    return images[taken], labels[taken]


def _stored(folder: Path, session: Session) -> npt.NDArray[np.uint8]:
    parts = sorted(folder.glob("*.npy"))
    if not parts:
        raise StoreError(
            f"{session.workspace.show(folder)}: expected stored images, found none: run it again"
        )
    return np.concatenate([np.load(part, allow_pickle=False) for part in parts])
