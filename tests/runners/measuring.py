"""Protocols, networks and images for tests of `measure`."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.entries import (
    Attack,
    AttackSetting,
    Clean,
    Ladder,
    Noise,
    Procedure,
    Scope,
)
from robustboard.registry.entries import Norm
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.procedures import measure
from robustboard.runners.record import RunKey

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]
Pixels = NDArray[np.float32]
NORMS: tuple[Norm, ...] = ("linf", "l2")
TENTH = Fraction(1, 10)
SCOPE = Scope(datasets=("digits",))
CLEAN = Clean(kind="clean", settings=(SCOPE,))


def ladder(*budgets: str, steps: int = 1, relative_step: str = "1") -> AttackSetting:
    exact = tuple(Fraction(budget) for budget in budgets)
    return AttackSetting(
        datasets=("digits",),
        budgets=exact,
        headline=exact[-1],
        steps=steps,
        relative_step=Fraction(relative_step),
    )


def fgsm(*budgets: str, norm: Norm = "linf") -> Attack:
    return Attack(kind="attack", attack="fgsm", norm=norm, settings=(ladder(*budgets),))


def pgd(*budgets: str, norm: Norm = "linf", steps: int = 10) -> Attack:
    setting = ladder(*budgets, steps=steps, relative_step="1/4")
    return Attack(kind="attack", attack="pgd", norm=norm, random_start=True, settings=(setting,))


class Maker(Protocol):
    """One of the two above."""

    def __call__(self, *budgets: str, norm: Norm) -> Attack: ...


def noise(*budgets: str, draws: int = 2) -> Noise:
    setting = Ladder(
        datasets=("digits",), budgets=tuple(map(Fraction, budgets)), headline=Fraction(budgets[-1])
    )
    return Noise(kind="noise", distributions=("uniform", "gaussian"), draws=draws, settings=(setting,))


def run(
    procedure: Procedure,
    network: nn.Module,
    images: Pixels,
    labels: NDArray[np.int64],
    key: RunKey,
    *,
    batch_size: int = 64,
    classes: tuple[int, ...] | None = None,
    ids: list[str] | None = None,
) -> PredictionTable:
    return measure(
        procedure,
        procedure.settings[0],
        classifier=network,
        classes=classes,
        images=images,
        labels=labels,
        ids=ids or [f"image-{row}" for row in range(len(images))],
        key=key,
        batch_size=batch_size,
        device="cpu",
    )


def flat(*values: float) -> Pixels:
    """One 2x2 grey image a value."""
    return np.stack([np.full((1, 2, 2), value, np.float32) for value in values])


class Reading(nn.Module):
    """Classifies an image by its first pixel: class round(255 * pixel), of `classes`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, images: Tensor) -> Tensor:
        value = (images[:, 0, 0, 0] * 255).round()
        return -(torch.arange(self.classes) - value.unsqueeze(1)).abs()


def coded(*classes: int) -> Pixels:
    """Images that Reading takes for these classes."""
    return flat(*(each / 255 for each in classes))


def right(table: PredictionTable, condition: str) -> list[bool]:
    rows = table.only(condition)
    return [bool(flag) for flag in rows.column("predicted") == rows.column("label")]
