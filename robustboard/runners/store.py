"""The store of predictions: what is in it is whole and verified, or not there. No torch here.

    runs/<key[:2]>/<key>/plan.json      what the run will hold; written first
                         s00000.parquet rows of one shard; equal for everyone with this key
                         s00000.json    its hash, and the circumstances (seconds, memory, machine)
                         …
                         result.json    hashes and integer counts; written last: now the run is finished
    runs/current/<model>/<benchmark>--<dataset>.json    the key that stands for a cell
    runs/quarantine/                    damaged files, taken out of the way

Files are published once and never changed; a second writer of the same key finds them there and
compares. A shard counts once its .json is there, which holds the SHA-256 of its Parquet file.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robustboard import durable, jsons
from robustboard.errors import StoreError
from robustboard.runners.predictions import SCHEMA, PredictionTable
from robustboard.runners.record import Checks, ConditionCount, Facts, RunKey, RunPlan, RunRecord, ShardRecord
from robustboard.yamls import Frozen

logger = logging.getLogger(__name__)

PLAN = "plan.json"
RECORD = "result.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ShardReport(Frozen):
    """What lies beside a stored shard: its hash, and the circumstances of its making."""

    shard: ShardRecord
    facts: Facts


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run, every byte verified."""

    record: RunRecord
    predictions: PredictionTable
    facts: Facts


def shard_name(index: int) -> str:
    """Name of a shard's files, without the ending."""
    return f"s{index:05d}"


def samples_digest(ids: Sequence[str], labels: npt.NDArray[np.integer]) -> str:
    """Digest of sample ids and labels in order."""
    return jsons.digest("robustboard.samples/1", [list(ids), [int(label) for label in labels]])


def run_plan(
    key: RunKey,
    *,
    ids: Sequence[str],
    labels: npt.NDArray[np.integer],
    conditions: Sequence[str],
    images: int,
    skipped: int = 0,
) -> RunPlan:
    """The plan of a run over these samples, out of a dataset of `images`."""
    return RunPlan(
        key=key,
        key_digest=key.digest,
        images=images,
        skipped=skipped,
        evaluated=len(ids),
        samples_digest=samples_digest(ids, labels),
        conditions=tuple(conditions),
    )


def encode(table: PredictionTable) -> bytes:
    """Parquet bytes of a table: zstd, a checksum on every page, no time or place in them."""
    sink = io.BytesIO()
    pq.write_table(table.table, sink, compression="zstd", write_page_checksum=True, store_schema=True)
    return sink.getvalue()


