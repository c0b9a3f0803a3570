"""Generators ready to make images, one class a method, behind the interface of the oracle loop."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib import metadata
from typing import Any, cast

import torch
from diffusers import (
    AutoencoderKL,
    AutoPipelineForImage2Image,
    DDPMScheduler,
    DiTTransformer2DModel,
    UNet2DModel,
    VQModel,
)
from torch import Tensor

from robustboard import jsons
from robustboard.benchmarks.oracle_loop import Generator, Origin
from robustboard.errors import CellError, LockError
from robustboard.registry.generators import (
    Denoising,
    Diffusion,
    Floor,
    GeneratorEntry,
    HubFolder,
    LatentDiffusion,
    SparseLatents,
    TextEdit,
    TrainedUnet,
    TrainedVq,
    VqAscent,
)
from robustboard.registry.labels import LabelSpace
from robustboard.runners.components import Component, Made, Material, Setup, trained_component
from robustboard.runners.configs import check_diffusers
from robustboard.runners.denoising import DiffusionGenerator, LatentDenoiser, PixelDenoiser
from robustboard.runners.framing import SYMMETRIC, fitted, restored
from robustboard.runners.generator_training import train_unet, train_vq
from robustboard.runners.identity import files_digest
from robustboard.runners.tensors import first_line
from robustboard.runners.transformations import CHANGES

UNIT = (0.0, 1.0)


@dataclass(frozen=True)
class VqGenerator:
    """The latent grid of a VQModel before quantisation."""

    model: Any
    size: int
    channels: int
    quantised: bool
    differentiable: bool = True
    image_range: tuple[float, float] = SYMMETRIC

    def encode(self, origin: Origin) -> Tensor:
        """(n, latent channels, h', w') from the encoder."""
        images = fitted(origin.images, self.size, self.channels)
        latents: Tensor = self.model.encode(2 * images - 1).latents
        return latents

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """Images from the decoder; gradients pass the codebook straight through."""
        decoded = self.model.decode(latents, force_not_quantize=not self.quantised).sample
        return restored((decoded + 1) / 2, origin)


@dataclass(frozen=True)
class TextEditGenerator:
    """Edits by a text with an image-to-image pipeline of diffusers, each image with its own seed."""

    pipeline: Any
    method: TextEdit
    space: LabelSpace | None = None
    differentiable: bool = False
    image_range: tuple[float, float] = UNIT

    def encode(self, origin: Origin) -> Tensor:
        """The images at the pipeline's size."""
        return fitted(origin.images, self.method.size, self.method.channels)

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """The edited images at the originals' size."""
        return restored(latents, origin)

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        """Edits of the images by one drawn prompt each."""
        names = list(self.space.classes.values()) if self.space is not None else []
        edited = []
        drawn = origin.draws.generators(f"edit {step}")
        for image, label, source in zip(latents, origin.labels.tolist(), drawn, strict=True):
            template = self.method.templates[int(source.integers(len(self.method.templates)))]
            edited.append(
                self.pipeline(
                    prompt=template.replace("{}", names[label] if names else "object"),
                    image=image.unsqueeze(0),
                    strength=float(self.method.strength),
                    guidance_scale=float(self.method.guidance),
                    num_inference_steps=self.method.steps,
                    generator=torch.Generator().manual_seed(int(source.integers(2**31))),
                    output_type="pt",
                ).images
            )
        return torch.cat(edited).to(latents)


@dataclass(frozen=True)
class FloorGenerator:
    """Transformations without learned weights; their parameters side by side are the latent (n, k)."""

    method: Floor
    differentiable: bool = True
    image_range: tuple[float, float] = UNIT

    def encode(self, origin: Origin) -> Tensor:
        """Parameters that change nothing, or next to nothing."""
        parts = [
            torch.full((len(origin.images), CHANGES[name].parameters), CHANGES[name].start)
            for name in self.method.transformations
        ]
        return torch.cat(parts, dim=1).to(origin.images)

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """The originals, transformed in the entry's order."""
        images, start = origin.images, 0
        for name in self.method.transformations:
            change = CHANGES[name]
            images = change.apply(images, latents[:, start : start + change.parameters])
            start += change.parameters
        return images


@dataclass(frozen=True, slots=True)
class LoadedGenerator:
    """A generator, and what it is."""

    entry: GeneratorEntry
    identity: str
    """64 hex digits over weights, settings and the library behind them: equal identity, equal images."""
    generator: Generator
    mask: Tensor | None = None
    """Of a sparse generator: a latent's shape, 1 where it may move and 0 elsewhere."""


