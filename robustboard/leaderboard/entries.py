"""Boards: which numbers stand side by side. One YAML each under leaderboard/boards/, its stem is the id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.benchmarks.metrics import METRICS
from robustboard.errors import ContentError, Problem, nearest
from robustboard.fields import EntryId, Flag, Line, Name, Prose, refuse
from robustboard.leaderboard.fits import OWN, FitEntry, load_fits
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


Derivation = Literal["drop", "effective-robustness", "relative-robustness", "mean"]
CLEAN_BENCHMARK = "clean-v1"
"""Gives the clean accuracy where a column's own benchmark does not cover the clean dataset."""


PLACE = ("benchmark", "dataset")


class CleanSide(Frozen):
    """Where the clean accuracy comes from that an accuracy under a shift is compared with."""

    benchmark: EntryId | None = None
    """Absent: the column's benchmark where it covers the dataset, else clean-v1."""
    dataset: EntryId | None = None
    """Absent: the matched_clean of the column's dataset, else that dataset itself."""


class Column(Frozen):
    """One number of every model: a score of one benchmark on one dataset, or one derived from it."""

    id: ColumnId
    """Names the column for good, in links and downloads."""
    title: Title
    group: Title | None = None
    """Heading above neighbouring columns of the same group."""
    folded: Flag = False
    """Left out of the view that the page opens with; shown by a click, and where scripts are off."""
    benchmark: EntryId = ""
    """Of a mean that of its first part; every other column names it."""
    dataset: EntryId = ""
    """Likewise."""
    score: ScoreName | None = None
    """METRIC@CONDITION; absent: the result's headline."""
    derive: Derivation | None = None
    """drop: clean accuracy less the score. effective-robustness: the score less what a line through
    standard models foretells. relative-robustness: the score less that of the model's base. mean: of the
    columns that `of` names, for models that have them all."""
    of: tuple[ColumnId, ...] = ()
    """Of a mean: ids of two or more measured columns of the board."""
    clean: CleanSide | None = None
    """For drop and effective-robustness."""
    fit: EntryId | None = None
    """For effective-robustness: a fit under leaderboard/fits, or own for one through the board's models."""
    exclude: tuple[EntryId, ...] = ()
    """Models that an own fit leaves out, such as the one whose answers filtered the set."""

    @model_validator(mode="after")
    def _check(self) -> Column:
        for name in PLACE:
            if not getattr(self, name) and self.derive != "mean":
                raise refuse("a value", field=name, got="none")
        if (self.derive == "effective-robustness") != (self.fit is not None):
            wanted = "a fit, or own" if self.fit is None else "none, unless derive is effective-robustness"
            raise refuse(wanted, field="fit", got=self.fit or "none")
        if self.clean is not None and self.derive not in ("drop", "effective-robustness"):
            raise refuse("none, unless derive is drop or effective-robustness", field="clean", got="some")
        if (self.derive == "mean") != (len(self.of) > 1) or len(set(self.of)) != len(self.of):
            wanted = (
                "two or more columns, each once" if self.derive == "mean" else "none, unless derive is mean"
            )
            raise refuse(wanted, field="of", got=", ".join(self.of) or "none")
        if self.derive == "mean" and self.score is not None:
            raise refuse("none for a mean", field="score", got=self.score)
        if self.exclude and self.fit != OWN:
            raise refuse("none, unless fit is own", field="exclude", got=" ".join(self.exclude))
        return self

    def clean_cell(self, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]) -> tuple[str, str]:
        """Benchmark and dataset of the clean accuracy that this column compares with."""
        given = self.clean or CleanSide()
        shifted = catalog.datasets.get(self.dataset)
        name = given.dataset or (shifted.matched_clean if shifted is not None else None) or self.dataset
        if given.benchmark is not None:
            return given.benchmark, name
        own, dataset = benchmarks.get(self.benchmark), catalog.datasets.get(name)
        covered = own is not None and dataset is not None and own.setting_for(dataset) is not None
        return (self.benchmark if covered else CLEAN_BENCHMARK), name


class SeedGroup(Frozen):
    """Models that differ by the seed of their training alone, to be told of together; never ranked."""

    name: Name
    models: tuple[EntryId, ...] = Field(min_length=2)


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
    seeds: tuple[SeedGroup, ...] = ()
    """Trainings of the same recipe; the page tells their mean and how far they lie apart."""
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
        measured = {column.id for column in self.columns if column.derive is None}
        for place, column in enumerate(self.columns):
            odd = [name for name in column.of if name not in measured]
            if odd:
                wanted = f"measured columns of the board ({', '.join(sorted(measured))})"
                raise refuse(wanted, field=f"columns.{place}.of", got=odd[0], near=nearest(odd[0], measured))
        if self.order not in ids:
            near = nearest(self.order, ids)
            raise refuse(f"the id of a column ({', '.join(ids)})", field="order", got=self.order, near=near)
        return self._placed()

    def _placed(self) -> BoardEntry:
        """With benchmark and dataset of the first part at each mean that names none."""
        known = {column.id: column for column in self.columns}
        columns = tuple(
            column.model_copy(update={name: getattr(known[column.of[0]], name) for name in PLACE})
            if column.of and not (column.benchmark and column.dataset)
            else column
            for column in self.columns
        )
        return self if columns == self.columns else self.model_copy(update={"columns": columns})


