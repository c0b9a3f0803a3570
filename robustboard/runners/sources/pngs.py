"""Whether a PNG holds all the rows that it says: Pillow fills absent ones with black, without a word."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from robustboard.errors import CellError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type → samples a pixel (PNG 3rd edition, table 8)."""

PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Adam7: first column and row, steps between columns and rows of each pass (section 8.1)."""

STEP = 2**16


def check_rows(image: Image.Image, data: bytes, name: str) -> None:
    """Refuse a PNG whose pixels end early.

    Absent rows show as black at the bottom, so files that end in anything else are not looked at again.
    Raises CellError (decode).
    """
    if image.format != "PNG" or not data.startswith(SIGNATURE):
        return
    width, height, depth, colour, interlaced = struct.unpack_from(">IIBB2xB", data, 16)
    last = image.crop((0, image.height - 1, image.width, image.height)).tobytes()
    if not interlaced and last.count(0) != len(last):
        return
    bits = depth * CHANNELS.get(colour, 0)
    wanted = _bytes(width, height, bits) if not interlaced else _interlaced(width, height, bits)
    found = 0
    unpacker = zlib.decompressobj()
    for part in _image_data(data):
        rest = part
        while rest and found < wanted and not unpacker.eof:
            found += len(unpacker.decompress(rest, STEP))
            rest = unpacker.unconsumed_tail
    if found < wanted:
        raise CellError("decode", f"{name}: damaged image: it ends after {found} of {wanted} bytes of pixels")


def _bytes(width: int, height: int, bits: int) -> int:
    """Of all rows, each with its filter's number in front."""
    return height * (1 + (width * bits + 7) // 8) if width else 0


def _interlaced(width: int, height: int, bits: int) -> int:
    return sum(
        _bytes((width - left + across - 1) // across, (height - top + down - 1) // down, bits)
        for left, top, across, down in PASSES
        if width > left and height > top
    )


def _image_data(data: bytes) -> Iterator[bytes]:
    """The contents of the IDAT chunks."""
    place = len(SIGNATURE)
    while place + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        if data[place + 4 : place + 8] == b"IDAT":
            yield data[place + 8 : place + 8 + length]
        place += 12 + length
