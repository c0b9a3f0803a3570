"""The Hub on loopback serves the real clients: files, timm, open_clip, datasets, diffusers, uploads, tags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.battery.local_hub import A, Asker, B, LocalHub

pytestmark = pytest.mark.long  # torch, timm, open_clip, diffusers and datasets in one process
TABLE = "data/test-00000-of-00001.parquet"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    (found.root / "writable").touch()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asker(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    found = Asker(hub, tmp_path_factory.mktemp("asker") / "home")
    for repo, files in found.value("tiny_networks").items():
        hub.plant({name: bytes.fromhex(data) for name, data in files.items()}, repo)
        (hub.root / "models" / repo / "tags").mkdir()
        (hub.root / "models" / repo / "tags" / "v1").write_text(A)
    hub.plant({TABLE: bytes.fromhex(found.value("tiny_set")), "README.md": b"# set\n"}, "org/set", "datasets")
    yield found
    found.stop()


def test_one_file_by_branch_tag_and_commit(hub: LocalHub, asker: Asker) -> None:
    wanted = (hub.root / "models/org/timm" / A / "config.json").read_bytes().hex()
    for revision in ("main", "v1", A):
        assert asker.value("download", "org/timm", "config.json", revision) == wanted


def test_a_snapshot_at_a_tag(asker: Asker) -> None:
    assert asker.value("snapshot", "org/unet", "v1") == ["config.json", "diffusion_pytorch_model.safetensors"]


def test_a_timm_network_at_a_tag(asker: Asker) -> None:
    found = asker.value("timm", "org/timm", "v1")
    assert len(found) == 3
    assert asker.value("timm", "org/timm", A) == found


def test_an_open_clip_model(asker: Asker) -> None:
    assert len(asker.value("open_clip", "org/clip")) == 8


def test_a_dataset_at_a_commit(asker: Asker) -> None:
    assert asker.value("load_dataset", "org/set", A) == [["dog", "cat"], [0, 1, 1, 0], [[8, 8]] * 4]


def test_a_network_of_diffusers_at_a_tag(asker: Asker) -> None:
    assert asker.value("diffusers", "org/unet", "v1") == 8


def test_a_folder_goes_up_in_one_commit_and_only_once(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    """Large and small files; unchanged: no second commit; a stale parent: refused."""
    files = {"README.md": b"---\nlicense: mit\n---\n", "data/test.parquet": b"PAR1" * 1000}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    commit = asker.value("upload_folder", "org/up", str(tmp_path), None)
    there = hub.root / "datasets/org/up" / commit
    assert {name: (there / name).read_bytes() for name in files} == files
    assert asker.value("upload_folder", "org/up", str(tmp_path), None) == commit
    (tmp_path / "README.md").write_bytes(b"# other\n")
    stale = asker.ask("upload_folder", "org/up", str(tmp_path), B)
    assert "412" in stale["text"]
    assert (hub.root / "datasets/org/up/main").read_text() == commit


def test_a_tag_is_made_once_and_never_moves(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    commit = asker.value("upload_folder", "org/tagged", str(tmp_path), None)
    assert asker.value("create_tag", "org/tagged", "v1", commit) == {"v1": commit}
    (tmp_path / "a.txt").write_text("b")
    newer = asker.value("upload_folder", "org/tagged", str(tmp_path), None)
    assert "409" in asker.ask("create_tag", "org/tagged", "v1", newer)["text"]
    assert (hub.root / "datasets/org/tagged/tags/v1").read_text() == commit


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"do": "status", "status": 503}, "503"),
        ({"do": "cut", "bytes": 0}, ""),
        ({"do": "headers", "headers": {"X-Repo-Commit": None}}, "X-Repo-Commit"),
    ],
)
def test_scripted_faults_reach_the_client(
    rule: dict[str, Any], words: str, hub: LocalHub, asker: Asker, tmp_path: Path
) -> None:
    """The fixture's own control: what is scripted is what the client meets."""
    asker.value("patient", 1.5, 16_384)
    asker.value("cache", str(tmp_path / "cache"))
    hub.script({"match": "(GET|HEAD) /org/unet/resolve/.*", **rule})
    try:
        answer = asker.ask("download", "org/unet", "config.json", A)
    finally:
        hub.script()
    assert words in answer["text"] or "cannot find" in answer["text"], answer
    assert "value" not in answer
