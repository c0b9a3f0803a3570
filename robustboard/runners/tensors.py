"""Weights files → tensors, without running anything that a stranger wrote."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from robustboard import jsons
from robustboard.environment import refuse_unsafe_environment
from robustboard.errors import CellError, StoreError, echo
from robustboard.runners import identity

State = dict[str, Tensor]

MAX_HEADER = 100_000_000
"""Bytes of JSON at the start of a safetensors file; the format's own limit."""

_PICKLES = (".pth", ".bin", ".pt")


def describe_impostor(path: Path) -> str | None:
    """What a file is that only bears the name of a weights file; None when nothing speaks against it."""
    with path.open("rb") as file:
        return identity.impostor(file.read(512))


def read_state(path: Path, *, pickle_allowed: bool = False) -> State:
    """Name → tensor (CPU) of a .safetensors file, or of a .pth, .pt or .bin where `pickle_allowed`.

    Pickles are read by torch's restricted reader alone, which builds tensors and containers and
    nothing else; a caller allows them only for a file whose SHA-256 it has checked. Raises
    CellError: load for anything that is no whole weights file, non-finite for NaN or infinity.
    """
    refuse_unsafe_environment()
    impostor = describe_impostor(path)
    if impostor:
        raise CellError("load", f"{path.name} is no weights file: {impostor}")
    if path.suffix == ".safetensors":
        state = _read_safetensors(path)
    elif path.suffix in _PICKLES and pickle_allowed:
        state = _read_pickle(path)
    else:
        raise CellError("load", f"{path.name}: expected a .safetensors file")
    for name, tensor in state.items():
        _check_finite(path, name, tensor)
    return state


def _read_safetensors(path: Path) -> State:
    _check_header(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in file.offset_keys()}
    except (SafetensorError, OSError, ValueError) as error:
        raise CellError("load", f"{path.name} is damaged or cut short: {first_line(error)}") from error


def check_tensors(path: Path) -> int:
    """Check the header and every number of a .safetensors file that a library will load; how many there are.

    One tensor is in memory at a time. Raises CellError: load, non-finite.
    """
    wrong = describe_impostor(path)
    if wrong:
        raise CellError("load", f"{path.name} is no weights file: {wrong}")
    _check_header(path)
    count = 0
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            for name in file.offset_keys():
                tensor = file.get_tensor(name)
                _check_finite(path, name, tensor)
                count += tensor.numel()
    except (SafetensorError, OSError, ValueError) as error:
        raise CellError("load", f"{path.name} is damaged or cut short: {first_line(error)}") from error
    return count


def _check_finite(path: Path, name: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise CellError("non-finite", f"{path.name}: tensor {echo(name)} holds NaN or infinity")


def _check_header(path: Path) -> None:
    """Refuse what the library accepts: a tensor named twice, where the last one would win."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > MAX_HEADER or length > path.stat().st_size:
            raise CellError("load", f"{path.name} is damaged or cut short: its header does not fit the file")
        header = file.read(length)
    try:
        jsons.strict(header, path.name)
    except StoreError as error:
        raise CellError(
            "load", f"{path.name} is damaged: its header is wrong: {first_line(error)}"
        ) from error


def _read_pickle(path: Path) -> State:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a stranger's bytes can make the reader raise anything
        raise CellError(
            "load", f"{path.name} is damaged, or holds more than tensors: {first_line(error)}"
        ) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise CellError("load", f"{path.name}: expected a table of named tensors, got something else")
    return dict(content)


def first_line(error: BaseException) -> str:
    """The first line of an error's text, at most 160 characters, or its name where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
