"""The Hub module against a server on loopback: pinned commits, checked bytes, one line for every fault."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from robustboard.errors import CellError
from robustboard.registry.entries import HubData, HubWeights
from robustboard.runners.hub import client, fetch, files, resolving
from tests.runners.asked_hub import REPO, WEIGHTS, A, B, Hub

FILES = {"model.safetensors": WEIGHTS, "README.md": b"# net\n", "pytorch_model.bin": b"pickle"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One server and one driver for all tests that stop neither."""
    found = Hub(tmp_path_factory.mktemp("shared") / "hub")
    found.serve()
    yield found
    found.stop()


@pytest.fixture
def hub(shared: Hub, tmp_path: Path) -> Hub:
    """A Hub with one model at commit A, and an empty cache."""
    for kind in ("models", "datasets"):
        shutil.rmtree(shared.root / kind, ignore_errors=True)
    (shared.root / "requests.log").unlink(missing_ok=True)
    shared.cache = tmp_path / "cache"
    shared.value("cache", str(shared.cache))
    shared.plant(A, FILES)
    return shared


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Hub]:
    """The same, with a server and a driver of its own."""
    found = Hub(tmp_path / "hub")
    found.plant(A, FILES)
    found.serve()
    yield found
    found.stop()


def locked(data: bytes = WEIGHTS, path: str = "model.safetensors") -> dict[str, Any]:
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def source(**changes: Any) -> dict[str, Any]:
    return {"kind": "hub", "repo": REPO, "revision": A, **changes}


# Resolving


def test_resolve_names_the_commit_and_the_file_that_is_needed(hub: Hub) -> None:
    """The newest commit for `unresolved`, else the pinned one; never the pickle beside it."""
    for revision in (A, "unresolved"):
        found = hub.value("resolve", "model", source(revision=revision))
        assert found == {"commit": A, "version": None, "files": [locked()]}
    hub.plant(B, {"model.safetensors": WEIGHTS + b"1"})

    assert hub.value("resolve", "model", source())["commit"] == A
    moved = hub.value("resolve", "model", source(revision="unresolved"))

    assert moved["commit"] == B
    assert moved["files"] == [locked(WEIGHTS + b"1")]


def test_resolve_takes_config_and_tokenizer_of_an_open_clip_model(hub: Hub) -> None:
    """Small files have no hash on the Hub; theirs is of the fetched bytes."""
    files = {
        "open_clip_config.json": b'{"model_cfg": {}}',
        "open_clip_model.safetensors": WEIGHTS,
        "tokenizer.json": b"{}",
    }
    hub.plant(A, {**files, "open_clip_pytorch_model.bin": b"x", "model.safetensors": b"y"}, "org/clip")

    found = hub.value("resolve", "model", source(repo="org/clip"))

    assert found["files"] == [locked(data, name) for name, data in files.items()]


def test_resolve_takes_the_data_files_of_a_split(hub: Hub) -> None:
    names = ["big/test-00000-of-00002.parquet", "big/test-00001-of-00002.parquet", "big/train-0.parquet"]
    hub.plant(
        A,
        {name: name.encode() for name in [*names, "small/test-0.parquet", "README.md"]},
        "org/data",
        "datasets",
    )
    data = {**source(repo="org/data"), "split": "test", "image_column": "image", "label_column": "label"}

    found = hub.value("resolve", "dataset", {**data, "config": "big"})

    card = locked(b"README.md", "README.md")
    assert found == {
        "commit": A,
        "version": None,
        "files": [*(locked(n.encode(), n) for n in names[:2]), card],
    }


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("data/test-00000-of-00001.parquet", True),
        ("test.parquet", True),
        ("test/n01440764/1.zip", True),
        ("test.tar.gz", True),
        ("data/testing-00000-of-00001.parquet", False),
        ("data/contest-0.parquet", False),
        ("data/train-00000-of-00001.parquet", False),
        ("test.md", False),
    ],
)
def test_data_files_are_told_by_the_names_of_splits(name: str, taken: bool) -> None:  # noqa: FBT001 - a table
    data = HubData.model_validate(
        {**source(), "split": "test", "image_column": "image", "label_column": "label"}
    )

    assert resolving.needed(data, [name]) == ([name] if taken else [])


