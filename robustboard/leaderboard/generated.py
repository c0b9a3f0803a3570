"""What several results on generated images say together: ranks, agreement of oracles, bias. No torch here.

Kendall's tau-b compares how two generators, or two oracles, rank the models by FMR. The bias of the accepted
images is told by a chi-square test of their classes against all images' and by the normalised entropy of
their histogram.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import stats

from robustboard.benchmarks.conditions import perturbations
from robustboard.benchmarks.entries import CLEAN, Generated, GeneratedSetting
from robustboard.benchmarks.generated import oracle_name, pair_name
from robustboard.runners.columns import Columns, columns_of
from robustboard.runners.generation_scoring import accepted_images
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Result

LEAST_MODELS = 3
"""Fewer models have no ranking worth comparing."""
COLUMNS = ("perturbed_accuracy", "validation_rate", "fmr", "fmr_matched", "accepted_steps", "l2_distance")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How alike two columns of FMR rank the models."""

    first: str
    second: str
    models: int
    tau: float | None
    """Kendall's tau-b; None where it is undefined."""
    reason: str = ""


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


@dataclass(frozen=True, slots=True)
class OracleAgreement:
    """How often two oracles say the same of the images as they are."""

    first: str
    second: str
    images: int
    share: float


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything about one protocol on one dataset."""

    benchmark: str
    dataset: str
    rows: tuple[dict[str, str | float | None], ...]
    """One a model and pair: SA and the columns of COLUMNS with their intervals, and flags."""
    generators: tuple[Agreement, ...]
    oracles: tuple[Agreement, ...]
    agreement: tuple[OracleAgreement, ...]
    bias: tuple[Bias, ...]


def analyse(
    setting: GeneratedSetting, results: Sequence[Result], tables: Mapping[str, PredictionTable]
) -> Analysis:
    """Results of several models on one dataset, and the predictions of those that are at hand, by model.

    Raises ValueError without a result, or for results of several datasets or protocols.
    """
    places = {(result.key.benchmark, result.key.dataset) for result in results}
    if len(places) != 1:
        raise ValueError(f"expected results of one protocol and dataset, got {len(places)}")
    (benchmark, dataset), ordered = places.pop(), sorted(results, key=lambda result: result.key.model)
    columns = {name: _columns(setting, table) for name, table in sorted(tables.items())}
    return Analysis(
        benchmark,
        dataset,
        tuple(_row(result, pair) for result in ordered for pair in _pairs(setting)),
        tuple(_between_generators(setting, ordered)),
        tuple(_between_oracles(setting, ordered)),
        tuple(_oracle_agreement(setting, columns)),
        tuple(_bias(name, pair, each) for name, each in columns.items() for pair in _pairs(setting)),
    )


def _pairs(setting: GeneratedSetting) -> list[str]:
    return [pair_name(use.generator, oracle) for use, oracle in setting.pairs]


def _columns(setting: GeneratedSetting, table: PredictionTable) -> Columns:
    steps = perturbations(Generated(kind="generated", settings=(setting,)), setting)
    return columns_of(table, [CLEAN, *(step.name for step in steps)])


def value(result: Result, metric: str, condition: str) -> float | None:
    """One score of a result; None where it is undefined or absent."""
    return next(
        (score.value for score in result.scores if (score.metric, score.condition) == (metric, condition)),
        None,
    )


def _row(result: Result, pair: str) -> dict[str, str | float | None]:
    found: dict[str, str | float | None] = {
        "model": result.key.model,
        "pair": pair,
        "images": result.evaluated,
        "clean_accuracy": value(result, "clean_accuracy", CLEAN),
    }
    for score in result.scores:
        if score.condition == pair and score.metric in COLUMNS:
            found[score.metric] = score.value
            found[f"{score.metric}_low"], found[f"{score.metric}_high"] = score.low, score.high
    found["flags"] = " ".join(shared_with(result, pair))
    return found


def shared_with(result: Result, pair: str) -> list[str]:
    """Flags of a result that tell what its model shares with a pair's oracle."""
    oracle = pair.rsplit(" by ", 1)[-1]
    flags = [
        flag.name
        for flag in result.flags
        if flag.name.startswith("oracle-") and oracle in flag.reason.split()
    ]
    return list(dict.fromkeys(flags))


def rank_agreement(results: Iterable[Result], first: str, second: str) -> Agreement:
    """Kendall's tau-b of two conditions' FMR over the models that have both.

    Models that share weights with one of the oracles are left out: their FMR says nothing.
    """
    both = [
        (value(result, "fmr", first), value(result, "fmr", second))
        for result in results
        if not {"oracle-shares-weights"} & {*shared_with(result, first), *shared_with(result, second)}
    ]
    known = [(one, other) for one, other in both if one is not None and other is not None]
    if len(known) < LEAST_MODELS:
        reason = f"it needs {LEAST_MODELS} or more models with both numbers"
        return Agreement(first, second, len(known), None, reason)
    one, other = map(list, zip(*known, strict=True))
    tau = float(stats.kendalltau(one, other).statistic)
    if not np.isfinite(tau):
        return Agreement(first, second, len(known), None, "all models have the same number")
    return Agreement(first, second, len(known), tau)


def _between_generators(setting: GeneratedSetting, results: Sequence[Result]) -> Iterable[Agreement]:
    for oracle in setting.oracles:
        for one, other in combinations(setting.generators, 2):
            first, second = pair_name(one.generator, oracle), pair_name(other.generator, oracle)
            yield rank_agreement(results, first, second)


def _between_oracles(setting: GeneratedSetting, results: Sequence[Result]) -> Iterable[Agreement]:
    for use in setting.generators:
        for one, other in combinations(setting.oracles, 2):
            yield rank_agreement(results, pair_name(use.generator, one), pair_name(use.generator, other))


def _oracle_agreement(setting: GeneratedSetting, columns: Mapping[str, Columns]) -> Iterable[OracleAgreement]:
    """On the images of the first model; what oracles say of originals does not depend on the model."""
    for each in list(columns.values())[:1]:
        for one, other in combinations(setting.oracles, 2):
            said = [each.values("predicted", oracle_name(oracle)) for oracle in (one, other)]
            same = int(np.count_nonzero((said[0] == said[1]) & (said[0] >= 0)))
            yield OracleAgreement(one, other, said[0].size, same / said[0].size)


def _bias(model: str, pair: str, columns: Columns) -> Bias:
    accepted = accepted_images(columns, pair)
    classes, index, totals = np.unique(columns.labels, return_inverse=True, return_counts=True)
    counts: npt.NDArray[np.int64] = np.bincount(index, weights=accepted, minlength=classes.size).astype(
        np.int64
    )
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
    )
