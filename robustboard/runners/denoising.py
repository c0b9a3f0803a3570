"""Partial noise-and-denoise with diffusion models, in pixels or in the latents of an autoencoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustboard.benchmarks.oracle_loop import Origin
from robustboard.registry.generators import Denoising
from robustboard.runners.framing import SYMMETRIC, fitted, restored


def _normal(origin: Origin, purpose: str, shape: Sequence[int]) -> Tensor:
    """Standard normal numbers (n, *shape), each image's from its own generator."""
    drawn = [each.standard_normal(tuple(shape), np.float32) for each in origin.draws.generators(purpose)]
    return torch.from_numpy(np.stack(drawn)).to(origin.images.device)


@dataclass(frozen=True)
class PixelDenoiser:
    """A UNet that foretells the noise in pixels; images in [-1, 1] are their own latents."""

    model: Any
    bounded: bool = True
    """Whether denoised latents lie in [-1, 1]."""

    def compress(self, images: Tensor) -> Tensor:
        """(n, c, h, w) in [-1, 1] → what noise is added to."""
        return images

    def expand(self, latents: Tensor) -> Tensor:
        """The way back."""
        return latents

    def noise(self, latents: Tensor, when: int, labels: Tensor | None) -> Tensor:
        """The noise that it sees in latents at a step of the schedule."""
        found: Tensor = self.model(latents, when, class_labels=labels).sample
        return found


@dataclass(frozen=True)
class LatentDenoiser:
    """A transformer that foretells the noise in latents of an autoencoder (Peebles & Xie 2023)."""

    model: Any
    autoencoder: Any
    bounded: bool = False

    def compress(self, images: Tensor) -> Tensor:
        """The mean of the autoencoder's latents, scaled as the transformer was trained on them."""
        found: Tensor = self.autoencoder.encode(images).latent_dist.mode()
        return found * float(self.autoencoder.config.scaling_factor)

    def expand(self, latents: Tensor) -> Tensor:
        """Images in [-1, 1], about."""
        found: Tensor = self.autoencoder.decode(latents / self.autoencoder.config.scaling_factor).sample
        return found

    def noise(self, latents: Tensor, when: int, labels: Tensor | None) -> Tensor:
        """The first half of its channels where it foretells a variance too."""
        times = torch.full((len(latents),), when, device=latents.device)
        found: Tensor = self.model(latents, times, class_labels=labels).sample
        return found[:, : latents.shape[1]]


@dataclass(frozen=True)
class DiffusionGenerator:
    """Partial noise-and-denoise with a network that foretells noise (Ho et al. 2020, Song et al. 2021)."""

    network: PixelDenoiser | LatentDenoiser
    alphas: Tensor
    """(T,) cumulative products of the noise schedule."""
    method: Denoising
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
        """DDIM: the latents noised to `strength`, each with its own noise; DDPM: the latents themselves."""
        images = 2 * fitted(origin.images, self.method.size, self.method.channels) - 1
        latents = self.network.compress(images)
        if not self.differentiable:
            return latents
        return self._noised(latents, _normal(origin, "noise", latents.shape[1:]))

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """DDIM: denoised images; DDPM: the latents are without noise already."""
        clean = self._denoised(latents, origin, None) if self.differentiable else latents
        return restored((self.network.expand(clean) + 1) / 2, origin)

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        """The latents noised afresh and denoised with noise of DDPM's own."""
        noisy = self._noised(latents, _normal(origin, f"noise {step}", latents.shape[1:]))
        return self._bounded(self._denoised(noisy, origin, step))

    def _bounded(self, latents: Tensor) -> Tensor:
        return latents.clamp(-1, 1) if self.network.bounded else latents

    def _noised(self, latents: Tensor, noise: Tensor) -> Tensor:
        kept = self.alphas[self._times[0]]
        return kept.sqrt() * latents + (1 - kept).sqrt() * noise

    def _denoised(self, latents: Tensor, origin: Origin, proposal: int | None) -> Tensor:
        """From noised latents back; with fresh noise at each step when it is a proposal (eta = 1)."""
        times = self._times
        labels = origin.labels if self.method.conditional else None
        for place, when in enumerate(times):
            kept = self.alphas[when]
            after = self.alphas[times[place + 1]] if place + 1 < len(times) else torch.ones_like(kept)
            noise = self.network.noise(latents, when, labels)
            clean = self._bounded((latents - (1 - kept).sqrt() * noise) / kept.sqrt())
            spread = torch.zeros_like(kept)
            if proposal is not None:
                spread = (((1 - after) / (1 - kept)) * (1 - kept / after)).clamp_min(0).sqrt()
            noise = (latents - kept.sqrt() * clean) / (1 - kept).sqrt()
            latents = after.sqrt() * clean + (1 - after - spread.square()).clamp_min(0).sqrt() * noise
            if proposal is not None and place + 1 < len(times):
                latents = latents + spread * _normal(origin, f"step {proposal} {place}", latents.shape[1:])
        return latents
