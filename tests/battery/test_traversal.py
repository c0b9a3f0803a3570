"""B4: names and links that lead elsewhere: after each the whole tree is as it was, the cache aside."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.battery.local_hub import A, Asker, B, LocalHub, locked, tree
from tests.runners.sources.lab import encode

PNG = encode(1)
BASE = "deep/down/here"
CLASSES = {"cat": "Cat", "dog": "Dog"}


def tar_of(*members: tuple[str, bytes, str], link: bytes = tarfile.REGTYPE) -> bytes:
    """(name, content, where a link leads) each."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data, target in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if target:
                info.type, info.linkname = link, target
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def special(kind: bytes) -> bytes:
    info = tarfile.TarInfo("cat/1.png")
    info.type = kind
    return info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)


def zip_of(name: str, data: bytes = PNG, mode: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, data)
    return buffer.getvalue()


def up(name: str) -> bytes:
    return tar_of((name, PNG, ""))


ARCHIVES: dict[str, tuple[str, bytes]] = {
    "tar: parent": ("test.tar", up("../escaped.png")),
    "tar: parent of a folder": ("test.tar", up("cat/../../escaped.png")),
    "tar: absolute": ("test.tar", up("/tmp/escaped.png")),
    "tar: backslashes": ("test.tar", up("cat\\..\\..\\escaped.png")),
    "tar: drive": ("test.tar", up("C:/escaped.png")),
    "tar: control sign": ("test.tar", up("cat/esc\x1baped.png")),
    "tar: link": ("test.tar", tar_of(("cat/1.png", b"", "/etc/passwd"), link=tarfile.SYMTYPE)),
    "tar: link, then through it": (
        "test.tar",
        tar_of(("cat", b"", "../../outside"), link=tarfile.SYMTYPE)[:512] + up("cat/escaped.png"),
    ),
    "tar: hard link": ("test.tar", tar_of(("cat/1.png", b"", "../outside/secret"), link=tarfile.LNKTYPE)),
    "tar: device": ("test.tar", special(tarfile.CHRTYPE)),
    "tar: pipe": ("test.tar", special(tarfile.FIFOTYPE)),
    "tar: twice": ("test.tar", tar_of(("cat/1.png", PNG, ""), ("./cat/1.png", PNG, ""))),
    "tar.gz: parent": ("test.tar.gz", gzip.compress(up("../escaped.png"))),
    "zip: parent": ("test.zip", zip_of("../escaped.png")),
    "zip: absolute": ("test.zip", zip_of("/tmp/escaped.png")),
    "zip: drive": ("test.zip", zip_of("C:/escaped.png")),
    "zip: link": ("test.zip", zip_of("cat/1.png", b"/etc/passwd", stat.S_IFLNK | 0o777)),
}
HEADERS: dict[str, dict[str, str]] = {
    "ETag: parents": {"ETag": '"../../../../../escaped"'},
    "ETag: absolute": {"ETag": '"/tmp/escaped-etag"'},
    "ETag: a folder": {"ETag": '".."'},
    "linked ETag": {"X-Linked-ETag": '"../../../../../escaped"'},
    "commit: parents": {"X-Repo-Commit": "../../../../escaped"},
    "commit: another": {"X-Repo-Commit": B},
}
REDIRECTS = {
    "to a file": "file:///etc/passwd",
    "to another port": "http://127.0.0.1:9/secret",
    "to another host": "http://169.254.169.254/latest/meta-data",
}
NAMES = ("../escaped.safetensors", "/tmp/escaped.safetensors", "a/../../escaped", ".", "a\\b", "sub/../../x")


