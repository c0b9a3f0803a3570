"""This project's side: the runner's own path, with its checks, and its judgement included in the time."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from robustboard.benchmarks.attacks import AttackParameters, Model, Perturb
from robustboard.benchmarks.attacks.apgd import apgd_ce, apgd_targeted
from robustboard.benchmarks.attacks.fab import fab_targeted
from robustboard.benchmarks.attacks.square import square
from robustboard.benchmarks.entries import Attack, AttackSetting
from robustboard.benchmarks.seeds import Draws
from robustboard.runners.procedures import checked, measure
from robustboard.runners.record import CODE_VERSION, RunKey
from tests.bench.task import Contender, Run, Task

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
STANDARD: dict[str, Perturb] = {
    "apgd-ce": apgd_ce,
    "apgd-t": apgd_targeted,
    "fab-t": fab_targeted,
    "square": square,
}
"""The attacks of the standard AutoAttack, each on the images still standing (Croce and Hein 2020)."""


def ids(task: Task) -> tuple[str, ...]:
    """Names of the images."""
    return tuple(f"{number:05d}" for number in range(len(task.labels)))


def pgd(task: Task, rows: int) -> Tensor:
    """PGD as a run does it: clean predictions, attack, checks, judgement; (n,) which images stand."""
    setting = AttackSetting(
        datasets=("bench",),
        budgets=(task.eps,),
        headline=task.eps,
        steps=task.steps,
        relative_step=task.relative_step,
    )
    table = measure(
        Attack(kind="attack", attack="pgd", norm="linf", settings=(setting,)),
        setting,
        classifier=task.classifier,
        classes=None,
        images=task.images.numpy(),
        labels=task.labels.numpy(),
        ids=ids(task),
        key=KEY,
        batch_size=rows,
        device="cpu",
    )
    right = torch.from_numpy(table.column("predicted") == table.column("label"))
    return right.view(-1, len(task.labels)).all(0)


def cascade(attacks: Mapping[str, Perturb]) -> Run:
    """Attacks one after another, each on the images that stand.

    What an attack proposes is checked and classified afresh, as the runner does.
    """

    def run(task: Task, rows: int) -> Tensor:
        model = Model(task.classifier, batch_size=rows)
        settings = AttackParameters(norm="linf", eps=float(task.eps), steps=task.steps, queries=task.queries)
        names = ids(task)
        stands = model.logits(task.images).argmax(1) == task.labels
        for name, attack in attacks.items():
            left = stands.nonzero().squeeze(1)
            if not len(left):
                break
            images, labels = task.images[left], task.labels[left]
            draws = Draws(KEY.digest, tuple(names[row] for row in left.tolist()), name)
            attempt = attack(model, images.clone(), labels.clone(), settings, draws)
            stands[left] = model.logits(checked(attempt, images, settings)).argmax(1) == labels
        return stands

    return run


PGD = Contender("robustboard", pgd, note="scores any iterate; checks and judgement included")
AUTOATTACK = Contender("robustboard", cascade(STANDARD), note="checks and judgement included")
