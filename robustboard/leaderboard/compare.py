"""Two models on the same images: by pairs where per-image outcomes are at hand, else by their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from robustboard.leaderboard.cells import percent_text
from robustboard.leaderboard.pairs import Pairs, paired, paired_bootstrap
from robustboard.leaderboard.statistics import ALPHA, holm, tied
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, shares
from robustboard.runners.record import Result, Score

Verdict = Literal["clear", "tied", "unknown"]
"""clear: one of the two is better. tied: they cannot be told apart. unknown: no common number."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One score of two models."""

    benchmark: str
    dataset: str
    metric: str
    condition: str
    a: Score | None
    b: Score | None
    difference: float | None
    """a - b, in the unit of the scores; None where one of them has no value."""
    pairs: Pairs | None
    adjusted: float | None
    """p-value of the pairs, adjusted for the number of scores compared (Holm)."""
    verdict: Verdict
    reason: str
    """How the verdict came about, or why there is none."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models, score by score."""

    a: str
    b: str
    differences: tuple[Difference, ...]

    def as_data(self) -> dict[str, Any]:
        """The comparison as JSON values; differences are a - b, shares as shares."""
        return {
            "a": self.a,
            "b": self.b,
            "differences": [
                {
                    "benchmark": item.benchmark,
                    "dataset": item.dataset,
                    "metric": item.metric,
                    "condition": item.condition,
                    "a": item.a.model_dump(mode="json") if item.a else None,
                    "b": item.b.model_dump(mode="json") if item.b else None,
                    "difference": item.difference,
                    "pairs": asdict(item.pairs) if item.pairs else None,
                    "p_adjusted": item.adjusted,
                    "verdict": item.verdict,
                    "reason": item.reason,
                }
                for item in self.differences
            ],
        }

    def text_headings(self) -> tuple[str, ...]:
        """Headings of a plain text table."""
        return (
            "benchmark",
            "dataset",
            "score",
            self.a,
            self.b,
            "difference",
            "95 % interval",
            "p",
            "verdict",
        )

    def text_rows(self) -> list[tuple[str, ...]]:
        """Cells of a plain text table; shares in percent, differences in percentage points."""
        return [
            (
                item.benchmark,
                item.dataset,
                f"{item.metric} @ {item.condition}",
                _text(item.a),
                _text(item.b),
                "-" if item.difference is None else f"{item.difference * _scale(item):+.1f}",
                "-" if item.pairs is None else _interval(item.pairs, _scale(item)),
                "-" if item.adjusted is None else p_text(item.adjusted),
                f"{item.verdict} ({item.reason})",
            )
            for item in self.differences
        ]


def p_text(value: float) -> str:
    """A p-value with two digits, `< 0.001` below that."""
    return "< 0.001" if value < 0.001 else f"{value:.2g}"  # noqa: PLR2004 - the usual bound of print


def _interval(pairs: Pairs, scale: int) -> str:
    return f"{pairs.low * scale:+.1f} to {pairs.high * scale:+.1f}"


def _scale(item: Difference) -> int:
    score = item.a or item.b
    return 100 if score is not None and score.unit == "share" else 1


def _text(score: Score | None) -> str:
    if score is None:
        return "not run"
    if score.value is None:
        return "undefined"
    return percent_text(score.value) if score.unit == "share" else f"{score.value:.3f}"


def compare(
    a: str,
    b: str,
    results: Mapping[Cell, Result],
    outcomes: Mapping[Cell, PerImage] | None = None,
    *,
    every_score: bool = False,
    bootstrap: bool = False,
    wrong: Mapping[Cell, str] | None = None,
) -> Comparison:
    """All cells that either model has, sorted; headlines only unless `every_score`.

    With `bootstrap` the paired intervals are percentiles over images drawn again, 10,000 times. `wrong` says
    why results were invalidated: their numbers are shown, and decide nothing.

    By pairs where both have per-image outcomes, with p-values adjusted for the number of scores compared.
    Results on other image bytes, or under another protocol, are never compared: the verdict is
    unknown and says so.
    """
    differences: list[Difference] = []
    for benchmark, dataset in sorted(
        {(cell.benchmark, cell.dataset) for cell in results if cell.model in (a, b)}
    ):
        sides = Cell(a, benchmark, dataset), Cell(b, benchmark, dataset)
        left, right = (results.get(side) for side in sides)
        bits = Bits(*((outcomes or {}).get(side) for side in sides), bootstrap=bootstrap)
        doubts = [f"{side.model} is invalidated: {wrong[side]}" for side in sides if wrong and side in wrong]
        differences += [
            _difference(benchmark, dataset, name, (left, right), bits, doubt="; ".join(doubts) or None)
            for name in _names(left, right, every_score=every_score)
        ]
    return Comparison(a, b, tuple(adjusted(differences)))


