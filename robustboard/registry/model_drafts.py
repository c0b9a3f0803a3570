"""What a model repository says of itself → the first version of its entry.

Reads the config files that timm and open_clip write, and a card's front matter. All of it comes from a
stranger: only values of the expected kind and range are taken, everything else becomes a blank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pydantic import TypeAdapter, ValidationError

from robustboard.fields import Argument, Word
from robustboard.registry.drafts import Blank, Value, new_id, or_blank
from robustboard.registry.labels import LabelSpace
from robustboard.registry.licenses import spdx

OVERLAP = Blank("were its test images in training, yes, no or unknown")
OPEN_CLIP_DEFAULTS: Mapping[str, Any] = {"crop_pct": 1, "interpolation": "bicubic", "resize_mode": "shortest"}
"""What open_clip does where its config says nothing else."""
MAX_SIZE = 4096
TEMPLATE = "a photo of a {}."
_ARGUMENTS = TypeAdapter(dict[Word, Argument])
_WEIGHTS = {"timm": "model.safetensors", "open_clip": "open_clip_model.safetensors"}
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True, slots=True)
class Repository:
    """What was read of a model repository at one commit."""

    repo: str
    commit: str
    files: tuple[str, ...]
    timm: Mapping[str, Any] | None = None
    """config.json, where it is one of timm's."""
    open_clip: Mapping[str, Any] | None = None
    """open_clip_config.json."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """Front matter of README.md."""

    @property
    def library(self) -> str | None:
        """Whose repository it is."""
        return "timm" if self.timm is not None else "open_clip" if self.open_clip is not None else None


def model_values(
    found: Repository, spaces: Mapping[str, LabelSpace], datasets: Mapping[str, str], today: date
) -> dict[str, Value]:
    """The fields of the entry, in the order of the files here; `datasets`: test set → label space."""
    space = _label_space(found, spaces)
    tested = [name for name, labels in datasets.items() if labels == space]
    values: dict[str, Value] = {
        "name": or_blank(found.repo.rsplit("/", 1)[-1][:80], "a name for boards"),
        "source": {"kind": "hub", "repo": found.repo, "revision": found.commit},
        "loader": found.library or Blank("timm, open_clip or plugin:NAME"),
        "architecture": _architecture(found),
        "label_space": space or Blank(_space_hint(found, spaces)),
        "input": _input(found),
    }
    if found.library == "open_clip":
        values["zero_shot"] = {"templates": [TEMPLATE]}
    values["training"] = {
        "datasets": _training(found),
        "overlap": dict.fromkeys(tested, OVERLAP) or Blank("dataset ids with yes, no or unknown"),
    }
    values["license"] = or_blank(_license(found), "SPDX id of the licence of the weights, or unknown")
    paper = _paper(found)
    if paper is not None:
        values["paper"] = paper
    values["added"] = today.isoformat()
    return values


def model_id(found: Repository) -> str:
    """The id that the entry gets unless another is asked for."""
    return new_id(found.repo)


def weights_problem(found: Repository) -> str | None:
    """Why nothing here could be loaded, in words; None where there are safetensors."""
    wanted = _WEIGHTS.get(found.library or "")
    if wanted in found.files or (wanted is None and any(n.endswith(".safetensors") for n in found.files)):
        return None
    pickles = [name for name in found.files if name.endswith(_PICKLES)]
    kept = f"only pickle, which is never read from the Hub: {pickles[0]}" if pickles else "none"
    return f"expected {wanted or 'safetensors weights'} in {found.repo}, found {kept}"


def _settings(found: Repository) -> Mapping[str, Any]:
    """Where input size, mean and std stand."""
    config = found.timm or {}
    inner = config.get("pretrained_cfg")
    if isinstance(inner, dict):
        return inner
    if found.open_clip is not None:
        preprocess = found.open_clip.get("preprocess_cfg")
        model = found.open_clip.get("model_cfg")
        vision = model.get("vision_cfg") if isinstance(model, dict) else None
        size = vision.get("image_size") if isinstance(vision, dict) else None
        return {
            **OPEN_CLIP_DEFAULTS,
            "input_size": size,
            **(preprocess if isinstance(preprocess, dict) else {}),
        }
    return config


def _architecture(found: Repository) -> Value:
    if found.open_clip is not None:
        # The loader builds the network from the repository's own config; the name is for readers.
        return {"name": or_blank(_word(found.repo.rsplit("/", 1)[-1]), "name of the network")}
    config = found.timm or {}
    name, tag = _word(config.get("architecture")), _settings(found).get("tag")
    if name is not None and found.repo.startswith("timm/") and _word(tag) is not None:
        name = f"{name}.{tag}"
    values: dict[str, Value] = {"name": or_blank(name, "constructor in the loader's library")}
    arguments = config.get("model_args")
    if arguments:
        values["arguments"] = _arguments(arguments)
    return values


def _arguments(found: object) -> Value:
    """Keyword arguments of a kind that entries allow; of anything else a blank."""
    try:
        checked = _ARGUMENTS.validate_python(found)
    except ValidationError:
        return Blank("keyword arguments; the repository's own are of a kind that no entry may hold")
    return {name: list(value) if isinstance(value, tuple) else value for name, value in checked.items()}


def _word(value: object) -> str | None:
    return (
        value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", value) else None
    )


def _input(found: Repository) -> Value:
    if found.library is None:
        return Blank("size, normalization, mean and std of the network's input")
    settings = _settings(found)
    channels, size = _size(settings.get("input_size"))
    mean, std = _numbers(settings.get("mean"), channels), _numbers(settings.get("std"), channels)
    crop, mode = settings.get("crop_pct"), settings.get("interpolation")
    values: dict[str, Value] = {"size": size or Blank("height and width of the input in pixels")}
    values["crop"] = or_blank(crop if _between(crop, 0, 1) else None, "share of the image kept by the crop")
    known = mode in ("nearest", "bilinear", "bicubic")
    values["interpolation"] = or_blank(mode if known else None, "nearest, bilinear or bicubic")
    if channels != 3:  # noqa: PLR2004 - colour is the usual
        values["channels"] = channels or Blank("1 or 3")
    if found.open_clip is not None and settings.get("resize_mode", "shortest") != "shortest":
        values["crop"] = Blank(
            "the repository says resize_mode other than shortest, which entries cannot say"
        )
    values["normalization"] = "outside"
    values["mean"] = mean or Blank("mean of each channel of [0, 1] pixels")
    values["std"] = std or Blank("standard deviation of each channel")
    return values


def _size(value: object) -> tuple[int, int | None]:
    """Channels and side of a square input: [3, 224, 224], 224 or nothing."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_SIZE:
        return 3, value
    if isinstance(value, list) and len(value) == 3 and all(type(each) is int for each in value):  # noqa: PLR2004
        channels, height, width = value
        if channels in (1, 3) and height == width and 0 < height <= MAX_SIZE:
            return channels, height
    return 3, None


