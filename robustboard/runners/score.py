"""From stored predictions to the result files of the leaderboard, byte for byte. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from robustboard import durable, jsons
from robustboard.benchmarks.entries import BenchmarkEntry, Scope
from robustboard.errors import RobustboardError, StoreError
from robustboard.registry.catalog import Catalog
from robustboard.runners.flags import flags, in_order
from robustboard.runners.keys import Cell, Keys, result_name
from robustboard.runners.per_image import write_per_image
from robustboard.runners.record import Result, RunKey
from robustboard.runners.scoring import scores
from robustboard.runners.sharing import sharing_flags
from robustboard.runners.store import Store, StoredRun
from robustboard.runners.verifications import note_run
from robustboard.workspace import Workspace

NOT_IN_ENTRIES = frozenset({"software"})
"""Differs from machine to machine without an entry being changed."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of one cell: its result file, or why there is none."""

    name: str
    path: Path | None
    changed: bool
    reason: str = ""


def result_of(run: StoredRun, benchmark: BenchmarkEntry, setting: Scope) -> Result:
    """The summary of a stored run: a pure function of its predictions and circumstances."""
    found, headline = scores(benchmark, setting, run.predictions)
    raised = flags(benchmark, setting, found, run.predictions, run.facts.checks)
    raised = in_order((*raised, *sharing_flags(run.facts.preparation)))
    plan = run.record.plan
    return Result(
        key=plan.key,
        key_digest=plan.key_digest,
        status="verified",
        images=plan.images,
        evaluated=plan.evaluated,
        skipped=plan.skipped,
        headline=headline,
        scores=found,
        flags=raised,
        shards=run.record.shards,
        facts=run.facts,
    )


def name_of(result: Result) -> str:
    """`model/benchmark--dataset`; with how many images of how many for a partial run."""
    return _name(result.key, result.evaluated, result.images)


def _name(key: RunKey, evaluated: int, images: int) -> str:
    cell = Cell(key.model, key.benchmark, key.dataset)
    return result_name(cell, subset=key.subset, evaluated=evaluated, images=images)


def headline(result: Result) -> str:
    """The score that stands for a result, for people: `robust_accuracy@linf 8/255 41.3 %`."""
    for score in result.scores:
        if f"{score.metric}@{score.condition}" == result.headline:
            if score.value is None:
                return f"{result.headline} undefined ({score.reason})"
            value = f"{100 * score.value:.1f} %" if score.unit == "share" else f"{score.value:.4g}"
            return f"{result.headline} {value}"
    return f"{result.headline} missing"


def result_path(workspace: Workspace, name: str) -> Path:
    """Where a result lies: full ones in leaderboard/results, partial ones, never ranked, in runs/partial."""
    root = workspace.runs / "partial" if is_partial(name) else workspace.results
    return root / f"{name}.json"


def is_partial(name: str) -> bool:
    """Whether a name is that of a partial result."""
    return name.count("--") > 1


def result_bytes(result: Result) -> bytes:
    """What a result file holds."""
    return jsons.seal(result)


def write_result(workspace: Workspace, result: Result) -> tuple[Path, bool]:
    """Write a result to its place unless it holds these bytes already; the path, and whether it changed."""
    path, data = result_path(workspace, name_of(result)), result_bytes(result)
    changed = not path.exists() or path.read_bytes() != data
    if changed:
        durable.write(path, data)
    return path, changed


def read_result(path: Path, name: str | None = None) -> Result:
    """One result file, checked against itself and its place.

    `name` is how messages call it. Raises StoreError with file and field for anything that this
    program would not have written there.
    """
    shown = name or path.as_posix()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{shown}: cannot read: {error.strerror or error}") from error
    result = jsons.unseal(data, Result, shown)
    expected = f"{name_of(result)}.json"
    if f"{path.parent.name}/{path.name}" != expected:
        raise StoreError(f"{shown}: key: the content belongs to {expected}")
    if result.key_digest != result.key.digest:
        raise StoreError(f"{shown}: key_digest: expected {result.key.digest}, got {result.key_digest}")
    if result.evaluated + result.skipped > result.images:
        raise StoreError(f"{shown}: evaluated: more images than the dataset's {result.images}")
    if result.headline not in {f"{score.metric}@{score.condition}" for score in result.scores}:
        raise StoreError(f"{shown}: headline: expected one of the scores, got {result.headline}")
    return result


_WORDS = {
    "code": "the evaluation code",
    "model_digest": "the model's entry",
    "dataset_digest": "the dataset's entry",
    "labels_digest": "the label space",
    "protocol_digest": "the protocol",
    "seed": "the seed",
    "parts": "a run that it is joined from",
}


def outdated(key: RunKey, keys: Keys) -> str | None:
    """Why the entries of today do not describe a stored run any more; None while they do."""
    for kind, name, known in (
        ("model", key.model, keys.catalog.models),
        ("dataset", key.dataset, keys.catalog.datasets),
        ("benchmark", key.benchmark, keys.benchmarks),
    ):
        if name not in known:
            return f"the {kind} {name} is no longer registered"
    if keys.benchmarks[key.benchmark].setting_for(keys.catalog.dataset(key.dataset)) is None:
        return "the protocol has changed since: it no longer covers the dataset"
    changed = keys.changed(key, NOT_IN_ENTRIES)
    if not changed:
        return None
    words = [_WORDS.get(name, name) for name in changed]
    return f"{' and '.join(words)} {'has' if len(words) == 1 else 'have'} changed since"


def rebuild(run: StoredRun, keys: Keys) -> Result:
    """The result of a stored run by the entries of today.

    Raises StoreError when an entry that shaped the run has changed since.
    """
    key = run.record.plan.key
    reason = outdated(key, keys)
    benchmark = keys.benchmarks.get(key.benchmark)
    setting = benchmark.setting_for(keys.catalog.dataset(key.dataset)) if benchmark and not reason else None
    if benchmark is None or setting is None:
        raise StoreError(reason or "the run has no benchmark")
    return result_of(run, benchmark, setting)


def score(workspace: Workspace, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]) -> list[Rebuilt]:
    """Rebuild the result file of every cell that a stored run stands for.

    Of several runs of a cell the one that was last asked for counts (runs/current). Results whose
    predictions are not in this store are left as they are.
    """
    store, keys = Store(workspace.runs), Keys(catalog, benchmarks)
    rebuilt = []
    for name, path in store.current().items():
        try:
            run = store.read(store.current_key(path).digest)
            if run is None:
                raise StoreError("the run is not finished")
            result = rebuild(run, keys)
            if name_of(result) != name:
                raise StoreError(f"{store.name(path)} names the run of another cell")
            written, changed = write_result(workspace, result)
            benchmark = benchmarks[result.key.benchmark]
            setting = benchmark.setting_for(catalog.dataset(result.key.dataset))
            if setting is not None:
                write_per_image(workspace, run, benchmark, setting)
            note_run(workspace, run)
        except RobustboardError as error:
            rebuilt.append(Rebuilt(name, None, changed=False, reason=str(error)))
        else:
            rebuilt.append(Rebuilt(name, written, changed))
    return rebuilt
