from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry, LockedEntry, LockedFile
from robustboard.registry.resolve import digest_folder

Encode = Callable[..., bytes]
ABCD = {key: key.upper() for key in "abcd"}


def fill(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def entry(lab: Any, size: int) -> DatasetEntry:
    made: DatasetEntry = lab.entry({"kind": "folder", "path": "set"}, size)
    return made


def refusal(lab: Any, wanted: DatasetEntry, kind: str, locked: LockedEntry | None = None) -> str:
    with pytest.raises(CellError) as caught:
        lab.load(wanted, space=lab.space(ABCD), locked=locked)
    assert caught.value.kind == kind, caught.value.reason
    assert "\n" not in caught.value.reason
    return caught.value.reason


def test_an_empty_or_absent_class_shifts_nothing(lab: Any, png: Encode) -> None:
    """B010 (a): classes a, b, c, d; the split has a, b, d and an empty c: d stays 3."""
    fill(lab.data / "set", {f"{key}/1.png": png(number) for number, key in enumerate("abd")})
    (lab.data / "set" / "c").mkdir()
    samples = lab.load(entry(lab, 3), space=lab.space(ABCD))

    assert samples.ids == ("a/1.png", "b/1.png", "d/1.png")
    assert samples.labels.tolist() == [0, 1, 3]
    (lab.data / "set" / "c").rmdir()
    assert lab.load(entry(lab, 3), space=lab.space(ABCD)).fingerprint == samples.fingerprint


def test_split_folders_are_not_classes(lab: Any, png: Encode) -> None:
    """B010 (b): train/ and test/ with images directly inside."""
    fill(lab.data / "set", {"train/1.png": png(0), "test/2.png": png(1)})

    assert "no labels: test, train are splits" in refusal(lab, entry(lab, 2), "labels")


def test_a_declared_class_may_be_called_like_a_split(lab: Any, png: Encode) -> None:
    """Train is also a vehicle."""
    fill(lab.data / "set", {"train/1.png": png(0)})

    assert lab.load(entry(lab, 1), space=lab.space({"bus": "Bus", "train": "Train"})).labels.tolist() == [1]


def test_an_undeclared_folder_is_named(lab: Any, png: Encode) -> None:
    """B010 (c): an extra folder e."""
    fill(lab.data / "set", {f"{key}/1.png": png(number) for number, key in enumerate("abde")})

    assert "set/e/1.png: label 'e' is no class" in refusal(lab, entry(lab, 4), "labels")


def test_numbered_folders_are_indices_not_places_in_the_listing(lab: Any, png: Encode) -> None:
    classes = {f"k{number:02d}": f"thing {number}" for number in range(12)}
    fill(lab.data / "set", {f"{number}/x.png": png(number) for number in (2, 10, 11)})
    samples = lab.load(entry(lab, 3), space=lab.space(classes))

    assert samples.ids == ("10/x.png", "11/x.png", "2/x.png")
    assert samples.labels.tolist() == [10, 11, 2]


def test_images_beside_the_class_folders_have_no_label(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/1.png": png(0), "stray.JPG": png(1)})

    assert "no label for 'stray.JPG'" in refusal(lab, entry(lab, 1), "labels")


def test_read_me_files_and_hidden_files_are_not_images(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/1.png": png(0), "a/.DS_Store": b"x", "README.txt": b"hello", ".git/x": b"y"})

    assert lab.load(entry(lab, 1), space=lab.space(ABCD)).ids == ("a/1.png",)


def test_other_files_in_a_class_folder_are_not_dropped_in_silence(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/1.png": png(0), "a/notes.txt": b"hello"})
    samples = lab.load(entry(lab, 2), space=lab.space(ABCD))

    with pytest.raises(CellError, match=r"set/a/notes\.txt: not a PNG, JPEG or WebP"):
        samples.pixels([0, 1])


def test_folders_in_class_folders_are_refused(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/deep/1.png": png(0)})

    assert "set/a/deep: expected images in a class folder, got a folder" in refusal(
        lab, entry(lab, 1), "labels"
    )


def test_a_folder_without_sub_folders_has_no_labels(lab: Any) -> None:
    (lab.data / "set").mkdir()

    assert "no labels" in refusal(lab, entry(lab, 1), "labels")


def test_missing_images_are_counted(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/1.png": png(0)})

    assert "expected 2 images as the entry's size says, got 1" in refusal(lab, entry(lab, 2), "missing")


def test_names_with_control_characters_are_refused(lab: Any, png: Encode) -> None:
    """They would reach logs and pages."""
    fill(lab.data / "set", {"a/\x1b[31mred.png": png(0)})

    assert "\x1b" not in refusal(lab, entry(lab, 1), "decode")


def test_a_file_in_place_of_the_folder_is_refused(lab: Any) -> None:
    (lab.data / "set").write_bytes(b"")

    assert "expected a folder" in refusal(lab, entry(lab, 1), "decode")


def test_a_huge_file_is_not_read(lab: Any, png: Encode) -> None:
    """A sparse file of 1 TB in a class folder."""
    fill(lab.data / "set", {"a/1.png": png(0)})
    with (lab.data / "set" / "a" / "1.png").open("r+b") as file:
        file.truncate(2**40)

    assert "expected at most" in refusal(lab, entry(lab, 1), "decode")


def test_a_locked_folder_is_compared_with_the_lock(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/1.png": png(0), "b/2.png": png(1)})
    size, sha256 = digest_folder(lab.data / "set")
    locked = LockedEntry(files=(LockedFile(path="set", size=size, sha256=sha256),))
    assert len(lab.load(entry(lab, 2), space=lab.space(ABCD), locked=locked).ids) == 2
    fill(lab.data / "set", {"a/1.png": png(2)})

    assert "registry/lock.yaml" in refusal(lab, entry(lab, 2), "hash-mismatch", locked)


def test_a_file_that_changes_under_way_is_noticed(lab: Any, png: Encode) -> None:
    """Fingerprint and pixels always belong together."""
    fill(lab.data / "set", {"a/1.png": png(0)})
    samples = lab.load(entry(lab, 1), space=lab.space(ABCD))
    assert samples.digests == (hashlib.sha256(png(0)).digest(),)
    fill(lab.data / "set", {"a/1.png": png(1)})

    with pytest.raises(CellError) as caught:
        samples.pixels([0])
    assert caught.value.kind == "hash-mismatch"


def test_a_file_that_vanishes_under_way_is_named(lab: Any, png: Encode) -> None:
    fill(lab.data / "set", {"a/1.png": png(0)})
    samples = lab.load(entry(lab, 1), space=lab.space(ABCD))
    (lab.data / "set" / "a" / "1.png").unlink()

    with pytest.raises(CellError, match=r"a/1\.png: cannot be read: No such file"):
        samples.pixels([0])


def test_a_pipe_among_the_images_is_refused_not_waited_for(lab: Any) -> None:
    (lab.data / "set" / "a").mkdir(parents=True)
    os.mkfifo(lab.data / "set" / "a" / "1.png")

    assert "a/1.png: expected a regular file" in refusal(lab, entry(lab, 1), "decode")
