"""This project's side: the runner's own path, with its checks, and its judgement included in the time."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from robustboard.benchmarks.entries import Attack, AttackSetting, Cascade, CascadeStep, Ladder, Procedure
from robustboard.runners.procedures import measure
from robustboard.runners.record import CODE_VERSION, RunKey
from tests.bench.task import Contender, Task

KEY = RunKey(
    code=CODE_VERSION,
    model="bench",
    model_digest="0" * 64,
    weights_sha256="0" * 64,
    dataset="bench",
    dataset_digest="0" * 64,
    data_fingerprint="0" * 64,
    labels_digest="0" * 64,
    benchmark="bench-v1",
    protocol_digest="0" * 64,
    seed=0,
    precision="float32",
    shard_size=250,
    software={},
)
"""Names the randomness of the attacks; nothing is stored under it."""
STANDARD: tuple[Literal["apgd-ce", "apgd-targeted", "fab-targeted", "square"], ...] = (
    "apgd-ce",
    "apgd-targeted",
    "fab-targeted",
    "square",
)
"""The attacks of benchmarks/autoattack-v1.yaml."""
SCOPE = ("bench",)


def by_runner(task: Task, rows: int, procedure: Procedure, setting: Ladder) -> Tensor:
    """What a run does: clean predictions, attacks, checks, judgement; (n,) bool, which images stand."""
    table = measure(
        procedure,
        setting,
        classifier=task.classifier,
        classes=None,
        images=task.images.numpy(),
        labels=task.labels.numpy(),
        ids=tuple(f"{number:05d}" for number in range(len(task.labels))),
        key=KEY,
        batch_size=rows,
        device="cpu",
    )
    right = torch.from_numpy(table.column("predicted") == table.column("label"))
    return right.view(-1, len(task.labels)).all(0)


def pgd(task: Task, rows: int) -> Tensor:
    """PGD without a random start."""
    setting = AttackSetting(
        datasets=SCOPE,
        budgets=(task.eps,),
        headline=task.eps,
        steps=task.steps,
        relative_step=task.relative_step,
    )
    procedure = Attack(kind="attack", attack="pgd", norm="linf", settings=(setting,))
    return by_runner(task, rows, procedure, setting)


def autoattack(task: Task, rows: int) -> Tensor:
    """The standard AutoAttack with the task's iterations and queries."""
    setting = Ladder(datasets=SCOPE, budgets=(task.eps,), headline=task.eps)
    return by_runner(task, rows, standard(task, setting), setting)


def standard(task: Task, setting: Ladder) -> Cascade:
    """The protocol of AutoAttack with the task's iterations and queries."""
    steps = tuple(CascadeStep(attack=name, steps=task.steps, queries=task.queries) for name in STANDARD)
    return Cascade(kind="cascade", norm="linf", attacks=steps, settings=(setting,))


PGD = Contender("robustboard", pgd, note="scores any iterate; checks and judgement included")
AUTOATTACK = Contender("robustboard", autoattack, many_rows=True, note="checks and judgement included")
