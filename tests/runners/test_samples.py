from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from robustboard.errors import CellError, UserError
from robustboard.registry.entries import DatasetEntry, InputSpec, LabelSpace
from robustboard.runners.record import Subset
from robustboard.runners.samples import Samples, choose_subset, duplicates, load_samples
from robustboard.workspace import Workspace

DIGITS = {str(digit): str(digit) for digit in range(10)}
Grey = npt.NDArray[np.uint8]


def space() -> LabelSpace:
    return LabelSpace.model_validate({"id": "digits", "name": "Digits", "source": "x", "classes": DIGITS})


def entry(source: dict[str, Any], size: int, **fields: Any) -> DatasetEntry:
    return DatasetEntry.model_validate(
        {
            "id": "tiny",
            "name": "Tiny",
            "source": source,
            "label_space": "digits",
            "size": size,
            "license": "MIT",
            "display_allowed": True,
            "citation": "made up",
            "added": "2026-01-01",
            **fields,
        }
    )


def load(
    folder: Path, wanted: DatasetEntry, *, size: int = 8, skip_damaged: bool = False, **spec: Any
) -> Samples:
    return load_samples(
        wanted,
        space(),
        workspace=Workspace(folder, folder),
        lock={},
        input=InputSpec.model_validate({"size": size, "normalization": "inside", **spec}),
        skip_damaged=skip_damaged,
    )


def png(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def write(folder: Path, name: str, data: bytes) -> dict[str, str]:
    path = folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"path": name, "sha256": hashlib.sha256(data).hexdigest()}


def as_npz(folder: Path, images: Grey, labels: Any, name: str = "set.npz") -> dict[str, Any]:
    buffer = io.BytesIO()
    np.savez(buffer, images=images, labels=np.asarray(labels, np.int64))
    return {"kind": "npz", "file": write(folder, name, buffer.getvalue())}


def as_idx(folder: Path, images: Grey, labels: Any) -> dict[str, Any]:
    pins = {}
    for role, array in (("images", images), ("labels", np.asarray(labels, np.uint8))):
        plain = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
        pins[role] = write(folder, f"{role}.gz", gzip.compress(plain))
        pins[role]["sha256"] = hashlib.sha256(plain).hexdigest()
    return {"kind": "idx", **pins}


def as_parquet(folder: Path, files: list[bytes], labels: Any, name: str = "set.parquet") -> dict[str, Any]:
    buffer = io.BytesIO()
    table = pa.table(
        {"image": [{"bytes": data, "path": None} for data in files], "label": list(map(int, labels))}
    )
    pq.write_table(table, buffer)
    pin = write(folder, name, buffer.getvalue())
    return {"kind": "parquet", "files": (pin,), "image_column": "image", "label_column": "label"}


def as_folder(folder: Path, files: dict[str, bytes]) -> dict[str, Any]:
    for name, data in files.items():
        write(folder, f"set/{name}", data)
    return {"kind": "folder", "path": "set"}


def noise(count: int, seed: int = 0, size: int = 8) -> Grey:
    return np.random.default_rng(seed).integers(0, 256, (count, size, size), np.uint8)


def small_set(folder: Path, count: int = 10, **fields: Any) -> Samples:
    source = as_npz(folder, noise(count), np.arange(count) % 10)
    return load(folder, entry(source, count, native_size=8, channels=1, **fields))


# Content and fingerprint


def test_the_same_images_have_the_same_fingerprint_whatever_file_they_lie_in(tmp_path: Path) -> None:
    """IDX, NPZ and Parquet of PNG files: equal ids, labels, pixels and fingerprint."""
    images, labels = noise(12), np.arange(12) % 10
    sources = [
        as_idx(tmp_path, images, labels),
        as_npz(tmp_path, images, labels),
        as_parquet(tmp_path, [png(image) for image in images], labels, "grey.parquet"),
        as_parquet(
            tmp_path, [png(np.dstack([image] * 3), "WEBP", lossless=True) for image in images], labels
        ),
    ]
    found = [load(tmp_path, entry(source, 12, native_size=8, channels=1)) for source in sources]

    assert len({samples.fingerprint for samples in found}) == 1
    for samples in found:
        assert np.array_equal(samples.pixels(range(12)), found[0].pixels(range(12)))
        assert samples.ids == found[0].ids


