"""Results of several folders as one table of cells, and what is wrong with those that are old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.registry.catalog import Catalog
from robustboard.runners import identity
from robustboard.runners.keys import Cell, protocol_digest
from robustboard.runners.record import CODE_VERSION, Result, RunKey
from robustboard.runners.score import read_result
from robustboard.workspace import Workspace


def read_results(folders: Sequence[Path]) -> dict[Cell, Result]:
    """All results under the folders, sorted by cell; a later folder overrides cell by cell.

    A partial result stands only where there is no whole one. Raises StoreError for a damaged file,
    and for one that lies where another cell's belongs.
    """
    found: dict[Cell, Result] = {}
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob("*/*.json")):
            result = read_result(path)
            cell = Cell(result.key.model, result.key.benchmark, result.key.dataset)
            if result.complete or cell not in found or not found[cell].complete:
                found[cell] = result
    return dict(sorted(found.items()))


def workspace_results(workspace: Workspace) -> dict[Cell, Result]:
    """Results that came with the content, overridden by those measured here."""
    return read_results([workspace.committed_results, workspace.results])


@dataclass(frozen=True, slots=True)
class Digests:
    """What the entries say now, in the digests of run keys."""

    models: Mapping[str, str]
    datasets: Mapping[str, tuple[str, str]]
    """Digest of the entry, digest of its labels."""
    protocols: Mapping[tuple[str, str], str]
    """Of a benchmark on a dataset that it covers."""
    seeds: Mapping[str, int]

    @classmethod
    def of(cls, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]) -> Digests:
        """Computed once for all results."""
        datasets = {}
        for name, entry in catalog.datasets.items():
            subset = catalog.class_subset(entry.class_subset) if entry.class_subset else None
            labels = identity.labels_digest(catalog.label_space(entry.label_space), subset)
            datasets[name] = (identity.dataset_digest(entry), labels)
        return cls(
            models={name: identity.model_digest(entry) for name, entry in catalog.models.items()},
            datasets=datasets,
            protocols={
                (name, dataset.id): protocol_digest(benchmark, setting)
                for name, benchmark in benchmarks.items()
                for dataset in catalog.datasets.values()
                if (setting := benchmark.setting_for(dataset)) is not None
            },
            seeds={name: benchmark.seed for name, benchmark in benchmarks.items()},
        )

    def stale(self, key: RunKey) -> str | None:
        """Why a run of this key no longer counts; None while it does."""
        for kind, name, known in (
            ("model", key.model, self.models),
            ("dataset", key.dataset, self.datasets),
            ("benchmark", key.benchmark, self.seeds),
        ):
            if name not in known:
                return f"the {kind} {name} is no longer registered"
        dataset, labels = self.datasets[key.dataset]
        for what, now, then in (
            ("the model's entry", self.models[key.model], key.model_digest),
            ("the dataset's entry", dataset, key.dataset_digest),
            ("the label space", labels, key.labels_digest),
            ("the protocol", self.protocols.get((key.benchmark, key.dataset)), key.protocol_digest),
            ("the seed", self.seeds[key.benchmark], key.seed),
            ("the evaluation code", CODE_VERSION, key.code),
        ):
            if now != then:
                return f"{what} has changed since"
        return None if key.precision == "float32" else f"measured in {key.precision}, not in float32"


def outdated(
    results: Mapping[Cell, Result], catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]
) -> dict[Cell, str]:
    """Cells whose result was measured on something else than what the entries say now, with the reason.

    Also the odd ones out of a dataset: whole results on other image bytes than most.
    """
    digests = Digests.of(catalog, benchmarks)
    stale = {cell: reason for cell, result in results.items() if (reason := digests.stale(result.key))}
    current = {cell: result for cell, result in results.items() if cell not in stale and result.complete}
    prints: dict[str, Counter[str]] = {}
    for cell, result in current.items():
        prints.setdefault(cell.dataset, Counter())[result.key.data_fingerprint] += 1
    for cell, result in current.items():
        counts = prints[cell.dataset].most_common(2)
        if len(counts) < 2:  # noqa: PLR2004 - one fingerprint agrees with itself
            continue
        (first, most), (_, second) = counts
        if most == second or result.key.data_fingerprint != first:
            stale[cell] = "measured on other image bytes than other results on this dataset"
    return stale
