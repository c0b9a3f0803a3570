"""Generators ready to make images, one class a method, behind the interface of the oracle loop."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch
from diffusers import AutoPipelineForImage2Image, DDPMScheduler, UNet2DModel, VQModel
from torch import Tensor
from torch.nn import functional

from robustboard import jsons
from robustboard.benchmarks.oracle_loop import Generator, Origin
from robustboard.errors import CellError, LockError
from robustboard.registry.generators import (
    Diffusion,
    Floor,
    GeneratorEntry,
    HubFolder,
    TextEdit,
    TrainedUnet,
    TrainedVq,
    VqAscent,
)
from robustboard.registry.labels import LabelSpace
from robustboard.runners.components import Component, Made, Material, Setup, trained_component
from robustboard.runners.generator_training import train_unet, train_vq
from robustboard.runners.identity import files_digest
from robustboard.runners.tensors import first_line
from robustboard.runners.transformations import CHANGES

SYMMETRIC = (-1.0, 1.0)
"""Pixel range of diffusers' networks."""
UNIT = (0.0, 1.0)
GREY = 1


def fitted(images: Tensor, size: int, channels: int) -> Tensor:
    """Images at another size (bilinear) and number of channels; left alone where both are right."""
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True) if channels == GREY else images.expand(-1, channels, -1, -1)
    if images.shape[2:] != (size, size):
        images = functional.interpolate(images, size=(size, size), mode="bilinear", antialias=True)
    return images


def _back(images: Tensor, origin: Origin) -> Tensor:
    """Images at the size and channels of the originals."""
    _, channels, height, width = origin.images.shape
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True) if channels == GREY else images.expand(-1, channels, -1, -1)
    if images.shape[2:] != (height, width):
        images = functional.interpolate(images, size=(height, width), mode="bilinear", antialias=True)
    return images


def _normal(origin: Origin, purpose: str, shape: Sequence[int]) -> Tensor:
    """Standard normal numbers (n, *shape), each image's from its own generator."""
    drawn = [each.standard_normal(tuple(shape), np.float32) for each in origin.draws.generators(purpose)]
    return torch.from_numpy(np.stack(drawn)).to(origin.images.device)


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
        return _back((decoded + 1) / 2, origin)


@dataclass(frozen=True)
class DiffusionGenerator:
    """Partial noise-and-denoise with a network that foretells noise (Ho et al. 2020, Song et al. 2021)."""

    model: Any
    alphas: Tensor
    """(T,) cumulative products of the noise schedule."""
    method: Diffusion
    image_range: tuple[float, float] = SYMMETRIC

    @property
    def differentiable(self) -> bool:
        """DDIM's way back has no randomness, so gradients run through it; DDPM's is a random proposal."""
        return self.method.sampler == "ddim"

    @property
    def _times(self) -> list[int]:
        """Schedule steps from the noise's level down, `steps` of them, evenly spread."""
        start = max(1, round(float(self.method.strength) * len(self.alphas))) - 1
        return [round(float(each)) for each in np.linspace(start, 0, self.method.steps + 1)[:-1]]

    def encode(self, origin: Origin) -> Tensor:
        """DDIM: the images noised to `strength`, each with its own noise; DDPM: the images themselves."""
        images = 2 * fitted(origin.images, self.method.size, self.method.channels) - 1
        if not self.differentiable:
            return images
        return self._noised(images, _normal(origin, "noise", images.shape[1:]))

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """DDIM: denoised images; DDPM: the latents are images already."""
        images = self._denoised(latents, origin, None) if self.differentiable else latents
        return _back((images + 1) / 2, origin)

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        """The images noised afresh and denoised with noise of DDPM's own."""
        noisy = self._noised(latents, _normal(origin, f"noise {step}", latents.shape[1:]))
        return self._denoised(noisy, origin, step).clamp(-1, 1)

    def _noised(self, images: Tensor, noise: Tensor) -> Tensor:
        kept = self.alphas[self._times[0]]
        return kept.sqrt() * images + (1 - kept).sqrt() * noise

    def _denoised(self, latents: Tensor, origin: Origin, proposal: int | None) -> Tensor:
        """From noised images back; with fresh noise at each step when it is a proposal (eta = 1)."""
        times = self._times
        labels = origin.labels if self.method.conditional else None
        for place, when in enumerate(times):
            kept = self.alphas[when]
            after = self.alphas[times[place + 1]] if place + 1 < len(times) else torch.ones_like(kept)
            noise = self.model(latents, when, class_labels=labels).sample
            clean = ((latents - (1 - kept).sqrt() * noise) / kept.sqrt()).clamp(-1, 1)
            spread = torch.zeros_like(kept)
            if proposal is not None:
                spread = (((1 - after) / (1 - kept)) * (1 - kept / after)).clamp_min(0).sqrt()
            noise = (latents - kept.sqrt() * clean) / (1 - kept).sqrt()
            latents = after.sqrt() * clean + (1 - after - spread.square()).clamp_min(0).sqrt() * noise
            if proposal is not None and place + 1 < len(times):
                latents = latents + spread * _normal(origin, f"step {proposal} {place}", latents.shape[1:])
        return latents


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
        return _back(latents, origin)

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


