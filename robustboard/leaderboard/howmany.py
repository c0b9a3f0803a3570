"""How many test images it takes to tell two accuracies apart. Pure functions, no pandas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from robustboard.errors import UserError

ALPHA = 0.05
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Needed:
    """Images needed to see one difference in most of all tries."""

    first: float
    second: float
    unpaired: int
    """Images for each model, where each meets images of its own, or only the two accuracies are known."""
    paired: int
    """Images that both models answer, compared image by image, at `disagreement`."""
    disagreement: float
    """Share of images that exactly one of the two gets right."""
    most: float
    """The disagreement of models whose mistakes have nothing to do with each other."""


def unpaired(first: float, second: float, *, alpha: float = ALPHA, power: float = POWER) -> int:
    """Images for each of two models, for a two-sided z-test of two independent shares.

    With the pooled variance under the hypothesis of no difference (Fleiss, Levin and Paik 2003, section 4.2,
    without the correction for continuity).
    """
    gap, mean = abs(first - second), (first + second) / 2
    under = _quantile(1 - alpha / 2) * math.sqrt(2 * mean * (1 - mean))
    beyond = _quantile(power) * math.sqrt(first * (1 - first) + second * (1 - second))
    return math.ceil(((under + beyond) / gap) ** 2)


def paired(
    first: float, second: float, disagreement: float, *, alpha: float = ALPHA, power: float = POWER
) -> int:
    """Images that two models share, for McNemar's test (Connor 1987; Miettinen 1968).

    `disagreement` is the share of images that exactly one of the two gets right.
    """
    gap = abs(first - second)
    under = _quantile(1 - alpha / 2) * math.sqrt(disagreement)
    beyond = _quantile(power) * math.sqrt(max(disagreement - gap * gap, 0.0))
    return math.ceil(((under + beyond) / gap) ** 2)


def disagreements(first: float, second: float) -> tuple[float, float]:
    """Smallest possible share of images that exactly one model gets right, and that of unrelated mistakes."""
    return abs(first - second), first * (1 - second) + second * (1 - first)


def needed(
    first: float,
    second: float,
    disagreement: float | None = None,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
) -> Needed:
    """Images for both kinds of comparison.

    Without `disagreement`, halfway between mistakes that are nested and mistakes that are unrelated.

    Raises UserError for equal accuracies and for shares that cannot be.
    """
    for what, share in (("an accuracy", first), ("an accuracy", second), ("power", power), ("alpha", alpha)):
        if not 0 < share < 1:
            raise UserError(f"expected {what} between 0 and 1, as a share, got {share:g}")
    if first == second:
        raise UserError(
            "expected two accuracies that differ, got the same twice: no number of images tells them apart"
        )
    least, unrelated = disagreements(first, second)
    chosen = (least + unrelated) / 2 if disagreement is None else disagreement
    most = min(first + second, 2 - first - second)
    if not least <= chosen <= most:
        raise UserError(
            f"expected a share of images that exactly one gets right from {least:.4g} to {most:.4g},"
            f" got {chosen:g}"
        )
    return Needed(
        first,
        second,
        unpaired(first, second, alpha=alpha, power=power),
        paired(first, second, chosen, alpha=alpha, power=power),
        chosen,
        unrelated,
    )


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


TABLE_BASES = (0.5, 0.7, 0.9, 0.95, 0.99)
TABLE_GAPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)


def table() -> list[tuple[float, list[Needed | None]]]:
    """A row for each accuracy of TABLE_BASES, a cell for each gap of TABLE_GAPS below it."""
    return [
        (base, [needed(base - gap, base) if base - gap > 0 else None for gap in TABLE_GAPS])
        for base in TABLE_BASES
    ]
