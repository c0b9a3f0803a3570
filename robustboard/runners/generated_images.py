"""Generated images as a run left them: 8-bit arrays beside its predictions. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.generated import verdict_name
from robustboard.errors import StoreError
from robustboard.runners.generation_scoring import ACCEPTED
from robustboard.runners.store import StoredRun
from robustboard.workspace import Workspace

LEVELS = 255


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """The images of one run and pair that the oracle accepts as files."""

    ids: tuple[str, ...]
    images: npt.NDArray[np.uint8]
    """(n, c, h, w)"""
    labels: npt.NDArray[np.int64]
    """(n,)"""

    @property
    def pixels(self) -> npt.NDArray[np.float32]:
        """(n, c, h, w) in [0, 1]."""
        return self.images.astype(np.float32) / np.float32(LEVELS)


def generated_folder(workspace: Workspace, digest: str, pair: str) -> Path:
    """Where the generated images of a run and pair lie, one array a shard."""
    return workspace.runs / "generated" / digest / pair.replace(" ", "-")


def accepted_of(workspace: Workspace, run: StoredRun, pair: str) -> Accepted:
    """The accepted images of a run, in the order of its rows.

    Raises StoreError where they are no longer stored, or are not as many as the rows.
    """
    made, said = run.predictions.only(pair), run.predictions.only(verdict_name(pair))
    folder = generated_folder(workspace, run.record.plan.key_digest, pair)
    shown, parts = workspace.show(folder), sorted(folder.glob("*.npy"))
    if not parts:
        raise StoreError(f"{shown}: expected stored images, found none: run it again")
    try:
        images = np.concatenate([np.load(part, allow_pickle=False) for part in parts])
    except (OSError, ValueError) as error:
        raise StoreError(f"{shown}: damaged: {error}: delete the folder and run it again") from error
    labels = made.column("label").astype(np.int64)
    if len(images) != len(labels):
        raise StoreError(f"{shown}: expected {len(labels)} images, got {len(images)}")
    taken = (made.column("status") == ACCEPTED) & (said.column("predicted") == labels)
    ids = made.column("sample_id")[taken]
    return Accepted(tuple(ids.tolist()), images[taken], labels[taken])
