"""What the cells of one run share: entries, store, device, and what is loaded at the moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from robustboard import durable
from robustboard.benchmarks.entries import (
    BenchmarkEntry,
    CorruptionSetting,
    DetectionSetting,
    GeneratedSetting,
    Scope,
)
from robustboard.errors import CellError, StoreError, UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import InputSpec, ModelEntry
from robustboard.registry.lock import Lock
from robustboard.runners.batching import fastest_rows, is_worth
from robustboard.runners.classifier import Classifier
from robustboard.runners.compiling import compile_network
from robustboard.runners.components import Setup
from robustboard.runners.corrupted import contents
from robustboard.runners.device import prepare
from robustboard.runners.folding import fold
from robustboard.runners.generated_images import generated_folder
from robustboard.runners.generation import array_bytes
from robustboard.runners.jobs import Job
from robustboard.runners.joined import join
from robustboard.runners.keys import CONTENT, Cell, Keys
from robustboard.runners.loaders import load_classifier
from robustboard.runners.macs import macs
from robustboard.runners.oracles import Oracle, load_oracle
from robustboard.runners.plan import passes
from robustboard.runners.profiles import RunProfile
from robustboard.runners.progress import Reporter, Silent
from robustboard.runners.record import RunKey
from robustboard.runners.samples import Samples, choose_subset, load_samples
from robustboard.runners.score import read_result
from robustboard.runners.stems import ease_stems
from robustboard.runners.store import Store
from robustboard.runners.weights import Weights, locate_weights
from robustboard.workspace import Workspace

if TYPE_CHECKING:
    from robustboard.runners.generators import LoadedGenerator


@dataclass(frozen=True)
class Session:
    """Everything that one run of many cells is given, and what it makes of it."""

    workspace: Workspace
    catalog: Catalog
    benchmarks: Mapping[str, BenchmarkEntry]
    lock: Lock
    profile: RunProfile
    reporter: Reporter = field(default_factory=Silent)
    allow_plugins: bool = False
    skip_damaged: bool = False
    """Leave out images that cannot be read; such a result is partial."""
    use_committed: bool = True
    """Take a result file of the same key as finished, also where its predictions are not at hand."""
    debug: bool = False
    """Print the traceback of a failed cell."""

    @cached_property
    def store(self) -> Store:
        """Where predictions go."""
        return Store(self.workspace.runs)

    @cached_property
    def keys(self) -> Keys:
        """Makes run keys."""
        return Keys(self.catalog, self.benchmarks)

    @cached_property
    def device(self) -> torch.device:
        """The profile's device, made ready. Raises UserError when it is not there."""
        name = self.profile.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        return prepare(name, self.profile.threads)

    @cached_property
    def _setup(self) -> Setup:
        """What loading generators and oracles needs."""
        return Setup(
            workspace=self.workspace,
            catalog=self.catalog,
            lock=self.lock,
            progress=lambda stage, done: self.reporter.stage(f"generator or oracle: {stage} {done:.0%}"),
            device=str(self.device),
            rows=self.profile.batch_size,
        )

    @cached_property
    def _oracles(self) -> dict[str, Oracle]:
        return {}

    @cached_property
    def _generators(self) -> dict[str, LoadedGenerator]:
        return {}

    def oracle(self, name: str) -> Oracle:
        """An oracle, loaded (or trained) once."""
        if name not in self._oracles:
            self.reporter.stage(f"{name}: oracle")
            self._oracles[name] = load_oracle(self.catalog.oracle(name), self._setup)
        return self._oracles[name]

    def generator(self, name: str, space: str) -> LoadedGenerator:
        """A generator of images of a label space, loaded (or trained) once."""
        from robustboard.runners.generators import load_generator  # noqa: PLC0415 - diffusers takes seconds

        if (place := f"{name} {space}") not in self._generators:
            self.reporter.stage(f"{name}: generator")
            entry, labels = self.catalog.generator(name), self.catalog.label_space(space)
            self._generators[place] = load_generator(entry, self._setup, labels)
        return self._generators[place]

    @cached_property
    def _fixed_size(self) -> dict[str, Samples]:
        return {}

    @cached_property
    def _stored(self) -> dict[str, str]:
        return {}

    def setting(self, cell: Cell) -> Scope:
        """The benchmark's setting for the cell's dataset."""
        setting = self.benchmarks[cell.benchmark].setting_for(self.catalog.dataset(cell.dataset))
        if setting is None:
            raise UserError(f"benchmark {cell.benchmark} has no setting for dataset {cell.dataset}")
        return setting

    def work(self, cell: Cell) -> int:
        """About how many forward passes of one image a cell is."""
        size = self.keys.images(cell)
        subset = self.profile.subset_of(size)
        return (subset.count if subset else size) * passes(
            self.benchmarks[cell.benchmark], self.setting(cell)
        )

    def model(self, name: str) -> LoadedModel:
        """A model with its weights found and checked, or trained now; the network is loaded when used."""
        entry = self.catalog.model(name)
        self.reporter.stage(f"{name}: weights")
        weights = locate_weights(
            entry,
            workspace=self.workspace,
            lock=self.lock,
            train=True,
            progress=lambda stage, done: self.reporter.stage(f"{name}: {stage} {done:.0%}"),
        )
        if weights is None:
            raise CellError("missing", f"there are no weights of {name}")
        return LoadedModel(self, entry, weights)

    def samples(self, name: str, spec: InputSpec) -> Samples:
        """The images of a dataset as a model with this input takes them."""
        entry = self.catalog.dataset(name)
        if name in self._fixed_size:
            return self._fixed_size[name]
        self.reporter.stage(f"{name}: images")
        samples = load_samples(
            entry,
            self.catalog.label_space(entry.label_space),
            workspace=self.workspace,
            lock=self.lock,
            input=spec,
            skip_damaged=self.skip_damaged,
            catalog=self.catalog,
            streaming=self.profile.streaming,
            progress=lambda stage, done: self.reporter.stage(f"{stage} {done:.0%}"),
        )
        if entry.native_size is not None:
            self._fixed_size[name] = samples
        return samples

    def job(self, cell: Cell, model: LoadedModel, samples: Samples) -> Job:
        """A cell with its key, and the samples that the profile wants measured."""
        setting = self.setting(cell)
        if isinstance(setting, DetectionSetting):
            samples = join(samples, self.samples(setting.out_of_distribution, model.entry.input))
        subset = self.profile.subset_of(len(samples.ids))
        key = self.keys.key(
            cell,
            weights_sha256=model.weights.sha256,
            data_fingerprint=samples.fingerprint,
            precision=self.profile.precision,
            subset=subset,
            components=self._contents(setting) | self._identities(cell, setting),
        )
        rows = choose_subset(samples.labels, subset) if subset else range(len(samples.ids))
        return Job(
            cell=cell,
            key=key,
            benchmark=self.benchmarks[cell.benchmark],
            setting=setting,
            model=model,
            samples=samples.select(rows) if subset else samples,
            everything=samples,
            rows=rows,
            classes=self.catalog.classes(self.catalog.dataset(cell.dataset)),
            images=len(samples.ids) + len(samples.skipped),
            skipped=len(samples.skipped),
        )

    def _contents(self, setting: Scope) -> dict[str, str]:
        """Digest of the files of stored corrupted images, taken once; nothing for other settings."""
        if not isinstance(setting, CorruptionSetting) or setting.stored is None:
            return {}
        name = f"{CONTENT}{setting.stored}"
        if name not in self._stored:
            entry = self.catalog.dataset(setting.stored)
            self.reporter.stage(f"{entry.id}: files")
            self._stored[name] = contents(entry, self.workspace, self.lock.get(name))
        return {name: self._stored[name]}

    def _identities(self, cell: Cell, setting: Scope) -> dict[str, str]:
        """Identities of the generators and oracles of a cell; nothing for other procedures."""
        if not isinstance(setting, GeneratedSetting):
            return {}
        space = self.catalog.dataset(cell.dataset).label_space
        made = [self.generator(use.generator, space) for use in setting.generators]
        told = [self.oracle(name) for name in setting.oracles]
        return {f"generator/{each.entry.id}": each.identity for each in made} | {
            f"oracle/{each.entry.id}": each.identity for each in told
        }

    def keep_generated(self, digest: str, pair: str, part: range, stored: npt.NDArray[np.uint8]) -> None:
        """Store the 8-bit images of a shard beside the run, for analyses; the last write stands."""
        folder = generated_folder(self.workspace, digest, pair)
        durable.make_folder(folder)
        durable.write(folder / f"{part.start:06d}.npy", array_bytes(stored))

    def is_committed(self, job: Job) -> bool:
        """Whether a result file of this very key came with the content or lies in the output."""
        if not self.use_committed or self.store.folder(job.key.digest).exists():
            return False
        return any(
            self._same_key(root / f"{job.cell.name}.json", job.key)
            for root in (self.workspace.results, self.workspace.committed_results)
        )

    def _same_key(self, path: Path, key: RunKey) -> bool:
        try:
            return path.exists() and read_result(path, self.workspace.show(path)).key == key
        except StoreError:
            return False