class Bits:
    """Per-image outcomes of one cell of two models, unpacked once."""

    def __init__(self, a: PerImage | None, b: PerImage | None, *, bootstrap: bool = False) -> None:
        """Nothing is compared unless both are there, of the same images."""
        same = a is not None and b is not None and (a.samples, a.images) == (b.samples, b.images)
        self._bootstrap = bootstrap
        self._sides = (a.flags(), b.flags()) if same and a is not None and b is not None else None

    def pairs(self, metric: str, condition: str) -> Pairs | None:
        """Two models at one score; None where it is no mean over images, or without outcomes."""
        if self._sides is None:
            return None
        first, second = (shares(side, metric, condition) for side in self._sides)
        if first is None or second is None or not first.size:
            return None
        found = paired(first, second)
        if not self._bootstrap:
            return found
        low, high = paired_bootstrap(first, second)
        return replace(found, low=low, high=high)


def adjusted(differences: Sequence[Difference]) -> list[Difference]:
    """With verdicts by p-values that are adjusted for the number of paired tests among them."""
    tested = [place for place, item in enumerate(differences) if item.pairs is not None]
    found = list(differences)
    p_values = [item.pairs.p_value for item in differences if item.pairs is not None]
    for place, p_value in zip(tested, holm(p_values), strict=True):
        verdict: Verdict = "clear" if p_value < ALPHA else "tied"
        found[place] = replace(found[place], adjusted=p_value, verdict=verdict)
    return found


def _names(left: Result | None, right: Result | None, *, every_score: bool) -> list[str]:
    found: dict[str, None] = {}
    for result in (left, right):
        if result is not None:
            names = [f"{s.metric}@{s.condition}" for s in result.scores] if every_score else [result.headline]
            found.update(dict.fromkeys(names))
    return list(found)


def mismatch(left: Result, right: Result) -> str | None:
    """Why two results must not be compared; None when they may."""
    for what, one, other in (
        ("protocol", left.key.protocol_digest, right.key.protocol_digest),
        ("labels", left.key.labels_digest, right.key.labels_digest),
        ("image bytes", left.key.data_fingerprint, right.key.data_fingerprint),
        ("sample of images", left.key.subset, right.key.subset),
        ("precision", left.key.precision, right.key.precision),
    ):
        if one != other:
            return f"not the same {what}"
    return None


def _score(result: Result | None, metric: str, condition: str) -> Score | None:
    if result is None:
        return None
    return next((s for s in result.scores if s.metric == metric and s.condition == condition), None)


def _difference(
    benchmark: str,
    dataset: str,
    name: str,
    results: tuple[Result | None, Result | None],
    bits: Bits,
    *,
    doubt: str | None = None,
) -> Difference:
    metric, _, condition = name.partition("@")
    a, b = (_score(result, metric, condition) for result in results)
    left, right = results
    fault = doubt or (mismatch(left, right) if left is not None and right is not None else None)
    pairs: Pairs | None = None
    difference: float | None = None
    if a is None or b is None:
        verdict, reason = _unknown("only one of them was run")
    elif a.value is None or b.value is None:
        verdict, reason = _unknown(a.reason or b.reason or "undefined")
    elif fault is not None:
        verdict, reason = _unknown(fault)
    else:
        difference = a.value - b.value
        pairs = bits.pairs(metric, condition)
        verdict, reason = _by_pairs(pairs) if pairs is not None else _by_intervals(a, b)
    return Difference(benchmark, dataset, metric, condition, a, b, difference, pairs, None, verdict, reason)


def compare_cells(name: str, left: Result, right: Result, bits: Bits) -> Difference:
    """One score METRIC@CONDITION of two results of the same benchmark and dataset."""
    return _difference(left.key.benchmark, left.key.dataset, name, (left, right), bits)


def _unknown(reason: str) -> tuple[Verdict, str]:
    return "unknown", reason


def _by_pairs(pairs: Pairs) -> tuple[Verdict, str]:
    verdict: Verdict = "clear" if pairs.p_value < ALPHA else "tied"
    if pairs.only_a is None:
        return verdict, f"mean over {pairs.images} images, paired z"
    return verdict, f"{pairs.only_a} to {pairs.only_b} images, McNemar"


def _by_intervals(a: Score, b: Score) -> tuple[Verdict, str]:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return _unknown("no interval")
    if tied(a.low, a.high, b.low, b.high):
        return "tied", "intervals overlap"
    return "clear", "intervals apart"
