"""D3: SQL over the stored files gives every integer of every kind of result, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustboard.benchmarks.conditions import conditions
from robustboard.benchmarks.entries import BenchmarkEntry, GeneratedSetting
from robustboard.benchmarks.generated import oracle_name, pair_name, reconstruction_name, verdict_name
from robustboard.errors import StoreError
from robustboard.registry.catalog import load_catalog
from robustboard.runners.predictions import Outputs, PredictionTable
from robustboard.runners.record import Result, RunKey
from robustboard.runners.recount import QUERIES, recount
from robustboard.runners.score import read_result, result_of
from robustboard.runners.store import Store, StoredRun, run_plan
from robustboard.workspace import find
from tests.leaderboard.made_up import made
from tests.runners.small import FACTS

ROOT = Path(__file__).resolve().parents[2]
LADDER = {"datasets": ["digits"], "budgets": ["1/20", "1/10"], "headline": "1/10"}
PROCEDURES: dict[str, dict[str, Any]] = {
    "clean": {"kind": "clean", "settings": [{"datasets": ["digits"]}]},
    "noise": {"kind": "noise", "distributions": ["uniform", "gaussian"], "draws": "2", "settings": [LADDER]},
    "attack": {
        "kind": "attack", "attack": "pgd", "norm": "linf",
        "settings": [{**LADDER, "steps": "4", "relative_step": "1/2"}],
    },
    "corruption": {
        "kind": "corruption", "variant": "cifar", "images": "in-memory", "corruptions": ["fog", "contrast"],
        "severities": ["1", "3"], "settings": [{"datasets": ["digits"]}],
    },
    "detection": {
        "kind": "out-of-distribution",
        "settings": [{"datasets": ["digits"], "out_of_distribution": "letters"}],
    },
    "cues": {"kind": "cue-conflict", "settings": [{"datasets": ["digits"]}]},
    "generated": {
        "kind": "generated", "budget": "5",
        "settings": [{
            "datasets": ["digits"], "generators": [{"generator": "vq"}, {"generator": "ddpm"}],
            "oracles": ["clip", "net"],
        }],
    },
}  # fmt: skip
SHARD = 40
LABELS = 4


def protocol(kind: str) -> BenchmarkEntry:
    return made(
        BenchmarkEntry,
        {
            "id": f"{kind}-v1",
            "name": kind,
            "summary": "A test.",
            "procedure": PROCEDURES[kind],
            "shard_size": SHARD,
            "source": "a test",
            "added": "2026-01-31",
        },
    )


def rows(kind: str, condition: str, ids: list[str], labels: Any, rng: np.random.Generator) -> PredictionTable:
    """Random answers under one condition, with every status that may occur there."""
    count = len(ids)
    predicted = np.where(rng.random(count) < 0.6, np.maximum(labels, 0), rng.integers(0, LABELS, count))
    status = np.array(["ok"] * count, dtype=object)
    group = None
    if kind == "attack" and condition != "clean":
        status[rng.random(count) < 0.1] = "no-gradient"
    if kind == "detection":
        status[labels < 0] = "outside"
    if kind == "clean":
        group = [f"region {each}" for each in rng.integers(0, 3, count)]
    if kind == "cues":
        group = [str(each) for each in rng.integers(0, LABELS, count)]
    if (
        kind == "generated"
        and " by " in condition
        and not condition.startswith(("verdict", "reconstruction"))
    ):
        status[:] = rng.choice(["accepted", "reconstruction-only", "rejected-at-0", "source-rejected"], count)
        group = [str(each) for each in rng.integers(0, 5, count)]
    share = rng.random(count).astype(np.float32)
    return PredictionTable.of(
        sample_id=ids,
        condition=condition,
        label=labels,
        predicted=predicted,
        confidence=share,
        distance=np.zeros(count, np.float32),
        status=status.tolist(),
        outputs=Outputs(-share, *(share for _ in Outputs.NAMES[1:])),
        group=group,
    )


def stored(kind: str, seed: int, key: RunKey, store: Store) -> tuple[StoredRun, Result]:
    """A run of random answers, and the result that the first program makes of it."""
    entry = protocol(kind)
    setting = entry.procedure.settings[0]
    rng = np.random.default_rng(seed)
    ids = [f"{number:05d}" for number in rng.permutation(100)]
    labels = rng.integers(-1 if kind == "detection" else 0, LABELS, len(ids)).astype(np.int64)
    key = key.model_copy(update={"benchmark": entry.id, "seed": seed, "shard_size": SHARD})
    if isinstance(setting, GeneratedSetting):
        names = ["clean", *map(oracle_name, setting.oracles)]
        names += [reconstruction_name(use.generator) for use in setting.generators]
        for use, oracle in setting.pairs:
            names += [pair_name(use.generator, oracle), verdict_name(pair_name(use.generator, oracle))]
    names = list(conditions(entry.procedure, setting))
    plan = run_plan(key, ids=ids, labels=labels, conditions=names, images=len(ids))
    with store.open(plan, ids, labels) as run:
        for index, part in enumerate(plan.shards):
            span = slice(part.start, part.stop)
            tables = [rows(kind, name, ids[span], labels[span], rng) for name in names]
            run.put(index, PredictionTable.concat(tables), FACTS)
        found = run.commit()
    return found, result_of(found, entry, setting)


@pytest.mark.parametrize("kind", list(PROCEDURES))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_d3_both_programs_count_the_same(kind: str, seed: int, run_key: RunKey, tmp_path: Path) -> None:
    """D3: exact equality of every integer, for every kind of procedure, on rows drawn at random."""
    store = Store(tmp_path / "runs")
    _, result = stored(kind, seed, run_key, store)
    found = recount(store, result)
    assert (found.faults, found.unknown) == ((), ())
    counted = [score for score in result.scores if score.correct is not None]
    assert found.compared >= 2 * len(counted) >= 2


def test_every_metric_with_a_count_has_a_query(run_key: RunKey, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    seen = {
        score.metric
        for kind in PROCEDURES
        for score in stored(kind, 0, run_key, store)[1].scores
        if score.correct is not None
    }
    assert seen == set(QUERIES)


@pytest.mark.parametrize("kind", list(PROCEDURES))
def test_the_control_of_wrong_counts_is_told_with_its_field(
    kind: str, run_key: RunKey, tmp_path: Path
) -> None:
    """Every count is one off, and the second program says so of each."""
    store = Store(tmp_path / "runs")
    _, result = stored(kind, 3, run_key, store)
    scores, wanted = [], []
    for place, score in enumerate(result.scores):
        if score.correct is None:
            scores.append(score)
            continue
        off = score.correct + (1 if score.correct < score.n else -1)
        scores.append(score.model_copy(update={"correct": off}))
        name = f"scores.{place}.correct ({score.metric}@{score.condition})"
        wanted.append(f"{name}: expected {score.correct} as counted again, got {off}")
    assert list(recount(store, result.model_copy(update={"scores": tuple(scores)})).faults) == wanted


def test_other_bytes_than_recorded_are_refused_before_they_are_counted(
    run_key: RunKey, tmp_path: Path
) -> None:
    store = Store(tmp_path / "runs")
    run, result = stored("clean", 0, run_key, store)
    path = store.folder(run.record.plan.key_digest) / "s00000.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"s00000\.parquet: sha256: expected"):
        recount(store, result)
    with pytest.raises(
        StoreError, match=r"predictions: the run .* is not in runs; robustboard predictions pull"
    ):
        recount(Store(tmp_path / "empty" / "runs"), result)


@pytest.mark.long
def test_d3_every_stored_run_of_this_checkout_is_counted_the_same() -> None:
    """The committed results whose predictions lie here, as after `make leaderboard`."""
    workspace = find(ROOT)
    store = Store(workspace.runs)
    known = load_catalog(workspace).models
    compared = 0
    for path in sorted(workspace.committed_results.glob("*/*.json"))[::4]:
        result = read_result(path)
        if result.key.model in known and store.is_finished(result.key_digest):
            found = recount(store, result)
            assert found.sound, (path.name, found)
            compared += found.compared
    if not compared:
        pytest.skip("no predictions of committed results are stored here")
