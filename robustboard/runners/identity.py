"""What a model, a dataset and its labels are, as digests for the run key. No torch here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from robustboard import jsons
from robustboard.errors import CellError, LockError
from robustboard.registry.entries import (
    DatasetEntry,
    Decoding,
    HubWeights,
    LockedEntry,
    ModelEntry,
    TrainedWeights,
)
from robustboard.registry.labels import ClassGroups, ClassSubset, LabelSpace
from robustboard.registry.lock import Lock
from robustboard.runners import sidecars
from robustboard.workspace import Workspace

TRAINING_VERSION = 2
"""Raised by hand when training changes in a way that yields other weights."""

LATER_IN_SOURCES = frozenset({"group_column", "group_from", "only_declared"})
"""Fields of sources that count only where they say something: results from before they were there stay."""

LIBRARIES: dict[str, tuple[str, ...]] = {"timm": ("torch", "timm"), "open_clip": ("torch", "open_clip_torch")}
"""Loader → distributions whose code computes the outputs; plugins count as torch alone."""

CORRUPTING = ("numba", "numpy", "opencv-python-headless", "pillow", "scipy")
"""Distributions whose code corrupts images in memory: draws, filters, affine maps, JPEG."""


class Sidecar(sidecars.AnySidecar):
    """What is known about weights trained here; lies beside them as JSON and is written last."""

    format: str = "robustboard.weights/1"
    sha256: str
    """Of the weights file."""
    data_fingerprint: str
    """Of the training images and labels as read."""
    seconds: float
    """Wall time of training."""
    software: dict[str, str]
    threads: int
    accuracy: float
    """Share of the training images that the final network gets right."""


def model_digest(entry: ModelEntry) -> str:
    """Digest of everything in the entry that shapes the outputs.

    Source, loader, architecture, label space, input and prompts; not the id, the name or prose, so
    that a corrected licence leaves results valid.
    """
    parts = {"source", "loader", "architecture", "label_space", "input", "zero_shot"}
    dump = entry.model_dump(mode="json", include=parts)
    if isinstance(entry.source, HubWeights) and not entry.source.pickle:
        del dump["source"]["pickle"]  # came later: results from before it stay
    return jsons.digest("robustboard.model/1", dump)


def dataset_digest(entry: DatasetEntry, viewed: DatasetEntry | None = None) -> str:
    """Digest of everything in the entry that shapes images or labels; mirrors hold the same images.

    `viewed` is the dataset whose images a view shows: what shapes those counts as well.
    """
    parts = {"source", "label_space", "label_map", "class_subset", "native_size", "channels"}
    dump = entry.model_dump(mode="json", include=parts)
    dump["source"] = {
        name: value for name, value in dump["source"].items() if value or name not in LATER_IN_SOURCES
    }
    if entry.border:
        dump["border"] = entry.border
    if entry.preprocessing != "resize-and-crop":
        dump["preprocessing"] = entry.preprocessing
    if entry.decoding != Decoding():
        dump["decoding"] = entry.decoding.model_dump(mode="json")
    if viewed is not None and viewed is not entry:
        dump["viewed"] = dataset_digest(viewed)
    return jsons.digest("robustboard.dataset/1", dump)


def labels_digest(space: LabelSpace, chosen: ClassSubset | ClassGroups | None = None) -> str:
    """Digest of the classes, their names and order, and of the class subset or the groups in their order."""
    found: dict[str, Any] = {
        "classes": [[key, name] for key, name in space.classes.items()],
        "subset": list(chosen.classes) if isinstance(chosen, ClassSubset) else None,
    }
    if isinstance(chosen, ClassGroups):
        found["groups"] = [[category, list(keys)] for category, keys in chosen.classes.items()]
        found["aggregation"] = chosen.aggregation
    return jsons.digest("robustboard.labels/1", found)


def software(entry: ModelEntry) -> dict[str, str]:
    """Library → major.minor version, for those whose code computes the outputs of this model."""
    return {name: _minor(name) for name in LIBRARIES.get(entry.loader, ("torch",))}


@cache
def corrupting_software() -> Mapping[str, str]:
    """Library → major.minor version, for those whose code corrupts images; without those not installed."""
    found = {}
    for name in CORRUPTING:
        try:
            found[name] = _minor(name)
        except metadata.PackageNotFoundError:
            continue
    return MappingProxyType(found)


@cache
def _minor(distribution: str) -> str:
    return ".".join(metadata.version(distribution).split("+")[0].split(".")[:2])


def recipe_digest(entry: ModelEntry) -> str:
    """Digest that names weights trained here: recipe, seed, network and input.

    For entries with such a recipe alone.
    """
    parts = {"source", "loader", "architecture", "label_space", "input"}
    value = {"version": TRAINING_VERSION, **entry.model_dump(mode="json", include=parts)}
    return jsons.digest("robustboard.recipe/1", value)


def trained_path(entry: ModelEntry, workspace: Workspace) -> Path:
    """Where weights trained from this entry's recipe lie, or will."""
    return workspace.runs / "weights" / f"{recipe_digest(entry)}.safetensors"


def read_sidecar(entry: ModelEntry, workspace: Workspace) -> Sidecar | None:
    """What is known about the weights trained here; None while they are still to be trained.

    Raises StoreError when the sidecar is damaged.
    """
    weights = trained_path(entry, workspace)
    path = weights.with_suffix(".json")
    if not path.is_file() or not weights.is_file():
        return None
    return sidecars.read_sidecar(path, Sidecar, workspace)


def locked(entry: ModelEntry, lock: Lock) -> LockedEntry:
    """The locked files of a model whose weights come from elsewhere, at least one.

    Raises CellError (unlocked) with the command that mends it.
    """
    try:
        found = lock.pin(entry)
    except LockError as error:
        raise CellError("unlocked", str(error)) from error
    if not found.files:
        raise CellError(
            "unlocked",
            f"the lock names no file of model/{entry.id}:"
            f" run `robustboard lock model/{entry.id}` with network",
        )
    return found


def files_digest(found: LockedEntry) -> str:
    """SHA-256 of a model's weights: the file's own, or the digest of the list where there are several."""
    if len(found.files) == 1:
        return found.files[0].sha256
    listed = sorted([file.path, file.sha256] for file in found.files)
    return jsons.digest("robustboard.weights/1", listed)


def weights_identity(entry: ModelEntry, *, workspace: Workspace, lock: Lock) -> str | None:
    """SHA-256 of the weights that a run would use; None while they are still to be trained.

    Raises CellError (unlocked) for weights from elsewhere without a pin.
    """
    if isinstance(entry.source, TrainedWeights):
        sidecar = read_sidecar(entry, workspace)
        return sidecar.sha256 if sidecar is not None else None
    return files_digest(locked(entry, lock))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes (64 hex digits)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def impostor(start: bytes) -> str | None:
    """What a file is that only bears the name of a weights file, told by its first 512 bytes.

    None when nothing speaks against it.
    """
    text = start.lstrip().lower()
    if not start:
        return "it is empty"
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "it looks like HTML, a web page saved in its place"
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer, not the file itself"
    return None
