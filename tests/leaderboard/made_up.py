"""Made-up entries and results, for tests of boards and pages; nothing here is a measurement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from pydantic import BaseModel

from robustboard.benchmarks.conditions import headline
from robustboard.benchmarks.entries import BenchmarkEntry, Clean, Ladder, Noise
from robustboard.benchmarks.metrics import METRICS, wilson
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.labels import ClassSubset, LabelSpace
from robustboard.runners import identity
from robustboard.runners.keys import Cell, protocol_digest
from robustboard.runners.record import CODE_VERSION, Facts, Result, RunKey, Score, ShardRecord, Subset

M = TypeVar("M", bound=BaseModel)
BUDGETS = ["1/20", "1/10", "1/5", "3/10"]


def made(kind: type[M], values: Mapping[str, Any]) -> M:
    """An entry as if its values had stood in a file."""
    return kind.model_validate_json(json.dumps(values))


def _protocols() -> dict[str, dict[str, Any]]:
    ladder = {"label_spaces": ["shapes"], "budgets": BUDGETS, "headline": "1/10"}
    return {
        "clean-v1": {"kind": "clean", "settings": [{"label_spaces": ["shapes", "colours"]}]},
        "noise-v1": {
            "kind": "noise",
            "distributions": ["uniform", "gaussian"],
            "draws": "3",
            "settings": [ladder],
        },
        "pgd-v1": {
            "kind": "attack",
            "attack": "pgd",
            "norm": "linf",
            "random_start": "true",
            "settings": [{**ladder, "steps": "40", "relative_step": "1/30"}],
        },
    }


class World:
    """A small registry of made-up entries, and results that fit it."""

    def __init__(self) -> None:
        self.models: dict[str, ModelEntry] = {}
        self.label_spaces = {
            name: LabelSpace(id=name, name=name, source="made up", classes={"a": "first", "b": "second"})
            for name in ("shapes", "colours")
        }
        self.datasets: dict[str, DatasetEntry] = {}
        self.benchmarks = {
            name: made(
                BenchmarkEntry,
                {
                    "id": name,
                    "name": f"Protocol {name}",
                    "summary": f"What {name} measures.",
                    "procedure": procedure,
                    "source": "made up",
                    "added": "2026-01-31",
                },
            )
            for name, procedure in _protocols().items()
        }
        self.add_dataset("squares", size=600)
        self.add_dataset("paints", size=600, label_space="colours")

    @property
    def catalog(self) -> Catalog:
        """All entries added so far."""
        subsets: dict[str, ClassSubset] = {}
        return Catalog(dict(sorted(self.models.items())), self.datasets, self.label_spaces, subsets)

    def add_dataset(self, name: str, *, size: int, label_space: str = "shapes", **more: Any) -> DatasetEntry:
        values = {
            "id": name,
            "name": name.capitalize(),
            "source": {"kind": "folder", "path": name},
            "label_space": label_space,
            "size": size,
            "native_size": 8,
            "channels": 1,
            "license": "MIT",
            "display_allowed": True,
            "citation": "nobody",
            "added": "2026-01-31",
        }
        self.datasets[name] = made(DatasetEntry, {**values, **more})
        return self.datasets[name]

    def add_model(self, name: str, *, label_space: str = "shapes", **more: Any) -> ModelEntry:
        values = {
            "id": name,
            "name": f"Net {name}",
            "source": {"kind": "file", "path": f"{name}.safetensors", "sha256": "0" * 64},
            "loader": "timm",
            "architecture": {"name": "resnet18"},
            "label_space": label_space,
            "input": {"size": 8, "channels": 1, "normalization": "inside"},
            "training": {"datasets": ["squares-train"]},
            "license": "MIT",
            "added": "2026-01-31",
        }
        self.models[name] = made(ModelEntry, {**values, **more})
        return self.models[name]

    def key(self, cell: Cell, **changes: Any) -> RunKey:
        """The key that a run of the cell would have, with some fields changed."""
        dataset, benchmark = self.datasets[cell.dataset], self.benchmarks[cell.benchmark]
        setting = benchmark.setting_for(dataset)
        assert setting is not None
        values: dict[str, Any] = {
            "code": CODE_VERSION,
            "model": cell.model,
            "model_digest": identity.model_digest(self.models[cell.model]),
            "weights_sha256": "1" * 64,
            "dataset": cell.dataset,
            "dataset_digest": identity.dataset_digest(dataset),
            "data_fingerprint": "2" * 64,
            "labels_digest": identity.labels_digest(self.label_spaces[dataset.label_space]),
            "benchmark": cell.benchmark,
            "protocol_digest": protocol_digest(benchmark, setting),
            "seed": benchmark.seed,
            "precision": "float32",
            "shard_size": benchmark.shard_size,
            "software": {"torch": "2.10"},
        }
        return RunKey.model_validate({**values, **changes})

    def result(
        self,
        model: str,
        benchmark: str = "clean-v1",
        dataset: str = "squares",
        *,
        correct: int = 500,
        falling: Sequence[int] = (),
        undefined: Iterable[str] = (),
        evaluated: int | None = None,
        skipped: int = 0,
        subset: Subset | None = None,
        **changes: Any,
    ) -> Result:
        """A result with `correct` clean images, and `falling` ones at each budget of a ladder.

        `undefined` names metrics without a value; `changes` replaces fields of the key.
        """
        cell, size = Cell(model, benchmark, dataset), self.datasets[dataset].size
        n = (subset.count if subset else size - skipped) if evaluated is None else evaluated
        entry = self.benchmarks[benchmark]
        setting = entry.setting_for(self.datasets[dataset])
        assert setting is not None
        key = self.key(cell, subset=subset, **changes)
        counts = {"clean_accuracy@clean": correct}
        if isinstance(setting, Ladder):
            hits = dict(zip(setting.budgets, falling or [correct] * len(setting.budgets), strict=True))
            counts |= _ladder(entry.procedure, hits)
        scores = tuple(
            score(name, n, hit, defined=name.partition("@")[0] not in undefined)
            for name, hit in counts.items()
        )
        return Result(
            key=key,
            key_digest=key.digest,
            status="verified",
            images=size,
            evaluated=n,
            skipped=skipped,
            headline=headline(entry.procedure, setting),
            scores=scores,
            shards=(ShardRecord(name="s00000.parquet", rows=n, sha256="3" * 64),),
            facts=facts(),
        )


def _ladder(procedure: Any, hits: Mapping[Fraction, int]) -> dict[str, int]:
    if isinstance(procedure, Clean):
        return {}
    groups = procedure.distributions if isinstance(procedure, Noise) else (procedure.norm,)
    metric = "noise_accuracy" if isinstance(procedure, Noise) else "robust_accuracy"
    found: dict[str, int] = {}
    for group in groups:
        found |= {f"{metric}@{group} {budget}": hit for budget, hit in hits.items()}
        found[f"area_under_curve@{group}"] = sum(hits.values()) // len(hits)
    return found


def score(name: str, n: int, correct: int, *, defined: bool = True) -> Score:
    """One made-up share."""
    metric, _, condition = name.partition("@")
    low, high = wilson(correct, n)
    return Score(
        metric=metric,
        condition=condition,
        value=correct / n if defined else None,
        low=low if defined else None,
        high=high if defined else None,
        n=n,
        correct=correct if defined else None,
        unit=METRICS[metric].unit,
        direction=METRICS[metric].direction,
        status="ok" if defined else "undefined",
        reason=None if defined else "made up to be undefined",
    )


def facts() -> Facts:
    """Circumstances of a run that never was."""
    return Facts(
        seconds=12.5,
        peak_memory_bytes=400_000_000,
        batch_size=64,
        threads=2,
        device="cpu",
        parameters=123_456,
        macs=7_654_321,
        environment={"python": "3.11", "torch": "2.10.0"},
        preparation={"preprocessing": "as stored, divided by 16"},
        finished_at="2026-11-30T12:00:00Z",
    )
