"""Lines that foretell accuracy under a shift from clean accuracy: one YAML each under leaderboard/fits/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard.benchmarks.effective_robustness import MIN_MODELS, Fit, PiecewiseFit
from robustboard.errors import ContentError, Problem, echo
from robustboard.fields import Count, Day, EntryId, HttpsUrl, Line, Name, Number, Prose, Share, refuse
from robustboard.registry.catalog import Catalog
from robustboard.registry.folders import Found, by_id, read_folder
from robustboard.registry.references import unknown
from robustboard.registry.reported import Reported
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen

OWN = "own"
"""What a column says instead of an id to have the line fitted on the models of its board."""
Correlation = Annotated[Number, Field(ge=-1, le=1)]


class Piece(Frozen):
    """One line in logit space: logit(shifted) = slope * logit(clean) + intercept."""

    start: Share
    """Lowest clean accuracy that was fitted; the first piece stands for lower ones too."""
    slope: Number
    intercept: Number
    r: Correlation
    """Pearson correlation of the two logits."""
    n: Count
    """Models fitted."""

    @model_validator(mode="after")
    def _check(self) -> Piece:
        if self.n < MIN_MODELS:
            raise refuse(f"at least {MIN_MODELS} models", field="n", got=self.n)
        return self


class FittedOn(Frozen):
    """Where the accuracies that were fitted stand among reported numbers."""

    source: EntryId
    """A source in registry/reported."""
    shifted: Line
    """As the source spells the dataset."""
    clean: Line
    table: Line | None = None
    """The source's table, or group of models, that was fitted; absent: all of them."""


class FitEntry(Frozen):
    """A line through published accuracies of standard models."""

    id: EntryId
    name: Name
    summary: Prose
    """Which models were fitted, and how."""
    origin: Literal["re-fitted", "printed"]
    """re-fitted: computed from published accuracies; printed: the paper states the line itself."""
    shifted: EntryId | None = None
    """The dataset of the columns that use the fit: of shifted images, or of those that the columns'
    benchmark corrupts. Absent: none is registered, no column can use it."""
    clean: EntryId | None = None
    """The registered dataset of clean images that it starts from."""
    pieces: tuple[Piece, ...] = Field(min_length=1)
    """In the order of their starts."""
    excluded: tuple[Line, ...] = ()
    """Models of the source left out by name, such as the one whose answers filtered the set."""
    fitted_on: FittedOn | None = None
    """Absent where the accuracies are not among the reported ones."""
    source: Line
    """Where the coefficients come from, in words."""
    paper: HttpsUrl | None = None
    added: Day

    @property
    def line(self) -> PiecewiseFit:
        """The fit as numbers."""
        return PiecewiseFit(
            tuple(float(piece.start) for piece in self.pieces),
            tuple(Fit(piece.slope, piece.intercept, piece.r, piece.n) for piece in self.pieces),
        )

    @model_validator(mode="after")
    def _check(self) -> FitEntry:
        starts = [piece.start for piece in self.pieces]
        if any(after <= before for before, after in pairwise(starts)):
            raise refuse("pieces with rising starts", field="pieces", got=" ".join(map(str, starts)))
        if (self.shifted is None) != (self.clean is None):
            raise refuse("both of shifted and clean, or neither", field="shifted", got="one of them")
        return self


def load_fits(
    workspace: Workspace, catalog: Catalog, reported: Mapping[str, Reported]
) -> Mapping[str, FitEntry]:
    """All fits, by id; references checked. Raises ContentError with all problems of all files."""
    folder = read_folder(workspace, workspace.fits, lambda _: FitEntry)
    problems = list(folder.problems)
    for found in folder.entries.values():
        problems += _references(found, catalog, reported)
    if problems:
        raise ContentError(problems)
    return by_id(folder)


def _references(
    found: Found[FitEntry], catalog: Catalog, reported: Mapping[str, Reported]
) -> Iterator[Problem]:
    entry = found.entry
    if entry.id == OWN:
        yield found.problem((), f"expected another file name than {OWN}.yaml: columns use that word")
    for field in ("shifted", "clean"):
        name = getattr(entry, field)
        if name is not None and name not in catalog.datasets:
            yield found.problem((field,), unknown("dataset", name, catalog.datasets))
    if entry.fitted_on is not None:
        yield from _names_of_source(found, entry.fitted_on, reported)


def _names_of_source(
    found: Found[FitEntry], on: FittedOn, reported: Mapping[str, Reported]
) -> Iterator[Problem]:
    """Names that the source of a fit does not know."""
    if on.source not in reported:
        yield found.problem(
            ("fitted_on", "source"), unknown("source in registry/reported", on.source, reported)
        )
        return
    scores = reported[on.source].scores
    datasets, models = {score.dataset for score in scores}, {score.model for score in scores}
    tables = {score.table for score in scores if score.table is not None}
    for field, name, known in (
        ("shifted", on.shifted, datasets),
        ("clean", on.clean, datasets),
        ("table", on.table, tables),
    ):
        if name is not None and name not in known:
            message = unknown(f"{'table' if field == 'table' else 'dataset'} of {on.source}", name, known)
            yield found.problem(("fitted_on", field), message)
    for place, name in enumerate(found.entry.excluded):
        if name not in models:
            message = f"expected a model of {on.source}, got {echo(name)}"
            yield found.problem(("excluded", place), message)