def decode(data: bytes, name: str) -> PredictionTable:
    """The table that `encode` wrote. Raises StoreError that names the file."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table = file.read(use_threads=False)
        return PredictionTable(table.combine_chunks().replace_schema_metadata(None).cast(SCHEMA))
    except (pa.ArrowException, OSError, ValueError, StoreError) as error:
        raise StoreError(f"{name}: damaged: {str(error).splitlines()[0][:200]}") from error


def counts_of(table: PredictionTable) -> tuple[ConditionCount, ...]:
    """Rows and correct rows of each condition, in stored order."""
    right = pc.equal(table.table.column("predicted"), table.table.column("label"))
    frame = pa.table({"condition": table.table.column("condition"), "right": right.cast(pa.int64())})
    grouped = frame.group_by("condition", use_threads=False).aggregate([("right", "sum"), ("right", "count")])
    found = {row["condition"]: row for row in grouped.to_pylist()}
    return tuple(
        ConditionCount(condition=name, total=found[name]["right_count"], correct=found[name]["right_sum"])
        for name in table.conditions()
    )


def merge_facts(facts: Sequence[Facts]) -> Facts:
    """Circumstances of a run from those of its shards, which may come from several machines."""

    def joined(values: list[str]) -> str:
        return "; ".join(dict.fromkeys(values))

    def merged(tables: list[dict[str, str]]) -> dict[str, str]:
        names = sorted({name for table in tables for name in table})
        return {name: joined([table[name] for table in tables if name in table]) for name in names}

    return Facts(
        seconds=round(sum(fact.seconds for fact in facts), 3),
        peak_memory_bytes=max(fact.peak_memory_bytes for fact in facts),
        batch_size=min(fact.batch_size for fact in facts),
        threads=max(fact.threads for fact in facts),
        device=joined([fact.device for fact in facts]),
        parameters=facts[0].parameters,
        macs=facts[0].macs,
        environment=merged([fact.environment for fact in facts]),
        checks=Checks.worst([fact.checks for fact in facts if fact.checks is not None]),
        preparation=merged([fact.preparation for fact in facts]),
        finished_at=max(fact.finished_at for fact in facts),
    )


class Store:
    """All runs under one folder."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder runs/ of a workspace; it need not exist yet."""
        self.root = root

    def folder(self, digest: str) -> Path:
        """Where the run of a key lies, or would."""
        return self.root / digest[:2] / digest

    def digests(self) -> list[str]:
        """Digests of all runs begun, finished or not, sorted."""
        return sorted(p.name for p in self.root.glob("[0-9a-f][0-9a-f]/*") if _DIGEST.fullmatch(p.name))

    def name(self, path: Path) -> str:
        """How messages call a file of the store."""
        return path.relative_to(self.root.parent).as_posix()

    def is_finished(self, digest: str) -> bool:
        """Whether a run's last file is there; `read` tells whether it is whole."""
        return (self.folder(digest) / RECORD).exists()

    def read(self, digest: str) -> StoredRun | None:
        """A finished run; None when it is absent or not finished.

        Raises StoreError, naming the file, when any byte of it is not what was written.
        """
        path = self.folder(digest) / RECORD
        if not path.exists():
            return None
        record = self._sealed(path, RunRecord)
        plan = record.plan
        if not plan.key_digest == plan.key.digest == digest:
            raise StoreError(f"{self.name(path)}: plan.key_digest: expected the folder's name, got another")
        if len(record.shards) != len(plan.shards):
            raise StoreError(
                f"{self.name(path)}: shards: expected {len(plan.shards)}, got {len(record.shards)}"
            )
        parts = [self.read_shard(digest, index) for index in range(len(plan.shards))]
        for (report, _), expected in zip(parts, record.shards, strict=True):
            if report.shard != expected:
                raise StoreError(f"{self.name(path)}: shards: {expected.name} is not the shard stored here")
        found = _assemble(plan, parts, self.name(path))
        if found.record.counts != record.counts:
            raise StoreError(f"{self.name(path)}: counts: the predictions give other counts")
        return found

    def read_shard(self, digest: str, index: int) -> tuple[ShardReport, PredictionTable]:
        """One stored shard. Raises StoreError when a file of it is missing or damaged."""
        stem = self.folder(digest) / shard_name(index)
        report = self._sealed(stem.with_suffix(".json"), ShardReport)
        path = stem.with_suffix(".parquet")
        data = _bytes(path, self.name(path))
        if report.shard.name != path.name or hashlib.sha256(data).hexdigest() != report.shard.sha256:
            raise StoreError(f"{self.name(path)}: sha256: expected {report.shard.sha256}, got another")
        table = decode(data, self.name(path))
        if table.table.num_rows != report.shard.rows:
            raise StoreError(f"{self.name(path)}: rows: expected {report.shard.rows}")
        return report, table

    def _sealed(self, path: Path, kind: type[jsons.M]) -> jsons.M:
        return jsons.unseal(_bytes(path, self.name(path)), kind, self.name(path))

    @contextmanager
    def open(self, plan: RunPlan, ids: Sequence[str], labels: npt.NDArray[np.integer]) -> Iterator[OpenRun]:
        """The run of a plan, to be completed by this process alone; waits while another is at it.

        Begins the run where it is new, sweeps what killed writers left, and takes damaged files
        out of the way, so that their shards are among the missing ones.
        """
        folder = self.folder(plan.key_digest)
        durable.make_folder(folder)
        for parent in (folder.parent, self.root, self.root.parent):
            durable.sync_folder(parent)
        with durable.exclusive(folder):
            durable.sweep(folder)
            yield OpenRun(self, plan, tuple(ids), labels)

    def quarantine(self, path: Path, reason: object) -> None:
        """Take a damaged file out of the way."""
        kept = durable.quarantine(path, self.root / "quarantine", f"{path.parent.name}-{path.name}")
        logger.warning("%s; moved to %s and made again", reason, self.name(kept))

    def set_current(self, name: str, key: RunKey) -> None:
        """Let a run stand for a cell; `name` is the path of the cell's result, without the ending."""
        path = self.root / "current" / f"{name}.json"
        data = jsons.seal(key)
        if not path.exists() or path.read_bytes() != data:
            durable.write(path, data)

    def current(self) -> dict[str, Path]:
        """Name → file, for every cell that a run stands for, sorted."""
        root = self.root / "current"
        paths = sorted(root.glob("*/*.json"))
        return {path.relative_to(root).with_suffix("").as_posix(): path for path in paths}

    def current_key(self, path: Path) -> RunKey:
        """The key in one file of `current`."""
        return self._sealed(path, RunKey)


def _bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"{name}: cannot read: {error.strerror or error}") from error


