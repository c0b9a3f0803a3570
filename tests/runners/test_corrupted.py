"""Stored corrupted sets: the right rows, the same samples as the clean set, and nothing held in memory."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from robustboard.errors import CellError, LockError, UserError
from robustboard.registry.entries import DatasetEntry, LockedEntry
from robustboard.registry.lock import Lock
from robustboard.registry.resolve import Resolver
from robustboard.runners.corrupted import absent_parts, load_corrupted
from robustboard.runners.samples import Samples
from robustboard.runners.sources.places import find_data
from robustboard.workspace import Workspace
from tests.runners.sources.lab import DIGITS, Lab, as_npz, encode

Bytes = npt.NDArray[np.uint8]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(Workspace(tmp_path, tmp_path))


def entry(source: dict[str, Any], size: int, **fields: Any) -> DatasetEntry:
    more = {"id": "tiny-c", "role": "corrupted", "matched_clean": "tiny", **fields}
    return Lab.entry(source, size, **more)


def stacked(lab: Lab, images: Bytes, labels: Any, name: str = "fog") -> dict[str, Any]:
    """A folder laid out like CIFAR-10-C."""
    folder = lab.data / "tiny-c"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", images)
    np.save(folder / "labels.npy", np.asarray(labels))
    return {
        "kind": "corrupted-arrays",
        "path": "tiny-c",
        "layout": "stacked",
        "corruptions": ("fog",),
        "severities": 5,
    }


def clean(lab: Lab, labels: Any, **fields: Any) -> Samples:
    """A clean set of black images with these labels."""
    images = np.zeros((len(labels), 4, 4), np.uint8)
    made = lab.entry(
        as_npz(lab.workspace.output, images, labels), len(labels), native_size=4, channels=1, **fields
    )
    return lab.load(made, space=lab.digits())


def load(lab: Lab, made: DatasetEntry, beside: Samples, severity: int = 3, **options: Any) -> Samples:
    return load_corrupted(
        made,
        options.pop("space", lab.digits()),
        clean=beside,
        corruption=options.pop("corruption", "fog"),
        severity=severity,
        workspace=lab.workspace,
        lock=options.pop("lock", {}),
        input=options.pop("spec", lab.input(4, channels=1)),
    )


def severe(count: int = 10) -> Bytes:
    """B018's array: the pixel value is ten times the severity."""
    return np.repeat(np.arange(10, 60, 10, dtype=np.uint8), count)[:, None, None] * np.ones(
        (1, 4, 4), np.uint8
    )


@pytest.mark.parametrize("repeats", [1, 5])
def test_a_severity_is_its_rows_and_no_others(lab: Lab, repeats: int) -> None:
    """B018: severity 3 is rows 20 to 29 of 50, with the ten labels once or repeated in the file."""
    labels = np.arange(10)
    made = entry(stacked(lab, severe(), np.tile(labels, repeats)), 10, native_size=4, channels=1)
    beside = clean(lab, labels)
    for severity in range(1, 6):
        found = load(lab, made, beside, severity)
        assert np.array_equal(
            found.pixels(range(10)), np.full((10, 1, 4, 4), np.float32(10 * severity) / 255)
        )
        assert (found.ids, found.labels.tolist()) == (beside.ids, labels.tolist())
    assert found.fingerprint != beside.fingerprint


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_a_severity_that_is_not_there_is_refused(lab: Lab, severity: int) -> None:
    """B018: 0 and 6 are refused."""
    made = entry(stacked(lab, severe(), range(10)), 10, native_size=4, channels=1)
    with pytest.raises(UserError, match=f"expected a severity from 1 to 5, got {severity}"):
        load(lab, made, clean(lab, range(10)), severity)
    with pytest.raises(UserError, match="did you mean"):
        load(lab, made, clean(lab, range(10)), corruption="fogg")


def test_labels_of_a_wrong_number_are_refused_with_both_lengths(lab: Lab) -> None:
    """B018: 49 labels for 50 images."""
    made = entry(stacked(lab, severe(), np.arange(49) % 10), 10, native_size=4, channels=1)
    with pytest.raises(CellError, match=r"tiny-c, fog 3: .*expected labels \(10,\) or \(50,\), got \(49,\)"):
        load(lab, made, clean(lab, range(10)))


