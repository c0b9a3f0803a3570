"""Every byte and row is looked at; hostile manifests and shards are refused in one line."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustboard.errors import StoreError
from robustboard.runners.testsets.build import build
from robustboard.runners.testsets.manifest import DOCUMENTS, MANIFEST, SHARD, read_manifest, shard_path
from robustboard.runners.testsets.shards import Row, content_sha256, decode_rows, encode_rows
from robustboard.runners.testsets.verify import verify
from tests.runners.testsets.sets import KEYS, files, forge, material

Value = dict[str, Any]
FIRST = shard_path(0, 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound set of 60 images in two shards; copied by each test."""
    folder = tmp_path_factory.mktemp("sets")
    build(material(shard_rows=40), folder / "set", folder / "work")
    return folder / "set"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "set"))


def damage(folder: Path) -> str:
    """The first damage, on one line."""
    damages = verify(folder).damages
    assert damages
    assert all("\n" not in line for line in damages)
    return damages[0]


def test_one_flipped_bit_anywhere_is_caught_and_the_file_named(folder: Path) -> None:
    """E3: 40 random bits of each file; 0 pass unseen."""
    drawn = random.Random(1)
    for name, data in files(folder).items():
        for _ in range(40):
            flipped = bytearray(data)
            flipped[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
            (folder / name).write_bytes(flipped)
            assert any(line.startswith(name) for line in verify(folder).damages), name
        (folder / name).write_bytes(data)
    assert verify(folder).damages == ()


@pytest.mark.parametrize("name", [FIRST, *DOCUMENTS, MANIFEST])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert damage(folder) == f"{name}: cannot read: No such file or directory"


@pytest.mark.parametrize("name", [FIRST, MANIFEST])
def test_a_link_in_place_of_a_file_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    assert damage(folder).startswith(f"{name}: cannot read: ")


def test_a_pipe_in_place_of_a_file_does_not_hang(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    assert damage(folder) == f"{MANIFEST}: expected a regular file, got something else"


def test_files_that_no_manifest_lists_are_named(folder: Path) -> None:
    (folder / "data" / "evil.py").write_text("1")
    assert damage(folder) == "'data/evil.py': expected only the files of the manifest"


def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "data").rename(tmp_path / "elsewhere")
    (folder / "data").symlink_to(tmp_path / "elsewhere")
    assert damage(folder) == f"{FIRST}: expected a folder, got a link"


# Hostile manifests, sealed as by an attacker


def set_in(*path: str | int, to: Any) -> Callable[[Value], None]:
    def change(value: Value) -> None:
        place: Any = value
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


HOSTILE: dict[str, tuple[Callable[[Value], None], str]] = {
    "climbs out": (set_in("shards", 0, "path", to="../../etc/passwd"), "shards.0: path: expected"),
    "absolute": (set_in("shards", 0, "path", to="/etc/passwd"), "shards.0: path: expected"),
    "other name": (set_in("documents", 0, "path", to="../README.md"), "documents: expected README.md"),
    "same file twice": (set_in("shards", 1, "path", to=FIRST), "shards.1: path: expected"),
    "huge file": (set_in("shards", 0, "size", to=2**40), "shards.0.size: "),
    "big file": (set_in("shards", 0, "size", to=2**30 + 1), "shards.0.size: "),
    "negative": (set_in("shards", 0, "size", to=-1), "shards.0.size: "),
    "no number": (set_in("rows", to="60"), "a value is written in another form"),
    "too many rows": (set_in("rows", to=61), "rows: expected the sum"),
    "rows of a shard": (set_in("shards", 0, "rows", to=41), "rows: expected the sum"),
    "wrong hash": (set_in("shards", 0, "sha256", to="0" * 64), f"{FIRST}: expected"),
    "no hash": (set_in("shards", 0, "sha256", to="x"), "shards.0.sha256: "),
    "huge images": (set_in("shape", to=[1, 10**6, 10**6]), "shape: expected"),
    "other shape": (set_in("shape", to=[1, 9, 8]), f"{FIRST}: row 0: image: expected 8 x 9 pixels"),
    "other content": (set_in("content_sha256", to="0" * 64), "content_sha256: the shards have another"),
    "more kept": (set_in("classes", 0, "kept", to=7), "classes: '0': attempted, kept and rejected"),
    "a reason of its own": (set_in("classes", 0, "rejected", to={"luck": 1}), "classes.0.rejected"),
    "not complete": (set_in("complete", to=False), "complete: expected true just when"),
    "other seed": (set_in("recipe", "seed", to=2), "recipe_sha256: expected the hash of the recipe"),
    "other oracle": (set_in("parts", 2, "id", to="friend"), "parts: expected the oracle of the recipe"),
    "other identity": (set_in("parts", 1, "identity", to={}), "parts: generator: sha256: expected"),
    "one class": (lambda value: value.update(classes=value["classes"][:1]), "classes: expected at least 2"),
    "unknown key": (set_in("command", to="rm"), "command: "),
    "classes swapped": (
        lambda value: value["classes"].reverse(),
        f"{FIRST}: row 0 ('00001-0'): class_name: expected 'digit 5', got 'digit 4'",
    ),
    "another name of a class": (set_in("classes", 0, "name", to="zero"), "class_name: expected 'zero'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_manifests_are_refused_in_one_line(folder: Path, name: str) -> None:
    change, words = HOSTILE[name]
    forge(folder, change)
    assert words in damage(folder)


def test_a_huge_manifest_is_not_read(folder: Path) -> None:
    """A sparse file of 1 GB: refused by its size."""
    with (folder / MANIFEST).open("r+b") as file:
        file.truncate(10**9)
    tracemalloc.start()
    try:
        assert damage(folder) == f"{MANIFEST}: expected at most {4 * 2**20} bytes, got 1000000000"
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_deep_nesting_is_refused(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(b"[" * 100_000)
    assert damage(folder).startswith(f"{MANIFEST}: not JSON")


# Hostile shards: hashes and counts that fit, content that does not


def put_rows(folder: Path, rows: list[Row]) -> None:
    """Replace the second shard, with a manifest that vouches for it."""
    put(folder, encode_rows(rows, KEYS), rows)


def put(folder: Path, data: bytes, rows: list[Row] | None = None) -> None:
    path = shard_path(1, 2)
    (folder / path).write_bytes(data)

    def change(value: Value) -> None:
        shard = value["shards"][1]
        shard.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        if rows is not None:
            value["content_sha256"] = content_sha256([*first_rows(folder), *rows])

    forge(folder, change)


def first_rows(folder: Path) -> list[Row]:
    return list(decode_rows((folder / FIRST).read_bytes(), FIRST, (1, 8, 8), 40))


def second_rows(folder: Path) -> list[Row]:
    path = shard_path(1, 2)
    return list(decode_rows((folder / path).read_bytes(), path, (1, 8, 8), 20))


def changed(row: Row, **values: Any) -> Row:
    fields = {name: getattr(row, name) for name in Row.__dataclass_fields__}
    return Row(**{**fields, **values})


ROWS: dict[str, tuple[Value, str]] = {
    "label above": ({"label": 10}, "label: expected a class from 0 to 9, got 10"),
    "label below": ({"label": -1}, "label: expected a class from 0 to 9, got -1"),
    "class name": ({"class_name": "digit 11"}, "class_name: expected 'digit"),
    "seed": ({"seed": 5}, "seed: expected that of the recipe and the id, got 5"),
    "attempt": ({"attempt": 3}, "expected an attempt and steps as the recipe allows"),
    "steps": ({"steps": 6}, "expected an attempt and steps as the recipe allows"),
    "confidence": ({"oracle_confidence": float("nan")}, "oracle scores from 0 to 1"),
    "margin": ({"oracle_margin": 1.5}, "oracle scores from 0 to 1"),
    "distance": ({"distance": 0.0}, "expected a distance above 0"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_no_build_makes_are_named(folder: Path, name: str) -> None:
    values, words = ROWS[name]
    rows = second_rows(folder)
    rows[7] = changed(rows[7], **values)
    put_rows(folder, rows)
    found = damage(folder)
    assert found.startswith(f"{shard_path(1, 2)}: row 7 ")
    assert words in found


def test_a_source_image_twice_is_named(folder: Path) -> None:
    rows = second_rows(folder)
    rows[7] = rows[3]
    put_rows(folder, rows)
    assert "expected each source image once, got it again" in damage(folder)


def test_an_image_more_of_one_class_is_told(folder: Path) -> None:
    """Hashes and the content's digest fit: only the count a class does not."""
    rows = second_rows(folder)
    other = next(row for row in rows if row.label != rows[0].label)
    rows[0] = changed(rows[0], label=other.label, class_name=other.class_name)
    put_rows(folder, rows)
    assert "classes: " in damage(folder)


def rewritten(folder: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    table = pq.read_table(folder / shard_path(1, 2))
    sink = pa.BufferOutputStream()
    pq.write_table(change(table), sink, row_group_size=100, **options)
    put(folder, sink.getvalue().to_pybytes())


def with_image(data: bytes | None) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        kind = table.schema.field("image").type
        images = [{"bytes": data, "path": None}] * len(table)
        return table.set_column(1, table.schema.field("image"), pa.array(images, kind))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop_columns(["seed"]), "expected the columns id, image"),
        (lambda table: table.append_column("code", table["id"]), "expected the columns id, image"),
        (lambda table: table.slice(1), "expected 20 rows as in the manifest, got 19"),
        (with_image(None), "expected an image of at most"),
        (with_image(b"\xff\xd8\xff\xe0JFIF"), "expected PNG, which is lossless, got JPEG"),
        (with_image(b"\x89PNG\r\n\x1a\n"), "expected a whole PNG"),
    ],
)
def test_shards_of_another_form_are_refused(
    folder: Path, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    rewritten(folder, change)
    assert words in damage(folder)


def test_a_small_shard_that_unpacks_to_much_is_refused_before(folder: Path) -> None:
    """Twenty times 20 MB of zeros in some kilobytes: never unpacked."""
    rewritten(folder, with_image(bytes(20_000_000)), compression="zstd", use_dictionary=False)
    assert (folder / shard_path(1, 2)).stat().st_size < 200_000

    before = pa.total_allocated_bytes()
    assert "row group 0: expected at most 100 rows and" in damage(folder)
    assert pa.total_allocated_bytes() - before < 5_000_000


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", os.urandom(500)])
def test_bytes_that_are_no_parquet_are_refused(folder: Path, data: bytes) -> None:
    put(folder, data)
    assert damage(folder).startswith(f"{shard_path(1, 2)}: damaged: ")


def test_names_of_shards_are_those_that_are_written() -> None:
    import re

    assert re.fullmatch(SHARD, FIRST)
    assert not re.fullmatch(SHARD, "data/test-0-of-1.parquet")


def test_reading_says_which_file(folder: Path) -> None:
    with pytest.raises(StoreError, match=r"elsewhere\.json: cannot read"):
        read_manifest(folder / "elsewhere.json", "elsewhere.json")
