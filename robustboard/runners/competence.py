"""What the gate of oracles measured, kept below runs/competence. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from robustboard import durable, jsons
from robustboard.errors import StoreError
from robustboard.fields import Count, EntryId, Index, Number, Sha256
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


class Competence(Frozen):
    """How an oracle did on a dataset's own images, and how well its confidence tells when it is right."""

    format: Literal["robustboard.competence/2"] = "robustboard.competence/2"
    oracle: EntryId
    identity: Sha256
    """Of the oracle."""
    dataset: EntryId
    fingerprint: Sha256
    """Of the dataset's images and labels as read."""
    images: Count
    right: Index
    """Images that it sees right; no verdict is wrong."""
    expected_calibration_error: Number
    """Over 15 bins of equal width (Guo et al. 2017); an ensemble's confidence is the share of the votes for
    its class, and 0 without a verdict."""
    brier_score: Number
    """Mean squared distance of its shares, or of the votes', from the label, 0 to 2 (Brier 1950)."""

    @property
    def accuracy(self) -> float:
        """Share of the images that it sees right."""
        return self.right / self.images


def read_competence(workspace: Workspace, identity: str, fingerprint: str) -> Competence | None:
    """What was measured of an oracle on a set of images; None where nothing was.

    Raises StoreError for a damaged file.
    """
    path = _path(workspace, identity, fingerprint)
    if not path.is_file():
        return None
    name = workspace.show(path)
    found = jsons.unseal(path.read_bytes(), Competence, name)
    if (found.identity, found.fingerprint) != (identity, fingerprint):
        raise StoreError(f"{name}: belongs to other images or another oracle: delete it to measure again")
    return found


def keep_competence(workspace: Workspace, found: Competence) -> None:
    """Store a measurement for `read_competence`."""
    path = _path(workspace, found.identity, found.fingerprint)
    durable.make_folder(path.parent)
    durable.write(path, jsons.seal(found))


def _path(workspace: Workspace, identity: str, fingerprint: str) -> Path:
    key = jsons.digest("robustboard.competence/2", [identity, fingerprint])
    return workspace.runs / "competence" / f"{key}.json"
