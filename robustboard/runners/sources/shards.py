"""One data file of a Hub dataset as rows: Parquet, a tar or zip of samples or class folders, one image.

Pickles, scripts and other archives inside are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from robustboard.errors import CellError, echo, suggestion
from robustboard.registry.entries import HubData
from robustboard.runners.sources.archives import Archive, Member
from robustboard.runners.sources.folder import SPLITS, SUFFIXES
from robustboard.runners.sources.parquet import (
    ParquetImages,
    check_image_type,
    class_names,
    column_values,
    group_values,
    label_values,
    need_columns,
)
from robustboard.runners.sources.stored import EncodedImages

FOLDER_COLUMNS = ("image", "label")
"""What columns of class folders are called, as by the library `datasets`."""

PICKLED = frozenset({"pkl", "pickle", "pyd", "pth", "pt", "joblib", "dill", "npy", "npz"})
"""Endings of members that other readers run as code or unpickle."""

LONGEST_FIELD = 300
"""Bytes of a label in a tar."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of one data file."""

    labels: Sequence[int | str | None]
    images: EncodedImages
    names: tuple[str, ...] | None = None
    """`class/file`, where rows have names."""
    groups: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    close: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True, slots=True)
class Members:
    """Images that are members of an archive."""

    members: tuple[Member, ...]

    def read(self, row: int) -> bytes:
        """The bytes of one member."""
        return self.members[row].read()


