"""Types of the entries under registry/generators/: what makes new images from test images."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard.fields import (
    Channels,
    Count,
    Day,
    EntryId,
    Flag,
    HttpsUrl,
    Line,
    Name,
    NotNegative,
    Pixels,
    Positive,
    Prose,
    RelativePath,
    RepoId,
    Revision,
    Seed,
    Share,
    refuse,
)
from robustboard.registry.oracles import check_templates
from robustboard.yamls import Frozen


class HubFolder(Frozen):
    """A diffusers model or pipeline in a Hugging Face repository, at one commit."""

    kind: Literal["hub"]
    repo: RepoId
    revision: Revision
    files: tuple[RelativePath, ...] = Field(min_length=1)
    """Configurations and safetensors that are read, as the repository names them."""


class GeneratorTraining(Frozen):
    """How a small generator is trained on the spot: AdamW, one-cycle learning rate, seeded order."""

    dataset: EntryId
    images: Count | None = None
    """Train on the first so many images; all when absent."""
    epochs: Count
    batch_size: Count
    learning_rate: Positive
    weight_decay: NotNegative = Fraction(0)


class SmallVq(Frozen):
    """Sizes of a diffusers VQModel."""

    widths: tuple[Count, ...] = Field(min_length=1)
    """Channels of each level; every level after the first halves the side."""
    layers: Count = 1
    latent: Count
    """Channels of the latent grid."""
    codes: Count
    """Entries of the codebook."""


class SmallUnet(Frozen):
    """Sizes of a diffusers UNet2DModel."""

    widths: tuple[Count, ...] = Field(min_length=1)
    layers: Count = 1
    timesteps: Count = 1000
    """Steps of the noise schedule that it is trained on."""


class TrainedVq(Frozen):
    """A small VQModel that this project trains on the spot: squared error and commitment loss."""

    kind: Literal["trained-here"]
    recipe: GeneratorTraining
    network: SmallVq
    seed: Seed


class TrainedUnet(Frozen):
    """A small UNet that this project trains on the spot to foretell noise (Ho et al. 2020, algorithm 1)."""

    kind: Literal["trained-here"]
    recipe: GeneratorTraining
    network: SmallUnet
    seed: Seed


class VqAscent(Frozen):
    """The latent before quantisation is moved up the loss of the evaluated model (specs of FMR)."""

    kind: Literal["vq-ascent"]
    source: Annotated[TrainedVq | HubFolder, Field(discriminator="kind")]
    size: Pixels
    """Side in pixels of the images that it takes; others are resized to it and back."""
    channels: Channels = 3
    quantised: Flag = False
    """Whether latents pass through the codebook, with a straight-through gradient."""


class Denoising(Frozen):
    """How noise is added up to a share of the schedule, and taken away again."""

    size: Pixels
    """Side in pixels of the images that it takes; others are resized to it and back."""
    channels: Channels = 3
    sampler: Literal["ddim", "ddpm"]
    """ddim: no randomness after the first noise, so that gradients reach it. ddpm: random proposals."""
    strength: Share
    """Share of the noise schedule."""
    steps: Count
    """Denoising steps from there to the image."""
    conditional: Flag = False
    """Whether the network is given the true class (DiT, class-conditional UNets)."""


class Diffusion(Denoising):
    """Noise is added to the pixels of an image and taken away by a UNet."""

    kind: Literal["diffusion"]
    source: Annotated[TrainedUnet | HubFolder, Field(discriminator="kind")]


class LatentDiffusion(Denoising):
    """Noise is added to the latents of an autoencoder and taken away by a transformer (Peebles & Xie 2023).

    The folder holds `transformer`, `vae` and `scheduler`, as pipelines of diffusers do.
    """

    kind: Literal["latent-diffusion"]
    source: HubFolder


class TextEdit(Frozen):
    """Image-to-image edits by a text, through a diffusers pipeline; random proposals."""

    kind: Literal["text-edit"]
    source: HubFolder
    size: Pixels
    channels: Channels = 3
    templates: tuple[Line, ...] = Field(min_length=1)
    """Each holds `{}` once, where the class name goes; one is drawn for each image and step."""
    strength: Share
    guidance: NotNegative = Fraction(0)
    steps: Count

    @model_validator(mode="after")
    def _check(self) -> TextEdit:
        check_templates(self.templates, "templates")
        return self


Transformation = Literal["affine", "colour", "blur", "occlusion", "elastic"]


class Floor(Frozen):
    """Built-in transformations without learned weights: how much does a generative model add?"""

    kind: Literal["transformations"]
    transformations: tuple[Transformation, ...] = Field(min_length=1)
    """Applied in this order; their parameters are the latent, and gradients reach them."""

    @model_validator(mode="after")
    def _check(self) -> Floor:
        if len(set(self.transformations)) != len(self.transformations):
            got = " ".join(self.transformations)
            raise refuse("each transformation once", field="transformations", got=got)
        return self


class MaskFitting(Frozen):
    """Which coordinates of a latent may move: those that tell images before the loop from those after it.

    The loop is run on training images without a mask; an L1 logistic regression tells the latents at its
    end from those at its start, and its strength is bisected until few enough weights are not 0.
    """

    dataset: EntryId
    images: Count
    """The first so many of its images."""
    model: EntryId
    """Whose loss is climbed meanwhile."""
    oracle: EntryId
    budget: Count
    step_size: Positive
    update_rule: Literal["adam", "sign", "sgd"] = "adam"
    share: Share = Fraction(1, 100)
    """Most coordinates that may move, as a share of all."""


class SparseLatents(Frozen):
    """Another generator, of whose latents only a few coordinates move."""

    kind: Literal["sparse"]
    generator: EntryId
    """One that gradients run through."""
    mask: MaskFitting


class GeneratorEntry(Frozen):
    """One generator of new images."""

    id: EntryId
    name: Name
    summary: Prose
    method: Annotated[
        VqAscent | Diffusion | LatentDiffusion | TextEdit | Floor | SparseLatents, Field(discriminator="kind")
    ]
    license: Line
    paper: HttpsUrl | None = None
    added: Day

    @property
    def source(self) -> TrainedVq | TrainedUnet | HubFolder | None:
        """Where its weights come from; None where it has none."""
        return None if isinstance(self.method, Floor | SparseLatents) else self.method.source

    @property
    def differentiable(self) -> bool:
        """Whether gradients run from images to latents; else it makes random proposals."""
        if isinstance(self.method, Denoising):
            return self.method.sampler == "ddim"
        return not isinstance(self.method, TextEdit)