def _assemble(plan: RunPlan, parts: Sequence[tuple[ShardReport, PredictionTable]], name: str) -> StoredRun:
    """The finished run that these shards make. Raises StoreError when they are not the plan's samples."""
    predictions = PredictionTable.concat([table for _, table in parts])
    if tuple(predictions.conditions()) != plan.conditions:
        raise StoreError(f"{name}: conditions: expected {plan.conditions}, got {predictions.conditions()}")
    for condition in plan.conditions:
        rows = predictions.only(condition)
        ids = rows.table.column("sample_id").to_pylist()
        if samples_digest(ids, rows.column("label")) != plan.samples_digest:
            raise StoreError(f"{name}: samples: {condition} holds other samples or labels than planned")
    record = RunRecord(
        plan=plan, shards=tuple(report.shard for report, _ in parts), counts=counts_of(predictions)
    )
    return StoredRun(record, predictions, merge_facts([report.facts for report, _ in parts]))


class OpenRun:
    """A run that is being completed; got from `Store.open`."""

    def __init__(
        self, store: Store, plan: RunPlan, ids: tuple[str, ...], labels: npt.NDArray[np.integer]
    ) -> None:
        """Look at what is stored already; damaged files go to the quarantine."""
        self.store = store
        self.plan = plan
        self.ids = ids
        self.labels = labels
        self.folder = store.folder(plan.key_digest)
        self.missing: list[int] = []
        self.finished = self._finished()
        if self.finished is None:
            self._begin()
            self.missing = [index for index in range(len(plan.shards)) if not self._whole(index)]

    def _finished(self) -> StoredRun | None:
        try:
            return self.store.read(self.plan.key_digest)
        except StoreError as error:
            self.store.quarantine(self.folder / RECORD, error)
            return None

    def _begin(self) -> None:
        path, data = self.folder / PLAN, jsons.seal(self.plan)
        if not durable.publish(path, data):
            self.store.quarantine(path, f"{self.store.name(path)}: not the plan of this key")
            durable.publish(path, data)

    def _whole(self, index: int) -> bool:
        """Whether a shard is stored; a damaged one is taken away."""
        stem = self.folder / shard_name(index)
        if not stem.with_suffix(".json").exists():
            return False
        try:
            _, table = self.store.read_shard(self.plan.key_digest, index)
            self._check(index, table)
        except StoreError as error:
            for path in (stem.with_suffix(".json"), stem.with_suffix(".parquet")):
                if path.exists():
                    self.store.quarantine(path, error)
            return False
        return True

    def _check(self, index: int, table: PredictionTable) -> None:
        """Raise StoreError unless the rows are the shard's samples in order, for each condition in order."""
        part = self.plan.shards[index]
        ids = list(self.ids[part.start : part.stop])
        conditions = self.plan.conditions
        expected = {
            "sample_id": pa.chunked_array([ids * len(conditions)], pa.string()),
            "condition": pa.chunked_array([[c for c in conditions for _ in ids]], pa.string()),
            "label": pa.chunked_array(
                [np.tile(self.labels[part.start : part.stop], len(conditions)).astype(np.int32)]
            ),
        }
        if not all(table.table.column(name).equals(column) for name, column in expected.items()):
            raise StoreError(f"{shard_name(index)}: samples, labels or conditions are not the planned ones")

    def put(self, index: int, table: PredictionTable, facts: Facts) -> None:
        """Store one shard; once this returns it survives kill -9 and power loss.

        Where another writer was first, that writer's rows stay, if they are whole.
        """
        self._check(index, table)
        path = self.folder / f"{shard_name(index)}.parquet"
        data = encode(table)
        if not durable.publish(path, data):
            data = self._settle(index, path, table, data)
        shard = ShardRecord(
            name=path.name, rows=table.table.num_rows, sha256=hashlib.sha256(data).hexdigest()
        )
        report = jsons.seal(ShardReport(shard=shard, facts=facts))
        if not durable.publish(path.with_suffix(".json"), report) and not self._whole(index):
            durable.publish(path, data)
            durable.publish(path.with_suffix(".json"), report)

    def _settle(self, index: int, path: Path, table: PredictionTable, data: bytes) -> bytes:
        """Two writers, two files: the bytes that stay."""
        stored = _bytes(path, self.store.name(path))
        try:
            other = decode(stored, self.store.name(path))
            self._check(index, other)
        except StoreError as error:
            self.store.quarantine(path, error)
            durable.publish(path, data)
            return data
        if not other.table.equals(table.table):
            logger.warning("%s: another writer's predictions differ; the first stay", self.store.name(path))
        return stored

    def commit(self) -> StoredRun:
        """Finish the run from its stored shards; once this returns the run survives power loss.

        Raises StoreError when a shard is missing or damaged, or when another result is there.
        """
        name = self.store.name(self.folder / RECORD)
        digest = self.plan.key_digest
        parts = [self.store.read_shard(digest, index) for index in range(len(self.plan.shards))]
        found = _assemble(self.plan, parts, name)
        if not durable.publish(self.folder / RECORD, jsons.seal(found.record)):
            raise StoreError(f"{name}: another result is stored under the same key")
        return found
