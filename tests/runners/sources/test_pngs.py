"""PNG files that end before their last row are damaged; Pillow alone fills them with black."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from robustboard.errors import CellError
from robustboard.runners.sources import pngs
from robustboard.runners.sources.decoding import decode


def png(width: int, height: int, depth: int, colour: int, data: bytes, *, interlaced: bool = False) -> bytes:
    """A PNG of these filtered rows, in two IDAT chunks."""
    packed = zlib.compress(data)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))]
    if colour == 3:
        parts.append((b"PLTE", bytes(range(3))))
    parts += [(b"IDAT", packed[:7]), (b"IDAT", packed[7:]), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    ]
    return pngs.SIGNATURE + b"".join(chunks)


KINDS = [(1, 0), (8, 0), (16, 0), (8, 2), (16, 2), (2, 3), (8, 3), (8, 4), (16, 4), (8, 6), (16, 6)]


def row_bytes(width: int, depth: int, colour: int) -> int:
    """Bytes of a row and its filter's number (PNG 3rd edition, section 7.2)."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    return 1 + -(-width * samples * depth // 8)


@pytest.mark.parametrize(("depth", "colour"), KINDS)
def test_every_missing_row_is_noticed(depth: int, colour: int) -> None:
    """Whole black pictures are fine; a byte or a row less is not. Some cuts Pillow notices itself."""
    row = row_bytes(130, depth, colour)
    decode(png(130, 90, depth, colour, bytes(90 * row)), "whole", 3)
    for missing in (1, row, 50 * row, 89 * row):
        with pytest.raises(CellError, match="cut: damaged image"):
            decode(png(130, 90, depth, colour, bytes(90 * row - missing)), "cut", 3)


@pytest.mark.parametrize(("width", "height"), [(13, 9), (8, 8), (1, 1), (5, 2), (16, 3)])
def test_interlaced_pictures_need_all_their_passes(width: int, height: int) -> None:
    """Sizes of Adam7's passes are counted pixel by pixel."""
    total = last = 0
    for left, top, across, down in pngs.PASSES:
        columns, rows = len(range(left, width, across)), len(range(top, height, down))
        last = row_bytes(columns, 8, 2) if columns and rows else last
        total += rows * last if columns else 0
    decode(png(width, height, 8, 2, bytes(total), interlaced=True), "whole", 3)
    with pytest.raises(CellError, match="cut: damaged image"):
        decode(png(width, height, 8, 2, bytes(total - last), interlaced=True), "cut", 3)


def test_files_that_end_in_colour_are_not_unpacked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check costs photographs nothing: only a black last row can be an absent one."""
    buffer = io.BytesIO()
    Image.fromarray(np.full((9, 13, 3), 7, np.uint8)).save(buffer, "PNG")
    monkeypatch.setattr(zlib, "decompressobj", None)
    decode(buffer.getvalue(), "bright", 3)


def test_control_pillow_alone_fills_with_black() -> None:
    data = png(130, 90, 8, 2, bytes(40 * row_bytes(130, 8, 2)))
    assert np.asarray(Image.open(io.BytesIO(data))).shape == (90, 130, 3)
    with pytest.raises(CellError, match=f"it ends after {40 * 391} of {90 * 391} bytes of pixels"):
        decode(data, "cut", 3)
