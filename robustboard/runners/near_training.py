"""Do generated images repeat training images? Each one's nearest training image, beside its own source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import InputSpec
from robustboard.registry.generators import SparseLatents, TrainedUnet, TrainedVq
from robustboard.registry.lock import Lock
from robustboard.runners.generated_images import LEVELS, accepted_of
from robustboard.runners.progress import Reporter
from robustboard.runners.samples import Samples, load_samples
from robustboard.runners.store import StoredRun
from robustboard.workspace import Workspace

AT_ONCE = 2000
"""Training images compared together; bounds memory, changes nothing."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The accepted images of a model and pair beside the images that something was trained on."""

    model: str
    pair: str
    training: str
    """The dataset; of the generator where it is trained here, else of the model."""
    images: int
    original: float | None
    """Median L2 distance of the originals from the nearest training image; None without an accepted image."""
    generated: float | None
    """The same of the generated images."""
    moved: float | None
    """Median L2 distance of generated images from their originals."""
    nearer: int
    """Generated images that are nearer to a training image than to their own original."""
    copies: int
    """Generated images that equal a training image in 8 bits."""


def nearest(images: Floats, references: Floats) -> Floats:
    """(n,) smallest L2 distance of images (n, d) from references (m, d).

    From the square of a sum, so distances below about 1e-3 of the images' lengths are not exact.
    """
    best = np.full(len(images), np.inf, np.float64)
    own = np.einsum("nd,nd->n", images, images, dtype=np.float64)
    for start in range(0, len(references), AT_ONCE):
        part = references[start : start + AT_ONCE]
        its = np.einsum("nd,nd->n", part, part, dtype=np.float64)
        squares = own[:, None] + its[None, :] - 2 * (images @ part.T).astype(np.float64)
        best = np.minimum(best, squares.min(1))
    return np.sqrt(np.maximum(best, 0)).astype(np.float32)


def training_sets(catalog: Catalog, generator: str, model: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Registered training sets of one image shape: the generator's own, else those that the model saw."""
    entry = catalog.generator(generator)
    if isinstance(entry.method, SparseLatents):
        entry = catalog.generator(entry.method.generator)
    named = (
        (entry.source.recipe.dataset,)
        if isinstance(entry.source, TrainedVq | TrainedUnet)
        else catalog.model(model).training.datasets
    )
    return tuple(
        name
        for name in dict.fromkeys(named)
        if name in catalog.datasets and _shape(catalog, name) == tuple(shape)
    )


def _shape(catalog: Catalog, name: str) -> tuple[int, ...] | None:
    entry = catalog.dataset(name)
    size = entry.native_size
    return None if size is None else (entry.channels, size, size)


def neighbours(
    runs: Mapping[str, StoredRun],
    pair: str,
    *,
    workspace: Workspace,
    catalog: Catalog,
    lock: Lock,
    reporter: Reporter,
) -> Iterator[Neighbours]:
    """One row a model and training set, in the order of names; runs are of one protocol and dataset.

    Raises StoreError where the images of a run are no longer stored, and CellError where a dataset cannot
    be read.
    """
    read: dict[str, Samples] = {}

    def samples(name: str) -> Samples:
        if name not in read:
            reporter.stage(f"{name}: images")
            read[name] = _samples(workspace, catalog, lock, name)
        return read[name]

    for model, run in sorted(runs.items()):
        found = accepted_of(workspace, run, pair)
        generator = pair.rsplit(" by ", 1)[0]
        for name in training_sets(catalog, generator, model, found.images.shape[1:]):
            references, sources = samples(name), samples(run.record.plan.key.dataset)
            reporter.stage(f"{model}: {pair} beside {name}")
            place = {sample: row for row, sample in enumerate(sources.ids)}
            rows = [place[sample] for sample in found.ids]
            yield _compared((model, pair, name), found.pixels, _flat(sources, rows), _flat(references, None))


def _samples(workspace: Workspace, catalog: Catalog, lock: Lock, name: str) -> Samples:
    entry = catalog.dataset(name)
    spec = InputSpec(size=entry.native_size or 1, channels=entry.channels, normalization="inside")
    space = catalog.label_space(entry.label_space)
    return load_samples(entry, space, workspace=workspace, lock=lock, input=spec, catalog=catalog)


def _flat(samples: Samples, rows: list[int] | None) -> Floats:
    chosen = range(len(samples.ids)) if rows is None else rows
    return np.array(samples.pixels(chosen), np.float32).reshape(len(chosen), -1)


def _compared(
    names: tuple[str, str, str], generated: Floats, originals: Floats, references: Floats
) -> Neighbours:
    model, pair, training = names
    count = len(generated)
    if count == 0:
        return Neighbours(model, pair, training, 0, None, None, None, 0, 0)
    images = generated.reshape(count, -1)
    moved = np.linalg.norm(images - originals, axis=1)
    before, after = nearest(originals, references), nearest(images, references)
    levels = np.rint(references * LEVELS).astype(np.uint8)
    stored = {row.tobytes() for row in levels}
    copies = sum(row.tobytes() in stored for row in np.rint(images * LEVELS).astype(np.uint8))
    return Neighbours(
        model,
        pair,
        training,
        count,
        float(np.median(before)),
        float(np.median(after)),
        float(np.median(moved)),
        int((after < moved).sum()),
        int(copies),
    )
