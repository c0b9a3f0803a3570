"""Configurations from strangers: known keys, classes of the libraries, networks as large as their weights.

The architecture of a timm model stands in its entry, so a repository's config.json is not even fetched.
open_clip and diffusers build what the repository's own configuration says; it is held to these rules first.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import timm
import torch
from torch import nn

from robustboard import jsons
from robustboard.errors import CellError, StoreError, echo
from robustboard.runners.tensors import check_tensors, first_line

LARGEST_CONFIG = 4 * 2**20
"""Bytes of a configuration."""

LARGEST_TOKENIZER = 64 * 2**20
"""Bytes of a tokenizer's files."""

SPARE = 10_000_000
"""Parameters that a network may have whatever its file holds: what a file lacks is told later, by name."""

TIMES = 4
"""Networks of so many times their file's numbers are no honest mistake."""

REMOTE_CODE = ("auto_map", "trust_remote_code", "custom_pipelines", "custom_pipeline", "quantization_config")
"""Keys that make libraries run code of a repository, or fetch kernels."""

CHOICE = "_implementation"
"""In names of keys by which transformers chooses kernels: `sdpa`, or a repository that it would run."""

CLIP_KEYS = frozenset(
    {
        "embed_dim",
        "vision_cfg",
        "text_cfg",
        "quick_gelu",
        "custom_text",
        "init_logit_scale",
        "init_logit_bias",
        "nonscalar_logit_scale",
    }
)
"""Keys of model_cfg in open_clip_config.json."""

TOKENIZER_KEYS = frozenset({"clean", "strip_sep_token"})
PIPELINES = frozenset(
    {
        "StableDiffusionPipeline",
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionXLPipeline",
        "StableDiffusionXLImg2ImgPipeline",
    }
)
COMPONENTS: dict[str, frozenset[str]] = {
    "diffusers": frozenset(
        {
            "AutoencoderKL",
            "AutoencoderTiny",
            "UNet2DConditionModel",
            "DDIMScheduler",
            "DDPMScheduler",
            "DPMSolverMultistepScheduler",
            "EulerAncestralDiscreteScheduler",
            "EulerDiscreteScheduler",
            "LCMScheduler",
            "LMSDiscreteScheduler",
            "PNDMScheduler",
        }
    ),
    "transformers": frozenset(
        {
            "CLIPFeatureExtractor",
            "CLIPImageProcessor",
            "CLIPTextModel",
            "CLIPTextModelWithProjection",
            "CLIPTokenizer",
            "CLIPTokenizerFast",
        }
    ),
    "stable_diffusion": frozenset({"StableDiffusionSafetyChecker"}),
}
"""Library → classes that a pipeline may be made of."""


def read_config(path: Path, limit: int = LARGEST_CONFIG) -> dict[str, Any]:
    """A JSON mapping from a repository, without keys that lead to code. Raises CellError (load)."""
    if not path.is_file():
        raise CellError("load", f"expected {path.name} in {path.parent.name}, found none")
    if path.stat().st_size > limit:
        raise CellError("load", f"{path.name}: expected at most {limit} bytes, got {path.stat().st_size}")
    try:
        config = jsons.strict(path.read_bytes(), path.name)
    except StoreError as error:
        raise CellError("load", first_line(error)) from error
    if not isinstance(config, dict):
        raise CellError("load", f"{path.name}: expected a mapping, got something else")
    for key in REMOTE_CODE:
        if config.get(key):
            raise _remote(path.name, key)
    kernels = next(_kernels(config), None)
    if kernels is not None:
        raise _remote(path.name, kernels)
    return config


def _remote(name: str, key: str) -> CellError:
    return CellError("load", f"{name}: {key}: code and kernels from a repository are never run")


