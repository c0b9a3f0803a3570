"""Generators: small real ones, the same image in every company, and what changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import VQModel

from robustboard.benchmarks.oracle_loop import Origin, Proposer
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.generators import Floor, GeneratorEntry, HubFolder, TextEdit
from robustboard.runners import generators
from robustboard.runners.components import Component, Setup
from robustboard.runners.generators import FloorGenerator, LoadedGenerator, TextEditGenerator, load_generator
from robustboard.runners.transformations import CHANGES
from tests.conftest import Labelled
from tests.runners.small import Place, plant_digits

RECIPE = {"dataset": "digits-train", "epochs": 3, "batch_size": 64, "learning_rate": "0.005"}


def entry(method: Mapping[str, Any]) -> GeneratorEntry:
    return GeneratorEntry.model_validate(
        {"id": "tiny", "name": "Tiny", "summary": "For tests.", "license": "MIT", "added": "2026-01-01"}
        | {"method": method}
    )


def vq(**changes: object) -> GeneratorEntry:
    network = {"widths": (8, 16), "latent": 4, "codes": 32}
    source = {"kind": "trained-here", "seed": 1, "recipe": RECIPE, "network": network}
    return entry({"kind": "vq-ascent", "source": source, "size": 8, "channels": 1} | changes)


def diffusion(sampler: str, *, conditional: bool = False) -> GeneratorEntry:
    source = {
        "kind": "trained-here",
        "seed": 1,
        "recipe": {**RECIPE, "epochs": 1},
        "network": {"widths": (8, 16), "timesteps": 100},
    }
    method = {"kind": "diffusion", "source": source, "size": 8, "channels": 1, "sampler": sampler}
    return entry(method | {"strength": "0.2", "steps": 2, "conditional": conditional})


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    place = Place(plant_digits(tmp_path_factory.mktemp("generators")))
    return Setup(place.workspace, place.catalog, place.lock)


@pytest.fixture
def four(digits_test: Labelled) -> Origin:
    images, labels = digits_test
    ids = tuple(f"{row:05d}" for row in range(4))
    draws = Draws("5" * 64, ids, "generated")
    return Origin(torch.from_numpy(images[:4]), torch.from_numpy(labels[:4]), draws)


def test_a_trained_vq_model_reconstructs_and_gradients_reach_its_latents(setup: Setup, four: Origin) -> None:
    loaded = load_generator(vq(), setup)
    latents = loaded.generator.encode(four).requires_grad_()
    images = loaded.generator.decode(latents, four)
    grey = (four.images - four.images.mean()).square().mean()
    assert images.shape == four.images.shape
    assert (images - four.images).square().mean() < grey
    (slope,) = torch.autograd.grad(images.square().sum(), latents)
    assert slope.abs().amax() > 0
    assert not any(each.requires_grad for each in loaded.generator.model.parameters())  # type: ignore[attr-defined]  # of this generator


def test_a_generator_is_trained_once_and_known_by_its_weights_and_settings(setup: Setup) -> None:
    first, again = load_generator(vq(), setup), load_generator(vq(), setup)
    assert first.identity == again.identity
    assert load_generator(vq(quantised=True), setup).identity != first.identity


@pytest.mark.parametrize(
    ("sampler", "conditional"), [("ddim", False), ("ddpm", False), ("ddim", True)], ids=str
)
def test_one_image_of_a_batch_can_be_made_again_alone(
    setup: Setup, four: Origin, sampler: str, *, conditional: bool
) -> None:
    """B058: as one batch, as two, one by one, and image 3 alone: the same within 1 of 255."""
    loaded = load_generator(diffusion(sampler, conditional=conditional), setup)

    def made(*rows: int) -> torch.Tensor:
        generator, part = loaded.generator, four.select(torch.tensor(rows))
        with torch.no_grad():
            latents = generator.encode(part)
            if isinstance(generator, Proposer):
                latents = generator.propose(latents, part, 1)
            return generator.decode(latents, part)

    whole = made(0, 1, 2, 3)
    halves = torch.cat([made(0, 1), made(2, 3)])
    singles = torch.cat([made(row) for row in range(4)])
    for other in (halves, singles):
        assert (whole - other).abs().amax() < 1 / 255
    assert (made(3)[0] - whole[3]).abs().amax() < 1 / 255


def test_two_images_do_not_share_their_noise(setup: Setup, four: Origin) -> None:
    """B058: equal images with different ids get different noise."""
    twins = Origin(four.images[:1].expand(2, -1, -1, -1), four.labels[:2], Draws("5" * 64, ("a", "b"), "x"))
    latents = load_generator(diffusion("ddim"), setup).generator.encode(twins)
    assert (latents[0] - latents[1]).abs().amax() > 0.1


def test_a_conditional_network_is_given_the_class(setup: Setup, four: Origin) -> None:
    generator = load_generator(diffusion("ddim", conditional=True), setup).generator
    other = Origin(four.images, (four.labels + 1) % 10, four.draws)
    with torch.no_grad():
        latents = generator.encode(four)
        assert not torch.equal(generator.decode(latents, four), generator.decode(latents, other))


@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if not change.start])
def test_parameters_of_zero_change_nothing_and_larger_ones_do(name: str, four: Origin) -> None:
    floor = FloorGenerator(Floor.model_validate({"kind": "transformations", "transformations": (name,)}))
    latents = floor.encode(four)
    assert (floor.decode(latents, four) - four.images).abs().amax() < 1e-5
    changed = floor.decode(latents + 0.5, four)
    assert (changed - four.images).abs().mean() > 0.005
    assert changed.shape == four.images.shape


def test_gradients_reach_every_parameter_of_the_built_in_transformations(four: Origin) -> None:
    floor = FloorGenerator(Floor(kind="transformations", transformations=tuple(CHANGES)))
    latents = floor.encode(four).requires_grad_()
    weights = torch.linspace(0, 1, 64).view(1, 1, 8, 8)
    (slope,) = torch.autograd.grad((floor.decode(latents, four) * weights).sum(), latents)
    assert bool((slope.abs().amax(0) > 0).all())


def test_a_generator_from_the_hub_without_a_lock_line_says_what_to_run(setup: Setup) -> None:
    hub = {"kind": "hub", "repo": "google/ddpm-cifar10-32", "revision": "0" * 40, "files": ("config.json",)}
    method = diffusion("ddim").method.model_dump() | {"source": hub}
    with pytest.raises(CellError, match="robustboard lock generator/tiny"):
        load_generator(entry(method), setup)


@pytest.mark.parametrize("quantised", [True, False], ids=["codes", "no-codes"])
def test_a_vq_model_that_is_one_part_of_a_pipeline_is_found(
    setup: Setup, four: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, quantised: bool
) -> None:
    """As in aMUSEd's repository: a folder of its own, and latents that are looked up in the codebook."""
    kind: Any = VQModel
    with torch.random.fork_rng(devices=[]):
        kind(
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(8, 8),
            latent_channels=4,
            num_vq_embeddings=16,
            norm_num_groups=4,
            mid_block_add_attention=False,
            lookup_from_codebook=True,
        ).save_pretrained(tmp_path / "vqvae")
    monkeypatch.setattr(generators, "_fetched", lambda *_: Component(tmp_path, "0" * 64))
    hub = {"kind": "hub", "repo": "a/b", "revision": "0" * 40, "files": ("vqvae/config.json",)}
    told = entry({"kind": "vq-ascent", "source": hub, "size": 8, "quantised": quantised})
    if not quantised:
        with pytest.raises(CellError, match="quantised: true"):
            load_generator(told, setup)
        return
    generator = load_generator(told, setup).generator
    with torch.no_grad():
        assert generator.decode(generator.encode(four), four).shape == four.images.shape


