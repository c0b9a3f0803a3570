"""The real clients against a Hub: what each of them makes of a repository. Run in the driver's process."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any


def download(repo: str, name: str, revision: str) -> str:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(repo, name, revision=revision)).read_bytes().hex()


def snapshot(repo: str, revision: str) -> list[str]:
    from huggingface_hub import snapshot_download

    folder = Path(snapshot_download(repo, revision=revision))
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def timm_logits(repo: str, revision: str) -> list[float]:
    import timm
    import torch

    network = timm.create_model(f"hf-hub:{repo}@{revision}", pretrained=True).eval()
    with torch.no_grad():
        found: list[float] = network(torch.ones(1, 3, 32, 32))[0].tolist()
    return found


def clip_tokens(repo: str) -> list[float]:
    """Image features of a grey picture; open_clip cannot pin a revision."""
    import open_clip
    import torch

    model, _, _ = open_clip.create_model_and_transforms(f"hf-hub:{repo}")
    with torch.no_grad():
        found: list[float] = model.eval().encode_image(torch.zeros(1, 3, 16, 16))[0].tolist()
    return found


def dataset_rows(repo: str, revision: str) -> list[Any]:
    import datasets

    rows = datasets.load_dataset(repo, split="test", revision=revision)
    return [rows.features["label"].names, rows["label"][:], [image.size for image in rows["image"]]]


def diffusers_classes(repo: str, revision: str) -> int:
    from diffusers import UNet2DModel

    kind: Any = UNet2DModel
    model = kind.from_pretrained(repo, revision=revision, use_safetensors=True, low_cpu_mem_usage=False)
    return int(model.config.sample_size)


def upload(repo: str, folder: str, parent: str | None) -> str:
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repo, repo_type="dataset", exist_ok=True)
    info = api.upload_folder(repo_id=repo, folder_path=folder, repo_type="dataset", parent_commit=parent)
    return str(info.oid)


def tag(repo: str, name: str, revision: str) -> dict[str, str]:
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_tag(repo, tag=name, revision=revision, repo_type="dataset")
    refs = api.list_repo_refs(repo, repo_type="dataset")
    return {each.name: each.target_commit for each in refs.tags}


def tiny_networks() -> dict[str, dict[str, str]]:
    """Repository → file → bytes in hex, of a timm, an open_clip and a diffusers model, untrained."""
    import json

    import timm
    import torch
    from diffusers import UNet2DModel
    from open_clip.model import CLIP
    from safetensors.torch import save

    torch.manual_seed(0)
    network = timm.create_model("test_resnet", num_classes=3)
    config = {"architecture": "test_resnet", "num_classes": 3, "pretrained_cfg": {"tag": "x"}}
    clip_config = {
        "embed_dim": 8,
        "vision_cfg": {"image_size": 16, "layers": 1, "width": 16, "patch_size": 8, "head_width": 8},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1},
    }
    clip = CLIP(**clip_config)
    kind: Any = UNet2DModel
    unet = kind(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
    )
    unet_config = {**unet.config, "_class_name": "UNet2DModel"}
    files = {
        "org/timm": {
            "config.json": json.dumps(config).encode(),
            "model.safetensors": save(network.state_dict()),
        },
        "org/clip": {
            "open_clip_config.json": json.dumps({"model_cfg": clip_config}).encode(),
            "open_clip_model.safetensors": save(clip.state_dict()),
        },
        "org/unet": {
            "config.json": json.dumps(unet_config).encode(),
            "diffusion_pytorch_model.safetensors": save(unet.state_dict()),
        },
    }
    return {repo: {name: data.hex() for name, data in each.items()} for repo, each in files.items()}


def tiny_set() -> str:
    """A Parquet file of four images as the library `datasets` writes it, in hex."""
    import datasets
    import numpy as np
    from PIL import Image

    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])}
    )
    images = [
        Image.fromarray(each) for each in np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), np.uint8)
    ]
    rows = datasets.Dataset.from_dict({"image": images, "label": [0, 1, 1, 0]}, features=features)
    buffer = io.BytesIO()
    rows.to_parquet(buffer)
    return buffer.getvalue().hex()


CLIENTS: dict[str, Callable[..., Any]] = {
    "download": download,
    "snapshot": snapshot,
    "timm": timm_logits,
    "open_clip": clip_tokens,
    "load_dataset": dataset_rows,
    "diffusers": diffusers_classes,
    "upload_folder": upload,
    "create_tag": tag,
    "tiny_networks": tiny_networks,
    "tiny_set": tiny_set,
}
