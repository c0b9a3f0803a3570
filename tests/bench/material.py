"""The networks and images of the benchmark: Fashion-MNIST, trained here."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import torch
from torch import nn

from robustboard import yamls
from robustboard.errors import UserError
from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.registry.entries import ModelEntry
from robustboard.registry.lock import read_lock
from robustboard.runners.folding import fold
from robustboard.runners.loaders import load_classifier
from robustboard.runners.record import Subset
from robustboard.runners.samples import Samples, choose_subset, load_samples
from robustboard.runners.stems import ease_stems
from robustboard.runners.weights import locate_weights
from robustboard.workspace import Workspace
from tests.bench.task import QUERIES, Task

DATASET = "fashion-mnist"
MODELS = {"standard": "fashion-std", "adversarial": "fashion-adv"}
"""Role in the benchmark → registry id."""
SMALL = {
    role: Path(__file__).parent / f"quick-{name}.yaml"
    for role, name in (("standard", "std"), ("adversarial", "adv"))
}
"""Networks that train in seconds, for --quick, and where the registry has none of the others."""


@dataclass(frozen=True, slots=True)
class Network:
    """A trained network of the benchmark."""

    name: str
    classifier: nn.Module
    """As the runner lays it out."""
    folded: nn.Module
    """As the runner uses it: normalisations folded, a faster way back through a grey stem."""
    classes: int

    def plain(self) -> nn.Module:
        """A copy with PyTorch's own memory layout, as people have it who load the network themselves."""
        return deepcopy(self.classifier).to(memory_format=torch.contiguous_format)


@dataclass(frozen=True, slots=True)
class Material:
    """What tasks are made of."""

    networks: dict[str, Network]
    """By role."""
    samples: Samples

    def task(self, role: str, *, images: int, eps: Fraction, steps: int, queries: int = QUERIES) -> Task:
        """A task on a seeded choice of the test images, spread over the classes."""
        labels = self.samples.labels
        chosen = self.samples.select(choose_subset(labels, Subset(count=images, seed=0)))
        network = self.networks[role]
        return Task(
            classifier=network.classifier,
            images=torch.from_numpy(chosen.pixels(range(len(chosen.ids)))),
            labels=torch.from_numpy(chosen.labels.copy()),
            classes=network.classes,
            eps=eps,
            steps=steps,
            queries=queries,
        )


def entry_of(catalog: Catalog, role: str, *, quick: bool) -> ModelEntry:
    """The registry's network for a role, or the small one."""
    if not quick and MODELS[role] in catalog.models:
        return catalog.model(MODELS[role])
    path = SMALL[role]
    return yamls.read(path, ModelEntry, path.name)


def load(workspace: Workspace, *, quick: bool, progress: Callable[[str], None]) -> Material:
    """Networks, trained now where that was not done before, and images.

    Raises CellError where the images are not on this machine.
    """
    catalog, lock = load_catalog(workspace), read_lock(workspace)
    dataset = catalog.dataset(DATASET)
    space = catalog.label_space(dataset.label_space)
    networks = {}
    for role in MODELS:
        entry = entry_of(catalog, role, quick=quick)
        progress(f"{entry.id}: weights")
        weights = locate_weights(entry, workspace=workspace, lock=lock, train=True)
        if weights is None:
            raise UserError(f"there are no weights of {entry.id}")
        classifier = load_classifier(entry, space, weights)
        folded = deepcopy(classifier)
        fold(folded)
        ease_stems(folded)
        networks[role] = Network(entry.id, classifier, folded, len(space.classes))
    spec = entry_of(catalog, "standard", quick=quick).input
    samples = load_samples(dataset, space, workspace=workspace, lock=lock, input=spec)
    return Material(networks, samples)
