"""Files of a Hub model on disk: the locked ones and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from robustboard.registry.entries import LockedEntry, ModelEntry
from robustboard.runners import hub
from robustboard.runners.hub import Call, files
from robustboard.workspace import Workspace
from tests.runners.asked_hub import A
from tests.runners.test_hub import locked, source


def test_several_files_are_laid_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B021: a cached snapshot may hold other files, or lack some; the folder holds the locked ones."""
    data = {"open_clip_config.json": b"{}", "open_clip_model.safetensors": b"1", "sub/tokenizer.json": b"2"}
    snapshot = tmp_path / "snapshot"
    for name, content in {**data, "open_clip_pytorch_model.bin": b"pickle"}.items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(content)

    def local(call: Call, name: str, _progress: object) -> Path:
        assert (call.commit, call.kind, call.token) == (A, "model", False)
        return snapshot / name

    monkeypatch.setattr(files, "download", local)
    pins = [locked(content, name) for name, content in data.items()]
    found = LockedEntry.model_validate({"commit": A, "files": tuple(pins)})
    entry = ModelEntry.model_validate(
        {
            "id": "net",
            "name": "Net",
            "source": source(),
            "loader": "timm",
            "architecture": {"name": "resnet18"},
            "label_space": "shapes",
            "input": {"size": 32, "normalization": "inside"},
            "training": {"datasets": ("nothing",)},
            "license": "MIT",
            "added": "2026-01-31",
        }
    )
    workspace = Workspace(tmp_path, tmp_path)

    made = set()
    for _ in range(2):
        folder = hub.fetch_model(entry, found, workspace)

        laid = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert laid == data
        made.add((folder / "open_clip_config.json").lstat().st_ctime_ns)
    assert len(made) == 1, "a folder that is right stays: another process may be reading from it"
    (folder / "open_clip_pytorch_model.bin").write_bytes(b"pickle")
    folder = hub.fetch_model(entry, found, workspace)
    assert not (folder / "open_clip_pytorch_model.bin").exists()
    assert len(list(folder.parent.iterdir())) == 1
