"""Recipes of generated test sets: one YAML a version under registry/testsets/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import model_validator

from robustboard import jsons
from robustboard.errors import ContentError, Problem, UnknownNameError, UserError, echo
from robustboard.fields import (
    Count,
    Day,
    EntryId,
    HttpsUrl,
    Index,
    Line,
    Name,
    Positive,
    Prose,
    RepoId,
    Seed,
    Sha256,
    Share,
    Version,
    refuse,
)
from robustboard.registry.catalog import Catalog
from robustboard.registry.folders import Folder, Found, by_id, read_folder
from robustboard.registry.references import unknown
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen

FOLDER = "testsets"


class TestSetEntry(Frozen):
    """How one version of a generated test set is made; a version that was released never changes."""

    __test__: ClassVar[bool] = False  # pytest takes classes of this name for tests

    id: EntryId
    """SET-VERSION, such as digits-oracle-1.0.0: the name of the file."""
    set: EntryId
    """Name of the set, the same in all its versions."""
    version: Version
    """Major: labels, source or rules differ. Minor: images come in addition. Patch: words alone."""
    name: Name
    summary: Line
    dataset: EntryId
    """Where the source images come from."""
    generator: EntryId
    oracle: EntryId
    model: EntryId | None = None
    """The model whose loss the generator climbs; absent: it wanders, and follows no model."""
    budget: Count
    """Steps of the generator an image, at most."""
    step_size: Positive = Fraction(1, 1000)
    """How far one step moves a latent, in the generator's own units."""
    update_rule: Literal["adam", "sign", "sgd"] = "adam"
    """How latents follow the gradient of the model's loss; means nothing without a model."""
    per_class: Count
    """Images wanted of each class."""
    attempts: Count
    """Times that one source image is tried, at most, each with a seed of its own."""
    clipped_at_most: Share = Fraction(1, 2)
    """Share of an image's pixels that may newly lie on 0 or 1; beyond it the image counts as clipped."""
    seed: Seed
    license: Line
    """Of the set as a whole; it has to allow what the sources' licences ask for."""
    citation: Prose | None = None
    homepage: HttpsUrl | None = None
    hub: RepoId | None = None
    """The Hub dataset that versions are published in, with a tag such as v1.0.0 each."""
    content_sha256: Sha256 | None = None
    """Of the ids, labels, seeds and pixels of the set as it was first built; absent until then."""
    shard_rows: Index = 2000
    """Rows of one Parquet file."""
    added: Day

    @model_validator(mode="after")
    def _check(self) -> TestSetEntry:
        if self.id != self.title:
            raise refuse(f"{self.id}, the file's name, from set and version", field="version", got=self.title)
        if not 1 <= self.shard_rows <= MAX_SHARD_ROWS:
            raise refuse(f"1 to {MAX_SHARD_ROWS}", field="shard_rows", got=self.shard_rows)
        return self

    @property
    def title(self) -> str:
        """Set and version as a file name."""
        return f"{self.set}-{self.version}"

    @property
    def reference(self) -> str:
        """Set and version as people write them: digits-oracle@1.0.0."""
        return f"{self.set}@{self.version}"

    @property
    def recipe_sha256(self) -> str:
        """64 hex digits over all that decides which images the set holds; words and pins are left out."""
        chosen = self.model_dump(mode="json", include=set(DECIDING))
        return jsons.digest("robustboard.testset-recipe/1", chosen)


MAX_SHARD_ROWS = 100_000
DECIDING = (
    "set",
    "version",
    "dataset",
    "generator",
    "oracle",
    "model",
    "budget",
    "step_size",
    "update_rule",
    "per_class",
    "attempts",
    "clipped_at_most",
    "seed",
)
"""Fields of an entry that decide which images the set holds."""


def version_key(version: str) -> tuple[int, ...]:
    """For sorting: 1.10.0 comes after 1.9.0."""
    return tuple(int(part) for part in version.split("."))


def survey_test_sets(workspace: Workspace) -> Folder[TestSetEntry]:
    """Every file of registry/testsets, faults and all; an absent folder is an empty one."""
    return read_folder(workspace, workspace.registry / FOLDER, lambda _: TestSetEntry)


def load_test_sets(workspace: Workspace, catalog: Catalog) -> Mapping[str, TestSetEntry]:
    """All recipes by id, references checked. Raises ContentError with all problems."""
    found = survey_test_sets(workspace)
    problems = [*found.problems, *reference_problems(found, catalog)]
    if problems:
        raise ContentError(problems)
    return by_id(found)


def reference_problems(found: Folder[TestSetEntry], catalog: Catalog) -> Iterator[Problem]:
    """Names in recipes that no entry bears, and a model that counts other classes."""
    for each in found.entries.values():
        entry = each.entry
        known = {
            "dataset": set(catalog.datasets),
            "generator": set(catalog.generators),
            "oracle": set(catalog.oracles),
            "model": set(catalog.models),
        }
        for field, names in known.items():
            value = getattr(entry, field)
            if value is not None and value not in names:
                yield each.problem((field,), unknown(field, value, names))
        yield from _check_labels(each, catalog)


def _check_labels(found: Found[TestSetEntry], catalog: Catalog) -> Iterator[Problem]:
    entry = found.entry
    dataset, model = catalog.datasets.get(entry.dataset), catalog.models.get(entry.model or "")
    oracle = catalog.oracles.get(entry.oracle)
    if dataset is not None and oracle is not None and oracle.competence_on(dataset.id) is None:
        offered = ", ".join(each.dataset for each in oracle.competence)
        message = (
            f"expected an oracle that judges {dataset.id}, got {echo(oracle.id)}, which judges {offered}"
        )
        yield found.problem(("oracle",), message)
    if dataset is not None and dataset.native_size is None:
        yield found.problem(("dataset",), f"expected a dataset of one size, got {echo(dataset.id)}")
    if dataset is not None and dataset.role != "test":
        yield found.problem(
            ("dataset",), f"expected a dataset of role test, got {echo(dataset.id)} of role {dataset.role}"
        )
    if dataset is not None and model is not None and model.label_space != dataset.label_space:
        message = f"expected a model of label space {dataset.label_space}, got {echo(model.id)}"
        yield found.problem(("model",), f"{message} of {model.label_space}")


def find_test_set(entries: Mapping[str, TestSetEntry], reference: str) -> TestSetEntry:
    """The recipe of NAME@VERSION, or of a name's newest version.

    Raises UnknownNameError with the nearest names, UserError for text of another form.
    """
    name, at, version = reference.partition("@")
    if at and not version:
        raise UserError(f"expected NAME or NAME@VERSION, got {echo(reference)}")
    versions = [entry for entry in entries.values() if entry.set == name]
    if not versions:
        raise UnknownNameError("test set", name, {entry.set for entry in entries.values()})
    if not at:
        return max(versions, key=lambda entry: version_key(entry.version))
    for entry in versions:
        if entry.version == version:
            return entry
    raise UnknownNameError(f"version of {name}", version, {entry.version for entry in versions})
