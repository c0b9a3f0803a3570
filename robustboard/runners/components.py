"""Weights of the parts of an oracle or generator: trained here from a recipe, or fetched, never trusted.

A part that is trained here lies in runs/weights/DIGEST as a folder of configuration and safetensors; its
sidecar DIGEST.json is written last and makes it count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robustboard import durable, jsons
from robustboard.errors import CellError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import InputSpec
from robustboard.registry.lock import Lock
from robustboard.runners import identity
from robustboard.runners.fitting import Progress
from robustboard.runners.samples import load_samples
from robustboard.runners.sidecars import AnySidecar, read_sidecar, write_sidecar
from robustboard.runners.training import THREADS, threads
from robustboard.workspace import Workspace

TRAINING_VERSION = 1
"""Raised by hand when training changes in a way that yields other weights."""


def silent(stage: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What loading an oracle or generator needs to know."""

    workspace: Workspace
    catalog: Catalog
    lock: Lock
    progress: Progress = silent
    device: str = "cpu"
    rows: int = 64
    """Images a pass, rounded down to a multiple of 16."""


@dataclass(frozen=True, slots=True)
class Material:
    """Labelled images to train on."""

    images: Tensor
    """(n, c, h, w) float32 in [0, 1]."""
    labels: Tensor
    """(n,) int64."""
    class_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """What training a part yields: the files of its folder, and one number of how well it went."""

    files: Mapping[str, bytes]
    quality: float


@dataclass(frozen=True, slots=True)
class Component:
    """Checked files of a part."""

    folder: Path
    sha256: str
    """Of the list of files with their hashes."""


class ComponentSidecar(AnySidecar):
    """What is known about a part that was trained here."""

    format: str = "robustboard.component/1"
    sha256: str
    files: dict[str, str]
    """Name → SHA-256."""
    data_fingerprint: str
    seconds: float
    software: dict[str, str]
    threads: int
    quality: float
    """How well it went: the mean loss of the last epoch, or what a regression gets right of its own rows."""


def trained_component(
    recipe: Mapping[str, object],
    dataset: str,
    images: int | None,
    make: Callable[[Material], Made],
    setup: Setup,
) -> Component:
    """The part that a recipe describes, from the store of runs or trained now.

    Args:
        recipe: Everything that shapes the weights; its digest names the folder.
        dataset: Whose images it is trained on.
        images: Only the first so many; all when None.
        make: Trains; runs with one thread and torch's global generator put back afterwards.
        setup: Workspace, catalogue, lock and progress.

    Raises CellError: hash-mismatch for files that changed since, and whatever reading the dataset raises.
    """
    digest = jsons.digest("robustboard.component/1", {"version": TRAINING_VERSION, **recipe})
    folder = setup.workspace.runs / "weights" / digest
    sidecar = _read_sidecar(folder, setup.workspace)
    if sidecar is None:
        sidecar = _train(folder, dataset, images, make, setup)
    for name, sha256 in sidecar.files.items():
        path = folder / name
        if not path.is_file() or identity.file_sha256(path) != sha256:
            shown = setup.workspace.show(path)
            raise CellError("hash-mismatch", f"{shown} changed since it was trained: delete its folder")
    return Component(folder, sidecar.sha256)


def _train(
    folder: Path,
    dataset: str,
    images: int | None,
    make: Callable[[Material], Made],
    setup: Setup,
) -> ComponentSidecar:
    entry = setup.catalog.dataset(dataset)
    space = setup.catalog.label_space(entry.label_space)
    channels = entry.channels
    spec = InputSpec(
        size=entry.native_size or 1, channels=channels, normalization="inside", interpolation="bilinear"
    )
    if entry.native_size is None:
        raise CellError("load", f"expected a dataset of one size to train on, got {dataset}")
    samples = load_samples(entry, space, workspace=setup.workspace, lock=setup.lock, input=spec)
    count = min(images or len(samples.ids), len(samples.ids))
    pixels = torch.from_numpy(np.array(samples.pixels(range(count)), np.float32))
    labels = torch.from_numpy(np.array(samples.labels[:count], np.int64))
    started = time.perf_counter()
    with torch.random.fork_rng(devices=[]), threads(THREADS), torch.enable_grad():
        made = make(Material(pixels, labels, tuple(space.classes.values())))
    seconds = time.perf_counter() - started
    hashes = {}
    for name, data in made.files.items():
        durable.make_folder((folder / name).parent)
        durable.write(folder / name, data)
        hashes[name] = identity.file_sha256(folder / name)
    sidecar = ComponentSidecar(
        recipe_digest=folder.name,
        sha256=jsons.digest("robustboard.component-files/1", sorted(hashes.items())),
        files=hashes,
        data_fingerprint=samples.fingerprint,
        seconds=round(seconds, 3),
        software={name: metadata.version(name) for name in ("torch", "diffusers", "open_clip_torch")},
        threads=THREADS,
        quality=made.quality,
    )
    write_sidecar(folder.with_suffix(".json"), sidecar)
    return sidecar


def _read_sidecar(folder: Path, workspace: Workspace) -> ComponentSidecar | None:
    path = folder.with_suffix(".json")
    if not path.is_file() or not folder.is_dir():
        return None
    return read_sidecar(path, ComponentSidecar, workspace)