@dataclass
class Ground:
    """A tree with a workspace, a cache and a folder that nobody may touch."""

    root: Path
    """Everything that is watched."""
    base: Path
    """With place/, cache/ and outside/."""
    hub: LocalHub
    asker: Asker

    def ask(self, function: str, *arguments: Any) -> dict[str, Any]:
        """An answer that must be one line of refusal, with nothing changed outside cache and runs."""
        before = self.rest()
        answer = self.asker.ask(function, *arguments)
        assert self.rest() == before
        assert not list(self.root.rglob("*escaped*"))
        assert answer.get("kind") != "traceback", answer
        assert "value" not in answer, answer
        assert "\n" not in answer["text"]
        return answer

    def rest(self) -> dict[str, str]:
        """Everything but what the client keeps and runs/."""
        return {
            name: value
            for name, value in tree(self.root).items()
            if not name.startswith((f"{BASE}/cache/", f"{BASE}/place/runs")) or "escaped" in name
        }

    def load(self, source: dict[str, Any], lock: dict[str, Any] | None) -> dict[str, Any]:
        entry = {
            "id": "tiny",
            "name": "Tiny",
            "source": source,
            "label_space": "animals",
            "size": 1,
            "license": "MIT",
            "display_allowed": True,
            "citation": "made up",
            "added": "2026-01-01",
        }
        asked = {"entry": entry, "classes": CLASSES, "folder": str(self.base / "place")}
        return self.ask("load", {**asked, "lock": lock or {"files": [locked("x", b"x")]}})


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asker(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    found = Asker(hub, tmp_path_factory.mktemp("asker") / "home")
    yield found
    found.stop()


@pytest.fixture
def ground(hub: LocalHub, asker: Asker, tmp_path: Path) -> Ground:
    root = tmp_path / BASE
    for name in ("cache", "place/data", "outside"):
        (root / name).mkdir(parents=True)
    (root / "outside" / "secret").write_text("secret")
    asker.value("cache", str(root / "cache"))
    hub.script()
    return Ground(tmp_path, root, hub, asker)


@pytest.mark.parametrize("name", ARCHIVES)
def test_members_that_lead_elsewhere(name: str, ground: Ground) -> None:
    file, data = ARCHIVES[name]
    ground.hub.plant({file: data}, "org/set", "datasets")
    source = {"kind": "hub", "repo": "org/set", "revision": A, "split": "test"}
    source |= {"image_column": "image", "label_column": "label"}
    answer = ground.load(source, {"commit": A, "files": [locked(file, data)]})
    assert answer["kind"] == "decode", answer
    assert file in answer["text"]


@pytest.mark.parametrize("name", HEADERS)
def test_answers_whose_headers_lead_elsewhere(name: str, ground: Ground) -> None:
    ground.hub.plant({"model.safetensors": PNG}, "org/net")
    ground.hub.script({"match": ".* /org/net/resolve/.*", "do": "headers", "headers": HEADERS[name]})
    answer = ground.ask("fetch", "org/net", "model", A, [locked("model.safetensors", PNG)])
    assert answer["kind"] == "hash-mismatch", answer


@pytest.mark.parametrize("name", REDIRECTS)
def test_redirects_that_lead_elsewhere(name: str, ground: Ground) -> None:
    """The file's own address is no longer the Hub's: only https:// is followed."""
    ground.hub.plant({"model.safetensors": PNG}, "org/net")
    moved = {"Location": REDIRECTS[name], "X-Repo-Commit": A, "ETag": '"abc"', "X-Linked-Size": "10"}
    ground.hub.script({"match": ".* /org/net/resolve/.*", "do": "status", "status": 302, "headers": moved})
    answer = ground.ask("fetch", "org/net", "model", A, [locked("model.safetensors", PNG)])
    assert answer["kind"] == "unavailable", answer


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_never_asked_for(name: str, ground: Ground) -> None:
    ground.hub.forget()
    answer = ground.ask("fetch", "org/net", "model", A, [locked(name, PNG)])
    assert answer["kind"] == "missing"
    assert "no file name that is ever fetched" in answer["text"]
    assert not [line for line in ground.hub.requests() if "/resolve/" in line]


@pytest.mark.parametrize("place", ["../outside", "/etc", "data/../../outside"])
def test_paths_of_entries_stay_in_data_folders(place: str, ground: Ground) -> None:
    answer = ground.asker.ask("load", {"entry": {"source": {"kind": "folder", "path": place}}})
    assert "value" not in answer


def linked_file(root: Path) -> None:
    (root / "place/data/set/cat").mkdir(parents=True)
    (root / "place/data/set/cat/1.png").symlink_to(root / "outside/secret")


def linked_folder(root: Path) -> None:
    (root / "place/data/set").mkdir(parents=True)
    (root / "place/data/set/cat").symlink_to(root / "outside")


@pytest.mark.parametrize("make", [linked_file, linked_folder])
def test_links_in_a_locked_folder_are_refused(make: Callable[[Path], None], ground: Ground) -> None:
    make(ground.base)
    answer = ground.load({"kind": "folder", "path": "set"}, {"files": [locked("set", b"x")]})
    assert answer["kind"] == "hash-mismatch"
    assert "expected files and folders only, got a link" in answer["text"]


def test_a_link_in_the_cache_that_leads_out_is_cut_and_its_target_stays(ground: Ground) -> None:
    """The right file is fetched in its place; what lay at the other end is neither moved nor deleted."""
    root = ground.base
    ground.hub.plant({"model.safetensors": PNG}, "org/net")
    folder = root / "cache" / "models--org--net" / "snapshots" / A
    folder.mkdir(parents=True)
    (folder / "model.safetensors").symlink_to(root / "outside" / "secret")
    found = ground.asker.value("fetch", "org/net", "model", A, [locked("model.safetensors", PNG)])
    assert Path(found["model.safetensors"]).read_bytes() == PNG
    assert (root / "outside" / "secret").read_text() == "secret"


def test_control_careless_unpacking_writes_outside(tmp_path: Path) -> None:
    """tarfile without a filter follows three of the archives out of its folder."""
    escaped = 0
    for number, name in enumerate(("tar: parent", "tar.gz: parent", "tar: link, then through it")):
        inside = tmp_path / str(number) / "a" / "b" / "inside"
        inside.mkdir(parents=True)
        (tmp_path / str(number) / "a" / "outside").mkdir()
        with tarfile.open(fileobj=io.BytesIO(ARCHIVES[name][1])) as archive:
            archive.extractall(inside, filter="fully_trusted")
        found = [path.resolve() for path in (tmp_path / str(number)).rglob("escaped.png")]
        escaped += any(not path.is_relative_to(inside) for path in found)
    assert escaped == 3
