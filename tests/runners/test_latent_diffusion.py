"""Diffusion in the latents of an autoencoder, with a tiny untrained DiT and AutoencoderKL of diffusers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, DDPMScheduler, DiTTransformer2DModel

from robustboard.benchmarks.oracle_loop import Origin
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.generators import HubFolder, LatentDiffusion
from robustboard.runners.components import Component, Setup
from robustboard.runners.denoising import DiffusionGenerator
from robustboard.runners.generators import _diffusion
from tests.runners.small import Place, plant_digits

SCALE = 0.5


@pytest.fixture(scope="module")
def component(tmp_path_factory: pytest.TempPathFactory) -> Component:
    folder = tmp_path_factory.mktemp("dit")
    kinds: tuple[Any, Any, Any] = (DiTTransformer2DModel, AutoencoderKL, DDPMScheduler)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformer = kinds[0](
            num_attention_heads=2, attention_head_dim=8, in_channels=2, out_channels=4, num_layers=1,
            norm_num_groups=2, sample_size=8, patch_size=2, num_embeds_ada_norm=10,
        )  # fmt: skip
        vae = kinds[1](
            in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(8, 8), latent_channels=2,
            norm_num_groups=4, scaling_factor=SCALE,
        )  # fmt: skip
        for weights in (transformer, vae):
            for each in weights.parameters():
                torch.nn.init.normal_(each, std=0.2)
    transformer.save_pretrained(folder / "transformer")
    vae.save_pretrained(folder / "vae")
    kinds[2](num_train_timesteps=100).save_pretrained(folder / "scheduler")
    return Component(folder, "0" * 64)


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    place = Place(plant_digits(tmp_path_factory.mktemp("place")))
    return Setup(place.workspace, place.catalog, place.lock)


def method(**changes: Any) -> LatentDiffusion:
    hub = HubFolder(kind="hub", repo="a/b", revision="0" * 40, files=("vae/config.json",))
    found = LatentDiffusion(
        kind="latent-diffusion",
        source=hub,
        size=16,
        sampler="ddim",
        strength=Fraction(1, 5),
        steps=2,
        conditional=True,
    )
    return found.model_copy(update=changes)


@pytest.fixture
def three() -> Origin:
    pixels = np.random.default_rng(0).random((3, 3, 16, 16), np.float32)
    return Origin(torch.from_numpy(pixels), torch.tensor([1, 4, 7]), Draws("5" * 64, ("a", "b", "c"), "x"))


def test_noise_is_added_to_the_scaled_latents(component: Component, setup: Setup, three: Origin) -> None:
    """q(x_t | x_0) of Ho et al. 2020, equation 4, on the autoencoder's mean; a fifth of 100 steps."""
    generator: DiffusionGenerator = _diffusion(method(), component, setup)
    kind: Any = AutoencoderKL
    vae = kind.from_pretrained(component.folder / "vae")
    kept = float(np.cumprod(1 - np.linspace(1e-4, 0.02, 100))[19])
    with torch.no_grad():
        latents = generator.encode(three)
        wanted = SCALE * vae.encode(2 * three.images - 1).latent_dist.mean
    assert latents.shape == (3, 2, 8, 8)
    noise = (latents[0] - np.sqrt(kept) * wanted[0]) / np.sqrt(1 - kept)
    drawn = three.draws.generators("noise")[0].standard_normal((2, 8, 8), np.float32)
    assert torch.allclose(noise, torch.from_numpy(drawn), atol=1e-4)


def test_the_way_back_is_ddim_in_the_latents(component: Component, setup: Setup, three: Origin) -> None:
    """Song et al. 2021, equation 12 with sigma 0, written out: steps 20 and 10 of 100, then the image."""
    generator: DiffusionGenerator = _diffusion(method(), component, setup)
    kinds: tuple[Any, Any] = (DiTTransformer2DModel, AutoencoderKL)
    transformer = kinds[0].from_pretrained(component.folder / "transformer").eval()
    vae = kinds[1].from_pretrained(component.folder / "vae").eval()
    alphas = np.cumprod(1 - np.linspace(1e-4, 0.02, 100))
    with torch.no_grad():
        latents = generator.encode(three)
        found = generator.decode(latents, three)
        for when, after in ((19, float(alphas[10])), (10, 1.0)):
            kept = float(alphas[when])
            times = torch.full((3,), when)
            noise = transformer(latents, times, class_labels=three.labels).sample[:, :2]
            clean = (latents - np.sqrt(1 - kept) * noise) / np.sqrt(kept)
            latents = np.sqrt(after) * clean + np.sqrt(1 - after) * noise
        wanted = (vae.decode(latents / SCALE).sample + 1) / 2
    assert torch.allclose(found, wanted, atol=1e-4)


def test_gradients_reach_the_latents_and_the_class_matters(
    component: Component, setup: Setup, three: Origin
) -> None:
    generator: DiffusionGenerator = _diffusion(method(), component, setup)
    with torch.no_grad():
        latents = generator.encode(three)
    images = generator.decode(latents.requires_grad_(), three)
    (slope,) = torch.autograd.grad(images.sum(), latents)
    assert slope.abs().amax() > 0
    other = Origin(three.images, (three.labels + 1) % 10, three.draws)
    with torch.no_grad():
        assert not torch.allclose(generator.decode(latents, other), images)


def test_an_entry_that_says_otherwise_than_the_network_is_refused(
    component: Component, setup: Setup, tmp_path: Path
) -> None:
    with pytest.raises(CellError, match="conditional: true"):
        _diffusion(method(conditional=False), component, setup)
    kind: Any = DDPMScheduler
    kind(num_train_timesteps=100).save_pretrained(tmp_path / "scheduler")
    with pytest.raises(CellError, match="diffusers cannot load it"):
        _diffusion(method(), Component(tmp_path, "0" * 64), setup)
