"""8-bit pixels as PNG and back, without loss. Every other kind of image is refused, by content."""

from __future__ import annotations

import io
import struct

import numpy as np
import numpy.typing as npt
from PIL import Image

from robustboard.errors import CellError
from robustboard.runners.imagesets.image_set import Asked, in_short, refused
from robustboard.runners.sources.decoding import strict_pillow

SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = struct.Struct(">8sI4sIIBB")
"""Signature, length and name of the first chunk, width, height, bits, colour type (PNG, section 11.2.2)."""

COLOUR = {1: 0, 3: 2}
"""Channels → colour type: grey, or RGB."""

LEVEL = 6
"""Of zlib, pinned so that equal pixels give equal bytes."""

OTHERS = {
    b"\xff\xd8\xff": "JPEG, which loses small changes",
    b"RIFF": "WebP",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"GIF8": "GIF",
    b"\0\0\0\x0cjP": "JPEG 2000",
}


def kind_of(data: bytes) -> str:
    """What bytes look like by their start."""
    for start, kind in OTHERS.items():
        if data.startswith(start):
            return kind
    return f"bytes that start with {data[:4].hex() or 'nothing'}"


def from_png(data: bytes, name: str, asked: Asked) -> npt.NDArray[np.uint8]:
    """uint8 (c, h, w) of one PNG with 8 bits a channel, grey or RGB, without transparency.

    Its header is checked before anything is decoded. Raises CellError that starts with `name`.
    """
    if not data.startswith(SIGNATURE):
        raise refused(name, f"expected PNG, which is lossless, got {kind_of(data)}")
    channels, height, width = asked.shape
    if len(data) < HEADER.size:
        raise refused(name, f"expected a whole PNG, got {len(data)} bytes")
    _, _, chunk, wide, high, bits, colour = HEADER.unpack_from(data)
    if (chunk, bits, colour) != (b"IHDR", 8, COLOUR[channels]):
        wanted = "grey" if channels == 1 else "RGB"
        raise refused(
            name,
            f"expected a PNG of 8 bits, {wanted} (colour type {COLOUR[channels]}),"
            f" got {bits} bits of colour type {colour}",
        )
    if (wide, high) != (width, height):
        raise refused(name, f"expected {width} x {height} pixels ({asked.size_of}), got {wide} x {high}")
    try:
        with strict_pillow(), Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            plain = getattr(image, "n_frames", 1) == 1 and "transparency" not in image.info
            image.load()
            values = np.asarray(image, np.uint8).reshape(height, width, channels)
    except (CellError, MemoryError):
        raise
    except Exception as error:  # decoders fed with damaged bytes raise whatever comes
        raise refused(name, f"damaged PNG: {in_short(error)}") from error
    if not plain:
        raise refused(name, "expected one opaque picture, got an animation or transparency")
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def to_png(image: npt.NDArray[np.uint8]) -> bytes:
    """One uint8 image (c, h, w) with c 1 or 3 as a PNG."""
    flat = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    sink = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(flat)).save(sink, format="PNG", optimize=False, compress_level=LEVEL)
    return sink.getvalue()
