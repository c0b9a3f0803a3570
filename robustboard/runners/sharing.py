"""What an evaluated model and an oracle have in common, so that its verdicts may favour the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from robustboard.benchmarks.entries import GeneratedSetting, Scope
from robustboard.registry.catalog import Catalog
from robustboard.registry.entries import HubWeights, ModelEntry
from robustboard.registry.oracles import (
    ClassifierJudge,
    EnsembleJudge,
    ModelClip,
    OracleEntry,
    ProbeJudge,
    TrainedClip,
)
from robustboard.runners.record import FlagName, SanityFlag

PREFIX = "shared with oracle "
"""Of the names under which a run's circumstances tell it."""
FLAGS: Mapping[str, FlagName] = {"weights": "oracle-shares-weights", "data": "oracle-shares-data"}


@dataclass(frozen=True, slots=True)
class Shared:
    """One thing in common."""

    what: Literal["weights", "data"]
    oracle: str
    reason: str


def shared(model: ModelEntry, oracle: OracleEntry, catalog: Catalog) -> tuple[Shared, ...]:
    """What a model shares with an oracle, or with one that the oracle is made of, by their entries.

    weights: the same model entry, the model that it was made from, or the same repository and commit.
    data: a training set of both.
    """
    return tuple(_shared(model, oracle, oracle.id, catalog))


def _shared(model: ModelEntry, oracle: OracleEntry, name: str, catalog: Catalog) -> Iterator[Shared]:
    judge = oracle.judge
    who = oracle.id if oracle.id == name else f"{oracle.id} of {name}"
    for part in oracle.made_of:
        yield from _shared(model, catalog.oracle(part), name, catalog)
    if isinstance(judge, EnsembleJudge):
        return
    if isinstance(judge, ProbeJudge):
        seen = {judge.recipe.dataset}
    elif not isinstance(judge, ClassifierJudge) and isinstance(judge.weights, TrainedClip):
        seen = {judge.weights.recipe.dataset}
    else:
        other = judge.model if isinstance(judge, ClassifierJudge) else _model_of(judge.weights)
        entry = catalog.model(other)
        seen = set(entry.training.datasets)
        if _same_weights(model, entry):
            yield Shared("weights", name, f"{model.id} and {who} have the weights of {entry.id}")
    both = sorted({each.casefold() for each in seen} & {each.casefold() for each in model.training.datasets})
    if both:
        yield Shared("data", name, f"{model.id} and {who} were both trained on {', '.join(both)}")


def _model_of(weights: TrainedClip | ModelClip) -> str:
    return weights.model if isinstance(weights, ModelClip) else ""


def _same_weights(model: ModelEntry, other: ModelEntry) -> bool:
    if other.id in (model.id, model.base) or model.id == other.base:
        return True
    mine, its = model.source, other.source
    if isinstance(mine, HubWeights) and isinstance(its, HubWeights):
        return (mine.repo, mine.revision) == (its.repo, its.revision)
    return mine == its


def told(found: tuple[Shared, ...]) -> dict[str, str]:
    """What is shared, for the circumstances of a run: `shared with oracle NAME: weights` → why."""
    return {f"{PREFIX}{each.oracle}: {each.what}": each.reason for each in found}


def shared_in(model: ModelEntry, setting: Scope, catalog: Catalog) -> dict[str, str]:
    """What a model shares with the oracles of a setting, for the record; nothing for other protocols."""
    if not isinstance(setting, GeneratedSetting):
        return {}
    return {
        name: reason
        for oracle in setting.oracles
        for name, reason in told(shared(model, catalog.oracle(oracle), catalog)).items()
    }


def sharing_flags(preparation: Mapping[str, str]) -> tuple[SanityFlag, ...]:
    """Flags of a run from its circumstances; each concerns the images that one oracle accepted."""
    found = []
    for name, reason in sorted(preparation.items()):
        if name.startswith(PREFIX):
            oracle, what = name.removeprefix(PREFIX).rsplit(": ", 1)
            found.append(
                SanityFlag(
                    name=FLAGS[what], condition=f"by {oracle}", value=1.0, limit=0.0, reason=f"{reason}."
                )
            )
    return tuple(found)
