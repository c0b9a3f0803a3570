"""A working tree against the commit that it starts from: what is new, what changed, vanished or moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robustboard import jsons
from robustboard.errors import StoreError
from robustboard.gits import Change
from robustboard.leaderboard.board import Board, rank_text
from robustboard.leaderboard.statistics import tied
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result, Score

What = Literal["new", "changed", "run again", "vanished"]
"""run again: another run with the same headline."""
PREFIXES: Mapping[str, str] = {
    "registry/models/": "model",
    "registry/datasets/": "dataset",
    "registry/generators/": "generator",
    "registry/oracles/": "oracle",
    "registry/testsets/": "test set",
    "registry/labels/": "label file",
    "registry/reported/": "reported numbers",
    "registry/lock.yaml": "lock",
    "benchmarks/": "protocol",
    "leaderboard/boards/": "board",
    "leaderboard/invalidated/": "invalidation",
    "leaderboard/verifications/": "verification",
    "leaderboard/predictions/": "predictions",
}
STATUS: Mapping[str, str] = {"A": "new", "M": "changed", "D": "vanished", "T": "changed"}


@dataclass(frozen=True, slots=True)
class EntryChange:
    """A content file that is not a result."""

    kind: str
    path: str
    what: str


@dataclass(frozen=True, slots=True)
class ResultChange:
    """One result before and after, by its headline."""

    cell: Cell
    what: What
    before: Score | None
    after: Score | None
    place: tuple[int, int] | None
    """Its place by value, and of how many results under the same protocol and on the same images."""
    best: tuple[str, Score] | None
    """The best other model there."""
    verdict: str
    """Against the best other one for a new result, against the old one for a changed one."""


@dataclass(frozen=True, slots=True)
class Move:
    """A row of a board whose rank is another than before."""

    board: str
    model: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Report:
    """All of it."""

    base: str
    entries: tuple[EntryChange, ...]
    results: tuple[ResultChange, ...]
    moves: tuple[Move, ...]
    smoke: tuple[tuple[str, str], ...]
    """Partial results of this workspace: name and headline."""
    faults: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "base": self.base,
            "entries": [{"kind": e.kind, "path": e.path, "what": e.what} for e in self.entries],
            "results": [
                {
                    "cell": change.cell.name,
                    "what": change.what,
                    "before": _data(change.before),
                    "after": _data(change.after),
                    "place": list(change.place) if change.place else None,
                    "best": change.best[0] if change.best else None,
                    "verdict": change.verdict,
                }
                for change in self.results
            ],
            "moves": [
                {"board": m.board, "model": m.model, "before": m.before, "after": m.after} for m in self.moves
            ],
            "smoke": [{"result": name, "headline": told} for name, told in self.smoke],
            "faults": list(self.faults),
        }

    def markdown(self) -> str:
        """As a page for a pull request; texts of strangers cannot break out of their cells."""
        parts = [f"## Against {self.base[:12]}", ""]
        if not (self.entries or self.results or self.moves or self.smoke or self.faults):
            return "\n".join([*parts, "Nothing that the board shows has changed.", ""])
        parts += _section("Faults", ("fault",), [(fault,) for fault in self.faults])
        parts += _section("Entries", ("kind", "file", ""), [(e.kind, e.path, e.what) for e in self.entries])
        parts += _section(
            "Results",
            ("result", "", "before", "after", "place", "best other", "verdict"),
            [
                (
                    change.cell.name,
                    change.what,
                    _text(change.before),
                    _text(change.after),
                    f"{change.place[0]} of {change.place[1]}" if change.place else "",
                    f"{change.best[0]} {_text(change.best[1])}" if change.best else "",
                    change.verdict,
                )
                for change in self.results
            ],
        )
        moves = [(move.board, move.model, move.before, move.after) for move in self.moves]
        parts += _section("Moved on boards", ("board", "model", "rank before", "rank after"), moves)
        parts += _section("Smoke runs, never ranked", ("result", "headline"), list(self.smoke))
        return "\n".join(parts)


def _section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [f"### {title}", "", _line(headings), _line(["---"] * len(headings))]
    return [*lines, *(_line([_cell(text) for text in row]) for row in rows), ""]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line, and that calls nobody."""
    named = {"`": "'", "&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"}
    harmless = named | {sign: f"\\{sign}" for sign in "\\|[]*_~"}
    return "".join(harmless.get(sign, sign) for sign in " ".join(text.split()))


def _data(score: Score | None) -> dict[str, Any] | None:
    return None if score is None else score.model_dump(mode="json")


