"""Stored predictions as a Hub dataset: one Parquet file a protocol and dataset, and a manifest of hashes.

    manifest.json                        every file with its SHA-256, every run with plan, shards and record
    data/<benchmark>--<dataset>--<protocol>.parquet     rows of all runs, `run` (key digest) first
    README.md

Fetched runs lie in a store of their own, runs/published: what others ran is never taken for a run of this
workspace. Each shard is packed again and must have the very bytes that its run recorded. No torch here.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robustboard import durable, jsons
from robustboard.errors import CellError, StoreError, UserError
from robustboard.fields import RelativePath, Sha256
from robustboard.registry.entries import LockedFile
from robustboard.runners import hub
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import SCHEMA, PredictionTable
from robustboard.runners.publishing import Package
from robustboard.runners.record import Natural, Result, RunPlan
from robustboard.runners.store import ShardReport, Store, StoredRun, encode, shard_name
from robustboard.runners.verifications import record_digest
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen

MANIFEST = "manifest.json"
CARD = "README.md"
MAX_MANIFEST = 64 * 1024 * 1024
MAX_PULLED = 4 * 1024**3
"""Bytes of one repository that are fetched; a stranger names it."""
RUN = "run"
_SCHEMA = pa.schema([pa.field(RUN, pa.string(), nullable=False), *SCHEMA])


class PublishedFile(Frozen):
    """One file beside the manifest."""

    path: RelativePath
    size: Natural
    sha256: Sha256


class PublishedRun(Frozen):
    """One run: where its rows are, and all that its store held beside them."""

    path: RelativePath
    plan: RunPlan
    shards: tuple[ShardReport, ...]
    record_sha256: Sha256


class PublishedManifest(Frozen):
    """What was published together."""

    format: Literal["robustboard.published/1"] = "robustboard.published/1"
    files: tuple[PublishedFile, ...]
    runs: tuple[PublishedRun, ...]

    @property
    def content_sha256(self) -> str:
        """Digest of files and runs."""
        return jsons.digest("robustboard.published/1", self.model_dump(mode="json"))


def fetched(workspace: Workspace) -> Store:
    """Where runs of others lie."""
    return Store(workspace.runs / "published")


def stores(workspace: Workspace) -> tuple[Store, Store]:
    """Runs of this workspace, and those fetched from others."""
    return Store(workspace.runs), fetched(workspace)


@dataclass(frozen=True, slots=True)
class Publication:
    """A folder that holds what is to be published."""

    folder: Path
    manifest: PublishedManifest
    missing: tuple[str, ...]
    """Results without stored predictions here."""

    def package(self, repo: str, tag: str) -> Package:
        """As one commit and tag of a Hub dataset."""
        names = [MANIFEST, *(file.path for file in self.manifest.files)]
        return Package(
            repo=repo,
            tag=tag,
            title=f"predictions of {len(self.manifest.runs)} runs, {tag}",
            content=self.manifest.content_sha256,
            files={name: self.folder / name for name in names},
            manifest=MANIFEST,
            limit=MAX_MANIFEST,
        )


def compact(store: Store, results: Mapping[Cell, Result], folder: Path) -> Publication:
    """Write the predictions of results into a folder, the same bytes for the same runs.

    Every run is read and checked whole. Raises UserError where none of them is in the store, StoreError
    for damage and for predictions that are not those of their result.
    """
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    missing = []
    for cell, result in sorted(results.items()):
        run = store.read(result.key_digest)
        if run is None:
            missing.append(cell.name)
            continue
        if run.record.shards != result.shards:
            raise StoreError(f"{cell.name}.json: shards: other predictions are stored under this key")
        groups[_path(run)].append(run)
    if not groups:
        raise UserError("there is nothing to publish: no predictions of these results are stored here")
    files, runs = [], []
    for path, several in sorted(groups.items()):
        several.sort(key=lambda run: run.record.plan.key_digest)
        data = _packed(several)
        durable.write(folder / path, data)
        files.append(_listed(path, data))
        runs += [_published(path, run, store) for run in several]
    card = _card(files, runs).encode("utf-8")
    durable.write(folder / CARD, card)
    manifest = PublishedManifest(files=(_listed(CARD, card), *files), runs=tuple(runs))
    durable.write(folder / MANIFEST, jsons.seal(manifest))
    return Publication(folder, manifest, tuple(missing))


def _path(run: StoredRun) -> str:
    key = run.record.plan.key
    return f"data/{key.benchmark}--{key.dataset}--{key.protocol_digest[:12]}.parquet"


def _listed(path: str, data: bytes) -> PublishedFile:
    return PublishedFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _packed(runs: Sequence[StoredRun]) -> bytes:
    tables = []
    for run in runs:
        rows = run.predictions.table
        name = pa.array([run.record.plan.key_digest] * rows.num_rows, pa.string())
        tables.append(pa.Table.from_arrays([name, *rows.columns], schema=_SCHEMA))
    sink, whole = io.BytesIO(), pa.concat_tables(tables).combine_chunks()
    pq.write_table(whole, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def _published(path: str, run: StoredRun, store: Store) -> PublishedRun:
    plan = run.record.plan
    reports = tuple(store.read_shard(plan.key_digest, index)[0] for index in range(len(plan.shards)))
    return PublishedRun(path=path, plan=plan, shards=reports, record_sha256=record_digest(run.record))


def _card(files: Iterable[PublishedFile], runs: Sequence[PublishedRun]) -> str:
    """A dataset card: every file is a configuration that `load_dataset` opens."""
    lines = ["---", "pretty_name: Predictions of robustboard", "configs:"]
    for file in files:
        lines += [f"- config_name: {Path(file.path).stem}", f"  data_files: {file.path}"]
    models = sorted({run.plan.key.model for run in runs})
    lines += [
        "---",
        "",
        "# Predictions",
        "",
        f"What {len(models)} models answered, one row an image and condition, in {len(runs)} runs.",
        "`manifest.json` holds key, plan and hashes of every run. `robustboard predictions pull` fetches,",
        "checks and unpacks them; `robustboard recompute` counts every score again.",
        "",
        *(f"- {name}" for name in models),
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Pulled:
    """What was fetched."""

    commit: str
    runs: int
    new: int
    """Of these, the ones that were not here before."""


def pull(workspace: Workspace, repo: str, *, commit: str) -> Pulled:
    """Fetch published predictions at a commit into runs/published, every shard checked against its run.

    Raises CellError as the Hub's client does, StoreError for anything that is not what the manifest says.
    """
    store = fetched(workspace)
    place = hub.fetch_unchecked(repo, MANIFEST, commit=commit, kind="dataset", limit=MAX_MANIFEST)
    manifest = jsons.unseal(place.read_bytes(), PublishedManifest, f"{repo}/{MANIFEST}")
    wanted = [run for run in manifest.runs if not store.is_finished(run.plan.key_digest)]
    needed = {run.path for run in wanted}
    listed = [file for file in manifest.files if file.path in needed]
    if needed - {file.path for file in listed}:
        raise StoreError(f"{repo}/{MANIFEST}: runs: a run names a file that is not listed")
    size = sum(file.size for file in listed)
    if size > MAX_PULLED:
        raise StoreError(f"{repo}/{MANIFEST}: files: expected at most {MAX_PULLED} bytes, got {size}")
    locked = [LockedFile(path=file.path, size=file.size, sha256=file.sha256) for file in listed]
    found = hub.fetch(repo, locked, commit=commit, kind="dataset")
    for path in sorted(needed):
        table = _read(found[path], f"{repo}/{path}")
        for run in (each for each in wanted if each.path == path):
            restore(store, run, table, f"{repo}/{path}")
    return Pulled(commit, len(manifest.runs), len(wanted))


def _read(path: Path, name: str) -> pa.Table:
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read(use_threads=False)
        return table.replace_schema_metadata(None).cast(_SCHEMA).combine_chunks()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"{name}: damaged: {str(error).splitlines()[0][:200]}") from error


def restore(store: Store, run: PublishedRun, table: pa.Table, name: str) -> StoredRun:
    """Put one published run into a store, byte for byte as it was where it was made.

    Raises StoreError for rows that do not give the recorded shards: another run's, forged, or packed by a
    version of pyarrow that writes other bytes.
    """
    digest = run.plan.key_digest
    if run.plan.key.digest != digest:
        raise StoreError(f"{name}: key_digest: not that of the run's key")
    rows = table.filter(pc.equal(table.column(RUN), digest)).drop_columns([RUN])
    if [report.shard.name for report in run.shards] != [
        f"{shard_name(index)}.parquet" for index in range(len(run.plan.shards))
    ] or sum(report.shard.rows for report in run.shards) != rows.num_rows:
        raise StoreError(f"{name}: rows: not as many as the shards of {digest[:12]} have")
    tables = list(_shards(run, rows, name))
    if not run.plan.conditions:
        raise StoreError(f"{name}: conditions: expected some, got none for {digest[:12]}")
    whole = PredictionTable.concat(tables).only(run.plan.conditions[0])
    ids = [str(each) for each in whole.column("sample_id")]
    with store.open(run.plan, ids, whole.column("label")) as open_run:
        for index in list(open_run.missing):
            open_run.put(index, tables[index], run.shards[index].facts)
        found = open_run.finished or open_run.commit()
    if record_digest(found.record) != run.record_sha256:
        raise StoreError(f"{name}: record_sha256: the rows of {digest[:12]} give another record")
    return found


def _shards(run: PublishedRun, rows: pa.Table, name: str) -> Iterator[PredictionTable]:
    start = 0
    for report in run.shards:
        part = PredictionTable(rows.slice(start, report.shard.rows).combine_chunks().cast(SCHEMA))
        start += report.shard.rows
        if hashlib.sha256(encode(part)).hexdigest() != report.shard.sha256:
            made = report.facts.environment.get("pyarrow", "unknown")
            raise StoreError(
                f"{name}: {report.shard.name} of {run.plan.key_digest[:12]}: sha256: these rows do not give"
                f" the recorded shard (packed with pyarrow {made}, this is {pa.__version__})"
            )
        yield part


def find_commit(repo: str, revision: str | None) -> str:
    """The commit to pull: the named one, or the newest tag's. Raises CellError or UserError."""
    if revision is not None:
        return revision
    from robustboard.runners.cards import listing  # noqa: PLC0415 - only here

    try:
        return listing(repo, kind="dataset").commit
    except CellError as error:
        raise UserError(error.reason) from error
