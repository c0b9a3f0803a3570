"""Files of strangers: one line that names file, place, expected and got, before anything large is read."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from robustboard.errors import CellError
from robustboard.runners.imagesets.image_set import MAX_MANIFEST, Asked
from tests.runners.imagesets.sets import (
    ASKED,
    COLOUR,
    FLOATS,
    GREY,
    IDS,
    RGB,
    archive,
    header,
    member,
    npz,
    parquet,
    picture_bytes,
    png,
    raw_png,
    read,
)

GOOD = [("sample_id.npy", member(np.array(IDS))), ("images.npy", member(FLOATS))]
PNGS = [png(image[0]) for image in GREY]
SMALL = 4 * 2**20


def but(**pixels: float) -> Any:
    """Good images with one odd pixel in row 2."""
    images = FLOATS.copy()
    images[2, 0, 3, 3] = pixels["value"]
    return images


def with_png(data: bytes | None) -> bytes:
    return parquet([PNGS[0], data, *PNGS[2:]])


def animated() -> bytes:
    frames = [Image.fromarray(image[0]) for image in GREY]
    return picture_bytes(frames[0], "PNG", save_all=True, append_images=frames[1:])


ARCHIVES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a NumPy archive that can be read: File is not a zip file"),
    "cut short": (npz()[:-30], "not a NumPy archive that can be read: File is not a zip file"),
    "array missing": (archive(GOOD[:1]), "expected the arrays sample_id, images and perhaps manifest"),
    "array too many": (npz(labels=np.zeros(4)), "each once, got 'sample_id', 'images', 'labels'"),
    "array twice": (archive([*GOOD, GOOD[1]]), "each once, got 'sample_id', 'images', 'images'"),
    "pickle": (
        archive([("sample_id.npy", member(np.array([{}], object), pickled=True)), GOOD[1]]),
        "sample_id: expected text (n,), got object (1,)",
    ),
    "pickled pixels": (
        archive([GOOD[0], ("images.npy", member(np.array([{}], object), pickled=True))]),
        "images: expected float32 in [0, 1] or uint8, got object",
    ),
    "float64": (npz(images=FLOATS.astype(np.float64)), "expected float32 in [0, 1] or uint8, got float64"),
    "big-endian": (npz(images=FLOATS.astype(">f4")), "expected float32 in [0, 1] or uint8, got >f4"),
    "channels last": (
        npz(images=FLOATS.transpose(0, 2, 3, 1)),
        "(4,1,8,8) (the native size of tiny), got (4,8,8,1); write images.transpose(0, 3, 1, 2)",
    ),
    "no channels": (npz(images=FLOATS[:, 0]), "got (4,8,8); write images[:, None]"),
    "other size": (npz(images=FLOATS[..., :7]), "got (4,1,8,7)"),
    "fewer images": (npz(images=FLOATS[:3]), "expected (n, c, h, w) (4,1,8,8)"),
    "more than the dataset": (
        npz(sample_id=np.array([str(i) for i in range(7)]), images=np.zeros((7, 1, 8, 8), np.uint8)),
        "sample_id: expected 1 to 6 images, as many as the dataset has, got 7",
    ),
    "no image": (npz(sample_id=np.array([], "U5"), images=FLOATS[:0]), "got 0"),
    "id twice": (
        npz(sample_id=np.array(["a", "b", "c", "a"])),
        "row 3: sample_id: expected each id once, got 'a' again (first in row 0)",
    ),
    "empty id": (npz(sample_id=np.array(["a", "", "c", "d"])), "row 1: sample_id: expected text of 1 to 512"),
    "bytes that are no text": (
        npz(sample_id=np.array([b"a", b"\xff", b"c", b"d"])),
        "row 1: sample_id: expected text of 1 to 512 characters, got 'b",
    ),
    "numbers as ids": (npz(sample_id=np.arange(4)), "sample_id: expected text (n,), got int64 (4,)"),
    "long ids": (
        npz(sample_id=np.array(["a" * 2000, "b", "c", "d"])),
        "expected ids of at most 512",
    ),
    "not a number": (
        npz(images=but(value=np.nan)),
        "row 2 ('00002'): expected finite pixels, got nan",
    ),
    "infinite": (npz(images=but(value=np.inf)), "row 2 ('00002'): expected finite pixels, got 0.0"),
    "negative": (npz(images=but(value=-2e-6)), "row 2 ('00002'): expected pixels in [0, 1], got -2e-06"),
    "levels": (npz(images=FLOATS * 255), "got 4 to 248; divide by 255"),
    "a lying header": (
        archive([GOOD[0], ("images.npy", GOOD[1][1][:-8])]),
        "images: expected 1024 bytes for float32 (4, 1, 8, 8), at most 1024, got 1016",
    ),
    "more behind": (archive([GOOD[0], ("images.npy", GOOD[1][1] + b"x")]), "got 1025"),
    "negative size": (
        archive(
            [GOOD[0], ("images.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 8), }"))]
        ),
        "images: expected sizes of at least 0, got (-4, 8)",
    ),
    "code in the header": (
        archive([GOOD[0], ("images.npy", header("{'descr': '<f4', 'shape': __import__('os').getcwd()}"))]),
        "not a NumPy archive that can be read: ",
    ),
    "huge ids": (
        archive(
            [
                (
                    "sample_id.npy",
                    header("{'descr': '<U5', 'fortran_order': False, 'shape': (99999999999,), }"),
                ),
                GOOD[1],
            ]
        ),
        "sample_id: expected 1 to 6 images",
    ),
    "format 2": (
        archive(
            [
                GOOD[0],
                (
                    "images.npy",
                    header("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1, 8, 8), }", (2, 0)),
                ),
            ]
        ),
        "images: expected the .npy format 1.0",
    ),
    "another packing": (archive(GOOD, zipfile.ZIP_LZMA), "sample_id: expected a stored or deflated array"),
    "manifest of another kind": (npz(manifest=np.zeros(3)), "manifest: expected one text of shape ()"),
    "manifest that is no JSON": (npz(manifest=np.array("{")), "set: manifest: not JSON"),
    "manifest of other fields": (npz(manifest=np.array('{"colour": "red"}')), "set: manifest: made_with: "),
    "manifest too long": (
        npz(manifest=np.array(b"{" + b" " * MAX_MANIFEST)),
        f"manifest: expected at most {MAX_MANIFEST} bytes",
    ),
}

PARQUETS: dict[str, tuple[bytes, str]] = {
    "cut short": (parquet()[:-6], "not a Parquet file that can be read: "),
    "only a start": (b"PAR1", "not a Parquet file that can be read: "),
    "column missing": (
        parquet(ids=None),
        "expected the columns sample_id, image and perhaps width",
    ),
    "column too many": (parquet(label=[1] * 4), "each once, got 'sample_id', 'image', 'label'"),
    "numbers as ids": (parquet(ids=[1, 2, 3, 4]), "sample_id: expected text, got int64"),
    "text as images": (parquet(["a", "b", "c", "d"]), "image: expected bytes, got string"),  # type: ignore[list-item] # the fault
    "id missing": (parquet(ids=["a", None, "c", "d"]), "row 1: sample_id: expected text of 1 to 512"),
    "id twice": (parquet(ids=["a", "b", "b", "d"]), "row 2: sample_id: expected each id once, got 'b' again"),
    "image missing": (with_png(None), "row 1 ('00001'): expected 1 to "),
    "empty image": (with_png(b""), "row 1 ('00001'): expected 1 to "),
    "more than the dataset": (
        parquet(PNGS[:1] * 7, ids=[str(i) for i in range(7)]),
        "expected 1 to 6 images, as many as the dataset has, got 7",
    ),
    "JPEG": (
        with_png(picture_bytes(Image.fromarray(GREY[0, 0]), "JPEG", quality=100)),
        "row 1 ('00001'): expected PNG, which is lossless, got JPEG, which loses small changes",
    ),
    "WebP": (with_png(picture_bytes(Image.fromarray(GREY[0, 0]), "WEBP", lossless=True)), "got WebP"),
    "BMP": (with_png(picture_bytes(Image.fromarray(GREY[0, 0]), "BMP")), "got BMP"),
    "a web page": (
        with_png(b"<html>"),
        "expected PNG, which is lossless, got bytes that start with 3c",
    ),
    "half a PNG": (with_png(PNGS[1][:60]), "row 1 ('00001'): damaged PNG: "),
    "a start of PNG": (with_png(PNGS[1][:12]), "expected a whole PNG, got 12 bytes"),
    "colours": (
        with_png(png(RGB[0].transpose(1, 2, 0))),
        "expected a PNG of 8 bits, grey (colour type 0)",
    ),
    "palette": (with_png(png(GREY[0, 0], "P")), "got 8 bits of colour type 3"),
    "alpha": (with_png(png(GREY[0, 0], "LA")), "got 8 bits of colour type 4"),
    "16 bits": (with_png(picture_bytes(Image.new("I;16", (8, 8)), "PNG")), "got 16 bits of colour type 0"),
    "1 bit": (with_png(png(GREY[0, 0], "1")), "got 1 bits of colour type 0"),
    "transparent grey": (with_png(png(GREY[0, 0], transparency=3)), "expected one opaque picture"),
    "animation": (with_png(animated()), "expected one opaque picture"),
    "other size": (
        with_png(png(np.zeros((8, 9)))),
        "row 1 ('00001'): expected 8 x 8 pixels (the native size of tiny), got 9 x 8",
    ),
    "other width beside it": (parquet(width=[8, 9, 8, 8]), "row 1 ('00001'): width: expected 8"),
    "bomb of pixels": (with_png(raw_png(60_000, 60_000, 8, 0, bytes(1000))), "got 60000 x 60000"),
    "bytes behind a PNG": (
        with_png(PNGS[1] + bytes(200_000)),
        "row 1 ('00001'): expected 1 to 65664 bytes of PNG, got 200",
    ),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_a_hostile_archive_gets_one_line(case: str) -> None:
    data, said = ARCHIVES[case]
    with pytest.raises(CellError) as caught:
        read(data)
    assert said in caught.value.reason
    assert caught.value.reason.startswith("set: ")
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize("case", PARQUETS)
def test_a_hostile_parquet_file_gets_one_line(case: str) -> None:
    """B050 among them: JPEG is refused by content."""
    data, said = PARQUETS[case]
    with pytest.raises(CellError) as caught:
        read(data)
    assert said in caught.value.reason
    assert caught.value.reason.startswith("set: ")
    assert "\n" not in caught.value.reason


def peak(data: bytes, asked: Asked = ASKED) -> int:
    """Bytes of Python and NumPy memory that refusing a file takes at most."""
    tracemalloc.start()
    with pytest.raises(CellError):
        read(data, asked)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_an_archive_that_unpacks_to_a_thousandfold_is_refused_unread() -> None:
    """32 MiB of zeros in 32 KiB; shape and type are read before any value."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1, 4096, 4096), }"
    bomb = archive([GOOD[0], ("images.npy", header(text) + bytes(2**25))])
    assert len(bomb) < 2**16
    assert peak(bomb) < SMALL


