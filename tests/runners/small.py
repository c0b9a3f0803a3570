"""Runs and stores of made-up predictions, and a small registry of real digits to measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import LockedEntry, LockedFile, ModelEntry, PackageWeights
from robustboard.registry.lock import Lock, read_lock
from robustboard.runners.keys import Cell, Keys
from robustboard.runners.plan import Plan, plan, wanted_cells
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.profiles import RunProfile
from robustboard.runners.record import Facts, RunKey, RunPlan
from robustboard.runners.score import Rebuilt, score
from robustboard.runners.store import Store, StoredRun, run_plan
from robustboard.runners.verify import verify
from robustboard.workspace import Workspace

FACTS = Facts(
    seconds=0.5,
    peak_memory_bytes=1_000,
    batch_size=8,
    threads=1,
    device="cpu",
    parameters=10,
    macs=None,
    environment={"python": "3"},
    finished_at="2026-01-31T00:00:00Z",
)


@dataclass(frozen=True)
class Made:
    """A run of predictions that a seeded generator drew."""

    key: RunKey
    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    conditions: tuple[str, ...] = ("clean", "linf 1/10")
    facts: Facts = FACTS

    @property
    def plan(self) -> RunPlan:
        return run_plan(
            self.key, ids=self.ids, labels=self.labels, conditions=self.conditions, images=len(self.ids)
        )

    def shard(self, index: int) -> PredictionTable:
        part = self.plan.shards[index]
        ids = self.ids[part.start : part.stop]
        generator = np.random.default_rng([index, 7])
        tables = []
        for number, condition in enumerate(self.conditions):
            share = generator.random(len(ids), np.float32)
            labels = self.labels[part.start : part.stop]
            tables.append(
                PredictionTable.of(
                    sample_id=ids,
                    condition=condition,
                    label=labels,
                    predicted=np.where(share < 0.7, labels, (labels + 1) % 10),
                    confidence=share,
                    distance=np.full(len(ids), 0.1 * number, np.float32),
                    status=["ok"] * len(ids),
                )
            )
        return PredictionTable.concat(tables)

    def into(self, store: Store, order: Sequence[int] | None = None) -> StoredRun:
        """Complete the run in a store."""
        with store.open(self.plan, self.ids, self.labels) as run:
            for index in order if order is not None else list(run.missing):
                run.put(index, self.shard(index), self.facts)
            return run.finished or run.commit()


def files(folder: Path, *, facts: bool = False) -> dict[str, bytes]:
    """Path → bytes of all files under a folder; circumstances only when asked for."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (facts or not (path.name.startswith("s0") and path.suffix == ".json"))
    }


CLEAN = Cell("tiny", "clean-v1", "digits")
NOISE = Cell("tiny", "noise-v1", "digits")
PGD = Cell("tiny", "pgd-v1", "digits")
PROFILE = RunProfile(id="cpu", summary="A test.", device="cpu", batch_size=16, threads=1)


