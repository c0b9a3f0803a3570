"""Reported numbers laid out as tables: models down, what was measured across. Never ordered by value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from robustboard.leaderboard.entries import ReportedView
from robustboard.leaderboard.statistics import Direction, shades
from robustboard.registry.entries import ModelEntry
from robustboard.registry.reported import Reported, plain
from robustboard.registry.scores import ReportedScore
from robustboard.site.controls import HEAT_STEPS, places

LOWER_IS_BETTER = re.compile(r"error|mce|rank", re.IGNORECASE)
LEAST_MARGIN = {"percent": 0.5, "fraction": 0.005, "percentage_points": 0.5}
"""Half of the narrowest step of a shade, for numbers that come without interval."""
MATRIX_COLUMNS = 3
"""Columns of one metric from which a table is shaded."""
UNIT_WORDS: dict[str, str] = {
    "percent": "%",
    "fraction": "share of 1",
    "percentage_points": "points",
    "percent_of_AlexNet": "% of AlexNet",
    "epoch": "epoch",
    "rank": "rank",
    "count": "count",
    "dimensionless": "",
}


@dataclass(frozen=True, slots=True)
class Heading:
    """What a column holds."""

    dataset: str
    metric: str
    unit: str

    @property
    def direction(self) -> Direction:
        """Which way is better, told by the name of the metric."""
        return "lower" if LOWER_IS_BETTER.search(self.metric) else "higher"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One model; `setting` is the source's table where that is a column of its own."""

    model: str
    setting: str | None
    values: tuple[str | None, ...]
    """As published, None where the source has no number."""
    places: tuple[str, ...] = ()
    """Place of each value in its column, for sorting."""
    shades: tuple[int | None, ...] = ()
    """Shade of each value in its column; none unless the table is a matrix of one metric."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """Numbers of one source that stand together."""

    title: str | None
    headings: tuple[Heading, ...]
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """How much of a source belongs to a board."""

    source: str
    name: str
    numbers: int
    models: int


def words(text: str) -> str:
    """`top1 accuracy` for `top1_accuracy`."""
    return text.replace("_", " ")


def tables(reported: Reported) -> tuple[PublishedTable, ...]:
    """All numbers of a source, as its entry wants them arranged."""
    if reported.source.arrange == "rows":
        return (_table(None, reported.scores, with_setting=True),)
    groups: dict[str, list[ReportedScore]] = {}
    for score in reported.scores:
        groups.setdefault(score.table or "", []).append(score)
    return tuple(_table(name or None, scores, with_setting=False) for name, scores in groups.items())


def _table(title: str | None, scores: Sequence[ReportedScore], *, with_setting: bool) -> PublishedTable:
    headings = tuple(sorted({(s.dataset, s.metric, s.unit) for s in scores}))
    rows: dict[tuple[str, str], dict[tuple[str, str, str], str]] = {}
    for score in scores:
        key = (score.model, (score.table or "") if with_setting else "")
        rows.setdefault(key, {})[(score.dataset, score.metric, score.unit)] = plain(score.value)
    ordered = sorted(rows.items(), key=lambda item: (item[0][0].casefold(), item[0]))
    made = [
        PublishedRow(model, setting or None, tuple(found.get(heading) for heading in headings))
        for (model, setting), found in ordered
    ]
    named = tuple(Heading(dataset, words(metric), UNIT_WORDS[unit]) for dataset, metric, unit in headings)
    return PublishedTable(title, named, _placed(made, named, {unit for _, _, unit in headings}))


def _placed(
    rows: Sequence[PublishedRow], headings: Sequence[Heading], units: Collection[str]
) -> tuple[PublishedRow, ...]:
    """Rows with the places of their values, and shades where all columns hold one metric."""
    (unit, *others) = units or ("",)
    matrix = not others and len(headings) >= MATRIX_COLUMNS and len({each.metric for each in headings}) == 1
    ordered, shaded = [], []
    for column, heading in enumerate(headings):
        values = [None if (text := row.values[column]) is None else float(text) for row in rows]
        ordered.append(places(values, heading.direction))
        steps = [LEAST_MARGIN[unit]] if unit in LEAST_MARGIN else None
        shaded.append(shades(values, steps, HEAT_STEPS) if matrix and steps else [None] * len(values))
    return tuple(
        replace(row, places=tuple(o[number] for o in ordered), shades=tuple(s[number] for s in shaded))
        for number, row in enumerate(rows)
    )


def mention(view: ReportedView, reported: Mapping[str, Reported]) -> Mention:
    """What a board says of one of its sources."""
    source = reported[view.source]
    scores = [s for s in source.scores if not view.datasets or s.dataset in view.datasets]
    return Mention(view.source, source.source.name, len(scores), len({s.model for s in scores}))


@dataclass(frozen=True, slots=True)
class Claim:
    """One published number about a model that has an entry here."""

    source: str
    source_name: str
    dataset: str
    metric: str
    setting: str | None
    text: str


def names_of(model: ModelEntry) -> frozenset[str]:
    """Names under which a source means this very model: its id, its name, and its repository's."""
    found = {model.id, model.name}
    if model.source.kind == "hub":
        found |= {model.source.repo, model.source.repo.partition("/")[2]}
    return frozenset(found)


def claims_by_name(reported: Iterable[Reported]) -> dict[str, list[Claim]]:
    """Every published number, by the name that its source gives the model."""
    found: dict[str, list[Claim]] = {}
    for item in reported:
        for score in item.scores:
            text = f"{plain(score.value)} {UNIT_WORDS[score.unit]}".strip()
            claim = Claim(
                item.source.id, item.source.name, score.dataset, words(score.metric), score.table, text
            )
            found.setdefault(score.model, []).append(claim)
    return found


def claims(model: ModelEntry, by_name: Mapping[str, Sequence[Claim]]) -> tuple[Claim, ...]:
    """Published numbers of a model, kept apart from those measured here."""
    return tuple(claim for name in sorted(names_of(model)) for claim in by_name.get(name, ()))
