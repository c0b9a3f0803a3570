"""One cell of a board: what was measured, or why there is no number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import StoreError
from robustboard.leaderboard.flags import Raised, raised
from robustboard.leaderboard.results import outdated
from robustboard.leaderboard.statistics import margin
from robustboard.registry.catalog import Catalog
from robustboard.runners.failures import Failure
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage
from robustboard.runners.record import Result, Score
from robustboard.runners.verifications import Standing, Tier

CellStatus = Literal[
    "ok", "partial", "outdated", "undefined", "failed", "withheld", "unchecked", "invalidated", "not run"
]
"""ok: measured on every image, under the entries as they are now; only such cells can rank a model.
unchecked: nobody but its author vouches for it. invalidated: it was found to be wrong, with the reason.
withheld: its data or weights are gated, and who ran it had not accepted their terms."""
STATUSES: tuple[CellStatus, ...] = get_args(CellStatus)


IN_PERCENT = frozenset({"share", "difference"})
"""Units that pages and tables show times 100."""


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell of a board."""

    status: CellStatus
    score: Score | None
    """None where there is no result; undefined scores have no value."""
    reason: str | None
    """Why the status is not ok."""
    result: Result | None
    standing: Standing | None = None
    """How far the result may be believed, and who has checked it; None where nobody asked."""

    @property
    def provenance(self) -> Tier | None:
        """The tier that the result has reached; None without a result."""
        if self.result is None:
            return None
        return self.standing.tier if self.standing is not None else self.result.status

    def as_data(self) -> dict[str, Any]:
        """The cell as JSON values."""
        fields = ("metric", "condition", "value", "low", "high", "n", "correct", "unit", "direction")
        found = {name: getattr(self.score, name) if self.score else None for name in fields}
        key = self.result.key_digest if self.result else None
        checks = [each.model_dump(mode="json") for each in self.standing.checks] if self.standing else []
        told = {"status": self.status, "provenance": self.provenance, "reason": self.reason}
        return {**told, **found, "key": key, "checks": checks}

    @property
    def value(self) -> float | None:
        """The number, in the unit of its score."""
        return self.score.value if self.score is not None else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The 95 % interval; the value itself where the score has none; None without a value."""
        if self.score is None or self.score.value is None:
            return None
        low, high = self.score.low, self.score.high
        return (self.score.value, self.score.value) if low is None or high is None else (low, high)

    @property
    def margin(self) -> float | None:
        """The larger side of the interval."""
        if self.score is None or self.score.value is None or self.score.low is None:
            return None
        low, high = self.bounds or (self.score.value, self.score.value)
        return margin(self.score.value, low, high)


def margin_text(cell: CellView) -> str:
    """`±0.4` in percent for shares, never rounded to nothing; empty where there is no interval."""
    if cell.margin is None or cell.score is None:
        return ""
    scaled = cell.margin * (100 if cell.score.unit in IN_PERCENT else 1)
    return f"±{max(scaled, 0.1):.1f}" if scaled > 0 else "±0.0"


def percent_text(share: float, digits: int = 1) -> str:
    """`76.1` for 0.761. A share below 1 never reads 100, one above 0 never reads 0."""
    text = f"{share * 100:.{digits}f}"
    step = 10.0**-digits
    if share < 1 and float(text) >= 100:  # noqa: PLR2004 - a hundred per cent
        return f"{100 - step:.{digits}f}"
    if share > 0 and float(text) == 0:
        return f"{step:.{digits}f}"
    return text


def points_text(difference: float, digits: int = 1, *, signed: bool = False) -> str:
    """`5.6 pp` for 0.056, in percentage points; with a plus above 0 where signed, and 0 without a sign."""
    text = f"{difference * 100:.{digits}f}"
    if float(text) == 0:
        text = f"{0:.{digits}f}"
    return f"{'+' if signed and float(text) > 0 else ''}{text} pp"


def cell_text(cell: CellView) -> str:
    """`76.1 ±0.4` in percent for shares; the status word where there is no number."""
    score = cell.score
    if score is None or score.value is None:
        return cell.status
    if score.unit == "difference":
        value = points_text(score.value, signed=score.direction == "higher")
    else:
        value = percent_text(score.value) if score.unit in IN_PERCENT else f"{score.value:.3f}"
    text = f"{value} {margin_text(cell)}".rstrip()
    return text if cell.status == "ok" else f"{text} ({cell.status})"


def find_score(result: Result, name: str | None) -> Score:
    """The score METRIC@CONDITION of a result, its headline when no name is given.

    Raises StoreError naming the record and the score that it lacks.
    """
    wanted = name or result.headline
    metric, _, condition = wanted.partition("@")
    for score in result.scores:
        if score.metric == metric and score.condition == condition:
            return score
    cell = Cell(result.key.model, result.key.benchmark, result.key.dataset)
    raise StoreError(f"{cell.name}.json: scores: expected {wanted}, found none")


@dataclass(frozen=True, slots=True)
class Measured:
    """All that is known of cells: results, and why others have none or an old one."""

    results: Mapping[Cell, Result]
    outdated: Mapping[Cell, str]
    failures: Mapping[Cell, Failure]
    benchmarks: Mapping[str, BenchmarkEntry] = field(default_factory=dict)
    flags: Mapping[str, tuple[Raised, ...]] = field(default_factory=dict)
    """Model → sanity flags of its results, of each one and between them."""
    outcomes: Mapping[Cell, PerImage] = field(default_factory=dict)
    """Right or wrong an image, of the results that have it."""
    trust: Mapping[Cell, Standing] = field(default_factory=dict)
    """How far each result may be believed. Those that may not rank stand among the outdated ones too, so
    that nothing else is worked out from them."""

    @classmethod
    def of(
        cls,
        results: Mapping[Cell, Result],
        catalog: Catalog,
        benchmarks: Mapping[str, BenchmarkEntry],
        failures: Mapping[Cell, Failure] | None = None,
        outcomes: Mapping[Cell, PerImage] | None = None,
        *,
        trust: Mapping[Cell, Standing] | None = None,
    ) -> Measured:
        """With the outdated ones found by comparing keys with entries."""
        doubted = {cell: _doubt(each) for cell, each in (trust or {}).items() if not each.ranked}
        # Image bytes are judged by what most results saw: what nobody vouches for has no vote.
        vouched = {cell: result for cell, result in results.items() if cell not in doubted}
        old = outdated(vouched, catalog, benchmarks)
        old = old | {cell: reason for cell, (_, reason) in doubted.items() if cell in results}
        flags = raised(results, old, benchmarks)
        return cls(results, old, failures or {}, benchmarks, flags, outcomes or {}, trust or {})

    def view(self, cell: Cell, score: str | None = None) -> CellView:
        """The cell as a board shows it. Raises StoreError when its result lacks the score."""
        result = self.results.get(cell)
        if result is None:
            failure = self.failures.get(cell)
            if failure is not None and failure.kind == "gated":
                return CellView("withheld", None, failure.reason, None)
            if failure is not None and failure.kind == "unavailable":
                return CellView("not run", None, f"tried, but {failure.reason}", None)
            if failure is not None:
                return CellView("failed", None, f"{failure.kind}: {failure.reason}", None)
            return CellView("not run", None, "nobody has run it", None)
        found, standing = find_score(result, score), self.trust.get(cell)
        if found.status == "undefined":
            return CellView("undefined", found, found.reason, result, standing)
        if standing is not None and not standing.ranked:
            status, reason = _doubt(standing)
            return CellView(status, found, reason, result, standing)
        if cell in self.outdated:
            return CellView("outdated", found, self.outdated[cell], result, standing)
        if not result.complete:
            return CellView("partial", found, _incomplete(result), result, standing)
        return CellView("ok", found, None, result, standing)


UNCHECKED = "nobody but its author has checked it: no run, audit or recomputation of this project"


def _doubt(standing: Standing) -> tuple[CellStatus, str]:
    """Status and reason of a result that may not rank."""
    if standing.invalid is not None:
        return "invalidated", standing.invalid
    return "unchecked", UNCHECKED


def _incomplete(result: Result) -> str:
    if result.skipped:
        return f"{result.skipped} of {result.images} images could not be read"
    return f"measured on {result.evaluated} of {result.images} images"
