"""Small sets of attacked images and ways to spoil them."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from robustboard.runners.imagesets.image_set import Asked, ImageSet
from robustboard.runners.imagesets.npz import read_npz
from robustboard.runners.imagesets.parquet import read_parquet

Bytes = npt.NDArray[np.uint8]
IDS = ["00000", "00001", "00002", "00003"]
ASKED = Asked(images=6, shape=(1, 8, 8), size_of="the native size of tiny")
COLOUR = Asked(images=6, shape=(3, 8, 8), size_of="the native size of tiny")
GREY: Bytes = np.random.default_rng(0).integers(0, 256, (4, 1, 8, 8), np.uint8)
RGB: Bytes = np.random.default_rng(1).integers(0, 256, (4, 3, 8, 8), np.uint8)
FLOATS = (GREY / 255).astype(np.float32)


def npz(**arrays: Any) -> bytes:
    """What numpy.savez_compressed writes; sample_id and images where nothing else is said."""
    sink = io.BytesIO()
    np.savez_compressed(sink, **{"sample_id": np.array(IDS), "images": FLOATS, **arrays})
    return sink.getvalue()


def member(array: Any, *, pickled: bool = False) -> bytes:
    """One array as numpy.save writes it."""
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=pickled)
    return sink.getvalue()


def header(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    """The start of a .npy file with this text as its header."""
    data = text.encode("latin-1") + b"\n"
    size = struct.pack("<H" if version == (1, 0) else "<I", len(data))
    return b"\x93NUMPY" + bytes(version) + size + data


def archive(members: Sequence[tuple[str, bytes]], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of members, in order, repeated names and all."""
    sink = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(sink, "w", packing) as file:
        warnings.simplefilter("ignore")  # a name that stands twice is what some tests want
        for name, data in members:
            file.writestr(name, data)
    return sink.getvalue()


def png(image: Any, mode: str | None = None, **options: Any) -> bytes:
    """A PNG of one (h, w) or (h, w, c) array, perhaps converted to another mode."""
    picture = Image.fromarray(np.asarray(image, np.uint8))
    return picture_bytes(picture.convert(mode) if mode else picture, "PNG", **options)


def picture_bytes(picture: Image.Image, kind: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    picture.save(sink, format=kind, **options)
    return sink.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    """One chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def raw_png(width: int, height: int, bits: int, colour: int, pixels: bytes) -> bytes:
    """A PNG of any header over any pixel data."""
    start = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    parts = chunk(b"IHDR", start) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def parquet(
    images: Sequence[bytes | None] | None = None, ids: Any = IDS, *, options: Any = None, **columns: Any
) -> bytes:
    """A Parquet file; four good PNGs where nothing else is said."""
    good = [png(image[0]) for image in GREY]
    table = {"sample_id": ids, "image": good if images is None else list(images), **columns}
    sink = io.BytesIO()
    pq.write_table(pa.table({k: v for k, v in table.items() if v is not None}), sink, **(options or {}))
    return sink.getvalue()


def read(data: bytes, asked: Asked = ASKED) -> ImageSet:
    """By the reader that the first bytes call for."""
    reader = read_parquet if data.startswith(b"PAR1") else read_npz
    return reader(io.BytesIO(data), "set", asked)


def written(folder: Path, data: bytes, name: str = "set.npz") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
