"""Right or wrong an image for the results of a board, checked against their counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, check_against, read_per_image
from robustboard.runners.record import Result
from robustboard.workspace import Workspace


def read_outcomes(folders: Sequence[Path], results: Mapping[Cell, Result]) -> dict[Cell, PerImage]:
    """Outcomes of these results, sorted by cell; those of other runs of a cell are left out.

    Raises StoreError for a damaged file, and for bits that do not add up to the counts of the result.
    """
    found: dict[Cell, PerImage] = {}
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob("*/*.json")):
            benchmark, _, dataset = path.stem.partition("--")
            cell = Cell(path.parent.name, benchmark, dataset)
            result = results.get(cell)
            if result is None or not result.complete:
                continue
            outcomes = read_per_image(path)
            if outcomes.key_digest != result.key_digest:
                continue
            check_against(outcomes, result, path.as_posix())
            found[cell] = outcomes
    return dict(sorted(found.items()))


def workspace_outcomes(workspace: Workspace, results: Mapping[Cell, Result]) -> dict[Cell, PerImage]:
    """Outcomes that came with the content and those of runs made here."""
    return read_outcomes([workspace.committed_outcomes, workspace.outcomes], results)