def _kernels(config: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Keys, at any depth, that name kernels of a repository."""
    left = [config]
    while left:
        value = left.pop()
        named = value if isinstance(value, dict) else {}
        yield from (echo(key) for key, text in named.items() if CHOICE in key and "/" in str(text))
        left += [*named.values()] if named else value if isinstance(value, list) else []


def check_size(build: Callable[[], nn.Module], stored: int, *, what: str) -> None:
    """Build a network without memory and refuse one of far more parameters than its file holds.

    Args:
        build: Makes the network.
        stored: Numbers in the weights file.
        what: Names the network in messages.

    Raises:
        CellError: load. A network that can only be built with memory is let pass.
    """
    try:
        with torch.device("meta"):
            network = build()
    except (RuntimeError, NotImplementedError):
        return  # some constructors look at values, which such tensors have not
    found = sum(parameter.numel() for parameter in network.parameters())
    if found > TIMES * stored + SPARE:
        raise CellError(
            "load", f"{what} would have {found} parameters, its weights file holds {stored} numbers"
        )


def check_open_clip(folder: Path, config_name: str, tensors_name: str) -> None:
    """Hold a folder for open_clip to the rules before anything is built of it. Raises CellError."""
    config = read_config(folder / config_name)
    model = config.get("model_cfg")
    if not isinstance(model, dict):
        raise CellError("load", f"{config_name}: expected a mapping model_cfg")
    text, vision = model.get("text_cfg"), model.get("vision_cfg")
    if not isinstance(text, dict) or not isinstance(vision, dict):
        raise CellError("load", f"{config_name}: expected mappings text_cfg and vision_cfg")
    if "hf_model_name" in text:
        raise CellError("load", f"{config_name}: a text model from another repository is not loaded")
    if vision.get("timm_model_pretrained"):
        raise CellError("load", f"{config_name}: an image model from another repository is not loaded")
    tower = vision.get("timm_model_name")
    if tower is not None and not (isinstance(tower, str) and timm.is_model(tower)):
        raise CellError("load", f"{config_name}: timm has no architecture {echo(tower)}")
    _check_keys(config_name, "model_cfg", model, CLIP_KEYS)
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg, CustomTextCLIP  # noqa: PLC0415 - seconds

    _check_keys(config_name, "vision_cfg", vision, _fields(CLIPVisionCfg))
    _check_keys(config_name, "text_cfg", text, _fields(CLIPTextCfg))
    _check_keys(config_name, "tokenizer_kwargs", text.get("tokenizer_kwargs") or {}, TOKENIZER_KEYS)
    for name in ("tokenizer_config.json", "tokenizer.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            read_config(folder / name, LARGEST_TOKENIZER)
    stored = check_tensors(folder / tensors_name)
    sizes = {key: value for key, value in model.items() if key != "custom_text"}
    kind = CustomTextCLIP if model.get("custom_text") else CLIP
    try:
        check_size(lambda: kind(**sizes), stored, what="the model of " + config_name)
    except (TypeError, ValueError, KeyError, AttributeError, AssertionError, ZeroDivisionError) as error:
        raise CellError("load", f"open_clip cannot build {config_name}: {first_line(error)}") from error


def check_diffusers(folder: Path) -> None:
    """Hold a network, or a pipeline of known classes, for diffusers to the rules. Raises CellError."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".json", ".txt", ".model", ".safetensors"):
            raise CellError("load", f"{path.name}: expected configurations and safetensors only")
    if (folder / "model_index.json").is_file():
        _check_pipeline(folder)
    else:
        check_network(folder)
    for path in sorted(folder.rglob("*.json")):
        read_config(path, LARGEST_TOKENIZER)


def check_network(folder: Path) -> None:
    """Hold one network of diffusers to the rules: class, keys and size. Raises CellError."""
    import diffusers  # noqa: PLC0415 - takes seconds

    config = read_config(folder / "config.json")
    name = config.get("_class_name")
    networks = {"AutoencoderKL", "AutoencoderTiny", "UNet2DConditionModel", "UNet2DModel", "VQModel"}
    if not isinstance(name, str) or name not in networks:
        raise CellError(
            "load", f"config.json: _class_name: expected one of {_listed(networks)}, got {echo(name)}"
        )
    kind: Any = getattr(diffusers, name)
    known = {
        *inspect.signature(kind.__init__).parameters,
        "_class_name",
        "_diffusers_version",
        "_name_or_path",
    }
    # Keys that the class does not know are left out by the library as well: old files hold some.
    sizes = {key: value for key, value in config.items() if key in known and not key.startswith("_")}
    stored = sum(check_tensors(path) for path in sorted(folder.glob("*.safetensors")))
    try:
        check_size(lambda: kind(**sizes), stored, what="the network of config.json")
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise CellError("load", f"diffusers cannot build {name}: {first_line(error)}") from error


def _check_pipeline(folder: Path) -> None:
    index = read_config(folder / "model_index.json")
    name = index.get("_class_name")
    if not isinstance(name, str) or name not in PIPELINES:
        raise CellError(
            "load", f"model_index.json: _class_name: expected one of {_listed(PIPELINES)}, got {echo(name)}"
        )
    for key, value in index.items():
        if key.startswith("_") or not isinstance(value, list) or value == [None, None]:
            continue
        library, kind = (*value, None, None)[:2]
        if not (isinstance(library, str) and isinstance(kind, str) and kind in COMPONENTS.get(library, ())):
            raise CellError(
                "load", f"model_index.json: {echo(key)}: {echo(value)} is no known class of a library"
            )
        part = folder / key
        if (part / "config.json").is_file():
            read_config(part / "config.json")
        if library == "diffusers" and list(part.glob("*.safetensors")):
            check_network(part)
        else:
            for path in sorted(part.glob("*.safetensors")):
                check_tensors(path)


def _fields(kind: Any) -> frozenset[str]:  # noqa: ANN401 - open_clip has no types
    return frozenset(each.name for each in dataclasses.fields(kind))


def _check_keys(name: str, where: str, found: Mapping[str, Any], known: frozenset[str]) -> None:
    if not isinstance(found, dict):
        raise CellError("load", f"{name}: {where}: expected a mapping")
    strange = sorted(set(found) - known)
    if strange:
        raise CellError("load", f"{name}: {where}: {echo(strange[0])} is no key that open_clip is given")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
