from __future__ import annotations

import gzip
import hashlib
import re
import struct
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry, LockedEntry, LockedFile

FASHION = Path("/usr/share/datasets/fashion-mnist")
GARMENTS = {str(number): f"garment {number}" for number in range(10)}
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 8, 8), np.uint8)
LABELS = np.array([0, 3, 1, 2, 2, 0], np.uint8)


def idx(array: npt.NDArray[np.uint8], kind: int = 8) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.tobytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry(lab: Any, images: bytes, labels: bytes, size: int = 6, **fields: Any) -> DatasetEntry:
    source = {
        "kind": "idx",
        "images": {"path": "set/images.gz", "sha256": sha256(images)},
        "labels": {"path": "set/labels.gz", "sha256": sha256(labels)},
    }
    made: DatasetEntry = lab.entry(source, size, **{"native_size": 8, "channels": 1, **fields})
    return made


def put(lab: Any, images: bytes, labels: bytes) -> None:
    (lab.data / "set").mkdir(exist_ok=True)
    (lab.data / "set" / "images.gz").write_bytes(images)
    (lab.data / "set" / "labels.gz").write_bytes(labels)


def refusal(lab: Any, wanted: DatasetEntry, kind: str, locked: LockedEntry | None = None) -> str:
    with pytest.raises(CellError) as caught:
        lab.load(wanted, locked=locked)
    assert caught.value.kind == kind, caught.value.reason
    return caught.value.reason


def test_gzip_files_give_the_written_pixels(lab: Any) -> None:
    put(lab, gzip.compress(idx(IMAGES)), gzip.compress(idx(LABELS)))
    samples = lab.load(entry(lab, idx(IMAGES), idx(LABELS)))

    assert samples.ids == ("00000", "00001", "00002", "00003", "00004", "00005")
    assert samples.labels.tolist() == LABELS.tolist()
    assert samples.shape == (1, 8, 8)
    assert np.array_equal(samples.pixels([4, 1]), IMAGES[[4, 1], None].astype(np.float32) / 255)


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_plain_files_are_the_same_set(lab: Any, suffix: str) -> None:
    """Hashes are of the decompressed bytes; NAME without .gz is taken where NAME.gz is absent."""
    wanted = entry(lab, idx(IMAGES), idx(LABELS))
    put(lab, gzip.compress(idx(IMAGES), 1), gzip.compress(idx(LABELS), 9))
    zipped = lab.load(wanted)
    put(lab, idx(IMAGES), idx(LABELS))
    for path in (lab.data / "set").iterdir():
        path.rename(path.with_suffix(suffix))

    assert lab.load(wanted).fingerprint == zipped.fingerprint


def test_one_changed_pixel_is_refused_with_the_file_named(lab: Any) -> None:
    changed = IMAGES.copy()
    changed[3, 4, 5] ^= 1
    put(lab, gzip.compress(idx(changed)), gzip.compress(idx(LABELS)))

    reason = refusal(lab, entry(lab, idx(IMAGES), idx(LABELS)), "hash-mismatch")
    assert "set/images.gz" in reason
    assert sha256(idx(IMAGES)) in reason
    assert sha256(idx(changed)) in reason


def test_the_lock_counts_too(lab: Any) -> None:
    put(lab, idx(IMAGES), idx(LABELS))
    wanted = entry(lab, idx(IMAGES), idx(LABELS))
    sizes = (len(idx(IMAGES)), len(idx(IMAGES)) + 1)
    right, wrong = (
        LockedEntry(files=(LockedFile(path="set/images.gz", size=size, sha256=sha256(idx(IMAGES))),))
        for size in sizes
    )

    assert len(lab.load(wanted, locked=right).ids) == 6
    assert "registry/lock.yaml" in refusal(lab, wanted, "hash-mismatch", wrong)


@pytest.mark.parametrize(
    ("images", "kind", "said"),
    [
        (b"", "decode", "an empty file"),
        (b"<html>not found</html>", "decode", "expected an IDX file"),
        (idx(IMAGES)[:9], "decode", "cut short inside its header"),
        (idx(IMAGES)[:-1], "decode", "expected 384 values after the header, got 383"),
        (idx(IMAGES) + b"\0", "decode", "expected 384 values after the header, got more"),
        (idx(IMAGES, kind=0x0D), "decode", "expected an IDX file of bytes"),
        (idx(IMAGES[0]), "decode", "in 3 dimensions"),
        (idx(IMAGES[:5]), "missing", "expected 6 x 8 x 8 values by size and native_size of the entry, got 5"),
        (idx(np.zeros((7, 8, 8), np.uint8)), "labels", "got 7 x 8 x 8"),
        (idx(np.zeros((6, 9, 8), np.uint8)), "decode", "got 6 x 9 x 8"),
        (gzip.compress(idx(IMAGES))[:-20], "decode", "cannot be read"),
        (gzip.compress(idx(IMAGES))[:200] + b"\0" * 90, "decode", "cannot be read"),
    ],
)
def test_damaged_files_are_refused_in_one_line(lab: Any, images: bytes, kind: str, said: str) -> None:
    put(lab, images, idx(LABELS))

    reason = refusal(lab, entry(lab, idx(IMAGES), idx(LABELS)), kind)
    assert "set/images.gz" in reason
    assert said in reason
    assert "\n" not in reason


def test_a_gzip_bomb_is_read_no_further_than_the_entry_says(lab: Any) -> None:
    """Two kilobytes of gzip that unpack to two megabytes: the header's promise ends the read."""
    put(lab, gzip.compress(idx(IMAGES) + b"\0" * 2_000_000), idx(LABELS))

    assert "got more" in refusal(lab, entry(lab, idx(IMAGES), idx(LABELS)), "decode")


def test_absent_files_say_where_to_put_them(lab: Any) -> None:
    reason = refusal(lab, entry(lab, idx(IMAGES), idx(LABELS)), "missing")

    assert "set/images.gz is in none of data" in reason
    assert "ROBUSTBOARD_DATA" in reason


def test_an_entry_without_native_size_is_refused(lab: Any) -> None:
    put(lab, idx(IMAGES), idx(LABELS))

    assert "native_size" in refusal(lab, entry(lab, idx(IMAGES), idx(LABELS), native_size=None), "decode")


@pytest.mark.skipif(not FASHION.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_fashion_mnist_holds_the_official_test_images(lab: Any) -> None:
    """The first 20 images and labels equal those that foolbox ships as PNG; 1,000 a class."""
    pytest.importorskip("foolbox")
    names = {"images": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz"}
    pins = {
        role: {
            "path": f"fashion-mnist/{name}",
            "sha256": sha256(gzip.decompress((FASHION / name).read_bytes())),
        }
        for role, name in names.items()
    }
    wanted = lab.entry({"kind": "idx", **pins}, 10_000, native_size=28, channels=1)
    samples = lab.load(wanted, space=lab.space(GARMENTS))
    pictures = sorted(
        (
            path
            for path in resources.files("foolbox").joinpath("data").iterdir()
            if "fashionMNIST" in path.name
        ),
        key=lambda path: path.name,
    )

    assert len(pictures) == 20
    assert np.bincount(samples.labels).tolist() == [1000] * 10
    for index, picture in enumerate(pictures):
        match = re.fullmatch(r"fashionMNIST_(\d+)_(\d)\.png", picture.name)
        assert match is not None
        assert int(match[1]) == index
        with picture.open("rb") as file, Image.open(file) as image:
            expected = np.asarray(image.convert("L"))
        assert np.array_equal(samples.pixels([index])[0, 0], expected.astype(np.float32) / 255)
        assert samples.labels[index] == int(match[2])
