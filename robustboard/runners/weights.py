"""Finds a model's weights on this machine and checks their bytes, or trains them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from robustboard.errors import CellError, LockError
from robustboard.registry.entries import FileWeights, HubWeights, ModelEntry, PackageWeights, TrainedWeights
from robustboard.registry.lock import Lock
from robustboard.registry.resolve import package_file
from robustboard.runners import identity, training
from robustboard.runners.sources.places import find_data
from robustboard.runners.tensors import describe_impostor
from robustboard.workspace import Workspace

Progress = Callable[[str, float], None]
"""Called with a stage in words and the fraction of it that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights whose bytes were checked: one file, or a folder that holds the locked files alone."""

    path: Path
    sha256: str
    """Of the file, or of the list of files (identity.files_digest)."""


def locate_weights(
    entry: ModelEntry, *, workspace: Workspace, lock: Lock, train: bool, progress: Progress | None = None
) -> Weights | None:
    """The weights of a model, ready to load.

    Files are compared with the lock before every use. Weights that this project trains are taken
    from the store of runs; where they are absent, `train` says whether to train them now, else
    None. Raises CellError: unlocked, missing, gated, unavailable or hash-mismatch.
    """
    source = entry.source
    if isinstance(source, TrainedWeights):
        return _trained(entry, workspace, lock, train=train, progress=progress)
    found = identity.locked(entry, lock)
    if isinstance(source, HubWeights):
        from robustboard.runners.hub import fetch_model  # noqa: PLC0415 - takes a second to import

        return Weights(fetch_model(entry, found, workspace, progress), identity.files_digest(found))
    path = _data_file(source, workspace) if isinstance(source, FileWeights) else _package_file(source)
    check_bytes(path, source.sha256)
    return Weights(path, source.sha256)


def check_bytes(path: Path, sha256: str) -> None:
    """Raise CellError (hash-mismatch) unless the file's SHA-256 is the given one."""
    found = identity.file_sha256(path)
    if found != sha256:
        impostor = describe_impostor(path)
        why = f" ({impostor})" if impostor else ""
        raise CellError(
            "hash-mismatch", f"{path.name}: expected SHA-256 {sha256[:16]}..., got {found[:16]}...{why}"
        )


def _data_file(source: FileWeights, workspace: Workspace) -> Path:
    path = find_data(source.path, workspace)
    if not path.is_file():
        raise CellError("missing", f"{source.path}: expected a weights file, got a folder")
    return path


def _package_file(source: PackageWeights) -> Path:
    try:
        path, _ = package_file(source.distribution, source.path)
    except LockError as error:
        raise CellError("missing", str(error)) from error
    return path


def _trained(
    entry: ModelEntry, workspace: Workspace, lock: Lock, *, train: bool, progress: Progress | None
) -> Weights | None:
    path = identity.trained_path(entry, workspace)
    sidecar = identity.read_sidecar(entry, workspace)
    if sidecar is None:
        if not train:
            return None
        sidecar = training.train_and_save(entry, workspace=workspace, lock=lock, progress=progress)
    found = identity.file_sha256(path)
    if found != sidecar.sha256:
        raise CellError(
            "hash-mismatch",
            f"{workspace.show(path)} changed since it was trained: delete it to train it again",
        )
    return Weights(path, sidecar.sha256)