def load_generator(entry: GeneratorEntry, setup: Setup, space: LabelSpace | None = None) -> LoadedGenerator:
    """A generator whose weights are here, checked, or are trained now; frozen and in evaluation mode.

    `space` names the classes for text edits. Raises CellError (load, unlocked, missing, extra-missing).
    """
    method = entry.method
    told: dict[str, object] = {"method": method.model_dump(mode="json")}
    if isinstance(method, Floor):
        return LoadedGenerator(entry, jsons.digest("robustboard.generator/1", told), FloorGenerator(method))
    component = _component(entry, setup)
    told |= {"weights": component.sha256, "diffusers": metadata.version("diffusers")}
    if isinstance(method, VqAscent):
        model = _frozen(VQModel, component, setup)
        found: Generator = VqGenerator(model, method.size, method.channels, method.quantised)
    elif isinstance(method, Diffusion):
        found = _diffusion(method, component, setup)
    else:
        found = TextEditGenerator(_pipeline(component), method, space)
    return LoadedGenerator(entry, jsons.digest("robustboard.generator/1", told), found)


def _component(entry: GeneratorEntry, setup: Setup) -> Component:
    method = entry.method
    if isinstance(method, Floor) or isinstance(method.source, HubFolder):
        return _fetched(entry, setup)
    source = method.source
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

    return Component(fetch_generator(entry, locked, setup.workspace), files_digest(locked))


def _frozen(kind: Any, component: Component, setup: Setup) -> Any:  # noqa: ANN401 - diffusers has no types
    """A diffusers network from safetensors in a folder; only gradients of its inputs are ever taken."""
    try:
        model = kind.from_pretrained(component.folder, use_safetensors=True, low_cpu_mem_usage=False)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
        raise CellError("load", f"diffusers cannot load it: {first_line(error)}") from error
    return model.eval().requires_grad_(requires_grad=False).to(setup.device)


def _diffusion(method: Diffusion, component: Component, setup: Setup) -> DiffusionGenerator:
    kind: Any = DDPMScheduler
    scheduler = kind.from_pretrained(component.folder)
    if scheduler.config.prediction_type != "epsilon":
        raise CellError(
            "load", f"expected a network that foretells noise, got {scheduler.config.prediction_type}"
        )
    model = _frozen(UNet2DModel, component, setup)
    classes = model.config.num_class_embeds is not None
    if classes != method.conditional:
        raise CellError("load", f"expected conditional: {str(classes).lower()}, as the network is made")
    return DiffusionGenerator(model, scheduler.alphas_cumprod.to(setup.device), method)


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
