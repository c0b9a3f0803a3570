"""Weights files: whole ones are read, everything else is refused in one line and runs nothing."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file

from robustboard.errors import CellError, UserError
from robustboard.runners.tensors import describe_impostor, read_state

STATE = {
    "conv.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "conv.bias": torch.zeros(3),
    "steps": torch.tensor(7),
}
PAGE = b"<!DOCTYPE html>\n<html><head><title>Google Drive - Virus scan warning</title>" + b"<p>text</p>" * 200


def refused(path: Path, *, pickle_allowed: bool = True) -> CellError:
    """The error that reading raises; it has one line."""
    with pytest.raises(CellError) as caught:
        read_state(path, pickle_allowed=pickle_allowed)
    assert "\n" not in str(caught.value)
    return caught.value


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_safetensors_and_restricted_pickles_give_the_stored_tensors(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "a.safetensors")
    torch.save(STATE, tmp_path / "b.pth")
    torch.save({"state_dict": STATE, "epoch": 3}, tmp_path / "c.bin")

    assert equal(read_state(tmp_path / "a.safetensors"), STATE)
    assert equal(read_state(tmp_path / "b.pth", pickle_allowed=True), STATE)
    assert equal(read_state(tmp_path / "c.bin", pickle_allowed=True), STATE)


def test_a_pickle_keeps_the_order_of_its_tensors(tmp_path: Path) -> None:
    """Matching by position lives from it."""
    names = [f"layer.{number}.weight" for number in (3, 1, 2)]
    torch.save({name: torch.zeros(1) for name in names}, tmp_path / "a.pth")

    assert list(read_state(tmp_path / "a.pth", pickle_allowed=True)) == names


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pth", "weights.bin"])
def test_a_web_page_is_no_weights_file(name: str, tmp_path: Path) -> None:
    """B021: 2 kB of HTML under the name of a weights file are one line that says so."""
    path = tmp_path / name
    path.write_bytes(PAGE)

    error = refused(path)

    assert error.kind == "load"
    assert error.reason == f"{name} is no weights file: it looks like HTML, a web page saved in its place"


def test_other_impostors_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for content, words in [(b"", "empty"), (b"version https://git-lfs.github.com/spec/v1\n", "LFS pointer")]:
        path.write_bytes(content)
        assert words in (describe_impostor(path) or "")
        assert words in refused(path).reason
    path.write_bytes(save(STATE))
    assert describe_impostor(path) is None


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pth"])
def test_a_file_cut_anywhere_is_refused(name: str, tmp_path: Path) -> None:
    """B021: 20 places to cut, from the first byte to the last."""
    whole = tmp_path / name
    if name.endswith(".pth"):
        torch.save(STATE, whole)
    else:
        save_file(STATE, whole)
    data = whole.read_bytes()

    for length in np.linspace(1, len(data) - 1, 20, dtype=int):
        whole.write_bytes(data[:length])
        assert refused(whole).kind == "load"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    save_file({"fc.weight": torch.tensor([1.0, value])}, tmp_path / "a.safetensors")

    error = refused(tmp_path / "a.safetensors")

    assert error.kind == "non-finite"
    assert "'fc.weight'" in error.reason


class Canary:
    """Pickled, it creates a file when it is loaded without restriction."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin", ".safetensors", ".pkl", ".npz", ".pt2", ".ckpt"])
@pytest.mark.parametrize("form", ["pickle", "torch", "torch-legacy"])
def test_no_weights_file_runs_code(suffix: str, form: str, tmp_path: Path) -> None:
    """The canary file is never created, whatever the name and container."""
    canary = tmp_path / "canary"
    path = tmp_path / f"evil{suffix}"
    content = {"fc.weight": torch.zeros(2), "extra": Canary(canary)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "torch")

    assert refused(path).kind == "load"
    assert refused(path, pickle_allowed=False).kind == "load"
    assert not canary.exists()


def test_a_pickle_is_refused_where_none_is_allowed(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "a.pth")

    assert refused(tmp_path / "a.pth", pickle_allowed=False).reason == "a.pth: expected a .safetensors file"


def with_header(header: bytes, body: bytes = b"\0" * 8) -> bytes:
    return struct.pack("<Q", len(header)) + header + body


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "data",
    [
        with_header(
            b'{"a":'
            + json.dumps(ENTRY).encode()
            + b',"a":'
            + json.dumps({**ENTRY, "data_offsets": [4, 8]}).encode()
            + b"}"
        ),
        with_header(b"{}", b"")[:4],
        struct.pack("<Q", 2**62) + b"{}",
        with_header(b"not json"),
        with_header(json.dumps({"a": {**ENTRY, "data_offsets": [0, 400]}}).encode()),
        with_header(json.dumps({"a": {**ENTRY, "shape": [10**10]}}).encode()),
        with_header(json.dumps({"a": {**ENTRY, "dtype": "X9"}}).encode()),
        with_header(json.dumps({"a": {**ENTRY, "shape": [-1]}}).encode()),
    ],
    ids=["twice", "short", "huge", "no-json", "beyond", "expand", "type", "negative"],
)
def test_games_with_the_header_are_refused(data: bytes, tmp_path: Path) -> None:
    """A tensor named twice, lengths and shapes that the file does not hold, unknown types."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)

    assert refused(path).kind == "load"


def test_nothing_is_read_where_the_environment_lifts_the_restriction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch would run code from any pickle under this variable."""
    save_file(STATE, tmp_path / "a.safetensors")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")

    with pytest.raises(UserError, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set"):
        read_state(tmp_path / "a.safetensors")


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save([torch.zeros(2)], tmp_path / "a.pth")
    torch.save({"fc.weight": 3}, tmp_path / "b.pth")

    for name in ("a.pth", "b.pth"):
        assert "expected a table of named tensors" in refused(tmp_path / name).reason