def test_content_that_changes_in_place_has_another_fingerprint(tmp_path: Path) -> None:
    """B016: two images of equal size swap labels in place, modification times restored."""
    source = as_folder(tmp_path, {f"{digit}/x.png": png(image) for digit, image in enumerate(noise(10))})
    before = load(tmp_path, entry(source, 10))
    paths = [tmp_path / "data" / "set" / digit / "x.png" for digit in "34"]
    contents, times = [path.read_bytes() for path in paths], [path.stat() for path in paths]
    for path, data, time in zip(paths, reversed(contents), times, strict=True):
        path.write_bytes(data)
        os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))
    after = load(tmp_path, entry(source, 10))

    assert after.ids == before.ids
    assert after.fingerprint != before.fingerprint


def test_pinned_content_that_changes_in_place_is_refused(tmp_path: Path) -> None:
    """B016: one label of an archive flipped, same size, modification time restored."""
    source = as_npz(tmp_path, noise(10), range(10))
    path = tmp_path / "data" / "set.npz"
    data, times = bytearray(path.read_bytes()), path.stat()
    data[data.rindex(struct.pack("<q", 9))] = 8
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    with pytest.raises(CellError, match="hash-mismatch"):
        load(tmp_path, entry(source, 10, native_size=8, channels=1))


def test_labels_ids_and_order_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    images, labels = noise(4), np.array([0, 1, 2, 3])
    swapped = [1, 0, 2, 3]
    variants = [
        (images, labels),
        (images, labels[swapped]),
        (images[swapped], labels),
        (images[swapped], labels[swapped]),
        (images ^ np.uint8(1), labels),
    ]
    found = {
        load(tmp_path, entry(as_npz(tmp_path, *variant), 4, native_size=8, channels=1)).fingerprint
        for variant in variants
    }

    assert len(found) == 5


