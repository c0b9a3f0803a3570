"""Rows of a generated set ↔ Parquet files, byte for byte the same each time. No torch here."""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from robustboard.errors import CellError, StoreError
from robustboard.runners.imagesets.image_set import MAX_ID, Asked, in_short
from robustboard.runners.imagesets.png import from_png, to_png

COLUMNS: dict[str, tuple[pa.DataType, dict[str, Any], str]] = {
    "id": (pa.string(), {"dtype": "string", "_type": "Value"}, "unique: source_id, a dash, the attempt"),
    "image": (
        pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())]),
        {"_type": "Image"},
        "PNG, 8 bits a channel",
    ),
    "label": (pa.int64(), {"_type": "ClassLabel"}, "class of the source image"),
    "class_name": (pa.string(), {"dtype": "string", "_type": "Value"}, "its display name"),
    "source_id": (
        pa.string(),
        {"dtype": "string", "_type": "Value"},
        "sample id of the source image in its dataset",
    ),
    "attempt": (pa.int32(), {"dtype": "int32", "_type": "Value"}, "number of the try, from 0"),
    "seed": (pa.int64(), {"dtype": "int64", "_type": "Value"}, "of the generator, for this image alone"),
    "status": (pa.string(), {"dtype": "string", "_type": "Value"}, "how the generator's loop ended"),
    "steps": (pa.int32(), {"dtype": "int32", "_type": "Value"}, "generator steps that the oracle accepted"),
    "distance": (
        pa.float32(),
        {"dtype": "float32", "_type": "Value"},
        "L2 distance to the source image, pixels in [0, 1], to 4 decimals",
    ),
    "oracle_confidence": (
        pa.float32(),
        {"dtype": "float32", "_type": "Value"},
        "of the oracle in the label, on the stored image, to 4 decimals",
    ),
    "oracle_margin": (
        pa.float32(),
        {"dtype": "float32", "_type": "Value"},
        "confidence above the next class, to 4 decimals",
    ),
}
"""Column → its type, what `datasets` calls that, and what it holds."""

SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _, _) in COLUMNS.items()])
FEATURES = b"huggingface"
"""Key of the file's metadata from which `load_dataset` knows images and class names."""

ROW_GROUP = 100
THRIFT_BYTES = 16 * 2**20
THRIFT_ITEMS = 1_000_000
DECIMALS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One image of a set."""

    source_id: str
    attempt: int
    seed: int
    label: int
    class_name: str
    pixels: npt.NDArray[np.uint8]
    """(c, h, w)."""
    status: str
    steps: int
    distance: float
    oracle_confidence: float
    oracle_margin: float

    @property
    def id(self) -> str:
        """Unique in the set."""
        return f"{self.source_id}-{self.attempt}"


class Content:
    """Digest over ids, labels, seeds and pixels of rows in order: the same whatever encodes them."""

    def __init__(self) -> None:
        """Of no rows yet."""
        self._state = hashlib.sha256(b"robustboard.testset-content/1\0")

    def add(self, row: Row) -> None:
        """One more row."""
        name = row.id.encode("utf-8")
        self._state.update(struct.pack(">I", len(name)) + name + struct.pack(">qq", row.label, row.seed))
        self._state.update(struct.pack(">3I", *row.pixels.shape) + np.ascontiguousarray(row.pixels).tobytes())

    def hexdigest(self) -> str:
        """64 hex digits."""
        return self._state.hexdigest()


def encode_rows(rows: Sequence[Row], class_keys: Sequence[str]) -> bytes:
    """A Parquet file: zstd, no dictionaries, a checksum on every page; no time or place in it."""
    images = [{"bytes": to_png(row.pixels), "path": None} for row in rows]
    values: dict[str, list[Any]] = {
        name: images if name == "image" else [getattr(row, name) for row in rows] for name in COLUMNS
    }
    features = {name: dict(told) for name, (_, told, _) in COLUMNS.items()}
    features["label"]["names"] = list(class_keys)
    told = json.dumps({"info": {"features": features}}, sort_keys=True).encode("ascii")
    table = pa.table(values, schema=SCHEMA).replace_schema_metadata({FEATURES: told})
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        version="2.6",
        compression="zstd",
        compression_level=9,
        use_dictionary=False,
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
    )
    return sink.getvalue()


def decode_rows(data: bytes, name: str, shape: tuple[int, int, int], count: int) -> Iterator[Row]:
    """The rows of a file that `encode_rows` wrote, one at a time, each image decoded without loss.

    Sizes are looked at before anything is unpacked. Raises StoreError that names file and row.
    """
    try:
        yield from _rows(data, name, shape, count)
    except StoreError:
        raise
    except CellError as error:
        raise StoreError(error.reason) from error
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise StoreError(f"{name}: damaged: {in_short(error)}") from error


def _rows(data: bytes, name: str, shape: tuple[int, int, int], count: int) -> Iterator[Row]:
    file = pq.ParquetFile(
        pa.BufferReader(data),
        page_checksum_verification=True,
        thrift_string_size_limit=THRIFT_BYTES,
        thrift_container_size_limit=THRIFT_ITEMS,
    )
    if not file.schema_arrow.remove_metadata().equals(SCHEMA):
        raise StoreError(f"{name}: expected the columns {', '.join(COLUMNS)} of their types, got others")
    asked = Asked(count, shape, "shape in the manifest")
    largest = 2 * asked.pixels + 64 * 1024
    if file.metadata.num_rows != count:
        raise StoreError(f"{name}: expected {count} rows as in the manifest, got {file.metadata.num_rows}")
    _check_sizes(file, name, largest)
    place = 0
    for batch in file.iter_batches(batch_size=1, use_threads=False):
        for value in batch.to_pylist():
            yield _row(value, f"{name}: row {place}", asked, largest)
            place += 1
    if place != count:
        raise StoreError(f"{name}: expected {count} rows as in the manifest, got {place}")


def _check_sizes(file: pq.ParquetFile, name: str, largest: int) -> None:
    """Refuse a file that says it unpacks to more than such images can need."""
    for index in range(file.num_row_groups):
        group = file.metadata.row_group(index)
        limit = 2**16 + group.num_rows * (largest + 8 * MAX_ID)
        if group.num_rows > ROW_GROUP or not 0 <= group.total_byte_size <= limit:
            raise StoreError(
                f"{name}: row group {index}: expected at most {ROW_GROUP} rows and {limit} bytes,"
                f" got {group.num_rows} rows and {group.total_byte_size} bytes"
            )


def _row(value: dict[str, Any], name: str, asked: Asked, largest: int) -> Row:
    for column, found in value.items():
        if found is None:
            raise StoreError(f"{name}: {column}: expected a value, got none")
    png = value["image"]["bytes"]
    if png is None or len(png) > largest or len(value["id"]) > MAX_ID:
        raise StoreError(f"{name}: expected an image of at most {largest} bytes and a short id")
    pixels = from_png(png, f"{name}: image", asked)
    row = Row(
        pixels=pixels,
        **{key: found for key, found in value.items() if key not in ("id", "image")},
    )
    if value["id"] != row.id:
        raise StoreError(f"{name}: id: expected {row.id!a}, got {value['id']!a}")
    return row


def content_sha256(rows: Iterable[Row]) -> str:
    """Digest over rows in order."""
    content = Content()
    for row in rows:
        content.add(row)
    return content.hexdigest()
