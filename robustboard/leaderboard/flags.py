"""Sanity flags that show only where several results of one model are laid side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from robustboard.benchmarks.entries import Attack, BenchmarkEntry, Cascade, Noise
from robustboard.runners.flags import BLACK_BOX, IMAGES, MARGIN, SINGLE_STEP, counts_as_more, doubts, in_order
from robustboard.runners.keys import Cell
from robustboard.runners.record import FlagName, Result, SanityFlag

RELATIVE: frozenset[FlagName] = frozenset({"single-step-stronger", "black-box-stronger"})
"""Flags by which one attack wins over others: they doubt the others' numbers, not the lowest one."""
OF_ORACLES: FlagName = "oracle-shares-weights"
OF_ACCEPTED = frozenset(
    {
        "fmr",
        "fmr_matched",
        "perturbed_accuracy",
        "perturbed_accuracy_unrejected",
        "perturbed_accuracy_all",
        "accepted_clean_accuracy",
        "validation_rate",
    }
)
"""Metrics of generated images, which an oracle has accepted."""
OF_LOGITS = frozenset(
    {
        "expected_calibration_error",
        "rms_calibration_error",
        "rms_calibration_error_published",
        "aurra",
        "brier_score",
        "negative_log_likelihood",
        "best_temperature",
        "auroc",
        "aupr_out",
        "aupr_in",
        "aupr_out_trapezoid",
        "aupr_in_trapezoid",
        "fpr95",
        "fpr95_first",
    }
)
"""Metrics of calibration and detection: they take outputs for logits, and so say nothing of a softmax."""
STEP_IMAGES = 3
"""Images by which a single step must win over many, besides the margin."""


_Place = tuple[str, str, int, str]
"""Dataset, fingerprint of its images, their number, and the condition."""


@dataclass(frozen=True, slots=True)
class Raised:
    """A flag, and the cell whose number it doubts."""

    cell: Cell
    flag: SanityFlag


@dataclass(frozen=True, slots=True)
class _Shot:
    """What one result says of one condition."""

    cell: Cell
    correct: int
    n: int
    steady: float
    """Images that stand after all attacks with gradients, where others took part as well."""
    known: bool
    """Whether the result says itself that an attack without gradients won."""

    @property
    def value(self) -> float:
        return self.correct / self.n


def raised(
    results: Mapping[Cell, Result], outdated: Collection[Cell], benchmarks: Mapping[str, BenchmarkEntry]
) -> dict[str, tuple[Raised, ...]]:
    """Model → all flags of its results, those of single results and those between results.

    Flags between results come from whole results under the entries as they are now.
    """
    groups: dict[str, list[Result]] = {}
    for cell, result in results.items():
        groups.setdefault(cell.model, []).append(result)
    found = {}
    for model, group in groups.items():
        current = [r for r in group if r.complete and _cell(r) not in outdated]
        between = cross_flags(current, benchmarks)
        found[model] = tuple(
            Raised(_cell(result), flag)
            for result in group
            for flag in in_order([*result.flags, *between.get(_cell(result), ())])
        )
    return {model: flags for model, flags in found.items() if flags}


def cross_flags(
    results: Iterable[Result], benchmarks: Mapping[str, BenchmarkEntry]
) -> dict[Cell, tuple[SanityFlag, ...]]:
    """Flags between the results of one model, by the cell whose number they doubt.

    Compared are whole results on the same images, at equal norm and budget: the best that attacks of
    many steps with gradients reached, against one step (FGSM), and against attacks that ask for no
    gradient (Square alone; the worst of several draws of uniform noise, which stays inside a Linf
    budget as Gaussian noise does not). What the best of them misses is doubted in each of them.
    """
    many: dict[_Place, list[_Shot]] = {}
    single: dict[_Place, list[_Shot]] = {}
    black: dict[_Place, list[_Shot]] = {}
    for result in results:
        entry = benchmarks.get(result.key.benchmark)
        if entry is None or not result.complete:
            continue
        role, metric, prefix = _role(entry)
        chosen = {"many": many, "single": single, "black": black}.get(role)
        if chosen is None:
            continue
        for condition, shot in _shots(result, metric, prefix):
            place = (result.key.dataset, result.key.data_fingerprint, shot.n, condition)
            chosen.setdefault(place, []).append(shot)
    found: dict[Cell, list[SanityFlag]] = {}
    rules: tuple[tuple[FlagName, dict[_Place, list[_Shot]], int], ...] = (
        ("single-step-stronger", single, STEP_IMAGES),
        ("black-box-stronger", black, IMAGES),
    )
    for place, shots in many.items():
        for name, others, images in rules:
            for cell, flag in _compare(name, place[-1], shots, others.get(place, []), images):
                found.setdefault(cell, []).append(flag)
    return {cell: in_order(flags) for cell, flags in found.items()}


