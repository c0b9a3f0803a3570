"""One sub-folder a class."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from robustboard.errors import CellError, LockError, echo
from robustboard.registry.entries import FolderData
from robustboard.registry.resolve import digest_folder
from robustboard.runners.sources.decoding import MAX_BYTES
from robustboard.runners.sources.labels import class_numbers
from robustboard.runners.sources.places import check_pins, find_data
from robustboard.runners.sources.stored import Request, Stored, StoredLabels

SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"})
"""Folder names that hold splits, not classes."""

PLACEHOLDERS = {"label": "A-Za-z_ ", "class": "A-Za-z_ ", "group": "A-Za-z0-9_ "}
"""What may stand for a placeholder of `group_from` in a file's name."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
"""What marks a file beside the class folders as an image without a label; others are read-me files."""


@dataclass(frozen=True, slots=True)
class FolderImages:
    """Files below one folder."""

    root: Path
    paths: tuple[str, ...]

    def read(self, row: int) -> bytes:
        """The bytes of one file, which must not be larger than MAX_BYTES."""
        name = self.paths[row]
        try:
            # Without NONBLOCK, to open a pipe would wait for ever.
            handle = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise CellError("decode", f"{name}: expected a regular file")
                if status.st_size > MAX_BYTES:
                    raise CellError("decode", f"{name}: expected at most {MAX_BYTES} bytes")
                with open(handle, "rb", closefd=False) as file:
                    return file.read()
            finally:
                os.close(handle)
        except OSError as error:
            raise CellError("decode", f"{name}: cannot be read: {error.strerror or error}") from error


def read_folder(source: FolderData, request: Request) -> Stored:
    """Files of the sub-folders, sorted by path; the sub-folder's name is the stored label.

    Empty class folders are fine. Every file in a class folder whose name does not start with a dot
    counts as an image. Raises CellError.
    """
    root = find_data(source.path, request.workspace)
    if not root.is_dir():
        raise CellError("decode", f"{source.path}: expected a folder with one sub-folder a class, got a file")
    if request.locked is not None:
        try:
            check_pins(source.path, *digest_folder(root), request)
        except LockError as error:
            raise CellError("hash-mismatch", str(error)) from error
    paths = []
    folders = _class_folders(root, source.path, request)
    if source.only_declared:
        known = class_numbers((folder.name for folder in folders), request.entry, request.space)
        folders = [folder for folder in folders if known[folder.name] is not None]
    for folder in folders:
        for file in sorted(os.scandir(folder), key=lambda each: each.name):
            name = f"{folder.name}/{file.name}"
            if file.name.startswith("."):
                continue
            if file.is_dir():
                raise CellError(
                    "labels", f"{source.path}/{name}: expected images in a class folder, got a folder"
                )
            paths.append(_printable(name))
    return Stored(
        ids=tuple(paths),
        labels=StoredLabels([path.split("/")[0] for path in paths]),
        images=FolderImages(root, tuple(paths)),
        origin=f"folder {source.path}",
        groups=_groups(source, paths, request) if source.group_from is not None else None,
        names=lambda row: f"{source.path}/{paths[row]}",
    )


def _groups(source: FolderData, paths: list[str], request: Request) -> tuple[str, ...]:
    """What file names tell of each image, by the entry's pattern. Raises CellError that names the file."""
    pattern = source.group_from or ""
    rule = re.escape(pattern).replace("\\#", "[0-9]+")
    for name, characters in PLACEHOLDERS.items():
        rule = rule.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>[{characters}]+)")
    found = []
    for path in paths:
        folder, file = path.split("/")
        match = re.fullmatch(rule, file.rsplit(".", 1)[0])
        words = match.groupdict() if match is not None else {}
        if match is None or words.get("label", folder) != folder:
            raise CellError(
                "labels",
                f"{source.path}/{path}: expected a name like {pattern} in a folder named by its label",
            )
        found.append(words.get("group") or words["class"])
    if "{class}" not in pattern:
        return tuple(found)
    numbers = class_numbers(set(found), request.entry, request.space)
    for path, text in zip(paths, found, strict=True):
        if numbers[text] is None:
            raise CellError(
                "labels", f"{source.path}/{path}: {echo(text)} in its name is no class of {request.space.id}"
            )
    return tuple(str(numbers[text]) for text in found)


def _class_folders(root: Path, shown: str, request: Request) -> list[Path]:
    entries = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    folders = [path for path in entries if path.is_dir()]
    loose = [path.name for path in entries if not path.is_dir() and path.suffix.lower() in SUFFIXES]
    if loose:
        raise CellError(
            "labels", f"{shown}: no label for {echo(loose[0])}: expected every image inside a class folder"
        )
    if not folders:
        raise CellError("labels", f"{shown}: no labels: expected one sub-folder a class, got no sub-folder")
    names = [path.name for path in folders]
    if all(name.lower() in SPLITS and name not in request.space.classes for name in names):
        raise CellError(
            "labels",
            f"{shown}: no labels: {', '.join(names)} are splits, not classes;"
            " expected one sub-folder a class, or name one split's folder as the entry's path",
        )
    return folders


def _printable(name: str) -> str:
    if not name.isprintable():
        raise CellError("decode", f"{echo(name)}: expected a file name of printable text")
    return name
