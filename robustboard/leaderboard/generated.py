"""What several results on generated images say together: ranks, agreement of oracles, bias. No torch here.

Kendall's tau-b compares how two generators, or two oracles, rank the models by FMR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from robustboard.benchmarks.conditions import perturbations
from robustboard.benchmarks.entries import CLEAN, Generated, GeneratedSetting
from robustboard.benchmarks.generated import oracle_name, pair_name
from robustboard.leaderboard.generation_bias import Bias, Leak, MarginHalf, class_bias, leak, margin_halves
from robustboard.runners.columns import Columns, columns_of
from robustboard.runners.competence import Competence
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Result

__all__ = [
    "Agreement",
    "Analysis",
    "Bias",
    "Gate",
    "Leak",
    "MarginHalf",
    "OracleAgreement",
    "analyse",
    "rank_agreement",
    "shared_with",
    "value",
]

LEAST_MODELS = 3
"""Fewer models have no ranking worth comparing."""
COLUMNS = (
    "perturbed_accuracy",
    "validation_rate",
    "fmr",
    "fmr_matched",
    "fmr_net",
    "accepted_clean_accuracy",
    "accepted_reconstruction_accuracy",
    "accepted_steps",
    "l2_distance",
)


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
class OracleAgreement:
    """How often two oracles say the same of the images as they are."""

    first: str
    second: str
    images: int
    share: float


@dataclass(frozen=True, slots=True)
class Gate:
    """How an oracle did on images as they are, and how well its confidence tells when it is right."""

    oracle: str
    images: int
    accuracy: float
    expected_calibration_error: float
    brier_score: float | None
    """Mean squared distance of its shares from the label, 0 to 2; None where only a result tells, not the
    record of the gate."""


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
    """Of the models whose predictions are at hand, as the next two."""
    leaks: tuple[Leak, ...] = ()
    margins: tuple[MarginHalf, ...] = ()
    gates: tuple[Gate, ...] = ()
    """One an oracle."""


def analyse(
    setting: GeneratedSetting,
    results: Sequence[Result],
    tables: Mapping[str, PredictionTable],
    competences: Iterable[Competence] = (),
) -> Analysis:
    """Results of several models on one dataset, and the predictions of those that are at hand, by model.

    `competences` are records of the gate; an oracle without one is told from a result. Raises ValueError
    without a result, or for results of several datasets or protocols.
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
        tuple(class_bias(name, pair, each) for name, each in columns.items() for pair in _pairs(setting)),
        tuple(_leaks(setting, columns)),
        tuple(
            half
            for name, each in columns.items()
            for pair in _pairs(setting)
            for half in margin_halves(name, pair, each)
        ),
        tuple(_gates(setting, ordered, {each.oracle: each for each in competences})),
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
    own = f"by {pair.rsplit(' by ', 1)[-1]}"
    flags = [flag.name for flag in result.flags if flag.name.startswith("oracle-") and flag.condition == own]
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


def _leaks(setting: GeneratedSetting, columns: Mapping[str, Columns]) -> Iterable[Leak]:
    for name, each in columns.items():
        for use in setting.generators:
            found = leak(name, use.generator, each)
            if found is not None:
                yield found


def _gates(
    setting: GeneratedSetting, results: Sequence[Result], competences: Mapping[str, Competence]
) -> Iterable[Gate]:
    """From the gate where it is at hand, else from the result over most images."""
    most = max(results, key=lambda result: result.evaluated)
    for oracle in setting.oracles:
        kept, name = competences.get(oracle), oracle_name(oracle)
        if kept is not None:
            yield Gate(oracle, kept.images, kept.accuracy, kept.expected_calibration_error, kept.brier_score)
            continue
        accuracy, gap = (
            value(most, metric, name) for metric in ("oracle_accuracy", "expected_calibration_error")
        )
        if accuracy is not None and gap is not None:
            yield Gate(oracle, most.evaluated, accuracy, gap, None)