@dataclass(frozen=True)
class LoadedModel:
    """A model whose weights are on this machine."""

    session: Session
    entry: ModelEntry
    weights: Weights

    @cached_property
    def classifier(self) -> Classifier:
        """The network on the device, normalisations folded; loaded once, and only when a cell needs it."""
        self.session.reporter.stage(f"{self.entry.id}: network")
        space = self.session.catalog.label_space(self.entry.label_space)
        plugins = self.session.allow_plugins
        classifier = load_classifier(self.entry, space, self.weights, allow_plugins=plugins)
        fold(classifier)
        ease_stems(classifier)
        classifier.to(self.session.device)
        if self.session.profile.compile:
            self.session.reporter.stage(f"{self.entry.id}: compiling")
            compile_network(classifier)
        return classifier

    @cached_property
    def parameters(self) -> int:
        """Number of weights, as the file has them."""
        return self.classifier.parameter_count

    @cached_property
    def _macs(self) -> dict[tuple[int, int, int], int | None]:
        return {}

    @cached_property
    def _rows(self) -> dict[tuple[int, int, int], int]:
        return {}

    def batch_size(self, shape: tuple[int, int, int], work: int) -> int:
        """Images a pass: the fastest up to the profile's number, found once where the work is worth it."""
        most = self.session.profile.batch_size
        if shape not in self._rows and is_worth(work, most):
            self.session.reporter.stage(f"{self.entry.id}: batch size")
            self._rows[shape] = fastest_rows(self.classifier, shape, most, self.session.device)
        return self._rows.get(shape, most)

    def macs(self, shape: tuple[int, int, int]) -> int | None:
        """Multiply-accumulates of one image of shape (c, h, w)."""
        if shape not in self._macs:
            self._macs[shape] = macs(self.classifier, shape, self.session.device)
        return self._macs[shape]
