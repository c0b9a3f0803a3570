"""The worst answer of each image over several finished runs of one model on one dataset. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from robustboard.benchmarks.conditions import Condition, perturbations
from robustboard.benchmarks.entries import CLEAN, Scope, WorstCase
from robustboard.errors import CellError, StoreError
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from robustboard.runners.store import Store


def read_parts(cell: Cell, key: RunKey, store: Store) -> dict[str, PredictionTable]:
    """Predictions of the runs that a worst case is joined from, by benchmark, in the key's order.

    Raises CellError `missing` with the command that makes the first one that is not finished, and
    StoreError for a damaged one.
    """
    found = {}
    for benchmark, digest in key.parts.items():
        run = store.read(digest)
        if run is None:
            raise CellError(
                "missing",
                f"expected finished predictions of {benchmark} on {cell.dataset}, found none in this store;"
                f" run: robustboard run -m {cell.model} -b {benchmark} -d {cell.dataset}",
            )
        found[benchmark] = run.predictions
    return found


def worst_case(
    procedure: WorstCase,
    setting: Scope,
    parts: Mapping[str, PredictionTable],
    ids: Sequence[str],
) -> PredictionTable:
    """Rows of the samples `ids` for `clean` and every budget of the setting.

    At each budget an image carries the row of the first part, in the order given, that breaks it,
    and as attack that part's benchmark and attack (`pgd-v1 pgd`). Where no part breaks it, it
    carries the row of the part that leaves it least sure of its class; its status is `no-gradient`
    only where every part that moved it says so.

    Raises StoreError when parts disagree on the clean predictions or lack a sample, and CellError
    `missing` when no part has one of the budgets.
    """
    clean = [_rows(name, part, CLEAN, ids) for name, part in parts.items()]
    for name, rows in zip(list(parts)[1:], clean[1:], strict=True):
        columns = ("sample_id", "label", "predicted")
        if not rows.table.select(columns).equals(clean[0].table.select(columns)):
            raise StoreError(
                f"{name}: clean predictions are not those of {next(iter(parts))}: the runs cannot be joined"
            )
    tables = [clean[0]]
    for step in perturbations(procedure, setting):
        have = {name: part for name, part in parts.items() if step.name in part.conditions()}
        if not have:
            raise CellError("missing", f"none of {', '.join(parts)} has the budget {step.budget}")
        tables.append(_join(step, {name: _rows(name, part, step.name, ids) for name, part in have.items()}))
    return PredictionTable.concat(tables)


def _rows(name: str, part: PredictionTable, condition: str, ids: Sequence[str]) -> PredictionTable:
    """The rows of one condition for these samples, in their order."""
    rows = part.only(condition).table
    places = pc.index_in(
        pa.array(list(ids), pa.string()), value_set=rows.column("sample_id").combine_chunks()
    )
    if places.null_count:
        raise StoreError(f"{name}: {places.null_count} samples have no row for {condition}")
    return PredictionTable(rows.take(places).combine_chunks())


def _join(step: Condition, parts: Mapping[str, PredictionTable]) -> PredictionTable:
    names, tables = list(parts), list(parts.values())
    right = np.stack([table.column("predicted") == table.column("label") for table in tables])
    sureness = np.stack([table.column("confidence") for table in tables])
    # A broken image ranks before all standing ones, the first part that broke it before later ones.
    chosen: npt.NDArray[np.intp] = np.where(right, sureness, -1.0).argmin(axis=0)
    rows = np.arange(len(chosen))

    def picked(column: str) -> npt.NDArray[np.generic]:
        return np.stack([table.column(column) for table in tables])[chosen, rows]

    statuses = np.stack([table.column("status") for table in tables])
    # A set handed in has no image of some samples: their rows, moved nowhere, tell of no attack either.
    still = right & (np.stack([table.column("distance") for table in tables]) == 0)
    unseen = statuses == "no-gradient"
    blind = unseen.any(axis=0) & (unseen | still).all(axis=0)
    status = np.where(
        blind, "no-gradient", np.where(picked("status") == "no-gradient", "ok", picked("status"))
    )
    broken = ~right[chosen, rows] & (picked("status") != "already-wrong")
    attacks = [
        f"{names[part]} {attack}".strip() if fooled else ""
        for part, attack, fooled in zip(chosen, picked("attack"), broken, strict=True)
    ]
    return PredictionTable.of(
        sample_id=tables[0].column("sample_id").tolist(),
        condition=step.name,
        label=tables[0].column("label"),
        predicted=picked("predicted"),
        confidence=picked("confidence"),
        distance=picked("distance"),
        status=status.tolist(),
        attack=attacks,
    )
