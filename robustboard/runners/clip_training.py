"""Trains the small open_clip models that serve as oracles, from a recipe and a seed."""

from __future__ import annotations

from typing import Any

import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from open_clip.tokenizer import SimpleTokenizer
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from robustboard import jsons
from robustboard.registry.entries import InputSpec
from robustboard.registry.oracles import SmallClip, TrainedClip
from robustboard.runners.classifier import Preprocess
from robustboard.runners.components import Made, Material
from robustboard.runners.fitting import Progress, fit
from robustboard.runners.zeroshot import CONFIG, TENSORS

VOCABULARY = 49408
"""Tokens of open_clip's own tokenizer."""
WARM_UP = 0.2
"""Share of the steps in which the one-cycle schedule rises to the learning rate."""


def train_clip(source: TrainedClip, spec: InputSpec, material: Material, progress: Progress) -> Made:
    """A CLIP trained on images with captions of their classes, as a folder that open_clip loads.

    In each step every class gets one caption. Of the two halves of the loss one asks each image for its
    caption, the other each caption for its images, all of them in equal parts. Raises CellError
    (non-finite) when the loss does.
    """
    torch.manual_seed(source.seed)
    config = model_config(source.network, spec.size)
    model: Any = CLIP(
        config["embed_dim"],
        CLIPVisionCfg(**config["vision_cfg"]),
        CLIPTextCfg(**config["text_cfg"]),
    )
    loss = _fit(model, Preprocess(spec), source, material, progress)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    return Made({CONFIG: jsons.canonical({"model_cfg": config}), TENSORS: save(state)}, loss)


def model_config(network: SmallClip, size: int) -> dict[str, Any]:
    """open_clip's `model_cfg` of a small CLIP for grey or colour images of this size; always 3 channels."""
    return {
        "embed_dim": network.embedding,
        "vision_cfg": {
            "image_size": size,
            "patch_size": network.patch,
            "width": network.width,
            "head_width": network.width // network.heads,
            "layers": network.layers,
        },
        "text_cfg": {
            "context_length": network.context,
            "vocab_size": VOCABULARY,
            "width": network.width,
            "heads": network.heads,
            "layers": network.text_layers,
        },
    }


def _fit(
    model: Any,  # noqa: ANN401 - open_clip has no types
    preprocess: Preprocess,
    source: TrainedClip,
    material: Material,
    progress: Progress,
) -> float:
    recipe = source.recipe
    tokenize = SimpleTokenizer(context_length=source.network.context)
    tokens = torch.stack(
        [
            tokenize([caption.replace("{}", name) for name in material.class_names])
            for caption in recipe.captions
        ]
    )
    classes = torch.arange(len(material.class_names))

    def loss_of(chosen: Tensor, generator: torch.Generator) -> Tensor:
        drawn = torch.randint(len(recipe.captions), (len(classes),), generator=generator)
        images = preprocess(material.images[chosen])
        return _loss(model, images, tokens[drawn, classes], material.labels[chosen])

    return fit(
        model,
        recipe,
        loss_of,
        images=len(material.labels),
        seed=source.seed,
        warm_up=WARM_UP,
        progress=progress,
    )


def _loss(model: Any, images: Tensor, tokens: Tensor, labels: Tensor) -> Tensor:  # noqa: ANN401 - open_clip has no types
    """Symmetric contrastive loss of images and one caption a class."""
    seen = functional.normalize(model.encode_image(images), dim=-1)
    said = functional.normalize(model.encode_text(tokens), dim=-1)
    logits = model.logit_scale.exp() * seen @ said.T
    present = torch.unique(labels)
    wanted = functional.one_hot(labels, len(tokens)).to(logits.dtype)[:, present]
    wanted = wanted / wanted.sum(0, keepdim=True)
    towards_images = -(wanted * functional.log_softmax(logits[:, present], dim=0)).sum(0).mean()
    return (functional.cross_entropy(logits, labels) + towards_images) / 2
