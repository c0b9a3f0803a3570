"""Configurations of strangers are held to known keys, classes and sizes before anything is built of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from robustboard.errors import CellError
from robustboard.runners.configs import check_diffusers, check_open_clip, check_size

CONFIG, TENSORS = "open_clip_config.json", "open_clip_model.safetensors"
CLIP: dict[str, Any] = {
    "embed_dim": 8,
    "vision_cfg": {"image_size": 16, "layers": 1, "width": 16, "patch_size": 8, "head_width": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 100, "width": 8, "heads": 1, "layers": 1},
}
UNET: dict[str, Any] = {
    "_class_name": "UNet2DModel",
    "_diffusers_version": "0.35.0",
    "sample_size": 8,
    "block_out_channels": [8, 16],
    "down_block_types": ["DownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
    "norm_num_groups": 4,
}


def clip(folder: Path, **changes: Any) -> Path:
    model = json.loads(json.dumps(CLIP))
    for name, value in changes.items():
        part, _, key = name.partition("__")
        (model[part] if key else model)[key or part] = value
    (folder / CONFIG).write_text(json.dumps({"model_cfg": model}))
    save_file({"logit_scale": torch.ones(1)}, folder / TENSORS)
    return folder


def unet(folder: Path, **changes: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**UNET, **changes}))
    save_file({"conv_in.bias": torch.zeros(8)}, folder / "diffusion_pytorch_model.safetensors")
    return folder


def test_small_sound_configurations_pass(tmp_path: Path) -> None:
    """Keys that the libraries add themselves, and those of older versions of a network, do no harm."""
    check_open_clip(clip(tmp_path), CONFIG, TENSORS)
    (tmp_path / "unet").mkdir()
    check_diffusers(
        unet(tmp_path / "unet", mid_block_scale_factor=1, an_older_key=3, attn_implementation="sdpa")
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vision_cfg__width": 2**16, "vision_cfg__layers": 48}, "would have"),
        ({"text_cfg__vocab_size": 10**9}, "would have"),
        ({"text_cfg__context_length": 10**8, "text_cfg__width": 1024, "text_cfg__heads": 16}, "would have"),
        ({"embed_dim": 10**8}, "would have"),
        ({"vision_cfg__patch_size": 0}, "open_clip cannot build"),
        ({"text_cfg__heads": 0}, "open_clip cannot build"),
        ({"embed_dim": "many"}, "open_clip cannot build"),
        ({"vision_cfg__evil": 1}, "vision_cfg: 'evil' is no key that open_clip is given"),
        ({"vision_cfg": [1]}, "expected mappings text_cfg and vision_cfg"),
        ({"text_cfg__tokenizer_kwargs": {"cache_dir": "/x"}}, "'cache_dir' is no key"),
    ],
)
def test_open_clip_is_given_no_other_sizes_and_keys(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """Ten configurations as attack: refused in a moment, without the memory that they ask for."""
    folder = clip(tmp_path, **changes)
    started = time.perf_counter()
    with pytest.raises(CellError, match=words) as caught:
        check_open_clip(folder, CONFIG, TENSORS)
    assert time.perf_counter() - started < 5
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block_out_channels": [2**14, 2**15]}, "would have"),
        ({"_class_name": "Evil"}, "_class_name: expected one of"),
        ({"_class_name": ["module", "Evil"]}, "_class_name: expected one of"),
        ({"down_block_types": ["EvilBlock", "DownBlock2D"]}, "diffusers cannot build UNet2DModel"),
        ({"layers_per_block": "x"}, "diffusers cannot build UNet2DModel"),
        ({"auto_map": {"AutoModel": "x.Evil"}}, "auto_map: code and kernels"),
        ({"_attn_implementation": "evil/kernel"}, "'_attn_implementation': code and kernels"),
        ({"text_config": {"attn_implementation": "evil/x:f"}}, "'attn_implementation': code and kernels"),
    ],
)
def test_diffusers_is_given_no_other_classes_and_sizes(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(CellError, match=words) as caught:
        check_diffusers(unet(tmp_path, **changes))
    assert "\n" not in caught.value.reason


def test_a_weights_file_with_nan_is_refused_before_the_network_is_built(tmp_path: Path) -> None:
    folder = unet(tmp_path)
    save_file({"conv_in.bias": torch.tensor([float("nan")])}, folder / "diffusion_pytorch_model.safetensors")
    with pytest.raises(CellError, match="holds NaN or infinity") as caught:
        check_diffusers(folder)
    assert caught.value.kind == "non-finite"


def test_honest_mistakes_are_left_to_the_loader() -> None:
    """A head more or less is told by name and shape later; what is far larger than its file is not built."""
    check_size(lambda: nn.Linear(10, 1000), 100, what="a net")
    with pytest.raises(CellError, match="a net would have 100000000 parameters, its weights file holds 100"):
        check_size(lambda: nn.Linear(10_000, 10_000, bias=False), 100, what="a net")