def test_a_member_longer_than_its_header_says_is_refused_unread() -> None:
    assert peak(archive([GOOD[0], ("images.npy", GOOD[1][1] + bytes(2**25))])) < SMALL


def test_a_manifest_that_unpacks_to_a_thousandfold_is_refused_unread() -> None:
    text = f"{{'descr': '|S{2**25}', 'fortran_order': False, 'shape': (), }}"
    assert peak(archive([*GOOD, ("manifest.npy", header(text) + bytes(2**25))])) < SMALL


def test_a_column_that_unpacks_to_a_thousandfold_is_refused_unread() -> None:
    """256 MiB of zeros in a few KiB: sizes are in the footer, which is read before any column."""
    table = pa.table({"sample_id": ["00000"], "image": pa.array([bytes(2**28)], pa.binary())})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False)
    assert len(sink.getvalue()) < 2**16
    with pytest.raises(CellError, match="once unpacked, got 2684"):
        read(sink.getvalue())


def test_one_large_value_repeated_costs_no_more_than_once() -> None:
    """Parquet stores a repeated value once; sixty times 4 MiB are never unpacked together."""
    count = 60
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([bytes(2**22)]))
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"sample_id": [str(row) for row in range(count)], "image": repeated}),
        sink,
        store_schema=False,
    )
    assert len(sink.getvalue()) < 2**20
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), pool.max_memory()
    with pytest.raises(CellError, match="bytes of PNG, got 4194304"):
        read(sink.getvalue(), Asked(images=count, shape=(1, 8, 8), size_of="x"))
    assert pool.bytes_allocated() <= before + SMALL
    assert pool.max_memory() - most < 2**26


