"""Cells that could not be measured, kept as data: never 0 %, never silently absent. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from robustboard import durable, jsons
from robustboard.errors import FailureKind, StoreError
from robustboard.runners.keys import Cell
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


class Failure(Frozen):
    """Why a cell could not be measured the last time it was tried; goes away once it could."""

    format: Literal["robustboard.failure/1"] = "robustboard.failure/1"
    model: str
    benchmark: str
    dataset: str
    kind: FailureKind
    reason: str


def _path(workspace: Workspace, cell: Cell) -> Path:
    return workspace.runs / "failed" / f"{cell.name}.json"


def write_failure(workspace: Workspace, cell: Cell, kind: FailureKind, reason: str) -> None:
    """Keep a failure, in place of an older one of the same cell."""
    failure = Failure(
        model=cell.model, benchmark=cell.benchmark, dataset=cell.dataset, kind=kind, reason=reason
    )
    durable.write(_path(workspace, cell), jsons.seal(failure))


def clear_failure(workspace: Workspace, cell: Cell) -> None:
    """Forget the failure of a cell that was measured now."""
    durable.remove(_path(workspace, cell))


def read_failures(workspace: Workspace) -> dict[Cell, Failure]:
    """All cells that failed when they were last tried, sorted. Raises StoreError for damaged files."""
    found = {}
    for path in sorted((workspace.runs / "failed").glob("*/*.json")):
        failure = jsons.unseal(path.read_bytes(), Failure, workspace.show(path))
        cell = Cell(failure.model, failure.benchmark, failure.dataset)
        if path != _path(workspace, cell):
            raise StoreError(f"{workspace.show(path)}: expected the failure of this cell, got {cell.name}")
        found[cell] = failure
    return found
