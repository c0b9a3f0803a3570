"""Whether accepted images are a fair sample: their classes, the oracle's margin, what the generator costs.

The classes of accepted images are compared with all images' by a chi-square test and by the normalised
entropy of their histogram; images that an oracle was sure of with those that it was less sure of; and what
the generator alone costs a model by McNemar's exact test. No torch here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from robustboard.benchmarks import metrics
from robustboard.benchmarks.entries import CLEAN
from robustboard.benchmarks.generated import oracle_name, reconstruction_name
from robustboard.leaderboard.statistics import mcnemar
from robustboard.runners.columns import Columns
from robustboard.runners.estimates import Flags
from robustboard.runners.generation_scoring import accepted_images

LEAST_CLASSES = 3
"""Fewer have no correlation worth telling."""


@dataclass(frozen=True, slots=True)
class Bias:
    """How the classes of accepted images differ from those of all images."""

    model: str
    pair: str
    accepted: int
    p_value: float | None
    """Of the chi-square test of equal shares; None without an accepted image or with one class."""
    entropy: float | None
    """Of the accepted images' classes, as a share of the largest possible."""
    lowest_class: int | None
    """The class with the lowest validation rate."""
    lowest_rate: float | None
    correlation: float | None = None
    """Spearman's, over classes, of the oracle's error on originals and the model's loss of accuracy on
    accepted images; None where one of them is the same for all classes, or with too few classes."""


@dataclass(frozen=True, slots=True)
class MarginHalf:
    """The images that an oracle was more, or less, sure of before anything was done to them."""

    model: str
    pair: str
    half: Literal["low", "high"]
    margin: float
    """The median margin of the originals that the oracle sees right; low is up to it, high above it."""
    images: int
    accepted: int
    validation_rate: float | None
    """None without an image in this half."""
    perturbed_accuracy: float | None
    """Over accepted images; None without one."""
    low: float | None
    """Wilson interval of the perturbed accuracy."""
    high: float | None
    clean_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Leak:
    """What a generator costs a model before any step is taken against it."""

    model: str
    generator: str
    images: int
    clean_accuracy: float
    reconstruction_accuracy: float
    lost: int
    """Images that are right as they are and wrong as reconstructions."""
    gained: int
    p_value: float
    """McNemar's exact test of no difference, two-sided."""


def leak(model: str, generator: str, columns: Columns) -> Leak | None:
    """The control of one generator; None without an image."""
    clean, rebuilt = columns.right[CLEAN], columns.right[reconstruction_name(generator)]
    if clean.size == 0:
        return None
    lost, gained = int((clean & ~rebuilt).sum()), int((~clean & rebuilt).sum())
    shares = float(clean.mean()), float(rebuilt.mean())
    return Leak(model, generator, clean.size, *shares, lost, gained, mcnemar(lost, gained))


def margin_halves(model: str, pair: str, columns: Columns) -> tuple[MarginHalf, ...]:
    """Validation rate and perturbed accuracy below and above the oracle's median margin on the originals.

    Only originals that the oracle sees right are counted, as it judges no others. Nothing without one.
    """
    oracle = oracle_name(pair.rsplit(" by ", 1)[-1])
    known = columns.right[oracle]
    if not known.any():
        return ()
    margin = columns.values("group", oracle).astype(np.float64)
    middle = float(np.median(margin[known]))
    return (
        _half(model, pair, columns, half="low", rows=known & (margin <= middle), margin=middle),
        _half(model, pair, columns, half="high", rows=known & (margin > middle), margin=middle),
    )


def _half(
    model: str,
    pair: str,
    columns: Columns,
    *,
    half: Literal["low", "high"],
    rows: Flags,
    margin: float,
) -> MarginHalf:
    accepted = accepted_images(columns, pair)
    taken, count = rows & accepted, int(rows.sum())
    moved, right = int(taken.sum()), int(columns.right[pair][taken].sum())
    low, high = metrics.wilson(right, moved) if moved else (None, None)
    return MarginHalf(
        model=model,
        pair=pair,
        half=half,
        margin=margin,
        images=count,
        accepted=moved,
        validation_rate=moved / count if count else None,
        perturbed_accuracy=right / moved if moved else None,
        low=low,
        high=high,
        clean_accuracy=float(columns.right[CLEAN][rows].mean()) if count else None,
    )


def class_bias(model: str, pair: str, columns: Columns) -> Bias:
    """The classes of one pair's accepted images."""
    accepted = accepted_images(columns, pair)
    classes, index, totals = np.unique(columns.labels, return_inverse=True, return_counts=True)
    counts = _sums(index, accepted, classes.size)
    taken = int(counts.sum())
    if taken == 0 or classes.size == 1:
        return Bias(model, pair, taken, None, None, None, None)
    expected = totals / totals.sum() * taken
    shares = counts[counts > 0] / taken
    rates = counts / totals
    lowest = int(rates.argmin())
    return Bias(
        model,
        pair,
        taken,
        float(stats.chisquare(counts, expected).pvalue),
        float(-(shares * np.log(shares)).sum() / np.log(classes.size)),
        int(classes[lowest]),
        float(rates[lowest]),
        _correlation(pair, columns, (index, totals, counts), accepted),
    )


def _sums(index: npt.NDArray[np.intp], flags: Flags, classes: int) -> npt.NDArray[np.int64]:
    """How many flags of each class are set."""
    return np.bincount(index, weights=flags, minlength=classes).astype(np.int64)


def _correlation(
    pair: str,
    columns: Columns,
    classes: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.int64]],
    accepted: Flags,
) -> float | None:
    """Do models lose most where the oracle errs most? Over classes with an accepted image."""
    index, totals, counts = classes
    chosen = counts > 0
    if int(chosen.sum()) < LEAST_CLASSES:
        return None
    size = totals.size
    error = 1 - _sums(index, columns.right[oracle_name(pair.rsplit(" by ", 1)[-1])], size) / totals
    clean = _sums(index, columns.right[CLEAN] & accepted, size)
    after = _sums(index, columns.right[pair] & accepted, size)
    drop = (clean[chosen] - after[chosen]) / counts[chosen]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        found = float(stats.spearmanr(error[chosen], drop).statistic)
    return found if np.isfinite(found) else None
