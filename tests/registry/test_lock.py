from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.errors import ContentError, LockError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import DatasetEntry, LockedEntry, LockedFile, ModelEntry
from robustboard.registry.lock import Lock, add_line, lock_bytes, read_lock, write_lock
from robustboard.workspace import Workspace

Plant = Any

COMMIT = "0123456789" * 4
SHA = "ab" * 32
HUB = LockedEntry(commit=COMMIT, files=(LockedFile(path="model.safetensors", size=7, sha256=SHA),))


def file_lock(*names: str, sha256: str = SHA) -> LockedEntry:
    return LockedEntry(files=tuple(LockedFile(path=name, size=1, sha256=sha256) for name in names))


def model(plant: Plant, source: str | None = None) -> ModelEntry:
    """The planted model, with another source where one is given."""
    if source is not None:
        text = (plant.root / "registry/models/net.yaml").read_text()
        start, end = text.index("  kind: hub"), text.index("loader:")
        plant.write("registry/models/net.yaml", text[:start] + source + text[end:])
    return load_catalog(plant.workspace).model("net")


def test_what_is_written_is_read_back_one_sorted_line_an_entry(plant: Plant) -> None:
    lock = Lock({"model/net": HUB, "dataset/shapes": file_lock("shapes/test")})
    write_lock(plant.workspace, lock)
    assert dict(read_lock(plant.workspace)) == dict(lock)
    lines = (plant.root / "registry/lock.yaml").read_text().splitlines()
    assert lines[0].startswith("#")
    assert [line.split(":")[0] for line in lines[1:]] == ["dataset/shapes", "model/net"]


def test_an_empty_lock_is_valid(plant: Plant) -> None:
    assert len(read_lock(plant.workspace)) == 0
    write_lock(plant.workspace, Lock())
    assert len(read_lock(plant.workspace)) == 0


def test_setting_one_line_keeps_the_bytes_of_the_others(plant: Plant) -> None:
    many = Lock({f"model/net-{number}": HUB for number in range(20)})
    write_lock(plant.workspace, many)
    before = (plant.root / "registry/lock.yaml").read_text().splitlines()
    write_lock(plant.workspace, read_lock(plant.workspace).replace({"model/net-7": file_lock("x")}))
    after = (plant.root / "registry/lock.yaml").read_text().splitlines()
    assert [a for a, b in zip(after, before, strict=True) if a != b] == [
        f"model/net-7: {{files: [{{path: x, size: 1, sha256: {SHA}}}]}}"
    ]
    write_lock(plant.workspace, read_lock(plant.workspace).replace({"model/net-7": None}))
    assert len(read_lock(plant.workspace)) == 19


paths = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=30)
names = st.from_regex(r"(model|dataset)/[a-z0-9]{2,8}", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, st.lists(paths, max_size=3), max_size=5))
def test_any_lock_is_read_back_or_refused_before_the_old_one_is_touched(
    tmp_path_factory: pytest.TempPathFactory, wanted: dict[str, list[str]]
) -> None:
    root = tmp_path_factory.mktemp("lock")
    (root / "registry").mkdir()
    old = "model/old: {version: 1.0}\n"
    (root / "registry/lock.yaml").write_text(old)
    workspace = Workspace(root, root)
    files = {
        key: LockedEntry(files=tuple(LockedFile.model_construct(path=p, size=1, sha256=SHA) for p in found))
        for key, found in wanted.items()
    }
    lock = Lock(files)
    try:
        write_lock(workspace, lock)
    except LockError:
        assert (root / "registry/lock.yaml").read_text() == old
    else:
        assert dict(read_lock(workspace)) == files


def test_a_missing_line_names_the_command_that_mends_it() -> None:
    with pytest.raises(LockError) as caught:
        Lock().require("model", "net")
    assert str(caught.value).endswith("run: robustboard lock model/net")
    assert caught.value.exit_code == 2


def test_a_line_that_agrees_with_its_entry_is_handed_out(plant: Plant) -> None:
    assert Lock({"model/net": HUB}).pin(model(plant)) == HUB


@pytest.mark.parametrize(
    ("locked", "said"),
    [
        (LockedEntry(commit="f" * 40), f"commit: expected {COMMIT} as in the entry, got {'f' * 40}"),
        (LockedEntry(), f"commit: expected {COMMIT} as in the entry, got none"),
    ],
)
def test_another_commit_than_the_entry_pins_is_refused(plant: Plant, locked: LockedEntry, said: str) -> None:
    with pytest.raises(LockError) as caught:
        Lock({"model/net": locked}).pin(model(plant))
    assert said in str(caught.value)
    assert "robustboard lock model/net" in str(caught.value)


