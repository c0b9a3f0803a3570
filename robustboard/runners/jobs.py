"""One cell with everything that its measurement needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from robustboard.benchmarks.conditions import Condition, perturbations
from robustboard.benchmarks.entries import (
    BenchmarkEntry,
    CorruptionSetting,
    External,
    GeneratedSetting,
    ImagesSetting,
    Scope,
)
from robustboard.registry.labels import ClassGroups
from robustboard.runners.corrupted import load_corrupted, need_parts
from robustboard.runners.external import Attacked, handed_in
from robustboard.runners.generation import Cast
from robustboard.runners.grouping import Grouped
from robustboard.runners.keys import Cell
from robustboard.runners.oracles import need_competent
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from robustboard.runners.samples import Samples
from robustboard.runners.shifts import Corrupted
from robustboard.runners.sources.pixels import Floats
from robustboard.runners.worst_case import read_parts

if TYPE_CHECKING:
    from robustboard.runners.session import LoadedModel


@dataclass(frozen=True)
class Job:
    """One cell with everything that its measurement needs."""

    cell: Cell
    key: RunKey
    benchmark: BenchmarkEntry
    setting: Scope
    model: LoadedModel
    samples: Samples
    """Those to measure."""
    everything: Samples
    """All that could be read."""
    rows: Sequence[int]
    """Where those to measure stand among all."""
    classes: tuple[int, ...] | None
    images: int
    """In the whole dataset."""
    skipped: int
    """Of those, the ones that could not be read and were left out."""

    @cached_property
    def network(self) -> torch.nn.Module:
        """The classifier; where the dataset has groups, with one output a category."""
        dataset, catalog = self.model.session.catalog.dataset(self.cell.dataset), self.model.session.catalog
        chosen, groups = catalog.chosen(dataset), catalog.groups(dataset)
        if groups is None or not isinstance(chosen, ClassGroups):
            return self.model.classifier
        return Grouped(self.model.classifier, groups, chosen.aggregation).to(self.model.session.device)

    @cached_property
    def attacked(self) -> Attacked | None:
        """The images handed in for an external set, read and checked once; None for other procedures."""
        procedure, session = self.benchmark.procedure, self.model.session
        if not isinstance(procedure, External) or not isinstance(self.setting, ImagesSetting):
            return None
        entry = session.catalog.dataset(self.cell.dataset)
        return handed_in(procedure, self.setting, self.everything, entry, session.workspace)

    def need_corrupted(self) -> None:
        """Raise CellError where stored corrupted images are absent, before anything is measured."""
        setting, session = self.setting, self.model.session
        if isinstance(setting, CorruptionSetting) and setting.stored is not None:
            steps = perturbations(self.benchmark.procedure, setting)
            wanted = [(step.kind, int(step.budget)) for step in steps]
            need_parts(session.catalog.dataset(setting.stored), wanted, session.workspace)

    def need_competent(self) -> None:
        """Raise CellError where an oracle fails its gate on this dataset, before anything is generated."""
        if not isinstance(self.setting, GeneratedSetting):
            return
        for name in self.setting.oracles:
            self.model.session.reporter.stage(f"{name}: gate on {self.cell.dataset}")
            workspace = self.model.session.workspace
            need_competent(self.model.session.oracle(name), self.everything, self.cell.dataset, workspace)

    @cached_property
    def cast(self) -> Cast | None:
        """The generators and oracles of generated images; None for other procedures."""
        session, setting = self.model.session, self.setting
        if not isinstance(setting, GeneratedSetting):
            return None
        space = session.catalog.dataset(self.cell.dataset).label_space
        made = {use.generator: session.generator(use.generator, space) for use in setting.generators}
        return Cast(
            {name: each.generator for name, each in made.items()},
            {name: session.oracle(name) for name in setting.oracles},
            {name: each.mask for name, each in made.items() if each.mask is not None},
        )

    @cached_property
    def _corrupted(self) -> dict[str, Samples]:
        return {}

    def corrupted(self, part: range) -> Corrupted | None:
        """Gives stored corrupted images of a shard; None for protocols that read none."""
        setting, session = self.setting, self.model.session
        if not isinstance(setting, CorruptionSetting) or setting.stored is None:
            return None
        entry = session.catalog.dataset(setting.stored)

        def images(step: Condition) -> Floats:
            if step.name not in self._corrupted:
                session.reporter.stage(f"{entry.id}: {step.name}")
                self._corrupted[step.name] = load_corrupted(
                    entry,
                    session.catalog.label_space(entry.label_space),
                    clean=self.everything,
                    corruption=step.kind,
                    severity=int(step.budget),
                    workspace=session.workspace,
                    lock=session.lock,
                    input=self.model.entry.input,
                    catalog=session.catalog,
                )
            return self._corrupted[step.name].pixels(self.rows[part.start : part.stop])

        return images

    @cached_property
    def parts(self) -> dict[str, PredictionTable]:
        """Predictions that a worst case is joined from; read once."""
        return read_parts(self.cell, self.key, self.model.session.store)
