"""Decoded images on disk, so that each file is decoded once for all models that take it alike.

One file a set and view: a table of digests, then the pixels, uint8, row by row. A row counts only where
its digest is that of the image file's own digest with the pixels, so a torn write, a flipped bit, a file
cut short and another set's file are all the same: a row that is not there, to be decoded again. Nothing
has to be flushed, locked or repaired, and processes that write the same row write the same bytes. Pixels
are read by calls and not through a map of memory: a file cut short by someone else cannot kill the
process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import __version__ as pillow
from PIL import features

from robustboard import durable, jsons
from robustboard.errors import RobustboardError, UserError
from robustboard.runners.sources.decoding import RULES
from robustboard.runners.sources.fitting import View
from robustboard.runners.sources.stored import Pixels
from robustboard.workspace import Workspace

VARIABLE = "ROBUSTBOARD_CACHE"
"""Names the folder; runs/cache in the output folder when it is not set."""

LIMIT_VARIABLE = "ROBUSTBOARD_CACHE_GB"
"""Most that all files together may take, in GB of 1e9 bytes; 0 keeps nothing."""

LIMIT = 20.0
"""ImageNet's 50,000 validation images take 7.5 GB at 224 pixels."""

RESERVE = 2 * 10**9
"""Bytes of the disk that are left free for results."""

SUFFIX = ".views"
DIGEST = hashlib.sha256().digest_size
ABSENT = bytes(DIGEST)
"""Stands for a file that could not be read."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of such files and the bytes that it may take."""

    folder: Path
    limit: int

    def open(self, view: View, files: Sequence[bytes]) -> Views | None:
        """The images of a set, given the SHA-256 of each of its files; None where they may not be kept.

        The oldest used files go until there is room. A set larger than the limit, or than what the disk
        can spare, is not kept, and nothing goes for it. Raises nothing: without the cache all is
        decoded each time.
        """
        stride = view.size * view.size * view.channels
        size = len(files) * (DIGEST + stride)
        path = self.folder / f"{_key(view, files)}{SUFFIX}"
        try:
            if not files or size > self.limit or not self._usable():
                return None
            with durable.exclusive(self.folder):
                if not path.exists() and not self._make_room(size):
                    return None
                handle = durable.open_slots(path, size)
        except (OSError, RobustboardError):
            return None
        return Views(handle, files, (view.size, view.size, view.channels))

    def _usable(self) -> bool:
        durable.make_folder(self.folder)
        return os.access(self.folder, os.W_OK)

    def _make_room(self, needed: int) -> bool:
        """Delete the longest unused files until `needed` more bytes fit; False where they never would."""
        found = sorted(
            ((path.stat(), path) for path in self.folder.glob(f"*{SUFFIX}")),
            key=lambda each: each[0].st_mtime_ns,
        )
        free = shutil.disk_usage(self.folder).free - RESERVE
        # A file of which only some rows were written takes less on the disk than it is long.
        if free + sum(status.st_blocks * 512 for status, _ in found) < needed:
            return False
        total = sum(status.st_size for status, _ in found)
        for status, path in found:
            if total + needed <= self.limit and free >= needed:
                break
            durable.remove(path)
            total -= status.st_size
            free += status.st_blocks * 512
        return True


class Views:
    """The rows of one open file."""

    def __init__(self, handle: int, files: Sequence[bytes], shape: tuple[int, int, int]) -> None:
        """Take a file that is open for reading and writing, and close it when forgotten."""
        self.handle = handle
        self.files = files
        self.shape = shape
        self.stride = int(np.prod(shape))
        self.broken = False
        """Whether writing has failed: a full disk stops the cache, not the run."""
        weakref.finalize(self, os.close, handle)

    def get(self, rows: Sequence[int], into: Pixels) -> npt.NDArray[np.bool_]:
        """Read rows into the array (k, h, w, c), and say (k,) which of them were there, whole and right."""
        found = np.zeros(len(rows), bool)
        for start, stop in _runs(rows):
            table = np.zeros((stop - start, DIGEST), np.uint8)
            try:
                _read(self.handle, table, rows[start] * DIGEST)
                _read(self.handle, into[start:stop], self._place(rows[start]))
            except OSError:
                continue
            for place in range(start, stop):
                expected = table[place - start].tobytes()
                found[place] = expected == self._digest(rows[place], into[place])
        return found

    def put(self, row: int, pixels: Pixels) -> None:
        """Keep one row; does nothing once the disk is full."""
        if self.broken or self.files[row] == ABSENT:
            return
        try:
            durable.write_at(self.handle, np.ascontiguousarray(pixels).data, self._place(row))
            durable.write_at(self.handle, memoryview(self._digest(row, pixels)), row * DIGEST)
        except OSError:
            self.broken = True

    def _place(self, row: int) -> int:
        return len(self.files) * DIGEST + row * self.stride

    def _digest(self, row: int, pixels: Pixels) -> bytes:
        state = hashlib.sha256(self.files[row])
        state.update(np.ascontiguousarray(pixels).data)
        return state.digest()


def cache_of(workspace: Workspace) -> Cache:
    """The cache of a workspace, as the environment has it. Raises UserError for a limit that is no number."""
    text = os.environ.get(LIMIT_VARIABLE, "") or str(LIMIT)
    try:
        limit = float(text)
        whole = int(limit * 10**9)
    except (ValueError, OverflowError):
        raise UserError(f"{LIMIT_VARIABLE}: expected a number of GB, 0 for no cache, got {text!r}") from None
    named = os.environ.get(VARIABLE)
    return Cache(Path(named) if named else workspace.runs / "cache", whole)


@cache
def _decoders() -> list[str]:
    """Versions of all that turns files into pixels."""
    codecs = [f"{name} {features.version(name)}" for name in ("libjpeg_turbo", "jpg", "zlib", "webp")]
    return [f"rules {RULES}", f"Pillow {pillow}", *codecs]


def _key(view: View, files: Sequence[bytes]) -> str:
    """Name of the file for a set's content and a view of it (64 hex digits)."""
    content = hashlib.sha256(b"".join(files)).hexdigest()
    return jsons.digest(
        "robustboard.views/1",
        {"view": view.rule(), "decoders": _decoders(), "images": len(files), "content": content},
    )


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Places (start, stop) of successive row numbers."""
    breaks = [place for place in range(1, len(rows)) if rows[place] != rows[place - 1] + 1]
    edges = [0, *breaks, len(rows)]
    return [(start, stop) for start, stop in pairwise(edges) if stop > start]


def _read(handle: int, into: npt.NDArray[np.uint8], offset: int) -> None:
    """Fill an array from a file; what lies beyond its end stays as it was."""
    rest = into.reshape(-1).data
    while rest:
        count = os.preadv(handle, [rest], offset)
        if count == 0:
            return
        rest, offset = rest[count:], offset + count
