"""The other libraries' attacks, called as their documentation says, without random starts for PGD.

`python -m tests.bench.peers` imports each of them and says which are missing.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from importlib import metadata

import numpy as np
import torch
from torch import Tensor

from tests.bench.task import Contender, Run, Task

PEERS = {
    "torchattacks": "torchattacks",
    "foolbox": "foolbox",
    "adversarial-robustness-toolbox": "art.attacks.evasion",
    "adv-lib": "adv_lib.attacks",
}
"""Distribution → module that must import."""
SHIPPED_STEPS = 10
"""Iterations of APGD and FAB in torchattacks' AutoAttack as it comes; the paper's have 100."""


def missing() -> list[str]:
    """One line a library that cannot be imported."""
    lines = []
    for name, module in PEERS.items():
        try:
            with warnings.catch_warnings(action="ignore"):
                importlib.import_module(module)
        except ImportError as error:
            lines.append(f"{name}: {error}")
    return lines


def versions() -> dict[str, str]:
    """Distribution → installed version."""
    return {name: metadata.version(name) for name in PEERS}


def in_batches(attack: Callable[[Task, Tensor, Tensor], Tensor]) -> Run:
    """An attack on one batch as an attack on a task."""

    def run(task: Task, rows: int) -> Tensor:
        batches = zip(torch.split(task.images, rows), torch.split(task.labels, rows), strict=True)
        return torch.cat([attack(task, images, labels) for images, labels in batches])

    return run


def torchattacks_pgd(task: Task, images: Tensor, labels: Tensor) -> Tensor:
    """PGD of torchattacks."""
    import torchattacks

    eps = float(task.eps)
    step = float(task.relative_step * task.eps)
    attack = torchattacks.PGD(task.classifier, eps=eps, alpha=step, steps=task.steps, random_start=False)
    found: Tensor = attack(images, labels)
    return found


def foolbox_pgd(task: Task, images: Tensor, labels: Tensor) -> Tensor:
    """LinfPGD of foolbox."""
    from foolbox.attacks import LinfPGD
    from foolbox.models.pytorch import PyTorchModel

    model = PyTorchModel(task.classifier, bounds=(0, 1), device=images.device)
    attack = LinfPGD(rel_stepsize=float(task.relative_step), steps=task.steps, random_start=False)
    _, clipped, _ = attack(model, images, labels, epsilons=float(task.eps))
    found: Tensor = clipped
    return found


def art_pgd(task: Task, rows: int) -> Tensor:
    """ProjectedGradientDescentPyTorch of ART, which cuts batches itself."""
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    estimator = PyTorchClassifier(
        task.classifier,
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=tuple(task.images.shape[1:]),
        nb_classes=task.classes,
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )
    attack = ProjectedGradientDescentPyTorch(
        estimator,
        norm=np.inf,
        eps=float(task.eps),
        eps_step=float(task.relative_step * task.eps),
        max_iter=task.steps,
        batch_size=rows,
        verbose=False,
    )
    return torch.from_numpy(attack.generate(task.images.numpy(), task.labels.numpy()))


def adv_lib_pgd(task: Task, images: Tensor, labels: Tensor) -> Tensor:
    """pgd_linf of adv-lib."""
    from adv_lib.attacks import pgd_linf

    found: Tensor = pgd_linf(
        task.classifier,
        images,
        labels,
        float(task.eps),
        steps=task.steps,
        random_init=False,
        relative_step_size=float(task.relative_step),
    )
    return found


def _autoattack(task: Task, images: Tensor, labels: Tensor, steps: int) -> Tensor:
    """AutoAttack of torchattacks: APGD-CE, APGD-T, FAB-T, Square, each on the images still standing."""
    import torchattacks

    attack = torchattacks.AutoAttack(
        task.classifier, norm="Linf", eps=float(task.eps), version="standard", n_classes=task.classes, seed=0
    )
    for part in attack._autoattack.attacks:
        if part.attack == "Square":
            part.n_queries, part.rescale_schedule = task.queries, False
        else:
            part.steps = steps
    found: Tensor = attack(images, labels)
    return found


def autoattack(task: Task, images: Tensor, labels: Tensor) -> Tensor:
    """AutoAttack of torchattacks with the settings of the paper."""
    return _autoattack(task, images, labels, task.steps)


def autoattack_shipped(task: Task, images: Tensor, labels: Tensor) -> Tensor:
    """AutoAttack of torchattacks with its own number of iterations."""
    return _autoattack(task, images, labels, min(task.steps, SHIPPED_STEPS))


PGD = (
    Contender("torchattacks", in_batches(torchattacks_pgd), note="scores the last iterate"),
    Contender("foolbox", in_batches(foolbox_pgd), note="scores the last iterate"),
    Contender("ART", art_pgd, note="scores the last iterate"),
    Contender("adv-lib", in_batches(adv_lib_pgd), note="scores any iterate but the last"),
)
AUTOATTACK = (
    Contender("torchattacks", in_batches(autoattack), note="AutoAttack with the task's iterations"),
    Contender(
        "torchattacks, shipped",
        in_batches(autoattack_shipped),
        equal_work=False,
        note=f"AutoAttack as it comes: {SHIPPED_STEPS} iterations, so its time does not count",
    ),
)


def main() -> int:
    """Report what cannot be imported."""
    lines = missing()
    sys.stderr.writelines(f"peer {line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
