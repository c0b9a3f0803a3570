from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry, LockedEntry, LockedFile

NOISE = np.random.default_rng(0).integers(0, 256, (10, 8, 8, 3), np.uint8)
Encode = Callable[..., bytes]


def put(lab: Any, tables: list[pa.Table], size: int = 10, **fields: Any) -> DatasetEntry:
    pins = []
    for number, table in enumerate(tables):
        buffer = io.BytesIO()
        pq.write_table(table, buffer, row_group_size=3)
        (lab.data / f"part{number}.parquet").write_bytes(buffer.getvalue())
        digest = hashlib.sha256(buffer.getvalue()).hexdigest()
        pins.append({"path": f"part{number}.parquet", "sha256": digest})
    source = {"kind": "parquet", "files": tuple(pins), "image_column": "img", "label_column": "label"}
    made: DatasetEntry = lab.entry(source, size, **{"native_size": 8, **fields})
    return made


def column(images: Sequence[bytes | None], layout: str = "struct") -> pa.Array:
    if layout == "struct":
        return pa.array([{"bytes": data, "path": None} for data in images])
    return pa.array(images, pa.large_binary() if layout == "large" else pa.binary())


def table(images: Sequence[bytes | None], labels: Any, layout: str = "struct") -> pa.Table:
    return pa.table({"label": labels, "img": column(images, layout)})


def refusal(lab: Any, wanted: DatasetEntry, kind: str, locked: LockedEntry | None = None) -> str:
    with pytest.raises(CellError) as caught:
        lab.load(wanted, locked=locked)
    assert caught.value.kind == kind, caught.value.reason
    assert "\n" not in caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize("layout", ["struct", "binary", "large"])
def test_rows_of_several_files_follow_one_another(lab: Any, png: Encode, layout: str) -> None:
    files = [png(image) for image in NOISE]
    labels = [0, 1, 2, 3, 3, 2, 1, 0, 0, 1]
    samples = lab.load(put(lab, [table(files[:7], labels[:7], layout), table(files[7:], labels[7:], layout)]))

    assert samples.labels.tolist() == labels
    assert samples.ids[0] == "00000"
    assert samples.ids[9] == "00009"
    order = [9, 0, 6, 7, 3]
    assert np.array_equal(samples.pixels(order), NOISE[order].transpose(0, 3, 1, 2).astype(np.float32) / 255)


def test_images_of_various_sizes_are_read_again_when_asked_for(lab: Any, png: Encode) -> None:
    """Without native_size only encoded bytes are kept; each call decodes what it was asked for."""
    files = [png(image[: 4 + number % 3]) for number, image in enumerate(NOISE)]
    samples = lab.load(put(lab, [table(files, [0] * 10)], native_size=None), spec=lab.input(4))
    backwards = samples.pixels([9, 5, 0])

    assert backwards.shape == (3, 3, 4, 4)
    assert np.array_equal(backwards[::-1], samples.pixels([0, 5, 9]))
    assert samples.digests[4] == hashlib.sha256(files[4]).digest()


def test_class_names_stored_by_datasets_count(lab: Any, png: Encode) -> None:
    """B012: the file says that 0 is owl and 1 is cat."""
    features = {"label": {"names": ["owl", "cat"], "_type": "ClassLabel"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    made = table([png(image) for image in NOISE[:2]], [0, 1]).replace_schema_metadata(metadata)

    assert lab.load(put(lab, [made], 2)).labels.tolist() == [3, 0]


@pytest.mark.parametrize("metadata", [b"", b"[]", b"{}", b'{"info": {"features": {"label": 3}}}', b"\xff"])
def test_damaged_metadata_is_no_metadata(lab: Any, png: Encode, metadata: bytes) -> None:
    made = table([png(0)], [1]).replace_schema_metadata({b"huggingface": metadata})

    assert lab.load(put(lab, [made], 1)).labels.tolist() == [1]


def test_text_labels_are_read(lab: Any, png: Encode) -> None:
    labels = pa.array(["dog", "owl"]).dictionary_encode()

    assert lab.load(put(lab, [table([png(0), png(1)], labels)], 2)).labels.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("labels", "said"),
    [([0.0, 1.0], "got float"), ([True, False], "got bool"), ([[0], [1]], "got list")],
)
def test_labels_of_other_types_are_refused(lab: Any, png: Encode, labels: Any, said: str) -> None:
    assert said in refusal(lab, put(lab, [table([png(0), png(1)], labels)], 2), "labels")


def test_absent_columns_come_with_those_that_are_there(lab: Any, png: Encode) -> None:
    made = table([png(0)], [0])

    assert "expected a column img, got label, image (did you mean image?)" in refusal(
        lab, put(lab, [made.rename_columns(["label", "image"])], 1), "decode"
    )
    assert "expected a column label, got labels, img" in refusal(
        lab, put(lab, [made.rename_columns(["labels", "img"])], 1), "labels"
    )


def test_a_column_of_paths_is_no_image_column(lab: Any) -> None:
    """One revision of ImageNet-R stores paths, not images."""
    made = pa.table({"label": [0], "img": ["n01440764/1.jpg"]})

    assert "expected image bytes" in refusal(lab, put(lab, [made], 1), "decode")


def test_a_row_without_image_is_named(lab: Any, png: Encode) -> None:
    made = table([png(0), None, png(2)], [0, 1, 2])

    assert "row 1: no image bytes" in refusal(lab, put(lab, [made], 3), "decode")


def test_number_of_rows_must_be_the_declared_one(lab: Any, png: Encode) -> None:
    files: list[bytes | None] = [png(image) for image in NOISE]

    assert "expected 11 images as the entry's size says, got 10" in refusal(
        lab, put(lab, [table(files, [0] * 10)], 11), "missing"
    )
    assert "expected 9 images as the entry's size says, got 10" in refusal(
        lab, put(lab, [table(files, [0] * 10)], 9), "labels"
    )


def test_a_changed_byte_is_refused_by_entry_or_lock(lab: Any, png: Encode) -> None:
    wanted = put(lab, [table([png(0)], [0])], 1)
    path = lab.data / "part0.parquet"
    data = bytearray(path.read_bytes())
    locked = LockedEntry(
        files=(LockedFile(path="part0.parquet", size=len(data), sha256=hashlib.sha256(b"").hexdigest()),)
    )
    assert "registry/lock.yaml" in refusal(lab, wanted, "hash-mismatch", locked)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    assert "part0.parquet: expected SHA-256" in refusal(lab, wanted, "hash-mismatch")


def test_a_file_that_is_no_parquet_is_refused(lab: Any) -> None:
    (lab.data / "x.parquet").write_bytes(b"PAR1 but no more")
    pin = {"path": "x.parquet", "sha256": hashlib.sha256(b"PAR1 but no more").hexdigest()}
    source = {"kind": "parquet", "files": (pin,), "image_column": "img", "label_column": "label"}

    assert "not a Parquet file" in refusal(lab, lab.entry(source, 1), "decode")