def _role(entry: BenchmarkEntry) -> tuple[str, str, str]:
    """What a protocol is in a comparison, its metric, and what its conditions begin with."""
    procedure = entry.procedure
    if isinstance(procedure, Noise):
        return "black", "noise_accuracy_worst", "uniform "
    if isinstance(procedure, Attack):
        return ("single" if procedure.attack == SINGLE_STEP else "many"), "robust_accuracy", ""
    if isinstance(procedure, Cascade):
        blind = all(step.attack == BLACK_BOX for step in procedure.attacks)
        return ("black" if blind else "many"), "robust_accuracy", ""
    return "none", "", ""


def _shots(result: Result, metric: str, prefix: str) -> Iterator[tuple[str, _Shot]]:
    late = {f.condition: f.value for f in result.flags if f.name == "black-box-stronger"}
    for score in result.scores:
        if score.metric != metric or not score.condition.startswith(prefix) or score.correct is None:
            continue
        condition = f"linf {score.condition.removeprefix(prefix)}" if prefix else score.condition
        steady = score.correct + late.get(score.condition, 0.0) * score.n
        yield condition, _Shot(_cell(result), score.correct, score.n, steady, score.condition in late)


def _compare(
    name: FlagName, condition: str, many: Sequence[_Shot], others: Sequence[_Shot], images: int
) -> Iterator[tuple[Cell, SanityFlag]]:
    if not others:
        return
    best = min(many, key=lambda shot: shot.steady)
    weak = min(others, key=lambda shot: shot.correct)
    if not counts_as_more(best.steady - weak.correct, best.n, images):
        return
    kind = "one step" if name == "single-step-stronger" else "no gradient"
    for shot in many:
        said = shot.known and name == "black-box-stronger"
        if not said and counts_as_more(shot.correct - weak.correct, shot.n, images):
            yield (
                shot.cell,
                SanityFlag(
                    name=name,
                    condition=condition,
                    value=shot.value - weak.value,
                    limit=MARGIN,
                    reason=f"{weak.cell.benchmark}, with {kind}, leaves {weak.correct} of {weak.n} images"
                    f" right at {condition}; {shot.cell.benchmark} leaves {shot.correct}, and no attack of"
                    " many steps with gradients comes as low.",
                ),
            )


def _cell(result: Result) -> Cell:
    return Cell(result.key.model, result.key.benchmark, result.key.dataset)


def _accepted(flag: SanityFlag, condition: str) -> bool:
    """Whether a flag says that the oracle of `GENERATOR by ORACLE` has the model's own weights."""
    return flag.name == OF_ORACLES and flag.condition == f"by {condition.rpartition(' by ')[2]}"


def concerns(raised_here: Iterable[Raised], dataset: str, metric: str, condition: str) -> tuple[Raised, ...]:
    """The flags that cast doubt on one score of a model: about the model, this budget or the whole norm.

    A score over all budgets (its condition is the norm alone) is doubted by every flag of the norm but
    those by which another attack wins at one of them.
    Numbers without an attack are doubted by random answers, and those that calibration and detection make
    of logits by outputs that are none. That an oracle shares weights with the model doubts numbers of the
    images that this oracle accepted, and no others.
    """
    here = [each for each in raised_here if each.cell.dataset == dataset and doubts([each.flag])]
    norm, _, budget = condition.partition(" ")
    if norm not in ("linf", "l2") or metric == "clean_accuracy":
        doubtful = {"non-deterministic"} | ({"softmax-output"} if metric in OF_LOGITS else set())
        return tuple(
            each
            for each in here
            if each.flag.name in doubtful or (metric in OF_ACCEPTED and _accepted(each.flag, condition))
        )
    found = []
    for each in here:
        if each.flag.name == OF_ORACLES:
            continue
        where = each.flag.condition
        within = not budget and str(where).startswith(f"{norm} ") and each.flag.name not in RELATIVE
        if within or where in (None, condition, f"{norm} unbounded"):
            found.append(each)
    return tuple(found)
