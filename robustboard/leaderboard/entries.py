"""Boards: which numbers stand side by side. One YAML each under leaderboard/boards/, its stem is the id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.benchmarks.metrics import METRICS
from robustboard.errors import ContentError, Problem, nearest
from robustboard.fields import EntryId, Line, Name, Prose, refuse
from robustboard.registry.catalog import Catalog
from robustboard.registry.folders import Found, by_id, need_folder, read_folder
from robustboard.registry.references import unknown
from robustboard.registry.reported import Reported, load_reported
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen


def _shaped(expression: str, expected: str) -> BeforeValidator:
    """Refuses text that does not match a whole expression, saying what was expected."""

    def check(value: object) -> object:
        if not isinstance(value, str) or not re.fullmatch(expression, value):
            raise refuse(expected)
        return value

    return BeforeValidator(check)


_ID = r"[a-z0-9][a-z0-9-]{0,39}"
_SCORE = r"[a-z0-9_]{1,60}@[A-Za-z0-9./ _-]{1,60}"
_TITLE = r"\S.{0,39}"
ColumnId = Annotated[
    str, Field(pattern=f"^{_ID}$"), _shaped(_ID, "a column id of at most 40 characters a-z 0-9 -")
]
ScoreName = Annotated[
    str, Field(pattern=f"^{_SCORE}$"), _shaped(_SCORE, "METRIC@CONDITION such as robust_accuracy@linf 8/255")
]
Title = Annotated[
    str, Field(pattern=f"^{_TITLE}$"), _shaped(_TITLE, "a heading of at most 40 characters on one line")
]


class Column(Frozen):
    """One number of every model: a score of one benchmark on one dataset."""

    id: ColumnId
    """Names the column for good, in links and downloads."""
    title: Title
    group: Title | None = None
    """Heading above neighbouring columns of the same group."""
    benchmark: EntryId
    dataset: EntryId
    score: ScoreName | None = None
    """METRIC@CONDITION; absent: the result's headline."""


class ReportedView(Frozen):
    """Published numbers to point at from a board."""

    source: EntryId
    datasets: tuple[Line, ...] = ()
    """As the source spells them; all of them when empty."""


class BoardEntry(Frozen):
    """One table of models of one label space."""

    id: EntryId
    name: Name
    summary: Prose
    label_space: EntryId
    datasets: tuple[EntryId, ...] = Field(min_length=1)
    """Test sets of that label space whose results belong here."""
    columns: tuple[Column, ...] = Field(min_length=1)
    order: str
    """The column whose values order and rank the rows."""
    reported: tuple[ReportedView, ...] = ()

    @property
    def order_column(self) -> Column:
        """The column that orders and ranks."""
        return next(column for column in self.columns if column.id == self.order)

    @model_validator(mode="after")
    def _check(self) -> BoardEntry:
        ids = [column.id for column in self.columns]
        for field, values in (("columns", ids), ("datasets", list(self.datasets))):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise refuse("each one once", field=field, got=f"{twice[0]} again")
        if self.order not in ids:
            near = nearest(self.order, ids)
            raise refuse(f"the id of a column ({', '.join(ids)})", field="order", got=self.order, near=near)
        return self


def load_boards(
    workspace: Workspace,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    reported: Mapping[str, Reported] | None = None,
) -> Mapping[str, BoardEntry]:
    """All boards, by id; references checked. `reported` is read from the workspace when not given.

    A board never mixes label spaces: its datasets have the label space of the board, and each
    column a dataset of the board that its benchmark covers.

    Raises ContentError with all problems of all files, WorkspaceError when there is no folder.
    """
    need_folder(workspace, workspace.boards)
    folder = read_folder(workspace, workspace.boards, lambda _: BoardEntry)
    published = load_reported(workspace) if reported is None else reported
    problems = list(folder.problems)
    for found in folder.entries.values():
        problems += _check_datasets(found, catalog)
        problems += _check_columns(found, catalog, benchmarks)
        problems += _check_reported(found, published)
    if problems:
        raise ContentError(problems)
    return by_id(folder)


def _check_datasets(found: Found[BoardEntry], catalog: Catalog) -> Iterator[Problem]:
    board = found.entry
    if board.label_space not in catalog.label_spaces:
        message = unknown("label space", board.label_space, catalog.label_spaces)
        yield found.problem(("label_space",), message)
        return
    for place, name in enumerate(board.datasets):
        where = ("datasets", place)
        if name not in catalog.datasets:
            yield found.problem(where, unknown("dataset", name, catalog.datasets))
            continue
        dataset = catalog.datasets[name]
        if dataset.label_space != board.label_space:
            wanted = f"a dataset of label space {board.label_space}"
            yield found.problem(where, f"expected {wanted}, got {name} ({dataset.label_space})")
        elif dataset.role != "test":
            yield found.problem(where, f"expected a test set, got {name} (role {dataset.role})")


def _check_columns(
    found: Found[BoardEntry], catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]
) -> Iterator[Problem]:
    for place, column in enumerate(found.entry.columns):
        where = ("columns", place)
        if column.dataset not in found.entry.datasets:
            wanted = f"a dataset of the board ({', '.join(found.entry.datasets)})"
            yield found.problem((*where, "dataset"), f"expected {wanted}, got {column.dataset!r}")
        if column.score is not None and column.score.partition("@")[0] not in METRICS:
            message = unknown("metric", column.score.partition("@")[0], METRICS)
            yield found.problem((*where, "score"), message)
        if column.benchmark not in benchmarks:
            yield found.problem((*where, "benchmark"), unknown("benchmark", column.benchmark, benchmarks))
        elif column.dataset in catalog.datasets:
            dataset = catalog.datasets[column.dataset]
            if benchmarks[column.benchmark].setting_for(dataset) is None:
                message = f"expected a benchmark with a setting for {column.dataset}, got {column.benchmark}"
                yield found.problem((*where, "benchmark"), message)


def _check_reported(found: Found[BoardEntry], published: Mapping[str, Reported]) -> Iterator[Problem]:
    for place, view in enumerate(found.entry.reported):
        if view.source not in published:
            message = unknown("source in registry/reported", view.source, published)
            yield found.problem(("reported", place, "source"), message)
            continue
        known: Collection[str] = {score.dataset for score in published[view.source].scores}
        for number, name in enumerate(view.datasets):
            if name not in known:
                message = unknown(f"dataset of {view.source}", name, known)
                yield found.problem(("reported", place, "datasets", number), message)
