"""Zero-shot classifiers: an open_clip model compares images with the names of the classes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import open_clip
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec, ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.classifier import Classifier
from robustboard.runners.configs import check_open_clip, read_config
from robustboard.runners.tensors import first_line
from robustboard.runners.weights import Weights

CONFIG = "open_clip_config.json"
TENSORS = "open_clip_model.safetensors"
CLASSES_AT_ONCE = 50
"""Classes whose prompts are encoded together; bounds memory, changes nothing."""


class ZeroShotNetwork(nn.Module):
    """logits = exp(logit_scale) * cosine of image and class embeddings (Radford et al. 2021, section 3.1)."""

    embeddings: Tensor

    def __init__(self, model: nn.Module, embeddings: Tensor) -> None:
        """Take a model with `encode_image`, and unit class embeddings (classes, width)."""
        super().__init__()
        self.model = model
        self.register_buffer("embeddings", embeddings, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (n, c, h, w) → logits (n, classes)."""
        model: Any = self.model
        features = functional.normalize(model.encode_image(images), dim=-1)
        logits: Tensor = model.logit_scale.exp() * features @ self.embeddings.T
        return logits


def load_open_clip(entry: ModelEntry, space: LabelSpace, weights: Weights) -> Classifier:
    """The zero-shot classifier of an entry's prompts over the names of its label space.

    `weights.path` is a folder with open_clip_config.json, open_clip_model.safetensors and, where
    the text model needs them, files of its tokenizer. Raises CellError (load, non-finite).
    """
    if entry.zero_shot is None:
        raise CellError("load", f"{entry.id}: expected zero_shot prompts")
    prompts = class_prompts(entry.zero_shot.templates, space)
    return zero_shot_classifier(entry.id, weights.path, prompts, entry.input)


def zero_shot_classifier(
    name: str, folder: Path, prompts: dict[str, tuple[str, ...]], spec: InputSpec
) -> Classifier:
    """The classifier of the prompts of each class, in their order, from a folder for open_clip."""
    model, tokenizer = load_towers(name, folder, spec)
    embeddings = class_embeddings(model, tokenizer, prompts)
    return Classifier(ZeroShotNetwork(model, embeddings), spec, len(prompts))


def load_towers(name: str, folder: Path, spec: InputSpec) -> tuple[nn.Module, Any]:
    """The model of a folder for open_clip, in evaluation mode, and its tokenizer.

    Raises CellError (load, extra-missing, non-finite); load too where it takes images of another size than
    `spec` says.
    """
    _check_folder(folder)
    place = f"local-dir:{folder}"
    try:
        with torch.random.fork_rng(devices=[]):
            model = open_clip.create_model(place, require_pretrained=True)
        tokenizer = open_clip.get_tokenizer(place)
    except ImportError as error:
        raise CellError("extra-missing", f"{name}: {first_line(error)}") from error
    except (RuntimeError, OSError, ValueError, TypeError, KeyError, AttributeError, AssertionError) as error:
        raise CellError("load", f"open_clip cannot load {name}: {first_line(error)}") from error
    model.eval()
    _check_input(spec, model)
    return model, tokenizer


def class_prompts(templates: Sequence[str], space: LabelSpace) -> dict[str, tuple[str, ...]]:
    """Class key → its prompts, one a template, in the order of the label space."""
    return {
        key: tuple(template.replace("{}", name) for template in templates)
        for key, name in space.classes.items()
    }


@torch.no_grad()
def class_embeddings(model: Any, tokenizer: Any, prompts: dict[str, tuple[str, ...]]) -> Tensor:  # noqa: ANN401 - open_clip has no types
    """Unit embeddings (classes, width): of each prompt, their mean a class, again of unit length."""
    found = []
    every = list(prompts.values())
    for at in range(0, len(every), CLASSES_AT_ONCE):
        group = every[at : at + CLASSES_AT_ONCE]
        tokens = tokenizer([prompt for texts in group for prompt in texts])
        unit = functional.normalize(model.encode_text(tokens).float(), dim=-1)
        mean = unit.reshape(len(group), -1, unit.shape[-1]).mean(dim=1)
        found.append(functional.normalize(mean, dim=-1))
    return torch.cat(found)


def _check_folder(folder: Path) -> None:
    """Refuse an incomplete folder, and a config that would fetch or run something else."""
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise CellError(
                "load", f"expected {name} in {folder.name}, found none: lock and fetch the model again"
            )
    check_open_clip(folder, CONFIG, TENSORS)
    text = read_config(folder / CONFIG)["model_cfg"]["text_cfg"]
    if text.get("hf_tokenizer_name") and importlib.util.find_spec("transformers") is None:
        raise CellError("extra-missing", f"{CONFIG}: its tokenizer needs: pip install transformers")


def _check_input(spec: InputSpec, model: Any) -> None:  # noqa: ANN401 - open_clip has no types
    """Raise CellError (load) when the image tower takes another size than the entry says."""
    size = model.visual.image_size
    found = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if found != (spec.size, spec.size):
        raise CellError(
            "load", f"the model takes images of {found[0]}x{found[1]}, the entry says {spec.size}"
        )