def test_images_of_the_train_set_or_of_fewer_severities_are_refused(lab: Lab) -> None:
    made = entry(stacked(lab, severe(8), range(10)), 10, native_size=4, channels=1)
    with pytest.raises(CellError, match="expected 10 images as the entry's size says, got 8"):
        load(lab, made, clean(lab, range(10)))


def test_the_first_sample_that_differs_from_the_clean_set_is_named(lab: Lab) -> None:
    labels = [0, 1, 2, 3, 4, 5, 6, 7, 9, 8]
    made = entry(stacked(lab, severe(), labels), 10, native_size=4, channels=1)
    with pytest.raises(CellError, match="'00008' is of class '9' here, but of '8' in the clean set tiny"):
        load(lab, made, clean(lab, range(10)))
    with pytest.raises(CellError, match="10 images here, but 9 in the clean set tiny"):
        load(lab, made, clean(lab, labels[:9]))


def test_folders_of_files_are_matched_by_path_and_not_resized(lab: Lab) -> None:
    """B026, specs 5.4: a file of the input's size is used pixel by pixel, without resize and crop."""
    framed = np.zeros((16, 16, 3), np.uint8)
    framed[0], framed[-1], framed[:, 0], framed[:, -1] = [[255, 0, 0]] * 4
    names = ["cat/2.png", "dog/1.png", "owl/3.png"]
    for name in names:
        for place, image in (("val", framed * 0), ("set-c/snow/2", framed)):
            path = lab.data / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(image))
    beside = lab.load(lab.entry({"kind": "folder", "path": "val"}, 3))
    source = {"kind": "corrupted-folders", "path": "set-c", "corruptions": ("snow", "frost"), "severities": 2}
    made = entry(source, 3, preprocessing="crop-only")
    usual = {"crop": "7/8", "interpolation": "bicubic"}
    options: dict[str, Any] = {"space": lab.space(), "corruption": "snow"}
    found = load(lab, made, beside, 2, spec=lab.input(16, **usual), **options)
    assert found.ids == tuple(names)
    assert found.ids is beside.ids, "75 conditions share one list of 50,000 names"
    assert np.array_equal(found.pixels([1])[0], framed.transpose(2, 0, 1) / np.float32(255))
    assert "as stored" in found.facts["preprocessing"] or "passes unchanged" in found.facts["preprocessing"]
    larger = load(lab, made, beside, 2, spec=lab.input(24, **usual), **options)
    wanted = np.asarray(Image.fromarray(framed).resize((24, 24), Image.Resampling.BICUBIC))
    assert np.array_equal(larger.pixels([0])[0], wanted.transpose(2, 0, 1) / np.float32(255))
    assert absent_parts(made, lab.workspace) == (("snow", 1), ("frost", 1), ("frost", 2))
    (lab.data / "set-c/snow/2/dog/1.png").rename(lab.data / "set-c/snow/2/dog/7.png")
    with pytest.raises(
        CellError, match=r"image 1 is 'dog/7.png' here, but 'dog/1.png' in the clean set tiny"
    ):
        load(lab, made, beside, 2, **options)
    assert found.facts["source"] == "folder set-c/snow/2"


def test_arrays_in_folders_have_one_severity(lab: Lab) -> None:
    """MNIST-C: one folder a corruption, with test_images.npy and test_labels.npy."""
    folder = lab.data / "mnist_c" / "zigzag"
    folder.mkdir(parents=True)
    np.save(folder / "test_images.npy", severe()[:10, :, :, None])
    np.save(folder / "test_labels.npy", np.arange(10))
    source = {
        "kind": "corrupted-arrays",
        "path": "mnist_c",
        "layout": "folders",
        "corruptions": ("zigzag", "stripe"),
    }
    made = entry(source, 10, native_size=4, channels=1)
    found = load(lab, made, clean(lab, range(10)), 1, corruption="zigzag")
    assert found.pixels([4]).tolist() == np.full((1, 1, 4, 4), np.float32(10) / 255).tolist()
    assert absent_parts(made, lab.workspace) == (("stripe", 1),)
    with pytest.raises(CellError, match=r"stripe/test_images.npy is in none of") as caught:
        load(lab, made, clean(lab, range(10)), 1, corruption="stripe")
    assert caught.value.kind == "missing"


