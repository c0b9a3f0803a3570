"""Every hash, count and result of a workspace computed again, and compared with what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from robustboard import jsons
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import StoreError
from robustboard.registry.catalog import Catalog
from robustboard.runners.failures import read_failures
from robustboard.runners.keys import Keys
from robustboard.runners.record import Result, RunPlan
from robustboard.runners.score import outdated, read_result, rebuild
from robustboard.runners.store import PLAN, Store, StoredRun
from robustboard.runners.verifications import read_checks
from robustboard.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked, and one line for each damage."""

    runs: int
    """Runs in the store, finished or not."""
    results: int
    """Result files, full and partial, in the content and in the output."""
    damages: tuple[str, ...]


def verify(workspace: Workspace, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]) -> Report:
    """Check the store against itself, and the results against the store where it has their predictions.

    A result of an older entry is no damage; its shards and counts are still compared.
    """
    store, keys = Store(workspace.runs), Keys(catalog, benchmarks)
    digests = store.digests()
    damages: list[str] = []
    for digest in digests:
        try:
            _check_run(store, digest)
        except StoreError as error:
            damages.append(str(error))
    paths = list(_result_paths(workspace))
    for path in paths:
        try:
            _check_result(path, workspace, store, keys)
        except StoreError as error:
            damages.append(str(error))
    damages += _pointers(store, workspace)
    try:
        read_checks(workspace)
    except StoreError as error:
        damages.append(str(error))
    return Report(len(digests), len(paths), tuple(dict.fromkeys(damages)))


def _check_run(store: Store, digest: str) -> None:
    """Raise StoreError when a finished run, or a shard of an unfinished one, is damaged."""
    run = store.read(digest)
    folder = store.folder(digest)
    path = folder / PLAN
    if path.exists():
        plan = jsons.unseal(path.read_bytes(), RunPlan, store.name(path))
        if plan.key.digest != digest or (run is not None and run.record.plan != plan):
            raise StoreError(f"{store.name(path)}: not the plan of this run")
    elif run is not None:
        raise StoreError(f"{store.name(path)}: missing")
    if run is None:
        for report in sorted(folder.glob("s[0-9]*.json")):
            store.read_shard(digest, int(report.stem.removeprefix("s")))


def _result_paths(workspace: Workspace) -> Iterator[Path]:
    roots = (workspace.committed_results, workspace.results, workspace.runs / "partial")
    for root in dict.fromkeys(roots):
        yield from sorted(root.glob("*/*.json"))


def _check_result(path: Path, workspace: Workspace, store: Store, keys: Keys) -> None:
    """Raise StoreError when a result is damaged, or not what its predictions give.

    Circumstances are not compared: the same run on another machine has others.
    """
    name = workspace.show(path)
    result = read_result(path, name)
    run = store.read(result.key_digest)
    if run is None:
        return
    if not _same_source(result, run):
        raise StoreError(f"{name}: shards: other predictions are stored under this key")
    if outdated(result.key, keys) is None and rebuild(replace(run, facts=result.facts), keys) != result:
        raise StoreError(f"{name}: scores: the stored predictions give other scores")


def _same_source(result: Result, run: StoredRun) -> bool:
    plan = run.record.plan
    return (
        result.shards == run.record.shards
        and result.key == plan.key
        and (result.images, result.evaluated, result.skipped) == (plan.images, plan.evaluated, plan.skipped)
    )


def _pointers(store: Store, workspace: Workspace) -> Iterator[str]:
    """Damage of the small files beside the runs."""
    for path in store.current().values():
        try:
            digest = store.current_key(path).digest
        except StoreError as error:
            yield str(error)
        else:
            if not store.is_finished(digest):
                yield f"{store.name(path)}: names a run that is not finished: {digest[:12]}"
    try:
        read_failures(workspace)
    except StoreError as error:
        yield str(error)
