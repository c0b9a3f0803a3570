"""Every kind of data file on the Hub, read from the lock alone: same images, same numbers."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battery.local_hub import A, Asker, LocalHub, locked
from tests.runners.sources.lab import Lab, as_folder, encode

CLASSES = {"cat": "Cat", "dog": "Dog", "fox": "Red fox"}
IMAGES = {
    f"{name}/{number}.png": encode(10 * place + number)
    for place, name in enumerate(CLASSES)
    for number in (1, 2)
}
LABELS = [0, 0, 1, 1, 2, 2]


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def samples(images: list[bytes], labels: list[int], *, kind: str = "png", first: int = 0) -> bytes:
    """A tar of webdataset samples."""
    files = {"classnames.txt": b"Cat\nDog\nRed fox\n"}
    for number, (data, label) in enumerate(zip(images, labels, strict=True), first):
        files[f"s{number:04d}.{kind}"] = data
        files[f"s{number:04d}.cls"] = str(label).encode()
        files[f"s{number:04d}.json"] = b"{}"
    return tar(files)


def table(images: list[bytes], labels: list[int], *, named: bool = False) -> bytes:
    rows = pa.table({"image": [{"bytes": data, "path": None} for data in images], "label": labels})
    if named:
        feature = {"names": ["dog", "cat", "fox"], "_type": "ClassLabel"}
        info = {"info": {"features": {"label": feature}}}
        rows = rows.replace_schema_metadata({"huggingface": json.dumps(info)})
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asker(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    found = Asker(hub, tmp_path_factory.mktemp("asker") / "home", ROBUSTBOARD_CACHE_GB="0")
    yield found
    found.stop()


class Shelf:
    """One dataset repository, and short ways to lock and load it."""

    def __init__(
        self, hub: LocalHub, asker: Asker, folder: Path, files: dict[str, bytes], **source: Any
    ) -> None:
        self.hub, self.asker, self.folder = hub, asker, folder
        self.repo = f"org/{folder.name.replace('_', '-')[:60].strip('-')}"
        hub.plant(files, self.repo, "datasets")
        asker.value("cache", str(folder / "cache"))
        self.source = {"kind": "hub", "repo": self.repo, "revision": A, "split": "test"}
        self.source |= {"image_column": "image", "label_column": "label", **source}

    def lock(self) -> dict[str, Any]:
        found: dict[str, Any] = self.asker.value("resolve", "dataset", self.source)
        return found

    def ask(
        self, lock: dict[str, Any] | None = None, *, streaming: bool = False, **fields: Any
    ) -> dict[str, Any]:
        entry = {
            "id": "tiny",
            "name": "Tiny",
            "source": self.source,
            "label_space": "animals",
            "size": 6,
            "license": "MIT",
            "display_allowed": True,
            "citation": "made up",
            "added": "2026-01-01",
            **fields,
        }
        lock = self.lock() if lock is None else lock
        asked = {"entry": entry, "classes": CLASSES, "lock": lock, "folder": str(self.folder)}
        return self.asker.ask("load", {**asked, "streaming": streaming})

    def load(self, **options: Any) -> dict[str, Any]:
        answer = self.ask(**options)
        assert "value" in answer, answer
        found: dict[str, Any] = answer["value"]
        return found


KINDS: dict[str, tuple[dict[str, bytes], dict[str, Any], bool]] = {
    "parquet": (
        {
            "data/test-00000-of-00002.parquet": table(list(IMAGES.values())[:4], LABELS[:4]),
            "data/test-00001-of-00002.parquet": table(list(IMAGES.values())[4:], LABELS[4:]),
            "data/train-00000-of-00001.parquet": table(list(IMAGES.values())[:1], [0]),
        },
        {},
        False,
    ),
    "webdataset": (
        {
            "test/0.tar": samples(list(IMAGES.values())[:4], LABELS[:4]),
            "test/1.tar": samples(list(IMAGES.values())[4:], LABELS[4:], first=4),
        },
        {"image_column": "png", "label_column": "cls"},
        False,
    ),
    "tar.gz": (
        {"test.tar.gz": gzip.compress(tar({f"top/{name}": data for name, data in IMAGES.items()}))},
        {},
        True,
    ),
    "zip": (
        {
            "all.zip": zipped(
                {**{f"x/test/{name}": data for name, data in IMAGES.items()}, "x/train/cat/1.png": b"no"}
            )
        },
        {"config": "all"},
        True,
    ),
    "folders": ({f"test/{name}": data for name, data in IMAGES.items()}, {}, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_images_give_the_same_samples(
    kind: str, hub: LocalHub, asker: Asker, tmp_path: Path
) -> None:
    """Locked, fetched, read: equal to a folder on this disk; then streamed, and offline from the cache."""
    files, source, named = KINDS[kind]
    shelf = Shelf(hub, asker, tmp_path, files, **source)
    lock = shelf.lock()
    found = shelf.load(lock=lock)

    lab = Lab(shelf_workspace(tmp_path))
    local = lab.load(lab.entry(as_folder(tmp_path, IMAGES), 6), space=Lab.space(CLASSES))
    assert found["labels"] == LABELS
    assert found["ids"] == (list(IMAGES) if named else [f"{row:05d}" for row in range(6)])
    if named:
        assert found["fingerprint"] == local.fingerprint
    assert kind == "folders" or any("100%" in line for line in found["told"]), (
        "small files came with the lock"
    )
    hub.forget()
    assert shelf.load(lock=lock)["pixels"] == found["pixels"]
    assert not [line for line in hub.requests() if "/resolve/" in line], "from the cache, without network"
    assert not [line for line in hub.requests() if "token" in line]


def shelf_workspace(folder: Path) -> Any:
    from robustboard.workspace import Workspace

    return Workspace(folder, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_streamed_set_gives_the_same_samples_and_leaves_nothing(
    kind: str, hub: LocalHub, asker: Asker, tmp_path: Path
) -> None:
    """At no time more than one shard is kept; the second load knows labels and digests without fetching."""
    files, source, _ = KINDS[kind]
    shelf = Shelf(hub, asker, tmp_path, files, **source)
    lock = shelf.lock()
    cached = {path for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    found = shelf.load(lock=lock, streaming=True)
    left = {path.resolve() for path in (tmp_path / "cache").rglob("snapshots/*/**/*") if path.is_file()}
    wanted = {file["path"] for file in lock["files"] if file["path"] != "README.md"}
    hub.forget()
    again = shelf.load(lock=lock, streaming=True)
    asked = [line for line in hub.requests() if line.startswith("GET") and "/resolve/" in line]

    assert found["labels"] == LABELS
    assert len(left - cached) <= 1, "the last shard is still open"
    if len(cached) == 0:
        assert len(asked) <= len(wanted), (
            "labels and digests are known: each shard is fetched for pixels alone"
        )
    whole = shelf.load(lock=lock)
    assert [again[key] for key in ("fingerprint", "pixels", "ids")] == [
        whole[key] for key in ("fingerprint", "pixels", "ids")
    ]


def test_a_card_names_the_classes_where_parquet_does_not(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    """Numbers mean what the card says: dog, cat, fox; without it they are indices of the label space."""
    card = """---