def _between(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low < value <= high


def _numbers(value: object, count: int) -> Sequence[float] | None:
    if not isinstance(value, list) or len(value) != count:
        return None
    good = all(isinstance(each, int | float) and not isinstance(each, bool) for each in value)
    return value if good and all(math.isfinite(each) and abs(each) < 1000 for each in value) else None  # noqa: PLR2004


def classes_of(found: Repository) -> int | None:
    """How many classes a repository says that its network has."""
    config = found.timm or {}
    for count in (config.get("num_classes"), _settings(found).get("num_classes")):
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            return count
    return None


def _training(found: Repository) -> Value:
    named = found.card.get("datasets")
    listed = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    good = [each for each in listed if isinstance(each, str) and not isinstance(or_blank(each, ""), Blank)]
    return list(dict.fromkeys(good)) or [Blank("names of all training sets")]


def _label_space(found: Repository, spaces: Mapping[str, LabelSpace]) -> str | None:
    """The label space of as many classes whose name stands among the training sets; None if in doubt.

    A count alone is no proof: ten classes may be digits or clothes.
    """
    named = found.card.get("datasets")
    listed = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    trained = {each.rsplit("/", 1)[-1].casefold() for each in listed if isinstance(each, str)}
    count = classes_of(found)
    fits = [
        name
        for name, space in spaces.items()
        if count == len(space.classes) and {name.casefold(), space.name.casefold()} & trained
    ]
    return fits[0] if len(fits) == 1 else None


def _space_hint(found: Repository, spaces: Mapping[str, LabelSpace]) -> str:
    count = classes_of(found)
    fits = sorted(name for name, space in spaces.items() if len(space.classes) == count)
    if found.open_clip is not None or count is None:
        return "a file of registry/labels, without .yaml"
    told = f"one of {', '.join(fits)}" if fits else "no file of registry/labels has as many"
    return f"{count} classes, {told}"


def _license(found: Repository) -> str | None:
    for text in (found.card.get("license"), _settings(found).get("license")):
        if isinstance(text, str) and (known := spdx(text.strip())):
            return known
    return None


def _paper(found: Repository) -> str | None:
    named = _settings(found).get("paper_ids")
    listed = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    for each in listed:
        match = (
            re.fullmatch(r"(?i:arxiv:)?\s*(\d{4}\.\d{4,5})(v\d+)?", each) if isinstance(each, str) else None
        )
        if match:
            return f"https://arxiv.org/abs/{match[1]}"
    return None
