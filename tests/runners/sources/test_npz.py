from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Any

import numpy as np
import pytest

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), np.uint8)
LABELS = np.array([3, 0, 1, 2, 2])


def archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def put(lab: Any, data: bytes, **fields: Any) -> DatasetEntry:
    (lab.data / "set.npz").write_bytes(data)
    source: dict[str, Any] = {
        "kind": "npz",
        "file": {"path": "set.npz", "sha256": hashlib.sha256(data).hexdigest()},
        **{key: fields.pop(key) for key in ("images", "labels") if key in fields},
    }
    made: DatasetEntry = lab.entry(source, 5, **{"native_size": 8, **fields})
    return made


def refusal(lab: Any, wanted: DatasetEntry, kind: str) -> str:
    with pytest.raises(CellError) as caught:
        lab.load(wanted)
    assert caught.value.kind == kind, caught.value.reason
    assert "\n" not in caught.value.reason
    return caught.value.reason


def test_colour_images_and_labels_come_back_as_written(lab: Any) -> None:
    samples = lab.load(put(lab, archive(images=IMAGES, labels=LABELS)))

    assert samples.shape == (3, 8, 8)
    assert samples.labels.tolist() == LABELS.tolist()
    found = samples.pixels([0, 4])
    assert found.flags.c_contiguous
    assert np.array_equal(found, IMAGES[[0, 4]].transpose(0, 3, 1, 2).astype(np.float32) / 255)


@pytest.mark.parametrize("grey", [IMAGES[..., :1], IMAGES[..., 0]], ids=["with axis", "without"])
def test_grey_images_may_lack_the_last_axis(lab: Any, grey: Any) -> None:
    samples = lab.load(put(lab, archive(images=grey, labels=LABELS), channels=1))

    assert np.array_equal(samples.pixels([2])[0, 0], IMAGES[2, ..., 0].astype(np.float32) / 255)


def test_arrays_may_bear_other_names(lab: Any) -> None:
    wanted = put(lab, archive(x=IMAGES, y=LABELS), images="x", labels="y")

    assert len(lab.load(wanted).ids) == 5


@pytest.mark.parametrize(
    ("arrays", "kind", "said"),
    [
        ({"image": IMAGES, "labels": LABELS}, "decode", "did you mean image?"),
        ({"images": IMAGES}, "decode", "expected an array labels, got images"),
        ({"images": IMAGES.astype(np.float32), "labels": LABELS}, "decode", "got float32"),
        ({"images": IMAGES[:, :7], "labels": LABELS}, "decode", "got uint8 (5, 7, 8, 3)"),
        ({"images": IMAGES[..., :2], "labels": LABELS}, "decode", "got uint8 (5, 8, 8, 2)"),
        ({"images": IMAGES.transpose(0, 3, 1, 2), "labels": LABELS}, "decode", "got uint8 (5, 3, 8, 8)"),
        ({"images": IMAGES, "labels": LABELS[:4]}, "labels", "expected whole numbers (5,), one an image"),
        ({"images": IMAGES, "labels": LABELS * 1.0}, "labels", "got float64"),
        ({"images": IMAGES, "labels": LABELS > 1}, "labels", "got bool"),
        ({"images": IMAGES[:4], "labels": LABELS[:4]}, "missing", "expected 5 images"),
        ({"images": IMAGES, "labels": np.array([0, 1, 2, -1, 0])}, "labels", "1 of 5 rows have label -1"),
        ({"images": IMAGES, "labels": np.array([0, 1, 2, 4, 0])}, "labels", "row 3: label 4 is outside 0..3"),
    ],
)
def test_wrong_arrays_are_refused(lab: Any, arrays: dict[str, Any], kind: str, said: str) -> None:
    assert said in refusal(lab, put(lab, archive(**arrays)), kind)


def test_pickled_arrays_are_refused_unread(lab: Any) -> None:
    """An array of objects is a pickle; opening it could run code."""
    data = archive(images=np.array([b"x"] * 5, dtype=object), labels=LABELS)

    assert "got object" in refusal(lab, put(lab, data), "decode")


def test_a_header_that_promises_the_moon_costs_nothing(lab: Any) -> None:
    """10^15 images announced in 200 bytes: refused by the header."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (10**13, 8, 8, 3)}
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("images.npy", header.getvalue())
        made.writestr("labels.npy", b"")

    refusal(lab, put(lab, buffer.getvalue()), "decode")


@pytest.mark.parametrize("cut", [0, 10, 100, -30, -1])
def test_cut_archives_are_refused(lab: Any, cut: int) -> None:
    data = archive(images=IMAGES, labels=LABELS)[:cut]

    assert "not a NumPy archive" in refusal(lab, put(lab, data), "decode")


def test_another_archive_than_the_pinned_one_is_refused(lab: Any) -> None:
    wanted = put(lab, archive(images=IMAGES, labels=LABELS))
    (lab.data / "set.npz").write_bytes(archive(images=IMAGES, labels=LABELS[::-1]))

    assert "set.npz: expected SHA-256" in refusal(lab, wanted, "hash-mismatch")


def test_a_header_that_is_no_literal_is_refused(lab: Any) -> None:
    """Its text goes through a tokenizer, which has errors of its own."""
    header = b"(" * 200
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)

    assert "set.npz: not a NumPy archive" in refusal(lab, put(lab, buffer.getvalue()), "decode")


def test_a_member_without_its_suffix_is_refused(lab: Any) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("images", b"")

    assert "set.npz: not a NumPy archive" in refusal(lab, put(lab, buffer.getvalue()), "decode")
