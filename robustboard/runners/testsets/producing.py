"""Generator, oracle and model of a recipe, as the build of a set wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, JsonValue
from torch import Tensor

from robustboard import __version__
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import Generator, LoopSettings, Origin, Proposer, perturb
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry, InputSpec
from robustboard.registry.lock import Lock
from robustboard.registry.testsets import TestSetEntry
from robustboard.runners import identity
from robustboard.runners.components import Setup
from robustboard.runners.device import prepare
from robustboard.runners.generators import load_generator
from robustboard.runners.loaders import load_classifier
from robustboard.runners.oracles import Oracle, load_oracle, need_competent
from robustboard.runners.progress import Reporter
from robustboard.runners.samples import Samples, load_samples
from robustboard.runners.testsets.attempts import Material
from robustboard.runners.testsets.judging import Floats, Produced, Verdict
from robustboard.runners.testsets.manifest import Part, Role, identity_sha256
from robustboard.runners.weights import locate_weights
from robustboard.workspace import Workspace

SOFTWARE = ("numpy", "pillow", "pyarrow", "torch")
THREADS = 1
"""Of torch: sums in another order may round otherwise."""


class Place(Protocol):
    """The checked entries of a workspace."""

    @property
    def workspace(self) -> Workspace:
        """Where they lie."""

    @property
    def catalog(self) -> Catalog:
        """Models, datasets, generators and oracles."""

    @property
    def lock(self) -> Lock:
        """Pins."""


class Aimless:
    """Stands for a model where there is none: every look at an image raises the loss.

    So each proposal of a generator goes to the oracle, and images wander until it objects. Extra columns
    beside the classes take ever more of the softmax, whatever the label.
    """

    def __init__(self, classes: int) -> None:
        """For labels below `classes`."""
        self.classes = classes
        self.looks = 0

    def __call__(self, images: Tensor) -> Tensor:
        """(n, classes + 1) logits."""
        self.looks += 1
        logits = images.new_zeros(len(images), self.classes + 1)
        logits[:, -1] = self.looks
        return logits


@dataclass(frozen=True, slots=True)
class Wandering:
    """A generator seen as one without gradients: its own proposals, or a random walk of its latents."""

    generator: Generator
    step_size: float
    mask: Tensor | None = None
    """As in LoopSettings."""
    differentiable: bool = False

    @property
    def image_range(self) -> tuple[float, float]:
        """Of the generator."""
        return self.generator.image_range

    def encode(self, origin: Origin) -> Tensor:
        """As the generator does."""
        return self.generator.encode(origin)

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """As the generator does."""
        return self.generator.decode(latents, origin)

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        """Latents (n, ...) one step on: moved by Gaussian noise where the generator proposes none itself."""
        if isinstance(self.generator, Proposer):
            return self.generator.propose(latents, origin, step)
        drawn = [
            each.standard_normal(latents.shape[1:], np.float32)
            for each in origin.draws.generators(f"wander {step}")
        ]
        moved = self.step_size * torch.from_numpy(np.stack(drawn)).to(latents)
        return latents + (moved if self.mask is None else moved * self.mask)


@dataclass(frozen=True, slots=True)
class LoopProducer:
    """The oracle loop with a recipe's parts."""

    recipe: TestSetEntry
    parts: tuple[Part, ...]
    oracle: Oracle
    generator: Generator
    model: Callable[[], Model]
    """Gives the model to climb, or a fresh aimless one."""
    rows: int
    mask: Tensor | None = None
    """As in LoopSettings."""

    def produce(self, images: Floats, labels: npt.NDArray[np.int64], seeds: Sequence[int]) -> Produced:
        """Run the loop; an image in which the generator puts no finite number is all NaN."""
        try:
            return self._loop(images, labels, seeds)
        except CellError as error:
            if error.kind != "non-finite":
                raise
            if len(images) == 1:
                return Produced(np.full_like(images, np.nan), ["accepted"], [0])
        single = [
            self.produce(images[row : row + 1], labels[row : row + 1], [seeds[row]])
            for row in range(len(images))
        ]
        return Produced(
            np.concatenate([each.images for each in single]),
            [each.status[0] for each in single],
            [each.steps[0] for each in single],
        )

    def _loop(self, images: Floats, labels: npt.NDArray[np.int64], seeds: Sequence[int]) -> Produced:
        draws = Draws(self.recipe.recipe_sha256, tuple(map(str, seeds)), "test set")
        settings = LoopSettings(
            budget=self.recipe.budget,
            step_size=float(self.recipe.step_size),
            update_rule=self.recipe.update_rule,
            mask=self.mask,
            rows=self.rows,
        )
        origin = Origin(torch.from_numpy(np.array(images, np.float32)), torch.from_numpy(labels), draws)
        found = perturb(self.model(), self.oracle, self.generator, origin, settings)
        return Produced(found.images.cpu().numpy(), list(found.status), [int(each) for each in found.steps])

    def judge(self, images: Floats) -> Verdict:
        """The oracle's answers."""
        answer = self.oracle.judge(torch.from_numpy(np.array(images, np.float32)))
        return Verdict(
            answer.predicted, answer.confidence.astype(np.float64), answer.margin.astype(np.float64)
        )


