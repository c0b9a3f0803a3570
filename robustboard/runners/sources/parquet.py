"""Parquet files with encoded images, read one row group at a time."""

from __future__ import annotations

import bisect
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robustboard.errors import CellError, FailureKind, suggestion
from robustboard.registry.entries import ParquetData
from robustboard.runners.sources.places import check_file, find_data
from robustboard.runners.sources.stored import Request, Stored, StoredLabels, row_ids

DECODE: FailureKind = "decode"
LABELS: FailureKind = "labels"

LONGEST_LABEL = 1000
"""Bytes of a label."""
ROWS_AT_ONCE = 4
LARGEST_GROUP = 2 * 2**30
"""Bytes of the images of one row group; they are in memory together."""
SMALL_GROUP = 32 * 2**20
"""Bytes that a row group may grow to, however small the file."""
MOST_SWOLLEN = 20
"""Times that a row group may grow: images hardly shrink."""


class ParquetImages:
    """The image column of several Parquet files, as one list; keeps one row group in memory."""

    def __init__(self, files: list[tuple[str, pq.ParquetFile]], column: str) -> None:
        """Take open files, in order, each with its name for messages."""
        self.column = column
        self.groups: list[tuple[str, pq.ParquetFile, int]] = []
        self.starts: list[int] = []
        count = 0
        for name, file in files:
            for group in range(file.num_row_groups):
                self.groups.append((name, file, group))
                self.starts.append(count)
                count += file.metadata.row_group(group).num_rows
        self.count = count
        self.held: tuple[int, pa.Array] | None = None

    def read(self, row: int) -> bytes:
        """The bytes of one image."""
        place = bisect.bisect_right(self.starts, row) - 1
        if self.held is None or self.held[0] != place:
            name, file, group = self.groups[place]
            try:
                column = _group_values(file, group, self.column, name)
            except (pa.ArrowException, OSError) as error:
                raise CellError("decode", f"{name}: row group {group} cannot be read: {error}") from error
            self.held = (place, column)
        value = self.held[1][row - self.starts[place]].as_py()
        data = value.get("bytes") if isinstance(value, dict) else value
        if data is None:
            raise CellError("decode", f"row {row}: no image bytes in column {self.column}")
        return bytes(data)


def read_parquet(source: ParquetData, request: Request) -> Stored:
    """Rows of all files in the entry's order. Raises CellError."""
    files = []
    for pin in source.files:
        path = find_data(pin.path, request.workspace)
        check_file(path, pin.path, request, pin.sha256)
        try:
            files.append((pin.path, pq.ParquetFile(path)))
        except (pa.ArrowException, OSError) as error:
            raise CellError("decode", f"{pin.path}: not a Parquet file that can be read: {error}") from error
    values: list[int | str | None] = []
    groups: list[str] = []
    for name, file in files:
        schema = file.schema_arrow
        need_columns(name, schema.names, source.image_column, source.label_column, source.group_column)
        check_image_type(name, schema, source.image_column)
        values += label_values(column_values(name, file, source.label_column), source.label_column)
        if source.group_column is not None:
            groups += group_values(column_values(name, file, source.group_column), source.group_column)
    images = ParquetImages(files, source.image_column)
    return Stored(
        ids=row_ids(images.count, request.entry.size),
        labels=StoredLabels(values, class_names(files[0][1].schema_arrow, source.label_column)),
        images=images,
        origin=f"Parquet {', '.join(pin.path for pin in source.files)}",
        groups=tuple(groups) if source.group_column is not None else None,
    )


def class_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Class names that the library `datasets` stored in the file for a label column, if it did."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        feature = features[column]
        names = feature["names"] if feature["_type"] == "ClassLabel" else None
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def label_values(values: list[Any], column: str) -> list[int | str | None]:
    """Labels as whole numbers or text. Raises CellError that names the first other value."""
    for row, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
            raise CellError(
                "labels",
                f"row {row}: expected a whole number or text in {column}, got {type(value).__name__}",
            )
    return values


def group_values(values: list[Any], column: str) -> list[str]:
    """Groups as text. Raises CellError that names the first that is neither a whole number nor text."""
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise CellError(
                "labels",
                f"row {row}: expected a whole number or text in {column}, got {type(value).__name__}",
            )
    return list(map(str, values))


def need_columns(
    name: str, columns: list[str], image_column: str, label_column: str, group_column: str | None = None
) -> None:
    """Raise CellError that lists the columns when the entry's are not among them."""
    for column, kind in ((image_column, DECODE), (label_column, LABELS), (group_column, LABELS)):
        if column is not None and column not in columns:
            shown = ", ".join(columns[:8])
            raise CellError(
                kind, f"{name}: expected a column {column}, got {shown}{suggestion(column, columns)}"
            )


def check_image_type(name: str, schema: pa.Schema, column: str) -> None:
    """Raise CellError unless a column holds image bytes, or a struct with bytes."""
    image = schema.field(column).type
    if pa.types.is_struct(image):
        at = image.get_field_index("bytes")
        image = image.field(at).type if at >= 0 else pa.null()
    if not (pa.types.is_binary(image) or pa.types.is_large_binary(image)):
        raise CellError(
            "decode",
            f"{name}: {column}: expected image bytes, or a struct with bytes, got {image}",
        )


def column_values(name: str, file: pq.ParquetFile, column: str) -> list[Any]:
    """All values of a column of labels or groups. Raises CellError, also for texts no label can be."""
    try:
        found = file.read(columns=[column]).column(0)
        for chunk in found.chunks:
            texts = chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk
            # A dictionary of one long text stands for gigabytes once every row has a copy.
            if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
                longest = pc.max(pc.binary_length(texts)).as_py() or 0
                if longest > LONGEST_LABEL:
                    raise CellError(
                        "labels",
                        f"{name}: column {column}: expected labels of at most {LONGEST_LABEL} bytes,"
                        f" got one of {longest}",
                    )
        values: list[Any] = found.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise CellError("decode", f"{name}: column {column} cannot be read: {error}") from error
    return values


def _group_values(file: pq.ParquetFile, group: int, column: str, name: str) -> pa.Array:
    """A row group's images, a few rows at a time: what is no image set is found before memory ends."""
    total, packed = _group_size(file, group, column)
    if total > LARGEST_GROUP or total > max(SMALL_GROUP, MOST_SWOLLEN * packed):
        raise CellError("decode", f"{name}: row group {group} grows from {packed} to {total} bytes")
    parts = []
    held = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=[group], columns=[column]):
        parts.append(batch.column(0))
        held += batch.column(0).nbytes
        if held > max(SMALL_GROUP, MOST_SWOLLEN * packed):
            raise CellError("decode", f"{name}: row group {group} grows from {packed} to over {held} bytes")
    return pa.chunked_array(parts).combine_chunks()


def _group_size(file: pq.ParquetFile, group: int, column: str) -> tuple[int, int]:
    """Bytes of a column in a row group, unpacked and packed, as the file's footer has them."""
    metadata = file.metadata.row_group(group)
    total = packed = 0
    for index in range(metadata.num_columns):
        part = metadata.column(index)
        if part.path_in_schema.split(".")[0] == column:
            total += part.total_uncompressed_size
            packed += part.total_compressed_size
    return total, packed
