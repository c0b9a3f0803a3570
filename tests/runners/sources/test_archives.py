"""Archives whose own descriptions lie, made byte by byte as no library writes them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from robustboard.errors import CellError
from robustboard.runners.sources.archives import Archive

SIZE, SUM = slice(124, 136), slice(148, 156)
"""Fields of a tar header (POSIX.1-1988)."""


def header(name: str, size: int) -> bytes:
    """A member's header with its size in base 256, which knows numbers below 0 (GNU tar)."""
    made = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    made[SIZE] = b"\xff" + size.to_bytes(11, "big", signed=True)
    made[SUM] = b" " * 8
    made[SUM] = b"%06o\0 " % sum(made)
    return bytes(made)


@pytest.mark.parametrize("size", [-1, -600, 600])
def test_a_member_that_cannot_be_as_large_as_it_says_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "odd.tar"
    path.write_bytes(header("zero/a.png", size) + bytes(512))
    with pytest.raises(
        CellError, match=r"odd\.tar: (member 'zero/a\.png': the archive is cut|not an archive)"
    ):
        Archive(path, "odd.tar", tmp_path)
