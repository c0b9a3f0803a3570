"""Two models on the same images: by pairs where predictions are at hand, else by their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.entries import CLEAN
from robustboard.leaderboard.statistics import ALPHA, mcnemar, tied
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Result, Score

Verdict = Literal["clear", "tied", "unknown"]
"""clear: one of the two is better. tied: they cannot be told apart. unknown: no common number."""
Predictions = Callable[[Result], PredictionTable | None]
"""Hands over the stored predictions of a result, None where they are not at hand."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Right or wrong for every image, images in the order of ids."""

    ids: tuple[str, ...]
    right: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pairs:
    """How often two models are right on the same images."""

    both: int
    only_a: int
    only_b: int
    neither: int
    p_value: float
    """Of McNemar's exact test, two-sided."""


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
                    "verdict": item.verdict,
                    "reason": item.reason,
                }
                for item in self.differences
            ],
        }

    def text_headings(self) -> tuple[str, ...]:
        """Headings of a plain text table."""
        return ("benchmark", "dataset", "score", self.a, self.b, "difference", "p", "verdict")

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
                "-" if item.pairs is None else p_text(item.pairs.p_value),
                f"{item.verdict} ({item.reason})",
            )
            for item in self.differences
        ]


def p_text(value: float) -> str:
    """A p-value with two digits, `< 0.001` below that."""
    return "< 0.001" if value < 0.001 else f"{value:.2g}"  # noqa: PLR2004 - the usual bound of print


def _scale(item: Difference) -> int:
    score = item.a or item.b
    return 100 if score is not None and score.unit == "share" else 1


def _text(score: Score | None) -> str:
    if score is None:
        return "not run"
    if score.value is None:
        return "undefined"
    return f"{score.value * 100:.1f}" if score.unit == "share" else f"{score.value:.3f}"


def outcomes(table: PredictionTable, metric: str, condition: str) -> Outcomes | None:
    """Right or wrong an image, as the metric counts it; None for metrics that are no count of images.

    clean_accuracy: right on the clean image. robust_accuracy: right on the clean and on the attacked
    image. noise_accuracy_worst: right under every draw. Skipped images are left out, and those of no
    class, on which no answer is right.
    """
    names = table.conditions()
    if metric == "clean_accuracy":
        wanted = [CLEAN]
    elif metric == "robust_accuracy":
        wanted = [CLEAN, condition]
    elif metric == "noise_accuracy_worst":
        wanted = [name for name in names if name.startswith(f"{condition} draw ")]
    else:
        return None
    if not wanted or not set(wanted) <= set(names):
        return None
    sample, where = table.column("sample_id"), table.column("condition")
    hit = table.column("predicted") == table.column("label")
    measured = ~np.isin(table.column("status").astype(str), ["skipped", "outside"])
    ids: tuple[str, ...] = ()
    right: npt.NDArray[Any] | None = None
    for name in wanted:
        rows = np.flatnonzero((where == name) & measured)
        rows = rows[np.argsort(sample[rows].astype(str), kind="stable")]
        found = tuple(map(str, sample[rows]))
        if right is None:
            ids, right = found, hit[rows]
        elif found != ids:
            return None
        else:
            right &= hit[rows]
    return None if right is None else Outcomes(ids, np.asarray(right, np.bool_))


def paired(a: Outcomes, b: Outcomes) -> Pairs:
    """Counts and test over the same images. Raises ValueError when the images are not the same."""
    if a.ids != b.ids:
        raise ValueError("expected outcomes on the same images")
    only_a, only_b = int((a.right & ~b.right).sum()), int((b.right & ~a.right).sum())
    return Pairs(
        both=int((a.right & b.right).sum()),
        only_a=only_a,
        only_b=only_b,
        neither=int((~a.right & ~b.right).sum()),
        p_value=mcnemar(only_a, only_b),
    )


def compare(
    a: str,
    b: str,
    results: Mapping[Cell, Result],
    predictions: Predictions = lambda _: None,
    *,
    every_score: bool = False,
) -> Comparison:
    """All cells that either model has, sorted; headlines only unless `every_score`.

    Results on other image bytes, or under another protocol, are never compared: the verdict is
    unknown and says so.
    """
    differences: list[Difference] = []
    pairs = sorted({(cell.benchmark, cell.dataset) for cell in results if cell.model in (a, b)})
    for benchmark, dataset in pairs:
        left = results.get(Cell(a, benchmark, dataset))
        right = results.get(Cell(b, benchmark, dataset))
        tables = _tables(left, right, predictions)
        differences += [
            _difference(benchmark, dataset, name, (left, right), tables)
            for name in _names(left, right, every_score=every_score)
        ]
    return Comparison(a, b, tuple(differences))


Tables = tuple[PredictionTable, PredictionTable] | None


def _tables(left: Result | None, right: Result | None, predictions: Predictions) -> Tables:
    if left is None or right is None or _mismatch(left, right):
        return None
    first, second = predictions(left), predictions(right)
    return None if first is None or second is None else (first, second)


def _names(left: Result | None, right: Result | None, *, every_score: bool) -> list[str]:
    found: dict[str, None] = {}
    for result in (left, right):
        if result is not None:
            names = [f"{s.metric}@{s.condition}" for s in result.scores] if every_score else [result.headline]
            found.update(dict.fromkeys(names))
    return list(found)


def _mismatch(left: Result, right: Result) -> str | None:
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
    benchmark: str, dataset: str, name: str, results: tuple[Result | None, Result | None], tables: Tables
) -> Difference:
    metric, _, condition = name.partition("@")
    a, b = (_score(result, metric, condition) for result in results)
    left, right = results
    mismatch = _mismatch(left, right) if left is not None and right is not None else None
    pairs: Pairs | None = None
    difference: float | None = None
    if a is None or b is None:
        verdict, reason = _unknown("only one of them was run")
    elif a.value is None or b.value is None:
        verdict, reason = _unknown(a.reason or b.reason or "undefined")
    elif mismatch is not None:
        verdict, reason = _unknown(mismatch)
    else:
        difference = a.value - b.value
        pairs = _pairs(tables, metric, condition)
        verdict, reason = _by_pairs(pairs) if pairs is not None else _by_intervals(a, b)
    return Difference(benchmark, dataset, metric, condition, a, b, difference, pairs, verdict, reason)


def _unknown(reason: str) -> tuple[Verdict, str]:
    return "unknown", reason


def _pairs(tables: Tables, metric: str, condition: str) -> Pairs | None:
    if tables is None:
        return None
    first, second = (outcomes(table, metric, condition) for table in tables)
    if first is None or second is None or first.ids != second.ids:
        return None
    return paired(first, second)


def _by_pairs(pairs: Pairs) -> tuple[Verdict, str]:
    apart = f"{pairs.only_a} to {pairs.only_b} images, McNemar"
    return ("clear" if pairs.p_value < ALPHA else "tied"), apart


def _by_intervals(a: Score, b: Score) -> tuple[Verdict, str]:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return _unknown("no interval")
    if tied(a.low, a.high, b.low, b.high):
        return "tied", "intervals overlap"
    return "clear", "intervals apart"