def test_noise_is_that_of_the_schedule(setup: Setup, four: Origin) -> None:
    """q(x_t | x_0) of Ho et al. 2020, equation 4: alpha-bar at the step where a fifth of 100 steps ends."""
    loaded: LoadedGenerator = load_generator(diffusion("ddim"), setup)
    betas = np.linspace(1e-4, 0.02, 100)
    kept = np.cumprod(1 - betas)[19]
    noise = (loaded.generator.encode(four) - np.sqrt(kept) * (2 * four.images - 1)) / np.sqrt(1 - kept)
    drawn = four.draws.generators("noise")[0].standard_normal((1, 8, 8), np.float32)
    assert torch.allclose(noise[0], torch.from_numpy(drawn), atol=1e-4)


def test_each_image_is_edited_by_its_own_prompt_and_seed(setup: Setup, four: Origin) -> None:
    """A stand-in for the pipeline, which needs downloads: it records what it is asked for."""
    asked: list[tuple[str, int, float]] = []

    @dataclass
    class Answer:
        images: torch.Tensor

    def pipeline(**wanted: Any) -> Answer:
        asked.append((wanted["prompt"], wanted["generator"].initial_seed(), wanted["strength"]))
        return Answer(wanted["image"] / 2)

    hub = HubFolder(kind="hub", repo="a/b", revision="0" * 40, files=("model_index.json",))
    method = TextEdit(
        kind="text-edit",
        source=hub,
        size=8,
        channels=1,
        templates=("a {} at night",),
        strength=Fraction(1),
        steps=2,
    )
    generator = TextEditGenerator(pipeline, method, setup.catalog.label_space("digits"))
    edited = generator.propose(generator.encode(four), four, 1)
    assert torch.equal(generator.decode(edited, four), four.images / 2)
    assert [prompt for prompt, _, _ in asked] == [f"a {label} at night" for label in four.labels.tolist()]
    assert len({seed for _, seed, _ in asked}) == 4
    alone = generator.propose(generator.encode(four)[3:], four.select(torch.tensor([3])), 1)
    assert asked[4] == asked[3]
    assert torch.equal(alone[0], edited[3])