@given(seed=st.integers(0, 50), row=st.integers(0, 5), place=st.integers(0, 63), bit=st.integers(0, 7))
@settings(max_examples=20, deadline=None)
def test_one_flipped_bit_changes_the_fingerprint(
    tmp_path_factory: pytest.TempPathFactory, seed: int, row: int, place: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("bits")
    images = noise(6, seed)
    changed = images.copy()
    changed[row].reshape(-1)[place] ^= np.uint8(1 << bit)
    first, second = (
        load(folder, entry(as_npz(folder, array, range(6)), 6, native_size=8, channels=1))
        for array in (images, changed)
    )

    assert first.fingerprint != second.fingerprint


def test_selection_keeps_order_and_has_its_own_fingerprint(tmp_path: Path) -> None:
    samples = small_set(tmp_path)
    part = samples.select([7, 2, 5])

    assert part.ids == ("00007", "00002", "00005")
    assert part.labels.tolist() == [7, 2, 5]
    assert np.array_equal(part.pixels([1, 0]), samples.pixels([2, 7]))
    assert part.select([2, 0]).ids == ("00005", "00007")
    assert len({samples.fingerprint, part.fingerprint, samples.select([2, 5, 7]).fingerprint}) == 3
    assert samples.select(range(10)).fingerprint == samples.fingerprint


def test_pixels_are_floats_in_the_unit_range_that_nobody_shares(tmp_path: Path) -> None:
    samples = small_set(tmp_path)
    first = samples.pixels([0, 1])
    first[:] = 7

    assert first.dtype == np.float32
    assert first.flags.c_contiguous
    assert samples.pixels([0, 1]).max() <= 1
    assert samples.pixels([]).shape == (0, 1, 8, 8)
    with pytest.raises(ValueError, match="read-only"):
        samples.labels[0] = 3


# Preprocessing


def bordered() -> Grey:
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    pixels[[0, -1], :] = pixels[:, [0, -1]] = (255, 0, 0)
    return pixels


def test_ready_made_images_are_neither_resized_nor_cropped(tmp_path: Path) -> None:
    """B026: native_size 224 under a model that crops 7/8 of 256: pixels / 255, border present."""
    source = as_folder(tmp_path, {"0/x.png": png(bordered())})
    samples = load(tmp_path, entry(source, 1, native_size=224), size=224, crop="7/8", interpolation="bicubic")

    assert np.array_equal(samples.pixels([0])[0], bordered().transpose(2, 0, 1).astype(np.float32) / 255)
    assert "as stored, 224 x 224" in samples.facts["preprocessing"]


def test_images_of_the_model_size_with_nothing_to_crop_are_unchanged(tmp_path: Path) -> None:
    """B026: no native_size, crop 1 and size 224."""
    source = as_folder(tmp_path, {"0/x.png": png(bordered())})
    samples = load(tmp_path, entry(source, 1), size=224)

    assert np.array_equal(samples.pixels([0])[0], bordered().transpose(2, 0, 1).astype(np.float32) / 255)
    assert "passes unchanged" in samples.facts["preprocessing"]


def test_images_of_various_sizes_get_the_models_resize_and_crop(tmp_path: Path) -> None:
    """The same pixels as torchvision's Resize and CenterCrop, on real photographs."""
    transforms = pytest.importorskip("torchvision.transforms")
    pytest.importorskip("foolbox")
    pictures = [
        path.read_bytes()
        for path in sorted(resources.files("foolbox").joinpath("data").iterdir(), key=lambda path: path.name)
        if path.name.startswith(("imagenet_0", "imagenet_1"))
    ]
    source = as_parquet(tmp_path, pictures, [0] * 20)
    samples = load(tmp_path, entry(source, 20), size=96, crop="7/8", interpolation="bicubic")
    steps = [transforms.Resize(109, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(96)]
    theirs = transforms.Compose([*steps, transforms.ToTensor()])
    expected = np.stack([theirs(Image.open(io.BytesIO(data)).convert("RGB")).numpy() for data in pictures])

    assert samples.shape == (3, 96, 96)
    assert np.array_equal(samples.pixels(range(20)), expected)
    assert "shorter side to 109 (bicubic), centre 96 x 96" in samples.facts["preprocessing"]


def test_real_cifar_pictures_come_back_bit_for_bit(tmp_path: Path) -> None:
    """The first 20 CIFAR-10 test images (foolbox), as Parquet and as class folders."""
    pytest.importorskip("foolbox")
    pictures = {
        path.name: path.read_bytes()
        for path in sorted(resources.files("foolbox").joinpath("data").iterdir(), key=lambda path: path.name)
        if path.name.startswith("cifar10_")
    }
    labels = [int(name.removesuffix(".png").rsplit("_", 1)[1]) for name in pictures]
    expected = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in pictures.values()])
    rows = load(tmp_path, entry(as_parquet(tmp_path, list(pictures.values()), labels), 20, native_size=32))
    files = {f"{label}/{name}": data for label, (name, data) in zip(labels, pictures.items(), strict=True)}
    folders = load(tmp_path, entry(as_folder(tmp_path, files), 20, native_size=32))

    assert rows.labels.tolist() == labels
    assert np.array_equal(rows.pixels(range(20)), expected.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    assert sorted(folders.digests) == sorted(rows.digests)
    assert dict(zip(folders.ids, folders.labels.tolist(), strict=True)) == {
        name: int(name.split("/")[0]) for name in files
    }


def test_number_of_threads_and_batches_never_changes_a_pixel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [png(image) for image in noise(30, size=21)]
    samples = load(tmp_path, entry(as_parquet(tmp_path, files, [0] * 30), 30))
    expected = samples.pixels(range(30))

    for workers, chunk in ((1, 1), (1, 7), (8, 3), (8, 64)):
        monkeypatch.setattr("robustboard.runners.sources.pixels.MAX_WORKERS", workers)
        monkeypatch.setattr("robustboard.runners.sources.pixels.CHUNK", chunk)
        assert np.array_equal(samples.pixels(range(30)), expected)
        assert np.array_equal(np.concatenate([samples.pixels([row]) for row in range(30)]), expected)


def test_a_wrong_size_in_a_fixed_size_set_is_named_even_when_skipping(tmp_path: Path) -> None:
    """It is no damage: the entry or the file is wrong."""
    files = [png(image) for image in noise(3)]
    files[1] = png(noise(1, size=9)[0])
    wanted = entry(as_parquet(tmp_path, files, [0] * 3), 3, native_size=8)

    for skip in (False, True):
        with pytest.raises(CellError, match="row 1: expected 8 x 8 pixels as the entry's native_size says"):
            load(tmp_path, wanted, skip_damaged=skip)


@pytest.mark.parametrize(("stored", "declared"), [(1, 1), (1, 3), (3, 3)])
def test_channels_delivered_equal_channels_declared(tmp_path: Path, stored: int, declared: int) -> None:
    """B025: grey is repeated for three channels and this is recorded."""
    images = np.repeat(noise(2)[..., None], stored, axis=3)
    samples = load(tmp_path, entry(as_npz(tmp_path, images, [0, 1]), 2, native_size=8, channels=declared))

    assert samples.pixels([0, 1]).shape == (2, *samples.shape)
    assert samples.shape == (declared, 8, 8)
    assert ("repeated" in samples.facts["channels"]) == (stored < declared)


def test_colours_in_a_grey_set_are_refused_with_the_row(tmp_path: Path) -> None:
    """B025: three equal channels become one; colours are never averaged away."""
    images = np.repeat(noise(3)[..., None], 3, axis=3)
    grey = load(tmp_path, entry(as_npz(tmp_path, images, [0, 1, 2]), 3, native_size=8, channels=1))
    assert np.array_equal(grey.pixels(range(3))[:, 0], noise(3).astype(np.float32) / 255)
    images[2, 0, 0, 1] ^= 1

    with pytest.raises(CellError, match="row 2: expected a grey image"):
        load(tmp_path, entry(as_npz(tmp_path, images, [0, 1, 2]), 3, native_size=8, channels=1))


# Damage


@pytest.fixture(params=[None, 8], ids=["any size", "fixed size"])
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> DatasetEntry:
    """B008: ten images, number 7 cut to half its bytes."""
    files = [png(image) for image in noise(10)]
    files[7] = files[7][: len(files[7]) // 2]
    return entry(as_parquet(tmp_path, files, range(10)), 10, native_size=request.param)


def test_a_damaged_image_stops_by_default(tmp_path: Path, damaged: DatasetEntry) -> None:
    """B008 (a): the row is named."""
    with pytest.raises(CellError, match="row 7: damaged image") as caught:
        load(tmp_path, damaged).pixels(range(10))

    assert caught.value.kind == "decode"


def test_a_damaged_image_is_left_out_when_asked_and_never_replaced(
    tmp_path: Path, damaged: DatasetEntry
) -> None:
    """B008 (b): nine images and one skipped; no neighbour twice."""
    samples = load(tmp_path, damaged, skip_damaged=True)
    kept = [row for row in range(10) if row != 7]

    assert samples.skipped == ("00007",)
    assert samples.ids == tuple(f"{row:05d}" for row in kept)
    assert samples.labels.tolist() == kept
    assert np.array_equal(samples.pixels(range(9))[:, 0], noise(10)[kept].astype(np.float32) / 255)
    assert samples.facts["damaged images"] == "left out and listed"


def test_bombs_and_animations_count_as_damaged(tmp_path: Path) -> None:
    frames = [Image.fromarray(image) for image in noise(2)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:])
    bomb = bytearray(png(noise(1)[0]))
    bomb[16:24] = struct.pack(">II", 60_000, 60_000)
    files = [png(noise(1)[0]), buffer.getvalue(), bytes(bomb), b""]
    samples = load(tmp_path, entry(as_parquet(tmp_path, files, range(4)), 4), skip_damaged=True)

    assert samples.ids == ("00000",)
    assert samples.skipped == ("00001", "00002", "00003")


def test_a_set_without_one_good_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CellError, match="no image can be decoded; the first: row 0"):
        load(tmp_path, entry(as_parquet(tmp_path, [b"", b"x"], [0, 1]), 2), skip_damaged=True)


