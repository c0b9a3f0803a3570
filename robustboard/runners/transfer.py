"""Do images generated against one model fool another? The matrix of accuracies over stored images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from robustboard.benchmarks.attacks.model import Model
from robustboard.runners.generated_images import Accepted, accepted_of
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
    accepted = {name: accepted_of(session.workspace, run, pair) for name, run in sorted(runs.items())}
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
        for source, found in accepted.items():
            right[source, target] = _accuracy(model, columns, found)
    return [
        Transfer(pair, source, len(found.ids), {target: right[source, target] for target in sorted(runs)})
        for source, found in accepted.items()
    ]


def _accuracy(model: Model, columns: npt.NDArray[np.int64] | None, found: Accepted) -> float | None:
    if not found.ids:
        return None
    predicted = model.logits(torch.from_numpy(found.pixels).to(model.device)).argmax(1).cpu().numpy()
    return float(np.mean((predicted if columns is None else columns[predicted]) == found.labels))
