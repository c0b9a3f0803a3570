from __future__ import annotations

import hashlib
import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.errors import CellError, UserError
from robustboard.registry.entries import DatasetEntry
from robustboard.runners.record import Subset
from robustboard.runners.samples import Samples, choose_subset, duplicates
from robustboard.workspace import Workspace
from tests.runners.sources.lab import Lab, as_folder, as_idx, as_npz, as_parquet, encode, noise


def load(
    folder: Path, wanted: DatasetEntry, *, size: int = 8, skip_damaged: bool = False, **spec: Any
) -> Samples:
    lab = Lab(Workspace(folder, folder))
    return lab.load(wanted, space=lab.digits(), spec=lab.input(size, **spec), skip_damaged=skip_damaged)


def small_set(folder: Path, count: int = 10, **fields: Any) -> Samples:
    source = as_npz(folder, noise(count), np.arange(count) % 10)
    return load(folder, Lab.entry(source, count, native_size=8, channels=1, **fields))


def test_the_same_images_have_the_same_fingerprint_whatever_file_they_lie_in(tmp_path: Path) -> None:
    """IDX, NPZ and Parquet of PNG files: equal ids, labels, pixels and fingerprint."""
    images, labels = noise(12), np.arange(12) % 10
    sources = [
        as_idx(tmp_path, images, labels),
        as_npz(tmp_path, images, labels),
        as_parquet(tmp_path, [encode(image) for image in images], labels, "grey.parquet"),
        as_parquet(
            tmp_path, [encode(np.dstack([image] * 3), "WEBP", lossless=True) for image in images], labels
        ),
    ]
    found = [load(tmp_path, Lab.entry(source, 12, native_size=8, channels=1)) for source in sources]

    assert len({samples.fingerprint for samples in found}) == 1
    for samples in found:
        assert np.array_equal(samples.pixels(range(12)), found[0].pixels(range(12)))
        assert samples.ids == found[0].ids


def test_content_that_changes_in_place_has_another_fingerprint(tmp_path: Path) -> None:
    """B016: two images of equal size swap labels in place, modification times restored."""
    source = as_folder(tmp_path, {f"{digit}/x.png": encode(image) for digit, image in enumerate(noise(10))})
    before = load(tmp_path, Lab.entry(source, 10))
    paths = [tmp_path / "data" / "set" / digit / "x.png" for digit in "34"]
    contents, times = [path.read_bytes() for path in paths], [path.stat() for path in paths]
    for path, data, time in zip(paths, reversed(contents), times, strict=True):
        path.write_bytes(data)
        os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))
    after = load(tmp_path, Lab.entry(source, 10))

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
        load(tmp_path, Lab.entry(source, 10, native_size=8, channels=1))


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
        load(tmp_path, Lab.entry(as_npz(tmp_path, *variant), 4, native_size=8, channels=1)).fingerprint
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
        load(folder, Lab.entry(as_npz(folder, array, range(6)), 6, native_size=8, channels=1))
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


def test_the_source_comes_first_and_then_the_mirrors_in_order(tmp_path: Path) -> None:
    images, labels = noise(5), range(5)
    source = as_npz(tmp_path, images, labels, "first.npz")
    mirrors = (as_npz(tmp_path, images, labels, "second.npz"), as_npz(tmp_path, images, labels, "third.npz"))
    wanted = Lab.entry(source, 5, native_size=8, channels=1, mirrors=mirrors)
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
    (tmp_path / "data" / "first.npz").write_bytes(b"something else")

    with pytest.raises(CellError, match=r"hash-mismatch: dataset tiny: first\.npz"):
        load(tmp_path, Lab.entry(source, 5, native_size=8, channels=1, mirrors=(mirror,)))


def test_when_all_places_are_empty_each_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTBOARD_DATA", raising=False)
    pin = {"sha256": "0" * 64}
    hub = {"kind": "hub", "repo": "org/tiny", "revision": "unresolved", "split": "test"}
    mirrors = (
        {**hub, "image_column": "image", "label_column": "label"},
        {"kind": "npz", "file": {"path": "b/x.npz", **pin}},
    )
    wanted = Lab.entry({"kind": "npz", "file": {"path": "a/x.npz", **pin}}, 5, native_size=8, mirrors=mirrors)
    with pytest.raises(CellError) as caught:
        load(tmp_path, wanted)

    assert caught.value.kind == "missing"
    for part in ("a/x.npz is in none of data", "mirror 1: no commit of org/tiny", "mirror 2: b/x.npz"):
        assert part in caught.value.reason


def test_duplicates_conflicts_and_overlaps_are_found(tmp_path: Path) -> None:
    """B017: rows 4, 5, 6 identical with labels 1, 1, 2; two test images also in the train split."""
    images = noise(10)
    images[5] = images[6] = images[4]
    labels = [0, 1, 2, 3, 1, 1, 2, 7, 8, 9]
    train = np.concatenate([noise(6, seed=1), images[[2, 8]]])
    test = load(tmp_path, Lab.entry(as_npz(tmp_path, images, labels), 10, native_size=8, channels=1))
    other = load(tmp_path, Lab.entry(as_npz(tmp_path, train, range(8)), 8, native_size=8, channels=1))
    found = duplicates(test, other)

    assert found.groups == (("00004", "00005", "00006"),)
    assert found.conflicts == found.groups
    assert found.overlaps == (("00002", "00006"), ("00008", "00007"))
    assert len(test.ids) == 10, "the default score still uses all rows"


def test_equal_labels_are_no_conflict(tmp_path: Path) -> None:
    images = noise(3)
    images[2] = images[0]
    found = duplicates(
        load(tmp_path, Lab.entry(as_npz(tmp_path, images, [1, 0, 1]), 3, native_size=8, channels=1))
    )

    assert (found.groups, found.conflicts, found.overlaps) == ((("00000", "00002"),), (), ())


def test_image_files_are_compared_by_bytes(tmp_path: Path) -> None:
    files = [encode(noise(1)[0]), encode(noise(1, seed=1)[0]), encode(noise(1)[0])]
    samples = load(tmp_path, Lab.entry(as_parquet(tmp_path, files, [0, 1, 2]), 3))

    assert duplicates(samples).conflicts == (("00000", "00002"),)
    with pytest.raises(UserError, match="one of each"):
        duplicates(samples, small_set(tmp_path))


def test_uci_digits_hold_the_duplicates_that_numpy_counts(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    pixels = load_digits().data
    source = {"kind": "sklearn-digits", "start": 0, "stop": 1797}
    samples = load(tmp_path, Lab.entry(source, 1797, native_size=8, channels=1))
    found = duplicates(samples, samples)

    assert sum(map(len, found.groups)) - len(found.groups) == 1797 - len(np.unique(pixels, axis=0))
    assert len(found.overlaps) == 1797


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
