"""The numbers of the site as files for programs: CSV and JSON, one row a score."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from robustboard.leaderboard.board import Board
from robustboard.leaderboard.cells import STATUSES, CellView, Measured
from robustboard.registry.catalog import Catalog
from robustboard.runners.keys import Cell
from robustboard.runners.record import Score

COLUMNS: Mapping[str, str] = {
    "model": "id of the model's entry",
    "model_name": "its display name",
    "benchmark": "id of the protocol with its version",
    "dataset": "id of the dataset",
    "metric": "what was counted; the page of methods explains each",
    "condition": "clean, or the perturbation with its budget",
    "headline": "yes for the score that stands for the cell on boards",
    "provenance": "verified: this project ran it; adaptive: attacked by an attack made for it, too;"
    " recomputed: counted again from predictions; smoke: a few images were measured; reported: somebody says"
    " so; empty where nothing was run",
    "status": f"{', '.join(STATUSES[:-1])} or {STATUSES[-1]}",
    "value": "in the unit of the row; shares run from 0 to 1; empty where there is none",
    "low": "lower end of the 95 % interval",
    "high": "upper end of the 95 % interval",
    "unit": "share, count, ratio, difference of shares, or percent",
    "direction": "higher or lower is better, or none",
    "n": "number of images",
    "correct": "integer count behind a share, where there is one",
    "reason": "why the status is not ok",
    "flags": "names of the sanity flags raised for the result, with a space between; empty without any",
    "key": "digest that names the run",
    "weights_sha256": "of the weights as loaded",
}
FORMULA = frozenset("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - full-width signs start formulas too
"""First characters that make a spreadsheet run a cell, or that it may take for such."""


def guard(text: str) -> str:
    """Text that no spreadsheet takes for a formula: a quote goes before a dangerous first character."""
    dangerous = text[:1] in FORMULA or text.lstrip()[:1] in FORMULA
    return f"'{text}" if text and dangerous else text


def csv_text(columns: Iterable[str], rows: Iterable[Sequence[str | int | float | None]]) -> str:
    """CSV with line feeds; None is an empty cell, numbers are written by the program alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(columns))
    for row in rows:
        writer.writerow(
            ["" if cell is None else guard(cell) if isinstance(cell, str) else repr(cell) for cell in row]
        )
    return text.getvalue()


def records(catalog: Catalog, measured: Measured, boards: Mapping[str, Board]) -> list[dict[str, Any]]:
    """A record for every score of every result, and one for every cell of a board without a result.

    Keys are those of COLUMNS, in their order.
    """
    cells = set(measured.results) | set(measured.failures)
    for board in boards.values():
        models = [row.model for row in board.rows] + list(board.waiting)
        pairs = {(column.benchmark, column.dataset) for column in board.entry.columns}
        cells |= {Cell(model, benchmark, dataset) for model in models for benchmark, dataset in pairs}
    flags: dict[Cell, list[str]] = {}
    for each in (each for several in measured.flags.values() for each in several):
        flags.setdefault(each.cell, []).append(each.flag.name)
    found: list[dict[str, Any]] = []
    for cell in sorted(cells):
        names = " ".join(dict.fromkeys(flags.get(cell, []))) or None
        name = catalog.models[cell.model].name if cell.model in catalog.models else None
        result = measured.results.get(cell)
        if result is None:
            found.append(_record(cell, name, measured.view(cell), None, None))
            continue
        for score in result.scores:
            view = measured.view(cell, f"{score.metric}@{score.condition}")
            found.append(_record(cell, name, view, score, names))
    return found


def _record(
    cell: Cell, name: str | None, view: CellView, score: Score | None, flags: str | None
) -> dict[str, Any]:
    result = view.result
    headline = (
        score is not None and result is not None and f"{score.metric}@{score.condition}" == result.headline
    )
    return {
        "model": cell.model,
        "model_name": name,
        "benchmark": cell.benchmark,
        "dataset": cell.dataset,
        "metric": score.metric if score else None,
        "condition": score.condition if score else None,
        "headline": "yes" if headline else "no",
        "provenance": view.provenance,
        "status": view.status,
        "value": score.value if score else None,
        "low": score.low if score else None,
        "high": score.high if score else None,
        "unit": score.unit if score else None,
        "direction": score.direction if score else None,
        "n": score.n if score else None,
        "correct": score.correct if score else None,
        "reason": view.reason,
        "flags": flags,
        "key": result.key_digest if result else None,
        "weights_sha256": result.key.weights_sha256 if result else None,
    }


def leaderboard_csv(found: Sequence[Mapping[str, Any]]) -> str:
    """data/leaderboard.csv."""
    return csv_text(COLUMNS, ([record[name] for name in COLUMNS] for record in found))


def leaderboard_json(found: Sequence[Mapping[str, Any]], boards: Mapping[str, Board]) -> str:
    """data/leaderboard.json: the same records, and the boards with their ranks; a line for each.

    Strict JSON with sorted keys, so that two builds differ only where a number does.
    """
    parts = {
        "boards": [_line(board.as_data()) for board in boards.values()],
        "columns": _line(dict(COLUMNS)),
        "format": _line("robustboard.leaderboard/1"),
        "scores": [_line(record) for record in found],
    }
    lists = {
        name: part if isinstance(part, str) else "[\n" + ",\n".join(part) + "\n]"
        for name, part in parts.items()
    }
    return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in lists.items()) + "\n}\n"


def board_script(board: Board) -> str:
    """data/boards/ID.js: unrounded numbers of a board, for the export of what a reader sees of it.

    A script that sets one variable, since pages opened from disk may load nothing else.
    """
    rows = [
        [
            row.model,
            row.name,
            row.provenance,
            *(row.ranks or (None, None)),
            [[view.value, *(view.bounds or (None, None)), view.status] for view in row.cells],
        ]
        for row in board.rows
    ]
    name = _line(board.entry.id)
    found = _line({"columns": [column.id for column in board.entry.columns], "rows": rows})
    return f"(window.robustboard ||= {{}})[{name}] = {found};\n"


def _line(value: object) -> str:
    """Compact JSON; ValueError for numbers that JSON does not know."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
