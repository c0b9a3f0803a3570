"""Trains the small diffusers generators that this project brings along, from a recipe and a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import DDPMScheduler, UNet2DModel, VQModel
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from robustboard import jsons
from robustboard.registry.generators import Diffusion, TrainedUnet, TrainedVq, VqAscent
from robustboard.runners.components import Made, Material
from robustboard.runners.fitting import Progress, fit

CONFIG = "config.json"
TENSORS = "diffusion_pytorch_model.safetensors"
"""Names that diffusers reads in a model's folder."""
WARM_UP = 0.2
PATIENCE = 25
"""Steps after which a code that was never used is moved."""
GROUPS = 8
"""Groups of each group normalisation; every width is a multiple of it."""


def vq_config(method: VqAscent, source: TrainedVq) -> dict[str, Any]:
    """Arguments of the VQModel of an entry."""
    levels, network = len(source.network.widths), source.network
    return {
        "in_channels": method.channels,
        "out_channels": method.channels,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "block_out_channels": list(network.widths),
        "layers_per_block": network.layers,
        "latent_channels": network.latent,
        "num_vq_embeddings": network.codes,
        "norm_num_groups": GROUPS,
        "sample_size": method.size,
        "mid_block_add_attention": False,
    }


def unet_config(method: Diffusion, source: TrainedUnet, classes: int) -> dict[str, Any]:
    """Arguments of the UNet of an entry: convolutions at every level, attention in the middle."""
    levels, network = len(source.network.widths), source.network
    return {
        "sample_size": method.size,
        "in_channels": method.channels,
        "out_channels": method.channels,
        "down_block_types": ["DownBlock2D"] * levels,
        "up_block_types": ["UpBlock2D"] * levels,
        "block_out_channels": list(network.widths),
        "layers_per_block": network.layers,
        "norm_num_groups": GROUPS,
        "num_class_embeds": classes if method.conditional else None,
    }


def train_vq(method: VqAscent, source: TrainedVq, material: Material, progress: Progress) -> Made:
    """A VQModel that reconstructs the images: mean squared error plus the codebook's commitment loss.

    In the first half, codes that no latent was nearest to for 25 steps are put on latents of the batch, so
    that the codebook is used. Raises CellError (non-finite) when the loss does.
    """
    torch.manual_seed(source.seed)
    config = vq_config(method, source)
    kind: Any = VQModel
    model = kind(**config)

    codebook = _Codebook(
        model, source.recipe.epochs * (len(material.images) // source.recipe.batch_size) // 2
    )

    def loss(batch: Tensor, _labels: Tensor, generator: torch.Generator) -> Tensor:
        latents = model.encode(batch).latents
        codebook.revive(latents.detach(), generator)
        output = model.decode(latents)
        commitment = torch.as_tensor(output.commit_loss)
        return functional.mse_loss(output.sample, batch) + commitment.mean()

    mean = _fit(model, loss, source, material, progress)
    return _made(model, config, "VQModel", mean)


def train_unet(method: Diffusion, source: TrainedUnet, material: Material, progress: Progress) -> Made:
    """A UNet that foretells the noise in noised images at steps drawn evenly from the schedule."""
    torch.manual_seed(source.seed)
    config = unet_config(method, source, len(material.class_names))
    kinds: tuple[Any, Any] = (UNet2DModel, DDPMScheduler)
    model, scheduler = kinds[0](**config), kinds[1](num_train_timesteps=source.network.timesteps)
    most = source.network.timesteps

    def loss(batch: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(batch.shape, generator=generator)
        when = torch.randint(most, (len(batch),), generator=generator)
        noisy = scheduler.add_noise(batch, noise, when)
        told = model(noisy, when, class_labels=labels if method.conditional else None).sample
        return functional.mse_loss(told, noise)

    mean = _fit(model, loss, source, material, progress)
    made = _made(model, config, "UNet2DModel", mean)
    plan = {"_class_name": "DDPMScheduler", "num_train_timesteps": most}
    return Made({**made.files, "scheduler_config.json": jsons.canonical(plan)}, mean)


class _Codebook:
    """Keeps count of the codes that are used, and moves the idle ones."""

    def __init__(self, model: Any, until: int) -> None:  # noqa: ANN401 - diffusers has no types
        """Codes of a VQModel, moved until so many steps are done."""
        self.codes: Tensor = model.quantize.embedding.weight
        self.until = until
        self.step = 0
        self.used = torch.zeros(len(self.codes), dtype=torch.bool)

    @torch.no_grad()
    def revive(self, latents: Tensor, generator: torch.Generator) -> None:
        """Note which codes these latents (n, c, h, w) use; every 25 steps move the others."""
        flat = latents.permute(0, 2, 3, 1).flatten(0, 2)
        if self.step == 0:
            self.codes.copy_(flat[torch.randint(len(flat), (len(self.codes),), generator=generator)])
        self.used[torch.cdist(flat, self.codes).argmin(1)] = True
        self.step += 1
        if self.step % PATIENCE == 0:
            idle = torch.nonzero(~self.used).squeeze(1)
            if self.step <= self.until and len(idle):
                self.codes[idle] = flat[torch.randint(len(flat), (len(idle),), generator=generator)]
            self.used.zero_()


def _made(model: Any, config: dict[str, Any], name: str, mean: float) -> Made:  # noqa: ANN401 - diffusers has no types
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    return Made({CONFIG: jsons.canonical({"_class_name": name, **config}), TENSORS: save(state)}, mean)


def _fit(
    model: Any,  # noqa: ANN401 - diffusers has no types
    loss_of: Callable[[Tensor, Tensor, torch.Generator], Tensor],
    source: TrainedVq | TrainedUnet,
    material: Material,
    progress: Progress,
) -> float:
    """Train on batches in a seeded order; the mean loss of the last epoch."""

    def loss_at(chosen: Tensor, generator: torch.Generator) -> Tensor:
        return loss_of(2 * material.images[chosen] - 1, material.labels[chosen], generator)

    return fit(
        model,
        source.recipe,
        loss_at,
        images=len(material.images),
        seed=source.seed,
        warm_up=WARM_UP,
        progress=progress,
    )