def _text(score: Score | None) -> str:
    """A headline for people: share in percent with its interval."""
    if score is None:
        return ""
    if score.value is None:
        return f"undefined ({score.reason})"
    scale, unit = (100, " %") if score.unit == "share" else (1, "")
    value = f"{score.value * scale:.2f}{unit}"
    if score.low is None or score.high is None:
        return value
    return f"{value} ({score.low * scale:.2f} to {score.high * scale:.2f})"


def read_before(files: Mapping[str, bytes]) -> dict[Cell, Result]:
    """Results of a commit by cell, from path → bytes. Those that cannot be read now are left out."""
    found = {}
    for name, data in sorted(files.items()):
        try:
            result = jsons.unseal(data, Result, name)
        except StoreError:
            continue
        found[Cell(result.key.model, result.key.benchmark, result.key.dataset)] = result
    return found


def entry_changes(changes: Iterable[Change]) -> tuple[EntryChange, ...]:
    """Content files among the changes of a branch."""
    found = []
    for change in changes:
        kind = next((kind for prefix, kind in PREFIXES.items() if change.path.startswith(prefix)), None)
        if kind is not None:
            found.append(EntryChange(kind, change.path, STATUS.get(change.status, "changed")))
    return tuple(sorted(found, key=lambda each: (each.kind, each.path)))


def _headline(result: Result) -> Score:
    return next(s for s in result.scores if f"{s.metric}@{s.condition}" == result.headline)


def result_changes(before: Mapping[Cell, Result], after: Mapping[Cell, Result]) -> tuple[ResultChange, ...]:
    """Every cell whose result is not the same, sorted."""
    found = []
    for cell in sorted(set(before) | set(after)):
        old, new = before.get(cell), after.get(cell)
        if old == new:
            continue
        place, best = _among(cell, new, after) if new is not None else (None, None)
        if new is None or old is None:
            what: What = "vanished" if new is None else "new"
            verdict = _against(_headline(new), best[1]) if new is not None and best is not None else ""
        else:
            same = _headline(old).value == _headline(new).value
            what = "run again" if same else "changed"
            verdict = "the same number" if same else _against(_headline(new), _headline(old))
        scores = (_headline(old) if old else None, _headline(new) if new else None)
        found.append(ResultChange(cell, what, *scores, place, best, verdict))
    return tuple(found)


def _among(
    cell: Cell, result: Result, results: Mapping[Cell, Result]
) -> tuple[tuple[int, int] | None, tuple[str, Score] | None]:
    """The place of a result among those of the same protocol and images, and the best other one."""
    own = _headline(result)
    peers = {
        other.model: _headline(each)
        for other, each in results.items()
        if (other.benchmark, other.dataset) == (cell.benchmark, cell.dataset)
        and other != cell
        and each.key.protocol_digest == result.key.protocol_digest
        and each.key.data_fingerprint == result.key.data_fingerprint
    }
    values = {name: score.value for name, score in peers.items() if score.value is not None}
    if own.value is None or own.direction == "none":
        return None, None
    sign = -1 if own.direction == "lower" else 1
    better = sum(sign * value > sign * own.value for value in values.values())
    if not values:
        return (1, 1), None
    best = max(sorted(values), key=lambda name: sign * values[name])
    return (better + 1, len(values) + 1), (best, peers[best])


def _against(one: Score, other: Score) -> str:
    """How far two scores are apart, and whether that is clear."""
    if one.value is None or other.value is None:
        return "not comparable"
    gap = one.value - other.value
    words = f"{100 * gap:+.2f} points" if one.unit == "share" else f"{gap:+.4g}"
    if None in (one.low, one.high, other.low, other.high):
        return words
    overlap = tied(one.low or 0.0, one.high or 0.0, other.low or 0.0, other.high or 0.0)
    return f"{words}, {'intervals overlap' if overlap else 'clear'}"


def moves(before: Mapping[str, Board], after: Mapping[str, Board]) -> tuple[Move, ...]:
    """Rows whose rank range is another than before, those that entered or left among them."""
    found = []
    for name in sorted(set(before) | set(after)):
        old = {row.model: _standing(row.ranks) for row in before[name].rows} if name in before else {}
        new = {row.model: _standing(row.ranks) for row in after[name].rows} if name in after else {}
        for model in sorted(set(old) | set(new)):
            was, now = old.get(model, "absent"), new.get(model, "absent")
            if was != now:
                found.append(Move(name, model, was, now))
    return tuple(found)


def _standing(ranks: tuple[int, int] | None) -> str:
    return rank_text(ranks) or "no rank"
