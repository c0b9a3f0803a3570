"""Types of the protocols under benchmarks/: one frozen YAML a version, the file's stem is the id.

A protocol whose numbers could change gets a new file with the next version; released files are
never edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard.benchmarks.corruptions.parameters import CATEGORIES
from robustboard.benchmarks.generated import GenerationRules, Pairing
from robustboard.errors import nearest
from robustboard.fields import (
    Count,
    Day,
    EntryId,
    Flag,
    HttpsUrl,
    Line,
    Name,
    Positive,
    Prose,
    Seed,
    Share,
    VersionedId,
    Word,
    refuse,
)
from robustboard.registry.entries import DatasetEntry, FilePin, Norm
from robustboard.yamls import Frozen

CLEAN = "clean"
MOST_SEVERE = 5


class Scope(Frozen):
    """Which datasets a setting applies to: named ones, or every test set of a label space."""

    datasets: tuple[EntryId, ...] = ()
    label_spaces: tuple[EntryId, ...] = ()

    @model_validator(mode="after")
    def _check_scope(self) -> Scope:
        if not self.datasets and not self.label_spaces:
            raise refuse("datasets or label_spaces", got="neither")
        return self

    @property
    def companion(self) -> str | None:
        """The dataset that is read beside the measured one, if any."""
        return None

    def covers(self, dataset: DatasetEntry) -> bool:
        """Whether the setting applies to this dataset; training sets only when named."""
        if dataset.id in self.datasets:
            return True
        return dataset.role == "test" and dataset.label_space in self.label_spaces


class Ladder(Scope):
    """A setting with perturbation budgets, smallest first."""

    budgets: tuple[Positive, ...] = Field(min_length=1)
    """Exact fractions of the [0, 1] pixel range (Linf, noise), or L2 lengths in that range."""
    headline: Positive
    """The budget whose accuracy stands for the cell on boards."""

    @model_validator(mode="after")
    def _check_budgets(self) -> Ladder:
        if list(self.budgets) != sorted(set(self.budgets)):
            got = " ".join(map(str, self.budgets))
            raise refuse("budgets in rising order without repeats", field="budgets", got=got)
        if self.headline not in self.budgets:
            raise refuse("one of the budgets", field="headline", got=self.headline)
        return self


class AttackSetting(Ladder):
    """Budgets of an attack with its iterations."""

    steps: Count = 1
    relative_step: Positive = Fraction(1)
    """Step size as a fraction of the budget: 1/4 at budget 8/255 is 2/255."""


class Clean(Frozen):
    """Accuracy and calibration on images as they are: of a clean set, or of a naturally shifted one."""

    kind: Literal["clean"]
    temperatures: tuple[Positive, ...] = ()
    """Logits are also divided by each of these, rising, to find the one that calibrates best."""
    settings: tuple[Scope, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_temperatures(self) -> Clean:
        if list(self.temperatures) != sorted(set(self.temperatures)) or len(self.temperatures) in (1, 2):
            got = " ".join(map(str, self.temperatures))
            raise refuse("at least 3 temperatures in rising order, or none", field="temperatures", got=got)
        return self


class Noise(Frozen):
    """Random noise, x' = clip(x + size * draw): uniform in [-1, 1] and standard normal (specs 4.1)."""

    kind: Literal["noise"]
    distributions: tuple[Literal["uniform", "gaussian"], ...] = Field(min_length=1)
    draws: Count
    """Independent draws an image; reported as their mean and as worst of all."""
    settings: tuple[Ladder, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_distributions(self) -> Noise:
        if len(set(self.distributions)) != len(self.distributions):
            raise refuse("each distribution once", field="distributions", got=" ".join(self.distributions))
        return self


class Normaliser(Frozen):
    """A reference network's errors, that corruption errors are divided by."""

    name: Line
    clean_error: Share
    errors: dict[Word, Share] = Field(min_length=1)
    """Corruption → the reference's mean error over the severities; those named here make mCE."""


class CorruptionSetting(Scope):
    """A clean set, and where its corrupted copies lie."""

    stored: EntryId | None = None
    """Dataset entry of stored corrupted images of the same samples; absent: they are made in memory."""

    @property
    def companion(self) -> str | None:
        """The stored corrupted images."""
        return self.stored


class Corruption(Frozen):
    """Common corruptions at several severities: made in memory, or read from stored files, never both."""

    kind: Literal["corruption"]
    variant: Literal["imagenet", "cifar"]
    """Severity parameters: of ImageNet-C (224 pixels) or of CIFAR-10-C (32 pixels)."""
    images: Literal["in-memory", "stored"]
    corruptions: tuple[Word, ...] = Field(min_length=1)
    severities: tuple[Count, ...] = (1, 2, 3, 4, 5)
    normaliser: Normaliser | None = None
    settings: tuple[CorruptionSetting, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Corruption:
        for field, found in (("corruptions", self.corruptions), ("severities", self.severities)):
            if len(set(found)) != len(found):
                raise refuse("each one once", field=field, got=" ".join(map(str, found)))
        strange = [name for name in self.corruptions if name not in CATEGORIES]
        if strange and self.images == "in-memory":
            near = nearest(strange[0], CATEGORIES)
            raise refuse("names of corruptions", field="corruptions", got=strange[0], near=near)
        if max(self.severities) > MOST_SEVERE:
            raise refuse(f"severities from 1 to {MOST_SEVERE}", field="severities", got=max(self.severities))
        lacking = sorted(set(self.normaliser.errors if self.normaliser else ()) - set(self.corruptions))
        if lacking:
            raise refuse("errors of the protocol's corruptions", field="normaliser.errors", got=lacking[0])
        for place, setting in enumerate(self.settings):
            if (setting.stored is None) != (self.images == "in-memory"):
                raise refuse(
                    "a dataset of stored images" if self.images == "stored" else "none for images in memory",
                    field=f"settings.{place}.stored",
                    got=setting.stored or "none",
                )
        return self


class DetectionSetting(Scope):
    """Sets in distribution, and the set that is to be told from them."""

    out_of_distribution: EntryId

    @property
    def companion(self) -> str | None:
        """The images of no known class."""
        return self.out_of_distribution


class OutOfDistribution(Frozen):
    """Telling images of no known class from the others by the model's own doubt."""

    kind: Literal["out-of-distribution"]
    settings: tuple[DetectionSetting, ...] = Field(min_length=1)


class CueConflict(Frozen):
    """Images whose shape shows one category and whose texture another; the dataset's group is the texture."""

    kind: Literal["cue-conflict"]
    settings: tuple[Scope, ...] = Field(min_length=1)


class GeneratedSetting(Scope, Pairing):
    """Datasets, and the generators and oracles for them."""


class Generated(GenerationRules):
    """Images that a generator makes against the evaluated model while an oracle sees the label in them."""

    kind: Literal["generated"]
    settings: tuple[GeneratedSetting, ...] = Field(min_length=1)


def _check_linf(norm: Norm, settings: Sequence[Ladder]) -> None:
    for place, setting in enumerate(settings):
        if norm == "linf" and setting.budgets[-1] > 1:
            raise refuse(
                "Linf budgets of at most 1, the whole pixel range (8/255 is eight pixel levels)",
                field=f"settings.{place}.budgets",
                got=setting.budgets[-1],
            )


class Attack(Frozen):
    """A gradient attack on the true label inside a perturbation budget."""

    kind: Literal["attack"]
    attack: Literal["fgsm", "pgd"]
    norm: Norm
    loss: Literal["cross-entropy", "margin"] = "cross-entropy"
    random_start: Flag = False
    restarts: Count = 1
    settings: tuple[AttackSetting, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_norm(self) -> Attack:
        """FGSM is one step of the whole budget; settings that it would pass over are refused."""
        if self.attack == "fgsm" and (self.random_start or self.restarts > 1):
            raise refuse("neither random_start nor restarts for fgsm", field="attack", got=self.attack)
        for place, setting in enumerate(self.settings):
            if self.attack == "fgsm" and (setting.steps != 1 or setting.relative_step != 1):
                raise refuse(
                    "steps 1 and relative_step 1, or neither, for fgsm",
                    field=f"settings.{place}",
                    got=f"steps {setting.steps} and relative_step {setting.relative_step}",
                )
        _check_linf(self.norm, self.settings)
        return self


class CascadeStep(Frozen):
    """One attack of a cascade; it meets only the images that the ones before it left right."""

    attack: Literal["apgd-ce", "apgd-dlr", "apgd-targeted", "fab-targeted", "square"]
    steps: Count = 100
    """Iterations a restart, and a target; not read by square."""
    restarts: Count = 1
    targets: Count = 9
    """Highest wrong classes that a targeted attack aims at; all wrong classes where there are fewer."""
    queries: Count = 5000
    """Forward passes of square."""
    average_over: Count = 1
    """Passes averaged for each gradient (EoT), for models that answer differently each time."""


class Cascade(Frozen):
    """Several attacks in turn, such as AutoAttack: an image is robust when it survives all of them."""

    kind: Literal["cascade"]
    norm: Norm
    attacks: tuple[CascadeStep, ...] = Field(min_length=1)
    settings: tuple[Ladder, ...] = Field(min_length=1)

    @property
    def average_over(self) -> int:
        """Passes whose mean judges an image: the most that one of the attacks averages."""
        return max(step.average_over for step in self.attacks)

    @model_validator(mode="after")
    def _check_norm(self) -> Cascade:
        names = [step.attack for step in self.attacks]
        if len(set(names)) != len(names):
            raise refuse("each attack once", field="attacks", got=" ".join(names))
        _check_linf(self.norm, self.settings)
        return self


class ImagesSetting(Ladder):
    """Attacked images that someone handed in for one dataset, inside one budget."""

    file: FilePin
    """Parquet or NumPy archive in a data folder, see docs/external-sets.md."""

    @model_validator(mode="after")
    def _check_images(self) -> ImagesSetting:
        if len(self.datasets) != 1 or self.label_spaces:
            raise refuse("one dataset, the one that the images were made from", field="datasets")
        if len(self.budgets) != 1:
            raise refuse("one budget", field="budgets", got=" ".join(map(str, self.budgets)))
        return self


class External(Frozen):
    """Attacked images made elsewhere: held to the budget and judged here, never trusted.

    Images of the dataset that are not in the set count as not attacked.
    """

    kind: Literal["external"]
    norm: Norm
    made_by: Line
    """Who made the images, and how."""
    models: tuple[EntryId, ...] = ()
    """The models to measure on; every model of the label space when empty."""
    settings: tuple[ImagesSetting, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_norm(self) -> External:
        _check_linf(self.norm, self.settings)
        return self


class WorstCase(Frozen):
    """The worst answer an image gets over several benchmarks of one norm at equal budgets.

    Nothing is attacked anew: stored predictions of the same model and dataset are joined image by
    image. External sets of the same norm and budget count as well.
    """

    kind: Literal["worst-case"]
    norm: Norm
    of: tuple[VersionedId, ...] = Field(min_length=1)
    """Benchmarks that must have been run; each counts at the budgets that it has."""
    settings: tuple[Ladder, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_norm(self) -> WorstCase:
        if len(set(self.of)) != len(self.of):
            raise refuse("each benchmark once", field="of", got=" ".join(self.of))
        _check_linf(self.norm, self.settings)
        return self


Adversarial = Attack | Cascade | External | WorstCase
"""Procedures whose rows say which images survive inside a budget."""
Procedure = Annotated[
    Clean
    | Noise
    | Attack
    | Cascade
    | External
    | WorstCase
    | Corruption
    | OutOfDistribution
    | CueConflict
    | Generated,
    Field(discriminator="kind"),
]


class BenchmarkEntry(Frozen):
    """One protocol at one version."""

    id: VersionedId
    name: Name
    summary: Prose
    procedure: Procedure
    seed: Seed = 0
    shard_size: Count = 250
    """Images a stored shard; part of the run key."""
    source: Line
    paper: HttpsUrl | None = None
    added: Day

    def wants(self, model: str) -> bool:
        """Whether a model takes part; only external sets are made for some models alone."""
        chosen = self.procedure.models if isinstance(self.procedure, External) else ()
        return not chosen or model in chosen

    def setting_for(self, dataset: DatasetEntry) -> Scope | None:
        """The first setting that applies to a dataset; None when the protocol does not cover it."""
        return next((s for s in self.procedure.settings if s.covers(dataset)), None)
