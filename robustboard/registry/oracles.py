"""Types of the entries under registry/oracles/: who may say what a generated image shows."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard.fields import (
    Count,
    Day,
    EntryId,
    HttpsUrl,
    Line,
    Name,
    NotNegative,
    Pixels,
    Positive,
    Prose,
    Seed,
    Share,
    Word,
    refuse,
)
from robustboard.registry.entries import InputSpec
from robustboard.yamls import Frozen


class Competence(Frozen):
    """What an oracle must be able to do before it judges images of a dataset."""

    dataset: EntryId
    accuracy: Share
    """Least share of the dataset's own images that it must classify right."""


class ContrastiveTraining(Frozen):
    """Image-text training on captions of labelled images (Radford et al. 2021, section 2.3).

    AdamW with a one-cycle learning rate. Two images of one class in a batch have equal captions, so the
    targets are spread evenly over all captions of the image's class.
    """

    method: Literal["contrastive"]
    dataset: EntryId
    images: Count | None = None
    """Train on the first so many images; all when absent."""
    epochs: Count
    batch_size: Count
    learning_rate: Positive
    weight_decay: NotNegative = Fraction(0)
    captions: tuple[Line, ...] = Field(min_length=1)
    """Each holds `{}` once, where the class name goes; one is drawn for each image and epoch."""


class SmallClip(Frozen):
    """Sizes of an open_clip CLIP model with vision transformer and text transformer."""

    patch: Pixels
    """Side of a patch in pixels."""
    width: Count
    """Of both transformers; a multiple of 16."""
    heads: Count = 4
    layers: Count
    """Of the image tower."""
    text_layers: Count
    embedding: Count
    """Length of the common embeddings."""
    context: Count = 16
    """Tokens of a prompt."""


class TrainedClip(Frozen):
    """A small CLIP that this project trains on the spot from a recipe and a seed."""

    kind: Literal["trained-here"]
    recipe: ContrastiveTraining
    network: SmallClip
    seed: Seed


class ModelClip(Frozen):
    """The image and text towers of an open_clip model entry, with the prompts of the oracle."""

    kind: Literal["model"]
    model: EntryId


def check_templates(templates: tuple[str, ...], field: str) -> None:
    """Raise unless each template holds `{}` once and no other brace."""
    for place, template in enumerate(templates):
        if template.count("{}") != 1 or template.count("{") != 1 or template.count("}") != 1:
            raise refuse("`{}` once and no other braces", field=f"{field}.{place}", got=template)


class ZeroShotJudge(Frozen):
    """An open_clip model that compares images with prompts."""

    kind: Literal["zero-shot"]
    weights: Annotated[TrainedClip | ModelClip, Field(discriminator="kind")]
    templates: tuple[Line, ...] = Field(min_length=1)
    """Each holds `{}` once, where the class name goes; class embeddings average over templates."""
    class_names: dict[Word, Line] = Field(default={})
    """Class key → its name in prompts, for every class of the label space; its own names when empty."""
    input: InputSpec

    @model_validator(mode="after")
    def _check(self) -> ZeroShotJudge:
        check_templates(self.templates, "templates")
        return self


class ClassifierJudge(Frozen):
    """A registered model: a fine-tuned classifier, or a network trained here."""

    kind: Literal["classifier"]
    model: EntryId


class ProbeTraining(Frozen):
    """Logistic regression on frozen features (Radford et al. 2021, section 3.2), solved to convergence."""

    dataset: EntryId
    images: Count | None = None
    """Train on the first so many images; all when absent."""
    inverse_penalty: Positive = Fraction(1)
    """Inverse strength of the L2 penalty: scikit-learn's C."""


class ProbeJudge(Frozen):
    """A linear probe: logistic regression on the unit image embeddings of another oracle's frozen tower."""

    kind: Literal["probe"]
    features: EntryId
    """A zero-shot oracle; its weights and input are taken, its prompts are not."""
    recipe: ProbeTraining


class EnsembleJudge(Frozen):
    """Several oracles of one label space that vote; no verdict is a rejection."""

    kind: Literal["ensemble"]
    members: tuple[EntryId, ...] = Field(min_length=2)
    rule: Literal["majority", "all-agree"]
    """majority: the class with most votes, and no verdict at a tie. all-agree: no verdict unless all say the
    same."""

    @model_validator(mode="after")
    def _check(self) -> EnsembleJudge:
        if len(set(self.members)) != len(self.members):
            raise refuse("each member once", field="members", got=" ".join(self.members))
        return self


Judging = Annotated[ZeroShotJudge | ClassifierJudge | ProbeJudge | EnsembleJudge, Field(discriminator="kind")]


class OracleEntry(Frozen):
    """One oracle: how it judges, and the gate that it must pass."""

    id: EntryId
    name: Name
    summary: Prose
    judge: Judging
    label_space: EntryId
    competence: tuple[Competence, ...] = Field(min_length=1)
    """The datasets that it may judge, with the accuracy that it must reach on each."""
    license: Line
    paper: HttpsUrl | None = None
    added: Day

    @model_validator(mode="after")
    def _check(self) -> OracleEntry:
        names = [each.dataset for each in self.competence]
        if len(set(names)) != len(names):
            raise refuse("each dataset once", field="competence", got=" ".join(names))
        return self

    @property
    def made_of(self) -> tuple[str, ...]:
        """Oracles that this one needs: the members of an ensemble, or whose features a probe reads."""
        if isinstance(self.judge, EnsembleJudge):
            return self.judge.members
        return (self.judge.features,) if isinstance(self.judge, ProbeJudge) else ()

    def competence_on(self, dataset: str) -> Competence | None:
        """What is demanded on a dataset; None where the entry does not offer to judge it."""
        return next((each for each in self.competence if each.dataset == dataset), None)
