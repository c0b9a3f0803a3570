"""Results of several folders as one table of cells, and what is wrong with those that are old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from robustboard.benchmarks.entries import BenchmarkEntry, DetectionSetting
from robustboard.registry.catalog import Catalog
from robustboard.runners import score
from robustboard.runners.keys import Cell, Keys
from robustboard.runners.record import Result, RunKey
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


def _stale(key: RunKey, keys: Keys) -> str | None:
    if key.precision != "float32":
        return f"measured in {key.precision}, not in float32"
    return score.outdated(key, keys)


def _images(cell: Cell, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]) -> tuple[str, str | None]:
    """The sets that a result's fingerprint is of: its dataset, and the one out of distribution beside it."""
    setting = benchmarks[cell.benchmark].setting_for(catalog.dataset(cell.dataset))
    return cell.dataset, setting.out_of_distribution if isinstance(setting, DetectionSetting) else None


def outdated(
    results: Mapping[Cell, Result], catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]
) -> dict[Cell, str]:
    """Cells whose result was measured on something else than what the entries say now, with the reason.

    Also the odd ones out of a dataset: whole results on other image bytes than most. Results of
    detection are compared with those that tell the same two sets apart.
    """
    keys = Keys(catalog, benchmarks)
    stale = {cell: reason for cell, result in results.items() if (reason := _stale(result.key, keys))}
    current = {cell: result for cell, result in results.items() if cell not in stale and result.complete}
    prints: dict[tuple[str, str | None], Counter[str]] = {}
    for cell, result in current.items():
        prints.setdefault(_images(cell, catalog, benchmarks), Counter())[result.key.data_fingerprint] += 1
    for cell, result in current.items():
        counts = prints[_images(cell, catalog, benchmarks)].most_common(2)
        if len(counts) < 2:  # noqa: PLR2004 - one fingerprint agrees with itself
            continue
        (first, most), (_, second) = counts
        if most == second or result.key.data_fingerprint != first:
            stale[cell] = "measured on other image bytes than other results on this dataset"
    return stale
