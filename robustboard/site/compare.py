"""Side by side: what the page of comparisons loads for each model, and pairs that need no script."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from robustboard import jsons
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import Board
from robustboard.leaderboard.cells import IN_PERCENT, Measured
from robustboard.leaderboard.neighbours import Neighbours, neighbours
from robustboard.registry.catalog import Catalog
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import pack, planes
from robustboard.runners.record import Result, Score

MAX_PLANES = 16
"""Bit planes of one score; a score that takes more is compared by its intervals."""


def comparable(boards: Iterable[Board]) -> dict[tuple[str, str], set[str | None]]:
    """(benchmark, dataset) → the scores that boards show of it; None stands for the headline."""
    found: dict[tuple[str, str], set[str | None]] = {}
    for board in boards:
        for column in board.entry.columns:
            if column.derive is None:
                found.setdefault((column.benchmark, column.dataset), set()).add(column.score)
    return found


def doubted_scores(boards: Iterable[Board]) -> set[tuple[str, str, str, str | None]]:
    """(model, benchmark, dataset, score) of numbers that a flag doubts on a board; None: the headline."""
    return {
        (row.model, column.benchmark, column.dataset, column.score)
        for board in boards
        for row in board.rows
        for column in board.entry.columns
        if column.derive is None and column.id in row.flagged.doubted
    }


def same_images(result: Result) -> str:
    """Equal for results that may be compared: same protocol, labels, images, sample and precision."""
    key = result.key
    subset = key.subset.model_dump(mode="json") if key.subset else None
    parts = [key.protocol_digest, key.labels_digest, key.data_fingerprint, key.precision, subset]
    return jsons.digest("robustboard.comparable/1", parts)[:16]


def model_script(
    model: str,
    results: Iterable[tuple[Cell, Result]],
    *,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    measured: Measured,
    wanted: Mapping[tuple[str, str], set[str | None]],
    doubted: Collection[tuple[str, str, str, str | None]] = (),
) -> str:
    """data/outcomes/MODEL.js: whole, current numbers of a model and the bits of its images.

    A script that calls one function, since pages opened from disk may load nothing else.
    """
    rows: list[dict[str, Any]] = []
    for cell, result in results:
        if measured.view(cell).status != "ok" or cell.dataset not in catalog.datasets:
            continue
        outcomes = measured.outcomes.get(cell)
        right = outcomes.flags(cell.name) if outcomes is not None else {}
        shown = wanted.get((cell.benchmark, cell.dataset), set()) | {None}
        names = {name or result.headline for name in shown}
        for score in result.scores:
            name = f"{score.metric}@{score.condition}"
            if name not in names or score.value is None:
                continue
            found = planes(right, score.metric, score.condition) if right else None
            row = _row(cell, score, catalog.datasets[cell.dataset].name, benchmarks[cell.benchmark].name)
            row["key"] = same_images(result)
            names_here = {name, None} if name == result.headline else {name}
            row["doubted"] = any((*cell, each) in doubted for each in names_here)
            if found is not None and outcomes is not None and len(found[0]) <= MAX_PLANES:
                row["key"] += outcomes.samples[:16]
                row["bits"] = [[pack(bits), weight] for bits, weight in zip(found[0], found[1], strict=True)]
            rows.append(row)
    entry = catalog.models.get(model)
    data = {"model": model, "name": entry.name if entry else model, "rows": rows}
    return f"robustboardOutcomes({script_json(data)});\n"


def _row(cell: Cell, score: Score, dataset: str, benchmark: str) -> dict[str, Any]:
    return {
        "benchmark": cell.benchmark,
        "benchmarkName": benchmark,
        "dataset": cell.dataset,
        "datasetName": dataset,
        "score": f"{score.metric}@{score.condition}",
        "value": score.value,
        "low": score.low,
        "high": score.high,
        "n": score.n,
        "percent": score.unit in IN_PERCENT,
        "digits": 1 if score.unit in (*IN_PERCENT, "percent") else 3,
        "lower": score.direction == "lower",
    }


def script_json(value: object) -> str:
    """JSON that may stand in a script: nothing in it ends a script element or a line."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@dataclass(frozen=True, slots=True)
class BoardPairs:
    """A board and its neighbouring models."""

    board: Board
    pairs: tuple[Neighbours, ...]


def board_pairs(boards: Iterable[Board], measured: Measured) -> tuple[BoardPairs, ...]:
    """Boards with two or more ranked models."""
    found = [BoardPairs(board, neighbours(board, measured)) for board in boards]
    return tuple(each for each in found if each.pairs)
