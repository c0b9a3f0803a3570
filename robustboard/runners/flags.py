"""Sanity flags of one result: signs that its numbers overstate robustness. Pure, no torch here.

Raised from stored predictions and from what a look at the model showed, so `robustboard score` gives
the same flags again. Flags that need several results of a model are in `leaderboard.flags`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import numpy as np

from robustboard.benchmarks.conditions import perturbations
from robustboard.benchmarks.entries import (
    Adversarial,
    Attack,
    AttackSetting,
    BenchmarkEntry,
    Cascade,
    Procedure,
    Scope,
    WorstCase,
)
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Checks, FlagName, SanityFlag, Score

SPREAD = 1e-4
"""Largest difference of a logit between two passes that rounding explains."""
BLIND_SHARE = 0.01
"""Largest share of attacked images without any gradient that says nothing of the others."""
MARGIN = 0.002
"""Share of all images by which an attack must win, or accuracy rise, before it counts: 0.2 points."""
IMAGES = 2
"""Images that it takes besides, so that no single image raises a flag on a small set."""
NOTES: frozenset[FlagName] = frozenset({"few-classes", "oracle-shares-data"})
"""Flags that tell of a reduced protocol and cast no doubt: every model of the dataset gets them."""
SINGLE_STEP = "fgsm"
BLACK_BOX = "square"
TARGETED = frozenset({"apgd-targeted", "fab-targeted"})
CLASSES_NEEDED: Mapping[str, int] = {"apgd-dlr": 3, "apgd-targeted": 4}
"""Least classes for an attack's own loss; with fewer it climbs the margin."""
MEANINGS: Mapping[FlagName, str] = {
    "non-deterministic": "Two passes over the same images gave different answers, so one lucky draw may count"
    " as robustness or as a broken image. Only protocols that average over passes rank such a model.",
    "softmax-output": "The model puts out probabilities where logits are expected; attacks lose their"
    " gradient where these saturate.",
    "inner-gradients": "The model computes gradients inside its own forward pass. Attacks through such a loop"
    " are weak; it needs one made for it.",
    "few-classes": "There are fewer classes than the protocol's attacks aim at, so they aim at those there"
    " are. A note on the protocol; no doubt about the model.",
    "zero-gradients": "The model gave no gradient at all for many attacked images; an attack is blind there.",
    "not-falling": "Accuracy rises with the budget. A larger budget holds every image of a smaller one, so"
    " the attack failed to find them.",
    "single-step-stronger": "One step of gradient breaks more images than many steps inside the same budget:"
    " the many steps are led astray.",
    "black-box-stronger": "An attack without gradients breaks images that attacks with gradients leave"
    " standing: the gradients mislead.",
    "unbounded-survivors": "Images survive an attack that may change every pixel at will, although images of"
    " other classes lie within its reach: the attack does not work on this model.",
    "oracle-shares-weights": "The oracle that accepted the images has weights in common with the model, so it"
    " accepts what suits the model.",
    "oracle-shares-data": "The oracle was trained on images that the model was trained on too, and may share"
    " its errors. A note on the protocol; no doubt about the model.",
}
"""What each flag says, for readers; in the order in which flags stand."""


def is_random(checks: Checks) -> bool:
    """Whether two passes over the same images differed by more than rounding explains."""
    return checks.spread > SPREAD or checks.flips > 0


def doubts(flags: Sequence[SanityFlag]) -> tuple[SanityFlag, ...]:
    """The flags that cast doubt on numbers, without mere notes."""
    return tuple(flag for flag in flags if flag.name not in NOTES)


def flagged(flags: Sequence[SanityFlag]) -> str:
    """`, flagged zero-gradients` for one line about a result; nothing without doubts."""
    names = dict.fromkeys(flag.name for flag in doubts(flags))
    return f", flagged {' and '.join(names)}" if names else ""


def in_order(flags: Sequence[SanityFlag]) -> tuple[SanityFlag, ...]:
    """Flags in the order of their names, then as they came."""
    names = list(get_args(FlagName))
    return tuple(sorted(flags, key=lambda flag: names.index(flag.name)))


def counts_as_more(images: float, n: int, least: int = IMAGES) -> bool:
    """Whether a difference of so many images of n is beyond the margin, and `least` images at least."""
    return images >= least and images > round(MARGIN * n, 9)


def percent(share: float) -> str:
    """`0.3 %`, with enough digits that nothing reads 0 that is not."""
    text = f"{100 * share:.1f}"
    return f"{text if float(text) or not share else f'{100 * share:.2g}'} %"


def flags(
    benchmark: BenchmarkEntry,
    setting: Scope,
    scores: Sequence[Score],
    table: PredictionTable,
    checks: Checks | None,
) -> tuple[SanityFlag, ...]:
    """All flags of one result in a fixed order; of each name the worst place only.

    Args:
        benchmark: The protocol that was run.
        setting: Its setting for the dataset.
        scores: The result's scores.
        table: Predictions behind them.
        checks: What a look at the model showed; None where nobody looked.
    """
    procedure = benchmark.procedure
    found = [] if checks is None else list(_of_model(benchmark, checks))
    if isinstance(procedure, Adversarial):
        found += _zero_gradients(scores)
        if not _single_step(procedure, setting):
            found += _not_falling(procedure, setting, scores)
        if isinstance(procedure, Cascade | WorstCase):
            for step in perturbations(procedure, setting):
                found += _out_of_turn(procedure, step.name, table.only(step.name))
    worst: dict[FlagName, SanityFlag] = {}
    for flag in found:
        if flag.name not in worst or flag.value > worst[flag.name].value:
            worst[flag.name] = flag
    return in_order(list(worst.values()))