@dataclass(frozen=True, slots=True)
class OneFile:
    """An image that is a file of its own."""

    path: Path
    name: str

    def read(self, row: int) -> bytes:
        """The bytes of the file."""
        del row
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise CellError("decode", f"{self.name}: cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Opening:
    """What opening a data file needs to know."""

    path: Path
    name: str
    """In the repository."""
    source: HubData
    size: int
    """Images of the whole set, as the entry says."""
    scratch: Path


Opener = Callable[[Opening], Shard]


def open_shard(opening: Opening) -> Shard:
    """The rows of one data file, by its ending. Raises CellError."""
    name = opening.name.lower()
    for ending, opener in OPENERS.items():
        if name.endswith(ending):
            return opener(opening)
    raise CellError("decode", f"{opening.name}: expected one of {', '.join(OPENERS)}")


def _parquet(opening: Opening) -> Shard:
    source, name = opening.source, opening.name
    texts = [each for each in (source.label_column, source.group_column) if each is not None]
    try:
        footer = pq.read_metadata(opening.path)
        columns = footer.schema.to_arrow_schema().names
        named = [each for each in texts if each in columns]
        file = pq.ParquetFile(opening.path, metadata=footer, read_dictionary=named)
    except (pa.ArrowException, OSError) as error:
        raise CellError("decode", f"{name}: not a Parquet file that can be read: {error}") from error
    if file.metadata.num_rows > opening.size:
        raise CellError(
            "labels",
            f"{name}: expected at most the entry's {opening.size} rows, got {file.metadata.num_rows}",
        )
    schema = file.schema_arrow
    need_columns(name, schema.names, source.image_column, source.label_column, source.group_column)
    check_image_type(name, schema, source.image_column)
    labels = label_values(column_values(name, file, source.label_column), source.label_column)
    groups = None
    if source.group_column is not None:
        groups = tuple(group_values(column_values(name, file, source.group_column), source.group_column))
    return Shard(
        labels,
        ParquetImages([(name, file)], source.image_column),
        groups=groups,
        class_names=class_names(schema, source.label_column),
        close=lambda: file.close(force=True),
    )


def _archive(opening: Opening) -> Shard:
    source = opening.source
    archive = Archive(opening.path, opening.name, opening.scratch)
    try:
        if (source.image_column, source.label_column) == FOLDER_COLUMNS:
            found = _class_folders(archive, source)
        else:
            found = _samples(archive, source)
    except CellError:
        archive.close()
        raise
    return found


def _class_folders(archive: Archive, source: HubData) -> Shard:
    """Images sorted by class folder and name, of the split's folder where there are several."""
    images = []
    for member in archive.members:
        parts = member.path.split("/")
        hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
        if not hidden and Path(parts[-1]).suffix.lower() in SUFFIXES:
            images.append((parts, member))
    if any(SPLITS.intersection(parts[:-2]) for parts, _ in images):
        images = [(parts, member) for parts, member in images if source.split in parts[:-2]]
    named = sorted(
        ((folder_name(parts, archive.name), member) for parts, member in images), key=lambda each: each[0]
    )
    check_unique((name for name, _ in named), archive.name)
    return Shard(
        [name.split("/")[0] for name, _ in named],
        Members(tuple(member for _, member in named)),
        names=tuple(name for name, _ in named),
        close=archive.close,
    )


def folder_name(parts: Sequence[str], where: str) -> str:
    """`class/file` of a path. Raises CellError for an image outside any class folder."""
    if len(parts) < len(FOLDER_COLUMNS) or parts[-2].lower() in SPLITS:
        raise CellError(
            "labels", f"{where}: no label for {echo('/'.join(parts))}: expected it inside a class folder"
        )
    return f"{parts[-2]}/{parts[-1]}"


def check_unique(names: Iterable[str], where: str) -> None:
    """Raise CellError for a name that occurs twice: two folders of one class, or one file in two shards."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise CellError("labels", f"{where}: {echo(name)} occurs twice")
        seen.add(name)


def _samples(archive: Archive, source: HubData) -> Shard:
    """Samples of a tar as webdataset has them: members of one name, whose endings are the columns."""
    found: dict[str, dict[str, Member]] = {}
    for member in archive.members:
        folder, _, last = member.path.rpartition("/")
        stem, _, ending = last.partition(".")
        if not stem or not ending:
            continue
        ending = ending.lower()
        if ending.rsplit(".", 1)[-1] in PICKLED:
            raise CellError(
                "decode", f"{archive.name}: member {echo(member.path)}: pickles and arrays are never read"
            )
        found.setdefault(f"{folder}/{stem}", {})[ending] = member
    wanted = [source.image_column, source.label_column]
    wanted += [source.group_column] if source.group_column is not None else []
    samples = []
    for name, fields in found.items():
        lacking = [each for each in wanted if each not in fields]
        if len(lacking) == len(wanted):
            continue  # a read-me file, or a list of class names
        if lacking:
            raise CellError(
                "decode" if lacking[0] == source.image_column else "labels",
                f"{archive.name}: sample {echo(name.lstrip('/'))}: expected a member .{lacking[0]},"
                f" got {', '.join(sorted(fields)[:8])}{suggestion(lacking[0], fields)}",
            )
        samples.append(fields)
    if not samples:
        endings = sorted({ending for fields in found.values() for ending in fields})
        raise CellError(
            "decode",
            f"{archive.name}: expected members .{source.image_column}, got {', '.join(endings[:8]) or 'none'}"
            f"{suggestion(source.image_column, endings)}",
        )
    labels = [_label(fields[source.label_column], archive.name) for fields in samples]
    groups = None
    if source.group_column is not None:
        groups = tuple(str(_label(fields[source.group_column], archive.name)) for fields in samples)
    images = tuple(fields[source.image_column] for fields in samples)
    return Shard(labels, Members(images), groups=groups, close=archive.close)


def _label(member: Member, where: str) -> int | str:
    """A whole number or text."""
    if member.size > LONGEST_FIELD:
        raise CellError(
            "labels", f"{where}: member {echo(member.path)}: expected a label, got {member.size} bytes"
        )
    try:
        text = member.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise CellError("labels", f"{where}: member {echo(member.path)}: expected text") from error
    plain = text.removeprefix("-")
    return int(text) if plain.isascii() and plain.isdecimal() and len(plain) < 10 else text  # noqa: PLR2004 - digits


def _image(opening: Opening) -> Shard:
    name = folder_name(opening.name.split("/"), opening.name)
    return Shard([name.split("/")[0]], OneFile(opening.path, opening.name), names=(name,))


OPENERS: dict[str, Opener] = {
    ".parquet": _parquet,
    ".tar": _archive,
    ".tar.gz": _archive,
    ".tgz": _archive,
    ".zip": _archive,
    ".png": _image,
    ".jpg": _image,
    ".jpeg": _image,
    ".webp": _image,
}
"""Ending of a data file → the function that opens it."""