def load_boards(
    workspace: Workspace,
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    reported: Mapping[str, Reported] | None = None,
    fits: Mapping[str, FitEntry] | None = None,
) -> Mapping[str, BoardEntry]:
    """All boards, by id; references checked. `reported` and `fits` are read when not given.

    A board never mixes label spaces: its datasets have the label space of the board, and each
    column a dataset of the board that its benchmark covers.

    Raises ContentError with all problems of all files, WorkspaceError when there is no folder.
    """
    need_folder(workspace, workspace.boards)
    folder = read_folder(workspace, workspace.boards, lambda _: BoardEntry)
    published = load_reported(workspace) if reported is None else reported
    lines = load_fits(workspace, catalog, published) if fits is None else fits
    problems = list(folder.problems)
    for found in folder.entries.values():
        problems += _check_datasets(found, catalog)
        problems += _check_columns(found, catalog, benchmarks)
        problems += _check_derived(found, catalog, benchmarks, lines)
        problems += _check_reported(found, published)
        problems += _check_seeds(found, catalog)
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


def _check_derived(
    found: Found[BoardEntry],
    catalog: Catalog,
    benchmarks: Mapping[str, BenchmarkEntry],
    fits: Mapping[str, FitEntry],
) -> Iterator[Problem]:
    for place, column in enumerate(found.entry.columns):
        where = ("columns", place)
        for number, name in enumerate(column.exclude):
            if name not in catalog.models:
                yield found.problem((*where, "exclude", number), unknown("model", name, catalog.models))
        if column.score is not None and column.derive is not None:
            metric = METRICS.get(column.score.partition("@")[0])
            if metric is not None and metric.unit != "share":
                message = f"expected a share to derive from, got {column.score} ({metric.unit})"
                yield found.problem((*where, "score"), message)
        if column.derive in ("drop", "effective-robustness"):
            yield from _check_clean(found, place, catalog, benchmarks)
        if column.fit is None or column.fit == OWN:
            continue
        if column.fit not in fits:
            yield found.problem((*where, "fit"), unknown("fit", column.fit, (OWN, *fits)))
            continue
        line = fits[column.fit]
        _, clean = column.clean_cell(catalog, benchmarks)
        if (line.shifted, line.clean) != (column.dataset, clean):
            message = f"expected a fit of {column.dataset} over {clean}, got {column.fit}"
            stands = f"{line.shifted} over {line.clean}" if line.shifted else "no registered dataset"
            yield found.problem((*where, "fit"), f"{message}, one of {stands}")


def _check_clean(
    found: Found[BoardEntry], place: int, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]
) -> Iterator[Problem]:
    """Faults of the clean side of a derived column."""
    where = ("columns", place, "clean")
    benchmark, name = found.entry.columns[place].clean_cell(catalog, benchmarks)
    if benchmark not in benchmarks:
        yield found.problem((*where, "benchmark"), unknown("benchmark", benchmark, benchmarks))
        return
    if name not in catalog.datasets:
        yield found.problem((*where, "dataset"), unknown("dataset", name, catalog.datasets))
        return
    dataset = catalog.datasets[name]
    if dataset.label_space != found.entry.label_space:
        message = f"expected a dataset of label space {found.entry.label_space}, got {name}"
        yield found.problem((*where, "dataset"), f"{message} ({dataset.label_space})")
    elif benchmarks[benchmark].setting_for(dataset) is None:
        message = f"expected a benchmark with a setting for {name}, got {benchmark}"
        yield found.problem((*where, "benchmark"), message)


def _check_seeds(found: Found[BoardEntry], catalog: Catalog) -> Iterator[Problem]:
    """Models that are not registered, of other labels, or trained otherwise than the first of their group."""
    for place, group in enumerate(found.entry.seeds):
        known = [catalog.models[name] for name in group.models if name in catalog.models]
        for number, name in enumerate(group.models):
            where = ("seeds", place, "models", number)
            if name not in catalog.models:
                yield found.problem(where, unknown("model", name, catalog.models))
                continue
            model, first = catalog.models[name], known[0]
            if model.label_space != found.entry.label_space:
                wanted = f"a model of label space {found.entry.label_space}"
                yield found.problem(where, f"expected {wanted}, got {name} ({model.label_space})")
            elif model.architecture != first.architecture or model.input != first.input:
                message = f"expected the network and input of {first.id}, with another seed, got {name}"
                yield found.problem(where, message)
            if group.models.index(name) != number:
                yield found.problem(where, f"expected each model once, got {name} again")


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
