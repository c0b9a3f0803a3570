"""Attacked images in a Parquet file: columns sample_id and image (PNG bytes), perhaps width and height."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from robustboard.errors import CellError, echo
from robustboard.runners.imagesets.image_set import (
    MAX_ID,
    MAX_MANIFEST,
    Asked,
    ImageSet,
    Manifest,
    checked_ids,
    in_short,
    manifest_bytes,
    read_manifest,
    refused,
)
from robustboard.runners.imagesets.png import from_png, to_png

MAGIC = b"PAR1"
IDS, IMAGE = "sample_id", "image"
SIZES = {"width": 2, "height": 1}
"""Column → axis of (c, h, w)."""
MANIFEST = b"robustboard.images"
"""Key of the file's metadata that holds the manifest."""
ROW_GROUP = 64
"""Images a row group."""
OVERHEAD = 16 * 2**20
"""Bytes that the columns of a small file may take besides their values."""
WIDE = 4
"""Bytes of a character in UTF-8."""
THRIFT_BYTES = 16 * 2**20
THRIFT_ITEMS = 1_000_000


def read_parquet(file: BinaryIO, name: str, asked: Asked) -> ImageSet:
    """The images of a Parquet file, decoded one at a time; counts and types are checked before.

    Raises CellError that names file and row.
    """
    try:
        return _read(file, name, asked)
    except (CellError, MemoryError):
        raise
    except Exception as error:  # readers fed with damaged bytes raise whatever comes
        raise refused(name, f"not a Parquet file that can be read: {in_short(error)}") from error


def _read(file: BinaryIO, name: str, asked: Asked) -> ImageSet:
    parquet = pq.ParquetFile(
        file,
        page_checksum_verification=True,
        thrift_string_size_limit=THRIFT_BYTES,
        thrift_container_size_limit=THRIFT_ITEMS,
    )
    count = parquet.metadata.num_rows
    asked.values(count, 1, name)
    columns = _columns(parquet.schema_arrow, name)
    _need_sizes(parquet.metadata, name, asked)
    found = (parquet.metadata.metadata or {}).get(MANIFEST)
    manifest = read_manifest(found[: MAX_MANIFEST + 1], name) if found is not None else None
    values: npt.NDArray[np.uint8] = np.empty((count, *asked.shape), np.uint8)
    ids: list[object] = []
    # One row at a time: a repeated or well packed value costs its own size and never that of many.
    for batch in parquet.iter_batches(batch_size=1, columns=columns, use_threads=False):
        for row in range(batch.num_rows):
            place = len(ids)
            if place >= count:
                raise refused(name, f"expected {count} rows as the file says, got more")
            ids.append(batch.column(IDS)[row].as_py())
            values[place] = _image(batch, row, f"{name}: row {place} ({_label(ids[-1])})", asked)
    if len(ids) != count:
        raise refused(name, f"expected {count} rows as the file says, got {len(ids)}")
    return ImageSet(checked_ids(ids, name), values, manifest)


def _need_sizes(metadata: pq.FileMetaData, name: str, asked: Asked) -> None:
    """Raise CellError where columns, by the file's own word, unpack to more than so many images need."""
    chunks = [
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    ]
    size = sum(max(chunk.total_uncompressed_size, 0) for chunk in chunks)
    limit = OVERHEAD + metadata.num_rows * (_most_bytes(asked) + WIDE * MAX_ID)
    if size > limit:
        raise refused(name, f"expected columns of at most {limit} bytes once unpacked, got {size}")


def _most_bytes(asked: Asked) -> int:
    """Of the PNG of one image."""
    return 2 * asked.pixels + MAX_MANIFEST


def _label(value: object) -> str:
    return echo(value) if isinstance(value, str) else "no id"


def _columns(schema: pa.Schema, name: str) -> list[str]:
    """The columns to read. Raises CellError where one is missing, strange or of another type."""
    names: list[str] = schema.names
    allowed = {IDS, IMAGE, *SIZES}
    if len(set(names)) != len(names) or not {IDS, IMAGE} <= set(names) <= allowed:
        shown = ", ".join(echo(each) for each in names[:6])
        raise refused(
            name, f"expected the columns {IDS}, {IMAGE} and perhaps width and height, each once, got {shown}"
        )
    for column in names:
        kind = schema.field(column).type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        raw = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        fits = text if column == IDS else raw if column == IMAGE else pa.types.is_integer(kind)
        if not fits:
            wanted = {IDS: "text", IMAGE: "bytes"}.get(column, "whole numbers")
            raise refused(name, f"{column}: expected {wanted}, got {in_short(TypeError(str(kind)))}")
    return names


def _image(batch: pa.RecordBatch, row: int, name: str, asked: Asked) -> npt.NDArray[np.uint8]:
    for column, axis in SIZES.items():
        if column in batch.schema.names:
            said = batch.column(column)[row].as_py()
            if said != asked.shape[axis]:
                raise refused(name, f"{column}: expected {asked.shape[axis]} ({asked.size_of}), got {said}")
    value: Any = batch.column(IMAGE)[row]
    size = len(value.as_buffer()) if value.is_valid else 0
    limit = _most_bytes(asked)
    if not 1 <= size <= limit:
        raise refused(name, f"expected 1 to {limit} bytes of PNG, got {size}")
    return from_png(value.as_py(), name, asked)


def parquet_bytes(ids: tuple[str, ...], values: npt.NDArray[np.uint8], manifest: Manifest) -> bytes:
    """A Parquet file of these images, (n, c, h, w) uint8."""
    table = pa.table(
        {
            IDS: pa.array(ids, pa.string()),
            IMAGE: pa.array([to_png(image) for image in values], pa.binary()),
            "width": pa.array([values.shape[3]] * len(ids), pa.int32()),
            "height": pa.array([values.shape[2]] * len(ids), pa.int32()),
        }
    ).replace_schema_metadata({MANIFEST: manifest_bytes(manifest)})
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=False,
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
    )
    return sink.getvalue()
