"""Trains the small classifiers that this project brings along, from a recipe and a seed.

Equal recipe, seed, data, machine and torch give equal bytes. Sums differ in the last digit between
numbers of threads, so training always uses THREADS of them; other processors and other versions of
torch may still differ, which is why a run records the SHA-256 of the weights it used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from robustboard import durable
from robustboard.errors import CellError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import ModelEntry, TrainedWeights
from robustboard.registry.lock import Lock
from robustboard.registry.recipes import FgsmTraining
from robustboard.runners import identity
from robustboard.runners.classifier import Classifier, Preprocess
from robustboard.runners.fitting import Progress, fit
from robustboard.runners.networks import build_network
from robustboard.runners.samples import load_samples
from robustboard.runners.sidecars import write_sidecar
from robustboard.workspace import Workspace

THREADS = 1
"""Threads during training, whatever the machine has: more gain little on networks this small, and lose
much where other work shares the cores."""

WARM_UP = 0.3
"""Share of the steps in which the one-cycle schedule rises to the learning rate."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What training yields."""

    state: dict[str, Tensor]
    accuracy: float
    """Share of the training images, unshifted and unperturbed, that the final network gets right."""
    seconds: float


def train(
    entry: ModelEntry,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    *,
    classes: int,
    progress: Progress | None = None,
) -> Trained:
    """Train an entry's network from scratch.

    Images are (n, c, h, w) in [0, 1] at the dataset's native size, labels (n,) in 0..classes-1.
    torch's global generator and number of threads are left as they were.
    """
    source = entry.source
    if not isinstance(source, TrainedWeights):
        raise CellError("load", f"{entry.id} has no training recipe")
    count = min(source.recipe.images or len(labels), len(labels))
    pixels = torch.from_numpy(np.array(images[:count], np.float32))
    targets = torch.from_numpy(np.array(labels[:count], np.int64))
    started = time.perf_counter()
    with torch.random.fork_rng(devices=[]), threads(THREADS), torch.enable_grad():
        torch.manual_seed(source.seed)
        network = build_network(entry, classes)
        _fit(network, Preprocess(entry.input), pixels, targets, source=source, progress=progress or _silent)
    seconds = time.perf_counter() - started
    classifier = Classifier(network, entry.input, classes)
    with torch.no_grad():
        right = sum(
            int((classifier(pixels[at : at + 500]).argmax(1) == targets[at : at + 500]).sum())
            for at in range(0, count, 500)
        )
    state = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    return Trained(state, right / count, seconds)


def train_and_save(
    entry: ModelEntry, *, workspace: Workspace, lock: Lock, progress: Progress | None = None
) -> identity.Sidecar:
    """Train an entry's network on its recipe's dataset and store the weights, then their sidecar.

    The weights count as trained once the sidecar stands, so a killed training leaves nothing
    that a later run would take.
    """
    if not isinstance(entry.source, TrainedWeights):
        raise CellError("load", f"{entry.id} has no training recipe")
    catalog = load_catalog(workspace)
    dataset = catalog.dataset(entry.source.recipe.dataset)
    space = catalog.label_space(entry.label_space)
    samples = load_samples(dataset, space, workspace=workspace, lock=lock, input=entry.input)
    images = samples.pixels(range(len(samples.ids)))
    trained = train(entry, images, samples.labels, classes=len(space.classes), progress=progress)
    return store(entry, trained, samples.fingerprint, workspace)


def store(entry: ModelEntry, trained: Trained, fingerprint: str, workspace: Workspace) -> identity.Sidecar:
    """Write trained weights, then their sidecar as the commit point."""
    path = identity.trained_path(entry, workspace)
    durable.write(path, save(trained.state))
    sidecar = identity.Sidecar(
        sha256=identity.file_sha256(path),
        recipe_digest=identity.recipe_digest(entry),
        data_fingerprint=fingerprint,
        seconds=round(trained.seconds, 3),
        software={name: metadata.version(name) for name in ("torch", "timm")},
        threads=THREADS,
        accuracy=trained.accuracy,
    )
    write_sidecar(path.with_suffix(".json"), sidecar)
    return sidecar


def _silent(stage: str, fraction: float) -> None:
    """Report progress to nobody."""


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of torch inside the block, and as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit(
    network: nn.Module,
    preprocess: Preprocess,
    images: Tensor,
    labels: Tensor,
    *,
    source: TrainedWeights,
    progress: Progress,
) -> None:
    recipe = source.recipe

    def loss_of(chosen: Tensor, generator: torch.Generator) -> Tensor:
        batch, targets = _shift(images[chosen], recipe.shift, generator), labels[chosen]
        if isinstance(recipe, FgsmTraining):
            batch = _attack(network, preprocess, batch, targets, recipe=recipe, generator=generator)
        return functional.cross_entropy(network(preprocess(batch)), targets)

    fit(
        network,
        recipe,
        loss_of,
        images=len(labels),
        seed=source.seed,
        warm_up=WARM_UP,
        progress=progress,
    )


def _shift(images: Tensor, limit: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `limit` pixels in both directions; the border's value fills the gap."""
    if limit == 0:
        return images
    count, _, height, width = images.shape
    offsets = torch.randint(-limit, limit + 1, (2, count, 1), generator=generator)
    rows = (torch.arange(height) + offsets[0]).clamp(0, height - 1)
    columns = (torch.arange(width) + offsets[1]).clamp(0, width - 1)
    picked = torch.arange(count)[:, None, None]
    return images.permute(0, 2, 3, 1)[picked, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _attack(
    network: nn.Module,
    preprocess: Preprocess,
    images: Tensor,
    labels: Tensor,
    *,
    recipe: FgsmTraining,
    generator: torch.Generator,
) -> Tensor:
    """One FGSM step from a uniform start in the ball, clipped to the budget and to [0, 1]."""
    eps = float(recipe.eps)
    start = torch.rand(images.shape, generator=generator) * (2 * eps) - eps
    perturbed = (images + start).clamp(0, 1).requires_grad_()
    loss = functional.cross_entropy(network(preprocess(perturbed)), labels)
    (gradient,) = torch.autograd.grad(loss, perturbed)
    moved = perturbed.detach() + float(recipe.relative_step) * eps * gradient.sign()
    return torch.minimum(torch.maximum(moved, images - eps), images + eps).clamp(0, 1)