def load_generator(entry: GeneratorEntry, setup: Setup, space: LabelSpace | None = None) -> LoadedGenerator:
    """A generator whose weights are here, checked, or are trained now; frozen and in evaluation mode.

    `space` names the classes for text edits. Raises CellError (load, unlocked, missing, extra-missing).
    """
    method = entry.method
    told: dict[str, object] = {"method": method.model_dump(mode="json")}
    if isinstance(method, Floor):
        return LoadedGenerator(entry, jsons.digest("robustboard.generator/1", told), FloorGenerator(method))
    if isinstance(method, SparseLatents):
        return _sparse(entry, method, setup, space)
    component = _component(entry, setup)
    told |= {"weights": component.sha256, "diffusers": metadata.version("diffusers")}
    if isinstance(method, VqAscent):
        model = _frozen(VQModel, component, setup, _config_folder(method))
        if model.config.lookup_from_codebook and not method.quantised:
            raise CellError("load", "expected quantised: true, as the network looks its codes up")
        found: Generator = VqGenerator(model, method.size, method.channels, method.quantised)
    elif isinstance(method, Denoising):
        found = _diffusion(method, component, setup)
    else:
        found = TextEditGenerator(_pipeline(component), method, space)
    return LoadedGenerator(entry, jsons.digest("robustboard.generator/1", told), found)


def _sparse(
    entry: GeneratorEntry, method: SparseLatents, setup: Setup, space: LabelSpace | None
) -> LoadedGenerator:
    """The whole generator with its mask, fitted now where it is not stored yet."""
    from robustboard.runners.sparse_masks import sparse_mask  # noqa: PLC0415 - scikit-learn takes a second

    whole = load_generator(setup.catalog.generator(method.generator), setup, space)
    mask, sha256 = sparse_mask(method, whole.generator, whole.identity, setup)
    told = {"generator": whole.identity, "mask": sha256}
    return LoadedGenerator(entry, jsons.digest("robustboard.generator/1", told), whole.generator, mask)


def _component(entry: GeneratorEntry, setup: Setup) -> Component:
    method, source = entry.method, entry.source
    if not isinstance(method, VqAscent | Diffusion) or not isinstance(source, TrainedVq | TrainedUnet):
        return _fetched(entry, setup)
    recipe = {
        "source": source.model_dump(mode="json"),
        "size": method.size,
        "channels": method.channels,
        "conditional": isinstance(method, Diffusion) and method.conditional,
    }

    def make(material: Material) -> Made:
        if isinstance(method, Diffusion) and isinstance(source, TrainedUnet):
            return train_unet(method, source, material, setup.progress)
        if isinstance(method, VqAscent) and isinstance(source, TrainedVq):
            return train_vq(method, source, material, setup.progress)
        raise TypeError(f"expected a recipe that fits {method.kind}")

    return trained_component(recipe, source.recipe.dataset, source.recipe.images, make, setup)


def _fetched(entry: GeneratorEntry, setup: Setup) -> Component:
    """Files from the Hub, as the lock has them."""
    try:
        locked = setup.lock.pin(entry)
    except LockError as error:
        raise CellError("unlocked", str(error)) from error
    from robustboard.runners.hub import fetch_generator  # noqa: PLC0415 - takes a second to import

    folder = fetch_generator(entry, locked, setup.workspace, setup.progress)
    check_diffusers(folder)
    return Component(folder, files_digest(locked))


def _config_folder(method: VqAscent) -> str:
    """Where in its repository a VQModel lies that is one of several parts: the folder of its config.json."""
    files = method.source.files if isinstance(method.source, HubFolder) else ()
    return next((name.removesuffix("config.json") for name in files if name.endswith("/config.json")), "")


def _frozen(kind: Any, component: Component, setup: Setup, part: str = "") -> Any:  # noqa: ANN401 - diffusers has no types
    """A diffusers network from safetensors in a folder; only gradients of its inputs are ever taken."""
    try:
        model = kind.from_pretrained(component.folder / part, use_safetensors=True, low_cpu_mem_usage=False)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
        raise CellError("load", f"diffusers cannot load it: {first_line(error)}") from error
    return model.eval().requires_grad_(requires_grad=False).to(setup.device)


def _diffusion(method: Denoising, component: Component, setup: Setup) -> DiffusionGenerator:
    latent, kind = isinstance(method, LatentDiffusion), cast("Any", DDPMScheduler)
    scheduler = kind.from_pretrained(component.folder / ("scheduler" if latent else ""))
    if scheduler.config.prediction_type != "epsilon":
        raise CellError(
            "load", f"expected a network that foretells noise, got {scheduler.config.prediction_type}"
        )
    network: PixelDenoiser | LatentDenoiser
    if latent:
        model = _frozen(DiTTransformer2DModel, component, setup, "transformer")
        network, classes = LatentDenoiser(model, _frozen(AutoencoderKL, component, setup, "vae")), True
    else:
        model = _frozen(UNet2DModel, component, setup)
        network, classes = PixelDenoiser(model), model.config.num_class_embeds is not None
    if classes != method.conditional:
        raise CellError("load", f"expected conditional: {str(classes).lower()}, as the network is made")
    return DiffusionGenerator(network, scheduler.alphas_cumprod.to(setup.device), method)


def _pipeline(component: Component) -> Any:  # noqa: ANN401 - diffusers has no types
    if importlib.util.find_spec("transformers") is None:
        raise CellError("extra-missing", "text edits need: pip install transformers")
    try:
        kind: Any = AutoPipelineForImage2Image
        pipeline = kind.from_pretrained(component.folder, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError, ImportError) as error:
        raise CellError("load", f"diffusers cannot load it: {first_line(error)}") from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
