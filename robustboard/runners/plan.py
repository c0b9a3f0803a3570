"""Which cells are wanted, and what is known about each before anything is loaded. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, assert_never

from robustboard.benchmarks.entries import (
    Attack,
    AttackSetting,
    BenchmarkEntry,
    Cascade,
    CascadeStep,
    Clean,
    Corruption,
    CueConflict,
    External,
    Generated,
    GeneratedSetting,
    Ladder,
    Noise,
    OutOfDistribution,
    Scope,
    WorstCase,
)
from robustboard.errors import RobustboardError, UnknownNameError, UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry, HubData, ModelEntry, TrainedWeights
from robustboard.registry.lock import Lock
from robustboard.runners import identity
from robustboard.runners.keys import Cell, Keys, protocol_digest, result_name
from robustboard.runners.profiles import RunProfile
from robustboard.runners.record import RunKey
from robustboard.runners.score import read_result
from robustboard.runners.store import Store
from robustboard.workspace import Workspace

__all__ = [
    "Cell",
    "Plan",
    "Planned",
    "State",
    "by_model_and_dataset",
    "passes",
    "plan",
    "protocol_digest",
    "wanted_cells",
]

State = Literal["finished", "wanted", "untrained", "blocked"]
"""finished: a stored run agrees with all that is known without reading the data. wanted: to be run.
untrained: to be run, after the weights have been trained here. blocked: cannot run; the reason says why."""

GRADIENT_PASSES = 3
"""A forward and a backward pass to the pixels, in units of a forward pass."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A cell with what is known about it."""

    cell: Cell
    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All wanted cells, those of one model together."""

    cells: tuple[Planned, ...]

    def counts(self) -> dict[State, int]:
        """State → number of cells."""
        return dict(Counter(planned.state for planned in self.cells))


def wanted_cells(
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    *,
    model_ids: Collection[str] = (),
    benchmark_ids: Collection[str] = (),
    dataset_ids: Collection[str] = (),
) -> list[Cell]:
    """Cells of the named entries, all entries of a kind where none is named; sorted, worst cases last.

    A model meets a dataset of its own label space, a benchmark the datasets that one of its
    settings covers. Raises UnknownNameError for unknown names, and UserError for a name that
    takes part in no cell, saying why.
    """
    for kind, ids, known in (
        ("model", model_ids, catalog.models),
        ("benchmark", benchmark_ids, benchmarks),
        ("dataset", dataset_ids, catalog.datasets),
    ):
        for name in ids:
            if name not in known:
                raise UnknownNameError(kind, name, known)
    models = [catalog.models[name] for name in sorted(set(model_ids or catalog.models))]
    chosen = sorted(
        (benchmarks[name] for name in set(benchmark_ids or benchmarks)),
        key=lambda benchmark: (isinstance(benchmark.procedure, WorstCase), benchmark.id),
    )
    datasets = [catalog.datasets[name] for name in sorted(set(dataset_ids or catalog.datasets))]
    pairs = [(b, d) for b in chosen for d in datasets if b.setting_for(d) is not None]
    cells = [
        Cell(model.id, benchmark.id, dataset.id)
        for model in models
        for benchmark, dataset in pairs
        if model.label_space == dataset.label_space and benchmark.wants(model.id)
    ]
    seen = [{cell[place] for cell in cells} for place in range(3)]
    for kind, ids, used in zip(
        ("model", "benchmark", "dataset"), (model_ids, benchmark_ids, dataset_ids), seen, strict=True
    ):
        for name in ids:
            if name not in used:
                raise UserError(
                    f"{kind} {name} fits nothing: {_misfit(kind, name, models, chosen, datasets)}"
                )
    return cells


def _misfit(
    kind: str,
    name: str,
    models: Iterable[ModelEntry],
    benchmarks: Iterable[BenchmarkEntry],
    datasets: Iterable[DatasetEntry],
) -> str:
    """Why an entry takes part in no cell of the given ones."""
    models = [m for m in models if kind != "model" or m.id == name]
    benchmarks = [b for b in benchmarks if kind != "benchmark" or b.id == name]
    datasets = [d for d in datasets if kind != "dataset" or d.id == name]
    if not any(b.setting_for(d) for b in benchmarks for d in datasets):
        return f"{_some(benchmarks)} has no setting for {_some(datasets)}"
    spaces = sorted({m.label_space for m in models})
    others = sorted({d.label_space for d in datasets if any(b.setting_for(d) for b in benchmarks)})
    return f"the labels of {_some(models)} are {', '.join(spaces)}, those of the data {', '.join(others)}"


def _some(entries: Iterable[ModelEntry | BenchmarkEntry | DatasetEntry]) -> str:
    names = [entry.id for entry in entries]
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")  # noqa: PLR2004 - a short line


def by_model_and_dataset(cells: Iterable[Cell]) -> Iterator[tuple[str, list[tuple[str, list[Cell]]]]]:
    """Cells grouped so that each model, and each dataset for it, is loaded once."""
    groups: dict[str, dict[str, list[Cell]]] = {}
    for cell in dict.fromkeys(cells):
        groups.setdefault(cell.model, {}).setdefault(cell.dataset, []).append(cell)
    for model, datasets in groups.items():
        yield model, list(datasets.items())


def passes(benchmark: BenchmarkEntry, setting: Scope) -> int:
    """About how many forward passes one image costs; for estimates of time only."""
    procedure = benchmark.procedure
    match procedure:
        case Clean():
            return 1 + len(procedure.temperatures)
        case OutOfDistribution() | CueConflict() | WorstCase():
            return 1
        case Corruption():
            return 1 + len(procedure.corruptions) * len(procedure.severities)
        case Noise():
            budgets = setting.budgets if isinstance(setting, Ladder) else ()
            return 1 + len(procedure.distributions) * len(budgets) * procedure.draws
        case Attack():
            if not isinstance(setting, AttackSetting):
                return 1
            return 1 + len(setting.budgets) * (setting.steps * procedure.restarts * GRADIENT_PASSES + 1)
        case Cascade():
            budgets = setting.budgets if isinstance(setting, Ladder) else ()
            return 1 + len(budgets) * sum(_step_passes(step) for step in procedure.attacks)
        case External():
            return 2
        case Generated():
            pairs = len(setting.pairs) if isinstance(setting, GeneratedSetting) else 0
            return 1 + pairs * procedure.budget * 2 * GRADIENT_PASSES
        case _:
            assert_never(procedure)


def _step_passes(step: CascadeStep) -> int:
    if step.attack == "square":
        return step.queries * step.restarts
    targets = step.targets if step.attack.endswith("targeted") else 1
    return step.steps * step.restarts * targets * step.average_over * GRADIENT_PASSES


class Known:
    """Keys of results that exist already, by the name of their cell; files are read when asked for."""

    def __init__(self, workspace: Workspace) -> None:
        """Look at the names in the store and in the two folders of results."""
        self._workspace = workspace
        self._store = Store(workspace.runs)
        self._current = self._store.current()
        self._results: list[dict[str, Path]] = []
        for root in dict.fromkeys((workspace.results, workspace.committed_results)):
            paths = {
                path.relative_to(root).with_suffix("").as_posix(): path for path in root.glob("*/*.json")
            }
            self._results.append(paths)

    def keys(self, name: str) -> Iterator[RunKey]:
        """The key of the stored run of a cell, if it is finished, then those of its result files.

        Raises StoreError for damaged files.
        """
        if name in self._current:
            key = self._store.current_key(self._current[name])
            if self._store.is_finished(key.digest):
                yield key
        for paths in self._results:
            if name in paths:
                yield read_result(paths[name], self._workspace.show(paths[name])).key


def _model_state(
    entry: ModelEntry, workspace: Workspace, lock: Lock, *, allow_plugins: bool
) -> tuple[State, str]:
    """What stands in the way of a model: (wanted, hash of its weights), or another state and why."""
    if entry.loader.startswith("plugin:") and not allow_plugins:
        return "blocked", f"the loader {entry.loader} is a plugin: pass --allow-plugins when you trust it"
    try:
        if not isinstance(entry.source, TrainedWeights):
            lock.pin(entry)
        weights = identity.weights_identity(entry, workspace=workspace, lock=lock)
    except RobustboardError as error:
        return "blocked", str(error)
    return ("wanted", weights) if weights else ("untrained", "the weights are trained here first")


def _dataset_block(entry: DatasetEntry, lock: Lock) -> str | None:
    """Why a dataset cannot be read: it lies on the Hub alone, and nobody has pinned it."""
    if not all(isinstance(source, HubData) for source in (entry.source, *entry.mirrors)):
        return None
    try:
        lock.pin(entry)
    except RobustboardError as error:
        return str(error)
    return None


def plan(
    cells: Iterable[Cell],
    *,
    workspace: Workspace,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    lock: Lock,
    profile: RunProfile,
    allow_plugins: bool = False,
) -> Plan:
    """What is known about each cell, from entries, lock and names of files alone.

    Images are not read, so `finished` means: finished unless the data has changed. A run decides
    with the whole key, after it has read the data and before it measures anything.
    """
    keys, known = Keys(catalog, benchmarks), Known(workspace)
    ignored = frozenset({"data_fingerprint"})

    @cache
    def of_model(name: str) -> tuple[State, str]:
        return _model_state(catalog.model(name), workspace, lock, allow_plugins=allow_plugins)

    @cache
    def of_dataset(name: str) -> str | None:
        return _dataset_block(catalog.viewed(catalog.dataset(name)), lock)

    def judge(cell: Cell) -> Planned:
        state, reason = of_model(cell.model)
        blocked = of_dataset(cell.dataset)
        if state == "blocked" or blocked is not None:
            return Planned(cell, "blocked", reason if state == "blocked" else blocked or "")
        if state == "untrained":
            return Planned(cell, state, reason)
        images = keys.images(cell)
        subset = profile.subset_of(images)
        evaluated = subset.count if subset is not None else images
        name = result_name(cell, subset=subset, evaluated=evaluated, images=images)
        why = "not measured yet"
        try:
            for key in known.keys(name):
                changed = set(keys.changed(key, ignored))
                changed |= {"weights_sha256"} if key.weights_sha256 != reason else set()
                changed |= {"precision"} if key.precision != profile.precision else set()
                changed |= {"subset"} if key.subset != subset else set()
                if not changed:
                    return Planned(cell, "finished", "measured already")
                why = f"measured before a change of {', '.join(sorted(changed))}"
        except RobustboardError as error:
            why = str(error)
        return Planned(cell, "wanted", why)

    return Plan(
        tuple(judge(cell) for _, groups in by_model_and_dataset(cells) for _, g in groups for cell in g)
    )
