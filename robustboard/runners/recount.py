"""Every integer of a result counted again by a second program: SQL over the stored Parquet files, in DuckDB.

Nothing of the first path is used: neither its reader, nor its tables, nor its metrics. No torch here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustboard import jsons
from robustboard.errors import StoreError, UserError
from robustboard.runners.record import Result, RunRecord
from robustboard.runners.store import RECORD, Store, shard_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Counted = tuple[int, int]
"""Images that count, of how many."""


@dataclass(frozen=True, slots=True)
class Recount:
    """What the second program found."""

    rows: int
    compared: int
    """Integers that were compared: counts of conditions, and counts behind scores."""
    unknown: tuple[str, ...]
    """Scores with a count that no query here knows."""
    faults: tuple[str, ...]
    """Integers that differ, each with field, expected and found."""

    @property
    def sound(self) -> bool:
        """Whether every integer was counted and is the same."""
        return not self.faults and not self.unknown


class _Rows:
    """The stored rows of one run, skipped images left out."""

    def __init__(self, files: list[str]) -> None:
        try:
            import duckdb  # noqa: PLC0415 - an extra, and only this needs it
        except ImportError:
            raise UserError("the second count needs DuckDB: pip install 'robustboard[audit]'") from None
        self.connection: DuckDBPyConnection = duckdb.connect(":memory:")
        try:
            self.connection.execute("SET threads = 1")
            self.connection.execute("CREATE TABLE stored AS SELECT * FROM read_parquet($1)", [files])
        except duckdb.Error as error:
            self.connection.close()
            raise StoreError(
                f"the second count cannot read the shards: {str(error).splitlines()[0]}"
            ) from error
        self.connection.execute("CREATE VIEW rows AS SELECT * FROM stored WHERE status <> 'skipped'")
        self.connection.execute("CREATE VIEW clean AS SELECT * FROM rows WHERE condition = 'clean'")

    def close(self) -> None:
        """Free the memory."""
        self.connection.close()

    def ask(self, query: str, *values: str | int) -> Counted:
        """The two integers that a query gives."""
        found = self.connection.execute(query, list(values)).fetchone()
        return (int(found[0] or 0), int(found[1] or 0)) if found is not None else (0, 0)

    def conditions(self) -> dict[str, Counted]:
        """Condition → right rows, of all rows, skipped ones too."""
        found = self.connection.execute(
            "SELECT condition, count(*) FILTER (predicted = label), count(*) FROM stored GROUP BY condition"
        ).fetchall()
        return {str(name): (int(right), int(total)) for name, right, total in found}


_SHARE = "SELECT count(*) FILTER (predicted = label), count(*) FROM rows WHERE condition = $1"
_BOTH = "FROM clean c JOIN rows r ON r.sample_id = c.sample_id AND r.condition = $1"
_PAIR = """
    FROM rows p
    JOIN rows v ON v.sample_id = p.sample_id AND v.condition = 'verdict of ' || $1
    JOIN rows b ON b.sample_id = p.sample_id
        AND b.condition = 'reconstruction by ' || split_part($1, ' by ', 1)
    JOIN clean c ON c.sample_id = p.sample_id
    WHERE p.condition = $1