def test_an_unresolved_entry_takes_any_commit_from_the_lock(plant: Plant) -> None:
    plant.edit("registry/models/net.yaml", f'"{COMMIT}"', "unresolved")
    assert Lock({"model/net": HUB}).pin(model(plant)).commit == COMMIT
    with pytest.raises(LockError, match="commit: expected a commit, got none"):
        Lock({"model/net": LockedEntry()}).pin(model(plant))


@pytest.mark.parametrize(
    ("locked", "said"),
    [
        (file_lock("w.safetensors", sha256="cd" * 32), f"files: expected {SHA} of w.safetensors"),
        (file_lock("v.safetensors"), "files: expected w.safetensors as in the entry, got no such file"),
        (
            file_lock("w.safetensors").model_copy(update={"commit": COMMIT}),
            "commit: expected none for a source of kind file",
        ),
    ],
)
def test_other_bytes_than_the_entry_pins_are_refused(plant: Plant, locked: LockedEntry, said: str) -> None:
    entry = model(plant, f"  kind: file\n  path: w.safetensors\n  sha256: {SHA}\n")
    with pytest.raises(LockError, match="expected") as caught:
        Lock({"model/net": locked}).pin(entry)
    assert said in str(caught.value)
    assert Lock({"model/net": file_lock("w.safetensors")}).pin(entry).files[0].sha256 == SHA


def test_each_file_that_an_entry_pins_must_stand_in_its_line(plant: Plant) -> None:
    source = (
        "  kind: idx\n"
        f"  images:\n    path: i.gz\n    sha256: {SHA}\n"
        f"  labels:\n    path: l.gz\n    sha256: {SHA}\n"
    )
    text = (plant.root / "registry/datasets/shapes.yaml").read_text()
    plant.write(
        "registry/datasets/shapes.yaml", text.replace("  kind: folder\n  path: shapes/test\n", source)
    )
    entry = load_catalog(plant.workspace).dataset("shapes")
    assert isinstance(entry, DatasetEntry)
    Lock({"dataset/shapes": file_lock("i.gz", "l.gz")}).pin(entry)
    with pytest.raises(LockError, match=r"expected l\.gz as in the entry"):
        Lock({"dataset/shapes": file_lock("i.gz")}).pin(entry)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("net: {}\n", "registry/lock.yaml:1: net: expected model/ID, dataset/ID or generator/ID, got 'net'"),
        ("model/Net: {}\n", "registry/lock.yaml:1: model/Net: expected model/ID, dataset/ID or generator/ID"),
        (
            "{}\n---\n{}\n",
            "registry/lock.yaml:2: expected one document, got a second one",
        ),
        (
            "model/a1: {}\nmodel/a2: {commit: main}\n",
            "registry/lock.yaml:2: model/a2.commit: expected a commit hash of 40 hex digits, got 'main'",
        ),
        (
            "model/a1: {files: [{path: x, size: -1, sha256: 00}]}\n",
            "registry/lock.yaml:1: model/a1.files.0.sha256: expected a SHA-256 of 64 hex digits, got '00'",
        ),
        ("model/a1: {}\nmodel/a1: {}\n", "registry/lock.yaml:2: model/a1: expected each key once"),
        ("[]\n", "registry/lock.yaml:1: expected `key: value` lines"),
    ],
)
def test_a_damaged_lock_is_an_error_with_file_and_line(plant: Plant, text: str, said: str) -> None:
    plant.write("registry/lock.yaml", text)
    with pytest.raises(ContentError) as caught:
        read_lock(plant.workspace)
    assert str(caught.value).startswith(said)


def test_an_absent_lock_is_an_error(plant: Plant) -> None:
    (plant.root / "registry/lock.yaml").unlink()
    with pytest.raises(
        LockError, match=r"registry/lock\.yaml: expected the lock of the registry, found none"
    ):
        read_lock(plant.workspace)


def test_two_branches_that_lock_different_entries_merge_line_by_line() -> None:
    """Adding an entry adds one line and changes no other."""
    base = Lock({"model/b1": HUB, "model/d1": HUB})
    grown = base.replace({"model/c1": HUB})
    added = set(lock_bytes(grown).splitlines()) - set(lock_bytes(base).splitlines())
    assert len(added) == 1
    assert set(lock_bytes(base).splitlines()) < set(lock_bytes(grown).splitlines())


def test_no_temporary_file_stays_behind(plant: Plant) -> None:
    write_lock(plant.workspace, Lock({"model/net": HUB}))
    left = {path.name for path in Path(plant.root / "registry").iterdir()}
    assert left == {"lock.yaml", "models", "datasets", "labels"}


def test_lines_that_others_write_meanwhile_stay(plant: Plant) -> None:
    """Eight at once, each with a line of its own: none overwrites another's."""
    write_lock(plant.workspace, Lock())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add_line(plant.workspace, f"model/net-{n}", HUB), range(8)))
    assert sorted(read_lock(plant.workspace)) == [f"model/net-{n}" for n in range(8)]