license: mit
dataset_info:
  features:
  - name: image
    dtype: image
  - name: label
    dtype:
      class_label:
        names:
          '0': dog
          '1': cat
          '2': fox
---
# A set
"""
    data = {"data/test-00000-of-00001.parquet": table(list(IMAGES.values()), LABELS)}
    swapped = [1, 1, 0, 0, 2, 2]
    with_card = Shelf(hub, asker, tmp_path / "with-card", {**data, "README.md": card.encode()})
    assert [file["path"] for file in with_card.lock()["files"]] == [*data, "README.md"]
    assert with_card.load()["labels"] == swapped
    assert Shelf(hub, asker, tmp_path / "without", data).load()["labels"] == LABELS
    inside = {"data/test-00000-of-00001.parquet": table(list(IMAGES.values()), LABELS, named=True)}
    assert Shelf(hub, asker, tmp_path / "inside", inside).load()["labels"] == swapped


WRONG: list[tuple[dict[str, bytes], dict[str, Any], str, str]] = [
    (
        {"test.tar": samples([encode(1)], [0])},
        {"image_column": "jpg", "label_column": "cls"},
        "decode",
        ".jpg, got",
    ),
    (
        {"test.tar": tar({"a.png": encode(1)})},
        {"image_column": "png", "label_column": "cls"},
        "labels",
        ".cls, got png",
    ),
    ({"test.tar": tar({"a.png": encode(1)})}, {}, "labels", "expected it inside a class folder"),
    (
        {"test.zip": zipped({"cat/1.png": encode(1)})},
        {},
        "missing",
        "expected 6 images as the entry's size says, got 1",
    ),
    ({"test.parquet": b"PAR1"}, {}, "decode", "not a Parquet file"),
    ({"test.tar": b"no tar"}, {}, "decode", "not an archive"),
    ({"test.zip": b"PK no zip"}, {}, "decode", "not an archive"),
    ({"test.tar.gz": gzip.compress(tar(IMAGES))[:-9]}, {}, "decode", "damaged"),
    ({"train/cat/1.png": encode(1)}, {}, "unlocked", "no file of"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_cannot_be_read_is_one_line(number: int, hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    files, source, kind, words = WRONG[number]
    answer = Shelf(hub, asker, tmp_path, files, **source).ask()
    assert answer["kind"] == kind, answer
    assert words in answer["text"]
    assert "\n" not in answer["text"]


def test_a_damaged_note_of_a_stream_is_made_again(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    files, source, _ = KINDS["webdataset"]
    shelf = Shelf(hub, asker, tmp_path, files, **source)
    lock = shelf.lock()
    first = shelf.load(lock=lock, streaming=True)
    (note,) = (tmp_path / "runs" / "cache" / "streams").glob("*.json")
    good = note.read_bytes()
    note.write_bytes(good.replace(b'"labels": [\n        0', b'"labels": [\n        1'))
    assert note.read_bytes() != good
    assert shelf.load(lock=lock, streaming=True)["labels"] == first["labels"]
    assert note.read_bytes() == good


def test_a_wrong_shard_is_refused_while_streaming(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    """The lock says what the shard holds; the server holds another."""
    files, source, _ = KINDS["webdataset"]
    shelf = Shelf(hub, asker, tmp_path, files, **source)
    lock = shelf.lock()
    lock["files"][1] = locked("test/1.tar", b"something else")
    answer = shelf.ask(lock=lock, streaming=True)
    assert answer["kind"] == "hash-mismatch"
    assert "test/1.tar" in answer["text"]