"""
_ACCEPTED = "p.status = 'accepted' AND v.predicted = v.label"


def _clean(rows: _Rows, _condition: str) -> Counted:
    return rows.ask(
        "SELECT count(*) FILTER (predicted = label), count(*) FROM clean WHERE status <> 'outside'"
    )


def _share(rows: _Rows, condition: str) -> Counted:
    return rows.ask(_SHARE, condition)


def _robust(rows: _Rows, condition: str) -> Counted:
    right = "c.predicted = c.label AND r.predicted = r.label"
    return rows.ask(f"SELECT count(*) FILTER ({right}), count(*) {_BOTH}", condition)


def _broken(rows: _Rows, condition: str) -> Counted:
    query = f"SELECT count(*) FILTER (r.predicted <> r.label), count(*) {_BOTH} WHERE c.predicted = c.label"
    return rows.ask(query, condition)


def _blind(rows: _Rows, condition: str) -> Counted:
    query = f"SELECT count(*) FILTER (r.status = 'no-gradient'), count(*) {_BOTH} WHERE c.predicted = c.label"
    return rows.ask(query, condition)


def _end(rows: _Rows, kind: str, order: str) -> Counted:
    """The lowest or highest robust accuracy over the budgets of a norm."""
    right = "c.predicted = c.label AND r.predicted = r.label"
    return rows.ask(
        f"""
        SELECT good, total FROM (
            SELECT r.condition, count(*) FILTER ({right}) AS good, count(*) AS total
            FROM clean c JOIN rows r ON r.sample_id = c.sample_id
            WHERE starts_with(r.condition, $1) GROUP BY r.condition
        ) ORDER BY good {order} LIMIT 1
        """,  # noqa: S608 - both parts stand in this file
        f"{kind} ",
    )


def _worst_draw(rows: _Rows, group: str) -> Counted:
    return rows.ask(
        """
        SELECT count(*) FILTER (good), count(*) FROM (
            SELECT bool_and(predicted = label) AS good FROM rows
            WHERE starts_with(condition, $1) GROUP BY sample_id
        )
        """,
        f"{group} draw ",
    )


def _group(rows: _Rows, name: str) -> Counted:
    return rows.ask(
        'SELECT count(*) FILTER (predicted = label), count(*) FROM clean WHERE "group" = $1', name
    )


def _worst_group(rows: _Rows, _condition: str) -> Counted:
    return rows.ask(
        """
        SELECT good, total FROM (
            SELECT "group" AS name, count(*) FILTER (predicted = label) AS good, count(*) AS total
            FROM clean GROUP BY "group"
        ) ORDER BY good::DOUBLE / total, name LIMIT 1
        """
    )


def _cue(rows: _Rows, counted: str, among: str) -> Counted:
    """Decisions where shape, the label, and texture, the group, disagree."""
    return rows.ask(
        f"""
        SELECT count(*) FILTER ({counted}), count(*) FILTER ({among}) FROM (
            SELECT predicted, label AS shape, "group"::INTEGER AS texture FROM clean
        ) WHERE shape <> texture
        """  # noqa: S608 - both parts stand in this file
    )


def _pair(rows: _Rows, condition: str, counted: str, among: str) -> Counted:
    """Generated images of a generator and an oracle; of one class where the condition names one."""
    pair, _, label = condition.partition(" class ")
    only = f"AND c.label = {int(label)}" if label else ""
    query = f"SELECT count(*) FILTER (({counted}) AND ({among})), count(*) FILTER ({among}) {_PAIR} {only}"
    return rows.ask(query, pair)


Query = Callable[[_Rows, str], Counted]
QUERIES: Mapping[str, Query] = {
    "clean_accuracy": _clean,
    "robust_accuracy": _robust,
    "attack_success_rate": _broken,
    "zero_gradient_share": _blind,
    "min_accuracy": lambda rows, kind: _end(rows, kind, "ASC"),
    "max_accuracy": lambda rows, kind: _end(rows, kind, "DESC"),
    "noise_accuracy_worst": _worst_draw,
    "corruption_accuracy": _share,
    "group_accuracy": _group,
    "worst_group_accuracy": _worst_group,
    "shape_bias": lambda rows, _: _cue(rows, "predicted = shape", "predicted IN (shape, texture)"),
    "shape_accuracy": lambda rows, _: _cue(rows, "predicted = shape", "TRUE"),
    "texture_accuracy": lambda rows, _: _cue(rows, "predicted = texture", "TRUE"),
    "oracle_accuracy": _share,
    "reconstruction_accuracy": _share,
    "validation_rate": lambda rows, name: _pair(rows, name, _ACCEPTED, "TRUE"),
    "perturbed_accuracy": lambda rows, name: _pair(rows, name, "p.predicted = p.label", _ACCEPTED),
    "accepted_clean_accuracy": lambda rows, name: _pair(rows, name, "c.predicted = c.label", _ACCEPTED),
    "accepted_reconstruction_accuracy": lambda rows, name: _pair(
        rows, name, "b.predicted = b.label", _ACCEPTED
    ),
    "perturbed_accuracy_all": lambda rows, name: _pair(rows, name, "p.predicted = p.label", "TRUE"),
    "perturbed_accuracy_unrejected": lambda rows, name: _pair(
        rows, name, "p.predicted = p.label", "p.status NOT IN ('rejected-at-0', 'source-rejected')"
    ),
}
"""Metric → how its count is found in SQL, for a condition."""


def recount(store: Store, result: Result) -> Recount:
    """Count every integer of a result from the stored predictions of its run, and compare.

    Raises StoreError where the predictions are not in the store, or their files not those of the result.
    """
    record = _record(store, result)
    folder = store.folder(result.key_digest)
    files = []
    for index, shard in enumerate(record.shards):
        path = folder / f"{shard_name(index)}.parquet"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"{store.name(path)}: cannot read: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != shard.sha256:
            raise StoreError(f"{store.name(path)}: sha256: expected {shard.sha256}, got another")
        files.append(str(path))
    with closing(_Rows(files)) as rows:
        found = rows.conditions()
        faults, unknown = _counts(record, found), []
        compared = 2 * len(record.counts)
        for place, score in enumerate(result.scores):
            if score.correct is None:
                continue
            query = QUERIES.get(score.metric)
            if query is None:
                unknown.append(f"{score.metric}@{score.condition}")
                continue
            correct, n = query(rows, score.condition)
            compared += 2
            for field, stated, counted in (("correct", score.correct, correct), ("n", score.n, n)):
                if stated != counted:
                    name = f"scores.{place}.{field} ({score.metric}@{score.condition})"
                    faults.append(f"{name}: expected {counted} as counted again, got {stated}")
    return Recount(sum(total for _, total in found.values()), compared, tuple(unknown), tuple(faults))


def _record(store: Store, result: Result) -> RunRecord:
    path = store.folder(result.key_digest) / RECORD
    if not path.exists():
        raise StoreError(
            f"predictions: the run {result.key_digest[:12]} is not in {store.name(store.root)};"
            " robustboard predictions pull fetches published ones"
        )
    record = jsons.unseal(path.read_bytes(), RunRecord, store.name(path))
    if record.shards != result.shards:
        raise StoreError(f"{store.name(path)}: shards: not those that the result names")
    return record


def _counts(record: RunRecord, found: Mapping[str, Counted]) -> list[str]:
    faults = []
    for count in record.counts:
        correct, total = found.get(count.condition, (0, 0))
        for field, stated, counted in (("correct", count.correct, correct), ("total", count.total, total)):
            if stated != counted:
                faults.append(f"counts.{count.condition}.{field}: expected {counted}, got {stated}")
    extra = sorted(set(found) - {count.condition for count in record.counts})
    return faults + [f"counts: condition {name} is in the predictions alone" for name in extra]