class Place:
    """A small workspace with its entries, which a test may change in memory."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.catalog = load_catalog(workspace)
        self.benchmarks = dict(load_benchmarks(workspace, self.catalog))
        self.lock = read_lock(workspace)

    def pin(self) -> None:
        """Give the model weights whose hash the lock knows."""
        self.model(source=PackageWeights(kind="package", distribution="x", path="x/y", sha256="1" * 64))
        file = LockedFile(path="x/y", size=1, sha256="1" * 64)
        self.lock = Lock({"model/tiny": LockedEntry(files=(file,))})

    def model(self, name: str = "tiny", **changes: Any) -> ModelEntry:
        """Add a model like the first one, or change it."""
        entry = self.catalog.models["tiny"].model_copy(update={**changes, "id": name})
        self.catalog = replace(self.catalog, models={**self.catalog.models, name: entry})
        return entry

    def key(self, cell: Cell, **changes: Any) -> RunKey:
        """The key of a cell with made-up weights and data."""
        parts = {
            "weights_sha256": "1" * 64,
            "data_fingerprint": "2" * 64,
            "precision": "float32",
            "subset": None,
        }
        return Keys(self.catalog, self.benchmarks).key(cell, **{**parts, **changes})

    def plan(self, profile: RunProfile = PROFILE, **wanted: Any) -> Plan:
        """What is known of the wanted cells."""
        cells = wanted_cells(self.catalog, self.benchmarks, **wanted)
        return plan(
            cells,
            workspace=self.workspace,
            catalog=self.catalog,
            benchmarks=self.benchmarks,
            lock=self.lock,
            profile=profile,
        )

    def score(self) -> list[Rebuilt]:
        """Rebuild all results."""
        return score(self.workspace, self.catalog, self.benchmarks)

    def verify(self) -> tuple[str, ...]:
        """All damages."""
        return verify(self.workspace, self.catalog, self.benchmarks).damages

    def summaries(self) -> dict[str, bytes]:
        """Result files, full and partial."""
        folders = (self.workspace.results, self.workspace.runs / "partial")
        return {name: data for folder in folders for name, data in files(folder).items()}


DIGITS_MODEL = """\
name: Tiny net
source:
  kind: trained-here
  seed: 1
  recipe:
    method: standard
    dataset: digits-train
    images: 600
    epochs: 4
    batch_size: 60
    learning_rate: 0.01
loader: timm
architecture:
  name: resnet18
  arguments:
    layers: [1, 1, 1, 1]
    channels: [8, 8, 16, 16]
    stem_width: 8
label_space: digits
input:
  size: 16
  channels: 1
  normalization: outside
  mean: [0.306]
  std: [0.377]
training:
  datasets: [digits-train]
license: Apache-2.0
added: 2026-01-31
"""
DIGITS_DATA = """\
name: Digits {start} to {stop}
role: {role}
source:
  kind: sklearn-digits
  start: {start}
  stop: {stop}
label_space: digits
size: {size}
native_size: 8
channels: 1
license: CC-BY-4.0
display_allowed: true
citation: UCI digits
added: 2026-01-31
"""
DIGITS_LABELS = "name: Digits\nsource: a test\nclasses:\n" + "".join(f"  {n}: {n}\n" for n in range(10))
CLEAN_YAML = """\
name: Clean
summary: Clean images.
procedure:
  kind: clean
  settings:
    - label_spaces: [digits]
shard_size: 30
source: a test
added: 2026-01-31
"""
NOISE_YAML = """\
name: Noise
summary: Noisy images.
procedure:
  kind: noise
  distributions: [gaussian]
  draws: 2
  settings:
    - label_spaces: [digits]
      budgets: [1/10, 3/10]
      headline: 3/10
shard_size: 30
source: a test
added: 2026-01-31
"""
PGD_YAML = """\
name: PGD
summary: Attacked images.
procedure:
  kind: attack
  attack: pgd
  norm: linf
  random_start: true
  settings:
    - label_spaces: [digits]
      budgets: [1/10]
      headline: 1/10
      steps: 4
      relative_step: 1/3
shard_size: 30
source: a test
added: 2026-01-31
"""
CPU = "summary: A test.\ndevice: cpu\nbatch_size: 16\nthreads: 1\n"


def plant_digits(root: Path) -> Workspace:
    """A registry with one trained-here model, 100 digits to test on and three protocols."""
    texts = {
        "registry/lock.yaml": "{}\n",
        "registry/labels/digits.yaml": DIGITS_LABELS,
        "registry/models/tiny.yaml": DIGITS_MODEL,
        "registry/datasets/digits.yaml": DIGITS_DATA.format(start=1197, stop=1297, size=100, role="test"),
        "registry/datasets/digits-train.yaml": DIGITS_DATA.format(
            start=0, stop=1197, size=1197, role="train"
        ),
        "benchmarks/clean-v1.yaml": CLEAN_YAML,
        "benchmarks/noise-v1.yaml": NOISE_YAML,
        "benchmarks/pgd-v1.yaml": PGD_YAML,
        "runners/cpu.yaml": CPU,
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Workspace(root, root)
