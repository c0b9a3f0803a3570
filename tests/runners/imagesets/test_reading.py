"""Files of attacked images as honest people write them, read back to the bit."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from robustboard.runners.imagesets.image_set import Asked, Manifest
from robustboard.runners.imagesets.npz import npz_bytes
from robustboard.runners.imagesets.parquet import parquet_bytes
from tests.runners.imagesets.sets import (
    ASKED,
    COLOUR,
    FLOATS,
    GREY,
    IDS,
    RGB,
    npz,
    parquet,
    png,
    read,
)

MANIFEST = Manifest.model_validate(
    {
        "made_with": "robustboard",
        "model": "net",
        "benchmark": "pgd-v1",
        "dataset": "tiny",
        "condition": "linf 8/255",
        "norm": "linf",
        "budget": "8/255",
        "key_digest": "1" * 64,
        "encoding": "8-bit",
        "originals_sha256": "2" * 64,
        "evaluated": 4,
        "robust_in_memory": 1,
        "robust_from_file": 2,
    }
)


@pytest.mark.parametrize("ids", [np.array(IDS), np.array(IDS, "S")], ids=["text", "bytes"])
def test_floats_come_back_to_the_bit(ids: Any) -> None:
    found = read(npz(sample_id=ids))
    assert found.ids == tuple(IDS)
    assert found.encoding == "float32"
    assert np.array_equal(found.pixels([2, 0]), FLOATS[[2, 0]])
    assert found.pixels([]).shape == (0, 1, 8, 8)


@pytest.mark.parametrize("packed", [True, False])
def test_eight_bit_arrays_are_divided_by_255(packed: bool, tmp_path: Any) -> None:  # noqa: FBT001 - a case
    save = np.savez_compressed if packed else np.savez
    save(tmp_path / "set.npz", sample_id=np.array(IDS), images=RGB)
    found = read((tmp_path / "set.npz").read_bytes(), COLOUR)
    assert found.encoding == "8-bit"
    assert np.array_equal(found.pixels(range(4)), RGB.astype(np.float32) / np.float32(255))


def test_arrays_in_column_order_are_read_as_they_were_meant() -> None:
    """NumPy writes transposed arrays column by column and says so in the header."""
    assert np.array_equal(read(npz(images=np.asfortranarray(FLOATS))).pixels(range(4)), FLOATS)
    assert np.array_equal(read(npz(images=np.asfortranarray(GREY))).values, GREY)


def test_rounding_outside_the_range_is_clamped() -> None:
    images = FLOATS.copy()
    images[0, 0, 0, 0], images[0, 0, 0, 1] = -9e-7, 1 + 9e-7
    found = read(npz(images=images)).pixels([0])
    assert found.min() == 0
    assert found.max() == 1


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_grey_and_colour_pngs_come_back_to_the_bit(kind: Any) -> None:
    grey = read(parquet(pa.array([png(image[0]) for image in GREY], kind)))
    colour = read(parquet([png(image.transpose(1, 2, 0)) for image in RGB]), COLOUR)
    assert np.array_equal(grey.values, GREY)
    assert np.array_equal(colour.values, RGB)
    assert grey.encoding == colour.encoding == "8-bit"


def test_sizes_beside_the_images_may_be_given() -> None:
    assert read(parquet(width=[8] * 4, height=[8] * 4)).ids == tuple(IDS)


@pytest.mark.parametrize("options", [{"row_group_size": 1}, {"compression": "zstd", "use_dictionary": False}])
def test_parquet_may_be_packed_in_any_way(options: dict[str, Any]) -> None:
    assert np.array_equal(read(parquet(options=options)).values, GREY)


def test_what_is_written_is_read_with_its_manifest() -> None:
    ids = tuple(IDS)
    again = read(npz_bytes(ids, FLOATS, MANIFEST))
    assert np.array_equal(again.values, FLOATS)
    assert again.manifest == MANIFEST
    for asked, values in ((ASKED, GREY), (COLOUR, RGB)):
        for data in (npz_bytes(ids, values, MANIFEST), parquet_bytes(ids, values, MANIFEST)):
            found = read(data, asked)
            assert np.array_equal(found.values, values)
            assert found.manifest == MANIFEST


def test_writing_twice_gives_the_same_bytes() -> None:
    assert npz_bytes(tuple(IDS), FLOATS, MANIFEST) == npz_bytes(tuple(IDS), FLOATS, MANIFEST)
    assert parquet_bytes(tuple(IDS), GREY, MANIFEST) == parquet_bytes(tuple(IDS), GREY, MANIFEST)


def test_numpy_itself_reads_what_is_written(tmp_path: Any) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(npz_bytes(tuple(IDS), FLOATS, MANIFEST))
    assert zipfile.is_zipfile(path)
    with np.load(path, allow_pickle=False) as found:
        assert found["sample_id"].tolist() == IDS
        assert np.array_equal(found["images"], FLOATS)


def test_a_set_may_hold_as_many_images_as_the_dataset() -> None:
    asked = Asked(images=4, shape=(1, 8, 8), size_of="x")
    assert len(read(npz(), asked).ids) == len(read(parquet(), asked).ids) == 4