def test_encrypted_members_are_refused() -> None:
    """The flag bit of encryption in both directories; zipfile would ask for a password."""
    data = bytearray(npz())
    for start in (b"PK\x03\x04", b"PK\x01\x02"):
        at = data.index(start) + (6 if start == b"PK\x03\x04" else 8)
        (flags,) = struct.unpack_from("<H", data, at)
        struct.pack_into("<H", data, at, flags | 1)
    with pytest.raises(CellError, match="sample_id: expected a stored or deflated array"):
        read(bytes(data))


def test_a_set_too_large_to_hold_says_so() -> None:
    with pytest.raises(CellError, match="make several sets"):
        Asked(10**6, (3, 224, 224), "x").values(10**6, 1, "set")


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_byte_is_refused_or_changes_nothing_silently(data: st.DataObject) -> None:
    """One flipped byte anywhere: an error in one line, or a set whose pixels are still in range."""
    whole = data.draw(st.sampled_from([npz(), parquet(options={"write_page_checksum": True})]))
    spoilt = bytearray(whole)
    place = data.draw(st.integers(0, len(spoilt) - 1))
    spoilt[place] ^= data.draw(st.integers(1, 255))
    try:
        found = read(bytes(spoilt))
    except CellError:
        return
    pixels = found.pixels(range(len(found.ids)))
    assert np.isfinite(pixels).all()
    assert ((pixels >= 0) & (pixels <= 1)).all()
    assert len(set(found.ids)) == len(found.ids)


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=300), st.sampled_from([b"PAR1", b"PK\x03\x04", b""]))
def test_any_bytes_get_one_line(data: bytes, start: bytes) -> None:
    with pytest.raises(CellError) as caught:
        read(start + data)
    assert "\n" not in caught.value.reason
    assert caught.value.reason.isascii()


def test_colours_where_grey_is_stored() -> None:
    with pytest.raises(CellError, match=r"expected a PNG of 8 bits, RGB \(colour type 2\), got 8"):
        read(parquet(), COLOUR)