def test_each_part_has_its_own_line_in_the_lock(lab: Lab) -> None:
    """One changed file is refused where it is read, and nowhere else."""
    source = stacked(lab, severe(), range(10))
    made = entry({**source, "corruptions": ("fog", "snow")}, 10, native_size=4, channels=1)
    np.save(lab.data / "tiny-c" / "snow.npy", severe()[::-1])
    locked = Resolver(lambda path: find_data(path, lab.workspace)).resolve(made)
    assert isinstance(locked, LockedEntry)
    held = hashlib.sha256((lab.data / "tiny-c" / "snow.npy").read_bytes()).hexdigest()
    assert {file.path: file.sha256 for file in locked.files}["tiny-c/snow.npy"] == held
    lock = Lock({"dataset/tiny-c": locked})
    np.save(lab.data / "tiny-c" / "snow.npy", severe() + 1)
    assert len(load(lab, made, clean(lab, range(10)), lock=lock).ids) == 10
    with pytest.raises(CellError, match=r"tiny-c/snow.npy: expected .* as in registry/lock.yaml") as caught:
        load(lab, made, clean(lab, range(10)), lock=lock, corruption="snow")
    assert caught.value.kind == "hash-mismatch"
    (lab.data / "tiny-c" / "fog.npy").unlink()
    with pytest.raises(LockError, match=r"tiny-c/fog.npy is in none of"):
        Resolver(lambda path: find_data(path, lab.workspace)).resolve(made)


def test_an_image_that_changes_after_loading_is_noticed(lab: Lab) -> None:
    source = stacked(lab, severe(), range(10))
    made = entry(source, 10, native_size=4, channels=1)
    found = load(lab, made, clean(lab, range(10)))
    images = severe()
    images[24] += 1
    np.save(lab.data / "tiny-c" / "fog.npy", images)
    assert found.pixels([3, 5]).shape == (2, 1, 4, 4)
    with pytest.raises(CellError, match=r"fog.npy: row 24 changed"):
        found.pixels([3, 4])


class Trap:
    """Unpickling it would write a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("trapped"),))


@pytest.mark.parametrize("kind", ["objects", "floats", "columns", "short", "long", "text", "huge"])
def test_hostile_and_damaged_arrays_are_refused(
    lab: Lab, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No pickle is read, no header is believed, and the reason is one line."""
    monkeypatch.chdir(tmp_path)
    made = entry(stacked(lab, severe(), range(10)), 10, native_size=4, channels=1)
    path = lab.data / "tiny-c" / "fog.npy"
    if kind == "objects":
        np.save(path, np.array([Trap()], object), allow_pickle=True)
    elif kind == "floats":
        np.save(path, severe() / 255)
    elif kind == "columns":
        np.save(path, np.asfortranarray(severe()))
    elif kind == "text":
        path.write_bytes(b"<html>not here</html>")
    else:
        data = path.read_bytes()
        changed = {"short": data[:-1], "long": data + b"x", "huge": data.replace(b"(50,", b"(5" + b"0" * 14)}
        path.write_bytes(changed[kind])
    with pytest.raises(CellError, match=r"tiny-c, fog 3: tiny-c/fog.npy: ") as caught:
        load(lab, made, clean(lab, range(10)))
    assert caught.value.kind == "decode"
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "trapped").exists()


def test_memory_does_not_grow_with_the_number_of_images(lab: Lab) -> None:
    """A severity of 4 MB is read in pieces: never more than a fraction of it is held."""
    count, side = 1000, 64
    images = np.zeros((count * 2, side, side), np.uint8)
    images[:, 0, 0] = np.arange(count * 2) % 251
    source = {**stacked(lab, images, np.arange(count) % 10), "severities": 2}
    made = entry(source, count, native_size=side, channels=1)
    zeros = np.zeros((count, side, side), np.uint8)
    plain = lab.entry(
        as_npz(lab.workspace.output, zeros, np.arange(count) % 10), count, native_size=side, channels=1
    )
    beside = lab.load(plain, space=lab.space(DIGITS))
    tracemalloc.start()
    found = load(lab, made, beside, 2)
    seen = [int(found.pixels([row])[0, 0, 0, 0] * 255 + 0.5) for row in range(0, count, 50)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen == [(count + row) % 251 for row in range(0, count, 50)]
    assert peak < images.nbytes / 4