def test_a_pillow_that_fills_in_damage_stops_everything(
    tmp_path: Path, damaged: DatasetEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when damaged images may be skipped: they would not look damaged."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)

    for skip in (False, True):
        with pytest.raises(CellError, match="LOAD_TRUNCATED_IMAGES"):
            load(tmp_path, damaged, skip_damaged=skip).pixels([0])


def test_policies_are_recorded(tmp_path: Path) -> None:
    """B005, B006, B008: what is done about rotation, alpha and damage stands in the record."""
    facts = load(tmp_path, entry(as_parquet(tmp_path, [png(noise(1)[0])], [0]), 1)).facts

    assert "EXIF rotation applied" in facts["orientation"]
    assert facts["alpha"] == "composited on black"
    assert facts["damaged images"] == "an error"
    assert facts["channels"] == "3, grey files repeated"
    assert facts["source"] == "Parquet set.parquet"


# Mirrors


def test_the_source_comes_first_and_then_the_mirrors_in_order(tmp_path: Path) -> None:
    images, labels = noise(5), range(5)
    source = as_npz(tmp_path, images, labels, "first.npz")
    mirrors = (as_npz(tmp_path, images, labels, "second.npz"), as_npz(tmp_path, images, labels, "third.npz"))
    wanted = entry(source, 5, native_size=8, channels=1, mirrors=mirrors)
    found = [load(tmp_path, wanted)]
    for name in ("first", "second"):
        (tmp_path / "data" / f"{name}.npz").unlink()
        found.append(load(tmp_path, wanted))

    assert [samples.facts["source"] for samples in found] == [
        "NumPy archive first.npz",
        "mirror 1: NumPy archive second.npz",
        "mirror 2: NumPy archive third.npz",
    ]
    assert len({samples.fingerprint for samples in found}) == 1


def test_a_damaged_source_is_not_covered_up_by_a_mirror(tmp_path: Path) -> None:
    source = as_npz(tmp_path, noise(5), range(5), "first.npz")
    mirror = as_npz(tmp_path, noise(5), range(5), "second.npz")
    write(tmp_path, "first.npz", b"something else")

    with pytest.raises(CellError, match=r"hash-mismatch: dataset tiny: first\.npz"):
        load(tmp_path, entry(source, 5, native_size=8, channels=1, mirrors=(mirror,)))


def test_when_all_places_are_empty_each_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTBOARD_DATA", raising=False)
    pin = {"sha256": "0" * 64}
    hub = {"kind": "hub", "repo": "org/tiny", "revision": "unresolved", "split": "test"}
    mirrors = (
        {**hub, "image_column": "image", "label_column": "label"},
        {"kind": "npz", "file": {"path": "b/x.npz", **pin}},
    )
    wanted = entry({"kind": "npz", "file": {"path": "a/x.npz", **pin}}, 5, native_size=8, mirrors=mirrors)
    with pytest.raises(CellError) as caught:
        load(tmp_path, wanted)

    assert caught.value.kind == "missing"
    for part in ("a/x.npz is in none of data", "mirror 1: no commit of org/tiny", "mirror 2: b/x.npz"):
        assert part in caught.value.reason


# Duplicates


def test_duplicates_conflicts_and_overlaps_are_found(tmp_path: Path) -> None:
    """B017: rows 4, 5, 6 identical with labels 1, 1, 2; two test images also in the train split."""
    images = noise(10)
    images[5] = images[6] = images[4]
    labels = [0, 1, 2, 3, 1, 1, 2, 7, 8, 9]
    train = np.concatenate([noise(6, seed=1), images[[2, 8]]])
    test = load(tmp_path, entry(as_npz(tmp_path, images, labels), 10, native_size=8, channels=1))
    other = load(tmp_path, entry(as_npz(tmp_path, train, range(8)), 8, native_size=8, channels=1))
    found = duplicates(test, other)

    assert found.groups == (("00004", "00005", "00006"),)
    assert found.conflicts == found.groups
    assert found.overlaps == (("00002", "00006"), ("00008", "00007"))
    assert len(test.ids) == 10, "the default score still uses all rows"


def test_equal_labels_are_no_conflict(tmp_path: Path) -> None:
    images = noise(3)
    images[2] = images[0]
    found = duplicates(
        load(tmp_path, entry(as_npz(tmp_path, images, [1, 0, 1]), 3, native_size=8, channels=1))
    )

    assert (found.groups, found.conflicts, found.overlaps) == ((("00000", "00002"),), (), ())


def test_image_files_are_compared_by_bytes(tmp_path: Path) -> None:
    files = [png(noise(1)[0]), png(noise(1, seed=1)[0]), png(noise(1)[0])]
    samples = load(tmp_path, entry(as_parquet(tmp_path, files, [0, 1, 2]), 3))

    assert duplicates(samples).conflicts == (("00000", "00002"),)
    with pytest.raises(UserError, match="one of each"):
        duplicates(samples, small_set(tmp_path))


def test_uci_digits_hold_the_duplicates_that_numpy_counts(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    pixels = load_digits().data
    source = {"kind": "sklearn-digits", "start": 0, "stop": 1797}
    samples = load(tmp_path, entry(source, 1797, native_size=8, channels=1))
    found = duplicates(samples, samples)

    assert sum(map(len, found.groups)) - len(found.groups) == 1797 - len(np.unique(pixels, axis=0))
    assert len(found.overlaps) == 1797


# Subsets


def test_a_limit_spreads_over_classes_and_seed_zero_is_a_seed() -> None:
    """B014: 100 images sorted by class, limit 10."""
    labels = np.repeat(np.arange(10), 10)
    first, again, other = (choose_subset(labels, Subset(count=10, seed=seed)) for seed in (0, 0, 1))

    assert first == again
    assert first != list(range(10))
    assert first != other
    assert sorted(labels[first].tolist()) == list(range(10))
    assert choose_subset(labels, Subset(count=1000, seed=0)) == list(range(100))


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    share=st.floats(0.01, 1.2),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=80)
def test_each_class_gets_its_share_give_or_take_one(labels: list[int], share: float, seed: int) -> None:
    count = max(1, round(share * len(labels)))
    chosen = choose_subset(np.asarray(labels), Subset(count=count, seed=seed))

    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(count, len(labels))
    assert 0 <= chosen[0] <= chosen[-1] < len(labels)
    for label in set(labels):
        wanted = len(chosen) * labels.count(label) / len(labels)
        assert abs(sum(labels[row] == label for row in chosen) - wanted) < 1 + 1e-9


def test_every_row_has_the_same_chance() -> None:
    """3 of 12 rows, three classes of unequal size: over 3,000 seeds each row is drawn 750 times (sd 24)."""
    labels = np.array([0] * 7 + [1] * 4 + [2])
    drawn = np.zeros(12)
    for seed in range(3000):
        drawn[choose_subset(labels, Subset(count=3, seed=seed))] += 1

    assert np.abs(drawn - 750).max() < 5 * 24


def test_a_subset_is_the_same_on_every_machine() -> None:
    """Worked out by hand from the rule: SHA-256 sort keys, systematic sample."""

    def key(purpose: str, number: int) -> bytes:
        return hashlib.sha256(f"robustboard.subset/1 5 {purpose} {number}".encode()).digest()

    labels = [0, 1, 0, 1, 0, 1, 1]
    classes = sorted({0, 1}, key=lambda label: key("class", label))
    queue = [
        row
        for label in classes
        for row in sorted(range(7), key=lambda row: key("row", row))
        if labels[row] == label
    ]
    start = int.from_bytes(key("start", 0)[:8], "big") % 7
    expected = sorted(queue[int((start + number * 7) / 3)] for number in range(3))

    assert choose_subset(np.asarray(labels), Subset(count=3, seed=5)) == expected


def test_reading_samples_needs_no_torch() -> None:
    """Plans and checks must not wait for it."""
    import subprocess

    code = "import sys, robustboard.runners.samples; print({'torch', 'datasets'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "set()"