def _single_step(procedure: Procedure, setting: Scope) -> bool:
    """Whether the attack is one step, which overshoots at large budgets on sound models too."""
    return isinstance(procedure, Attack) and (
        procedure.attack == SINGLE_STEP or (isinstance(setting, AttackSetting) and setting.steps == 1)
    )


def _of_model(benchmark: BenchmarkEntry, checks: Checks) -> Iterator[SanityFlag]:
    procedure = benchmark.procedure
    if is_random(checks):
        by_logits = checks.spread > SPREAD
        classes = f", and another class for {checks.flips} of them" if checks.flips else ""
        yield SanityFlag(
            name="non-deterministic",
            condition=None,
            value=checks.spread if by_logits else checks.flips / checks.images,
            limit=SPREAD if by_logits else 0.0,
            reason=f"Two passes over the same {checks.images} images gave logits up to"
            f" {checks.spread:.2g} apart{classes}.",
        )
    if checks.softmax:
        reason = (
            f"The outputs for {checks.images} images are no logits: none is negative and each row sums to 1."
        )
        yield SanityFlag(name="softmax-output", condition=None, value=1.0, limit=0.0, reason=reason)
    if checks.inner_gradients:
        reason = "The forward pass called automatic differentiation itself."
        yield SanityFlag(name="inner-gradients", condition=None, value=1.0, limit=0.0, reason=reason)
    missing = classes_needed(procedure) - checks.classes
    if missing > 0:
        yield SanityFlag(
            name="few-classes",
            condition=None,
            value=float(missing),
            limit=0.0,
            reason=f"{benchmark.id} is made for {classes_needed(procedure)} classes or more;"
            f" {checks.classes} compete here.",
        )
    if checks.unbounded and isinstance(procedure, Attack | Cascade):
        yield SanityFlag(
            name="unbounded-survivors",
            condition=f"{procedure.norm} unbounded",
            value=checks.unbounded / checks.attacked,
            limit=0.0,
            reason=f"{checks.unbounded} of {checks.attacked} images survived the attack with the whole pixel"
            " range as budget.",
        )


def classes_needed(procedure: Procedure) -> int:
    """Least classes for which a protocol runs as written."""
    if not isinstance(procedure, Cascade):
        return 2
    aims = [step.targets + 1 for step in procedure.attacks if step.attack in TARGETED]
    losses = [CLASSES_NEEDED.get(step.attack, 2) for step in procedure.attacks]
    return max(aims + losses)


def _zero_gradients(scores: Sequence[Score]) -> Iterator[SanityFlag]:
    for score in scores:
        if score.metric == "zero_gradient_share" and score.value is not None and score.value > BLIND_SHARE:
            yield SanityFlag(
                name="zero-gradients",
                condition=score.condition,
                value=score.value,
                limit=BLIND_SHARE,
                reason=f"{score.correct} of {score.n} attacked images ({percent(score.value)}) gave no"
                f" gradient at {score.condition}.",
            )


def _not_falling(procedure: Adversarial, setting: Scope, scores: Sequence[Score]) -> Iterator[SanityFlag]:
    known = {score.condition: score for score in scores if score.metric == "robust_accuracy"}
    lowest: Score | None = None
    for step in perturbations(procedure, setting):
        score = known.get(step.name)
        if score is None or score.value is None or score.correct is None:
            continue
        if lowest is None or lowest.value is None or lowest.correct is None or score.value <= lowest.value:
            lowest = score
            continue
        if counts_as_more(score.correct - lowest.correct, score.n):
            yield SanityFlag(
                name="not-falling",
                condition=step.name,
                value=score.value - lowest.value,
                limit=MARGIN,
                reason=f"Robust accuracy rises from {percent(lowest.value)} at {lowest.condition} to"
                f" {percent(score.value)} at {step.name}.",
            )


def _out_of_turn(procedure: Cascade | WorstCase, name: str, rows: PredictionTable) -> Iterator[SanityFlag]:
    """Images that a weaker kind of attack broke after a stronger one had left them standing."""
    measured = rows.column("status") != "skipped"
    attacks = np.asarray(rows.column("attack"), str)[measured]
    kinds: tuple[tuple[str, FlagName, str], ...] = (
        (BLACK_BOX, "black-box-stronger", "the attacks with gradients"),
        (SINGLE_STEP, "single-step-stronger", "attacks of many steps"),
    )
    for kind, flag, others in kinds:
        count = int(np.isin(attacks, list(_late(procedure, kind, set(attacks.tolist())))).sum())
        if counts_as_more(count, attacks.size):
            yield SanityFlag(
                name=flag,
                condition=name,
                value=count / attacks.size,
                limit=MARGIN,
                reason=f"{kind} broke {count} of {attacks.size} images ({percent(count / attacks.size)}) that"
                f" {others} had left right at {name}.",
            )


def _late(procedure: Cascade | WorstCase, kind: str, seen: set[str]) -> Iterator[str]:
    """Entries of the attack column that say: `kind` broke this image after a stronger attack had failed.

    A cascade tells by its order. In a worst case an image carries the first benchmark that breaks
    it; what is sure is that a benchmark that broke other images, and stands earlier, failed on it.
    """
    weak = {BLACK_BOX, SINGLE_STEP}
    if isinstance(procedure, Cascade):
        order = [step.attack for step in procedure.attacks]
        if kind in order and any(each not in weak for each in order[: order.index(kind)]):
            yield kind
        return
    places = {benchmark: place for place, benchmark in enumerate(procedure.of)}
    split = {entry: tuple(entry.rsplit(" ", 1)) for entry in seen if " " in entry}
    for entry, (benchmark, attack) in split.items():
        stronger = [other for other, how in split.values() if how not in weak and other in places]
        own = places.get(benchmark)
        if attack == kind and own is not None and any(places[other] <= own for other in stronger):
            yield entry
