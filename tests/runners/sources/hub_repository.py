"""Repositories of the Hub on loopback: folders on disk, listed as the Hub lists them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMIT = re.compile(r"[0-9a-f]{40}")
LARGE = (".parquet", ".safetensors", ".tar", ".zip", ".gz")


def is_large(name: str) -> bool:
    """Whether a file is kept by Git LFS: the Hub then knows its SHA-256."""
    return name.endswith(LARGE)


class Repository:
    """One repository below ROOT."""

    def __init__(self, root: Path, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.folder = root / kind / name

    @property
    def gated(self) -> bool:
        return (self.folder / "gated").is_file()

    def commit(self, revision: str) -> str | None:
        """The commit of a revision; None where there is none."""
        pointer = self.folder / revision
        tag = self.folder / "tags" / revision
        found = pointer.read_text().strip() if pointer.is_file() and revision == "main" else revision
        found = tag.read_text().strip() if tag.is_file() else found
        return found if COMMIT.fullmatch(found) and (self.folder / found).is_dir() else None

    def files(self, commit: str) -> Iterator[tuple[str, Path]]:
        top = self.folder / commit
        for path in sorted(top.rglob("*")):
            if path.is_file():
                yield path.relative_to(top).as_posix(), path

    def info(self, commit: str) -> dict[str, Any]:
        return {
            "id": self.name,
            "sha": commit,
            "private": False,
            "gated": "manual" if self.gated else False,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [sibling(name, path) for name, path in self.files(commit)],
        }

    def tree(self, commit: str, below: str, *, recursive: bool) -> list[dict[str, Any]] | None:
        """Entries of a folder as the API lists them; None where there is no such folder."""
        entries: dict[str, dict[str, Any]] = {}
        start = f"{below}/" if below else ""
        for name, path in self.files(commit):
            if not name.startswith(start):
                continue
            parts = name[len(start) :].split("/")
            for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
                folder = start + "/".join(parts[:depth])
                entries[folder] = {
                    "type": "directory",
                    "path": folder,
                    "size": 0,
                    "oid": blob_sha1(folder.encode()),
                }
            if recursive or len(parts) == 1:
                data = path.read_bytes()
                entries[name] = {"type": "file", "path": name, "size": len(data), "oid": blob_sha1(data)}
                if is_large(name):
                    oid = hashlib.sha256(data).hexdigest()
                    entries[name]["lfs"] = {"oid": oid, "size": len(data), "pointerSize": 130}
        return list(entries.values()) if entries or not below else None


def sibling(name: str, path: Path) -> dict[str, Any]:
    """A file as the API lists it; weights and tables are large files, whose hash the Hub knows."""
    data = path.read_bytes()
    listed: dict[str, Any] = {"rfilename": name, "size": len(data)}
    if is_large(name):
        listed["lfs"] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "pointerSize": 130,
        }
    return listed


def blob_sha1(data: bytes) -> str:
    """The name that Git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