@pytest.mark.parametrize(
    ("change", "words", "kind"),
    [
        ({"repo": "org/absent"}, "no public repository org/absent", "missing"),
        ({"revision": B}, "no such commit", "missing"),
        ({"files": [{"path": "weights.safetensors", "sha256": "0" * 64}]}, "holds no file 'weights", None),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(
    change: dict[str, Any], words: str, kind: str | None, hub: Hub
) -> None:
    answer = hub.ask("resolve", "model", source(**change))

    assert words in answer["text"]
    assert answer["kind"] == kind


# Fetching


def test_a_file_is_fetched_once_and_then_taken_from_the_cache(own: Hub) -> None:
    """Also when the server is gone; and no token was ever sent though one is set."""
    first = own.value("fetch", REPO, A, [locked()])
    count = len(own.requests())
    own.stop()

    again = own.value("fetch", REPO, A, [locked()])

    assert again == first
    assert Path(first["model.safetensors"]).read_bytes() == WEIGHTS
    assert len(own.requests()) == count
    assert not [line for line in own.requests() if "token" in line]
    assert all("README" not in line and "pytorch_model" not in line for line in own.requests())


def test_damage_in_the_cache_is_mended_from_the_hub(hub: Hub) -> None:
    """20 flipped bits and 20 cuts: each time the good bytes come back."""
    path = Path(hub.value("fetch", REPO, A, [locked()])["model.safetensors"])
    for number in range(40):
        data = bytearray(WEIGHTS)
        if number % 2:
            data[number * len(data) // 40] ^= 1 << number % 8
        else:
            del data[number * len(data) // 40 :]
        path.resolve().write_bytes(data)

        found = hub.value("fetch", REPO, A, [locked()])

        assert Path(found["model.safetensors"]).read_bytes() == WEIGHTS


def test_other_bytes_under_the_same_commit_are_refused(hub: Hub) -> None:
    """Same size, one bit; also on a second try, and nothing bad stays in the cache."""
    wrong = bytearray(WEIGHTS)
    wrong[-1] ^= 1
    hub.plant(A, {"model.safetensors": bytes(wrong)})

    for _ in range(2):
        answer = hub.ask("fetch", REPO, A, [locked()])
        assert answer["kind"] == "hash-mismatch"
        assert "model.safetensors of org/net: expected SHA-256" in answer["text"]

    assert not list(hub.cache.rglob("model.safetensors"))
    hub.plant(A, {"model.safetensors": WEIGHTS})
    assert hub.value("fetch", REPO, A, [locked()])


def test_a_server_that_answers_another_commit_is_refused(hub: Hub) -> None:
    (hub.root / "models" / REPO / "answers").write_text(B)

    answer = hub.ask("fetch", REPO, A, [locked()])

    assert answer["kind"] == "hash-mismatch"
    assert f"asked for commit {A}, the Hub answered {B}" in answer["text"]


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "a/../../b", ".", "..", "a//b", "a\\..\\b", "a\0b", "a b", "x" * 300],
)
def test_file_names_that_lead_elsewhere_are_never_asked_for(name: str) -> None:
    with pytest.raises(CellError, match="no file name that is ever fetched"):
        files.download(client.Call(REPO, commit=A), name, None)


@pytest.mark.parametrize("revision", ["main", "v1", "aaaaaaa", "refs/pr/1", A.upper(), A + "a"])
def test_branches_tags_and_short_hashes_are_refused(revision: str) -> None:
    """B023: only 40 hex digits name what a run used."""
    with pytest.raises(ValueError, match="40 hex digits"):
        HubWeights.model_validate(source(revision=revision))
    with pytest.raises(CellError, match="40 hex digits"):
        fetch(REPO, [], commit=revision)


def test_gated_absent_and_unreachable_are_three_different_lines(own: Hub) -> None:
    own.plant(A, {"model.safetensors": WEIGHTS}, "org/gated")
    (own.root / "models" / "org/gated" / "gated").touch()

    gated = own.ask("fetch", "org/gated", A, [locked()])
    absent = own.ask("fetch", REPO, A, [locked(path="absent.safetensors")])
    own.stop()
    unreachable = own.ask("fetch", REPO, A, [locked()])

    assert (gated["kind"], absent["kind"], unreachable["kind"]) == ("gated", "missing", "unavailable")
    assert "org/gated is gated: terms must be accepted" in gated["text"]
    assert "absent.safetensors" in absent["text"]
    assert f"the Hub at {own.address} is out of reach" in unreachable["text"]


# From an entry to a classifier

MODEL = """\
name: Net
source:
  kind: hub
  repo: org/net
  revision: {revision}
loader: timm
architecture:
  name: test_resnet
label_space: shapes
input:
  size: 32
  normalization: inside
training:
  datasets: [nothing]
license: Apache-2.0
added: 2026-01-31
"""
LABELS = "name: Shapes\nsource: a test\nclasses:\n  sq: square\n  ci: circle\n  tr: triangle\n"


def plant_registry(root: Path, revision: str) -> str:
    for name, text in {
        "registry/lock.yaml": "{}\n",
        "registry/labels/shapes.yaml": LABELS,
        "registry/models/net.yaml": MODEL.format(revision=revision),
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def network(seed: int) -> torch.nn.Module:
    import timm

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found: torch.nn.Module = timm.create_model("test_resnet", num_classes=3).eval()
    return found


def test_an_unresolved_entry_runs_once_it_is_locked(hub: Hub, tmp_path: Path) -> None:
    """Before: one line with the command. After: the logits of the network that was uploaded."""
    source_network = network(1)
    hub.plant(A, {"model.safetensors": save(source_network.state_dict())})
    root = plant_registry(tmp_path / "place", "unresolved")

    before = hub.ask("locate", root, "net")
    hub.value("lock", root, "net")
    after = hub.value("locate", root, "net")
    found = hub.value("logits", root, "net")

    assert before["kind"] == "unlocked"
    assert "robustboard lock model/net" in before["text"]
    assert after["sha256"] == hashlib.sha256(save(source_network.state_dict())).hexdigest()
    ramp = torch.linspace(0, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(torch.tensor(found), source_network(ramp), atol=1e-6)


def checkpoint(state: Any) -> bytes:
    """What torch.save writes."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def test_a_pickle_is_read_where_the_entry_says_so_and_names_its_hash(hub: Hub, tmp_path: Path) -> None:
    """Tensors load as from safetensors; an object in their place is refused and runs nothing."""
    canary = tmp_path / "canary"

    class Evil:
        def __reduce__(self) -> Any:
            return exec, (f"__import__('pathlib').Path({str(canary)!r}).touch()",)

    network_1 = network(1)
    data = checkpoint(network_1.state_dict())
    evil = checkpoint({"conv1.weight": Evil()})
    hub.plant(A, {"pytorch_model.bin": data}, "org/tensors")
    hub.plant(A, {"pytorch_model.bin": evil}, "org/objects")
    told = {}
    for repo, content in (("org/tensors", data), ("org/objects", evil)):
        root = plant_registry(tmp_path / repo, A)
        sha = hashlib.sha256(content).hexdigest()
        path = Path(root) / "registry" / "models" / "net.yaml"
        stated = f"  files:\n    - path: pytorch_model.bin\n      sha256: {sha}\n"
        text = (
            path.read_text().replace("org/net", repo).replace("loader:", f"{stated}  pickle: true\nloader:")
        )
        path.write_text(text)
        hub.value("lock", root, "net")
        told[repo] = hub.ask("logits", root, "net")

    ramp = torch.linspace(0, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(torch.tensor(told["org/tensors"]["value"]), network_1(ramp), atol=1e-6)
    assert told["org/objects"]["kind"] == "load"
    assert "holds more than tensors" in told["org/objects"]["text"]
    assert not canary.exists()


@pytest.mark.parametrize(
    ("files", "pickle"),
    [
        ([], True),
        (["model.safetensors"], True),
        (["a.bin", "b.bin"], True),
        (["pytorch_model.bin"], False),
    ],
)
def test_a_pickle_needs_both_the_word_and_the_hash(files: list[str], pickle: bool) -> None:  # noqa: FBT001 - a table
    pins = tuple({"path": name, "sha256": "0" * 64} for name in files)
    with pytest.raises(ValueError, match="pickle: true"):
        HubWeights.model_validate(source(files=pins, pickle=pickle))


def test_a_branch_that_moves_changes_nothing_until_it_is_locked_again(hub: Hub, tmp_path: Path) -> None:
    """B023: commit A stays what runs, also offline; locked again, B is another identity."""
    hub.plant(A, {"model.safetensors": save(network(1).state_dict())})
    root = plant_registry(tmp_path / "place", "unresolved")
    hub.value("lock", root, "net")
    first = hub.value("locate", root, "net")
    hub.plant(B, {"model.safetensors": save(network(2).state_dict())})

    assert hub.value("locate", root, "net") == first
    hub.value("lock", root, "net")
    second = hub.value("locate", root, "net")

    assert second["sha256"] != first["sha256"]
    assert B in second["path"]
    lock = (tmp_path / "place" / "registry" / "lock.yaml").read_text()
    assert f"commit: {B}" in lock