def material_of(
    place: Place, recipe: TestSetEntry, *, batch_size: int, allow_plugins: bool, reporter: Reporter
) -> Material:
    """Load what a recipe names: weights found and checked, or trained now; the oracle past its gate.

    Everything runs on the CPU with one thread, so that the same entries give the same bytes. Raises
    CellError: missing, hash-mismatch, incompetent and so on; LockError for a pin that is not there.
    """
    prepare("cpu", THREADS)
    catalog, workspace = place.catalog, place.workspace

    def told(stage: str, done: float) -> None:
        reporter.stage(f"{recipe.reference}: {stage} {done:.0%}")

    setup = Setup(workspace, catalog, place.lock, progress=told, device="cpu", rows=batch_size)
    dataset, samples, source = _source(place, recipe)
    space = catalog.label_space(dataset.label_space)
    oracle = load_oracle(catalog.oracle(recipe.oracle), setup)
    need_competent(oracle, samples, dataset.id, workspace)
    generator_entry = catalog.generator(recipe.generator)
    generator = load_generator(generator_entry, setup)
    parts = [
        part_of(
            "generator",
            generator_entry.id,
            generator_entry.license,
            {"method": _json(generator_entry.method), "identity": generator.identity},
        ),
        part_of("oracle", oracle.entry.id, oracle.entry.license, _oracle_identity(oracle, catalog)),
    ]
    classes = len(space.classes)
    followed = generator.generator
    if recipe.model is None:
        followed = Wandering(followed, float(recipe.step_size), generator.mask)

        def model() -> Model:
            return Model(Aimless(classes), batch_size=batch_size)
    else:
        part, network = _model(place, recipe.model, batch_size, allow_plugins=allow_plugins, told=told)
        parts.append(part)

        def model() -> Model:
            return network

    return Material(
        recipe=recipe,
        samples=samples,
        source=source,
        classes=dict(space.classes),
        producer=LoopProducer(recipe, tuple(parts), oracle, followed, model, batch_size, generator.mask),
        software={"robustboard": __version__, **{name: metadata.version(name) for name in SOFTWARE}},
    )


def _source(place: Place, recipe: TestSetEntry) -> tuple[DatasetEntry, Samples, Part]:
    """The source images at their own size, and what they are."""
    catalog = place.catalog
    dataset = catalog.dataset(recipe.dataset)
    space = catalog.label_space(dataset.label_space)
    spec = InputSpec(size=dataset.native_size or 1, channels=dataset.channels, normalization="inside")
    samples = load_samples(
        dataset, space, workspace=place.workspace, lock=place.lock, input=spec, catalog=catalog
    )
    locked = place.lock.get(f"dataset/{dataset.id}")
    told: dict[str, JsonValue] = {
        "source": _json(dataset.source),
        "lock": None if locked is None else _json(locked),
        "fingerprint": samples.fingerprint,
    }
    return dataset, samples, part_of("dataset", dataset.id, dataset.license, told)


def part_of(role: Role, name: str, license_: str, told: Mapping[str, JsonValue]) -> Part:
    """A line of the chain of entries."""
    found = dict(told)
    return Part(role=role, id=name, license=license_, identity=found, sha256=identity_sha256(found))


def _json(entry: BaseModel) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = entry.model_dump(mode="json")
    return found


def _oracle_identity(oracle: Oracle, catalog: Catalog) -> dict[str, JsonValue]:
    """How an oracle judges, the ways of those that it is made of too, and the digest over their weights."""
    _, *members = catalog.oracle_parts(oracle.entry.id)
    return {
        "judge": _json(oracle.entry.judge),
        "members": {each.id: _json(each.judge) for each in members},
        "identity": oracle.identity,
    }


def _model(
    place: Place, name: str, batch_size: int, *, allow_plugins: bool, told: Callable[[str, float], None]
) -> tuple[Part, Model]:
    entry = place.catalog.model(name)
    weights = locate_weights(entry, workspace=place.workspace, lock=place.lock, train=True, progress=told)
    if weights is None:
        raise CellError("missing", f"there are no weights of {name}")
    space = place.catalog.label_space(entry.label_space)
    classifier = load_classifier(entry, space, weights, allow_plugins=allow_plugins)
    locked = place.lock.get(f"model/{name}")
    part = part_of(
        "model",
        name,
        entry.license,
        {
            "model": identity.model_digest(entry),
            "weights_sha256": weights.sha256,
            "lock": None if locked is None else _json(locked),
        },
    )
    return part, Model(classifier.eval(), batch_size=batch_size)
