"""Thirty things that run code when a careless reader meets them; each would leave a file, the canary."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Evil:
    """Unpickled, it writes the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = str(canary)

    def __reduce__(self) -> Any:
        return exec, (f"__import__('pathlib').Path({self.canary!r}).touch()",)


def evil_pickle(canary: Path) -> bytes:
    return pickle.dumps({"weight": Evil(canary)}, protocol=2)


def evil_checkpoint(canary: Path) -> bytes:
    """As torch.save writes it."""
    buffer = io.BytesIO()
    torch.save({"weight": Evil(canary)}, buffer)
    return buffer.getvalue()


def evil_legacy(canary: Path) -> bytes:
    """As torch before 1.6 wrote it."""
    buffer = io.BytesIO()
    torch.save({"weight": Evil(canary)}, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def evil_array(canary: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil(canary)], object), allow_pickle=True)
    return buffer.getvalue()


def evil_arrays(canary: Path) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, images=np.array([Evil(canary)], object), labels=np.zeros(1, np.int64))
    return buffer.getvalue()


def evil_export(canary: Path) -> bytes:
    """A .pt2 archive whose parts are pickles."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/version", "1")
        archive.writestr("archive/data.pkl", evil_pickle(canary))
    return buffer.getvalue()


def evil_script(canary: Path) -> bytes:
    return f"__import__('pathlib').Path({str(canary)!r}).touch()\n".encode()


def evil_yaml(canary: Path) -> bytes:
    return (
        f"!!python/object/apply:builtins.exec [\"__import__('pathlib').Path('{canary}').touch()\"]\n".encode()
    )


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


CLIP: dict[str, Any] = {
    "embed_dim": 8,
    "vision_cfg": {"image_size": 16, "layers": 1, "width": 16, "patch_size": 8, "head_width": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 100, "width": 8, "heads": 1, "layers": 1},
}


def clip_config(**changes: Any) -> bytes:
    """An open_clip configuration with changes like text_cfg__hf_model_name."""
    model = json.loads(json.dumps(CLIP))
    for name, value in changes.items():
        part, _, key = name.partition("__")
        if key:
            model[part][key] = value
        else:
            model[part] = value
    return json.dumps({"model_cfg": model}).encode()


PIPELINE: dict[str, Any] = {
    "_class_name": "StableDiffusionImg2ImgPipeline",
    "unet": ["diffusers", "UNet2DConditionModel"],
}


def pipeline(**changes: Any) -> bytes:
    return json.dumps({**PIPELINE, **changes}).encode()


# What careless readers do, for the control


def unpickle(data: bytes, _folder: Path) -> None:
    pickle.loads(data)


def load_with_torch(data: bytes, _folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.load(io.BytesIO(data), weights_only=False)


def load_with_numpy(data: bytes, _folder: Path) -> None:
    found = np.load(io.BytesIO(data), allow_pickle=True)
    if hasattr(found, "files"):
        found["images"]


def load_members(data: bytes, _folder: Path) -> None:
    """As webdataset's default decoders did."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.endswith((".pyd", ".pkl")):
                pickle.loads(file.read())


def load_zipped(data: bytes, _folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith(".pkl"):
                pickle.loads(archive.read(name))


def run_script(data: bytes, _folder: Path) -> None:
    exec(compile(data, "script", "exec"), {})


def load_yaml(data: bytes, _folder: Path) -> None:
    import yaml

    yaml.unsafe_load(data)


Careless = Callable[[bytes, Path], None]
CARELESS: dict[str, tuple[Callable[[Path], bytes], Careless]] = {
    "pickle": (evil_pickle, unpickle),
    "checkpoint": (evil_checkpoint, load_with_torch),
    "legacy checkpoint": (evil_legacy, load_with_torch),
    "array": (evil_array, load_with_numpy),
    "arrays": (evil_arrays, load_with_numpy),
    "export": (evil_export, load_zipped),
    "sample .pyd": (lambda canary: tar({"a.pyd": evil_pickle(canary)}), load_members),
    "sample .pkl": (lambda canary: tar({"a.pkl": evil_pickle(canary)}), load_members),
    "script": (evil_script, run_script),
    "custom pipeline": (evil_script, run_script),
    "modeling file": (evil_script, run_script),
    "yaml": (evil_yaml, load_yaml),
}
"""Kind of artefact → what makes it, and who falls for it."""


@contextmanager
def whatever() -> Iterator[None]:
    """Let a careless reader stumble after it has run the code."""
    with suppress(Exception):
        yield
