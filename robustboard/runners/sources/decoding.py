"""Image files → RGB or grey pixels, by rules that are written down and recorded with every run.

Only PNG, JPEG and WebP, told by their content and not by their name, at most MAX_PIXELS, one picture
a file. A rotation tag is applied, a damaged tag is ignored. Alpha is composited on black. 16-bit values
keep their upper 8 bits. Colour profiles are ignored, as in the published evaluations. Nothing is filled
in: a file that cannot be decoded whole is an error.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

from robustboard.errors import CellError
from robustboard.registry.entries import Decoding
from robustboard.runners.sources.pngs import check_rows

FORMATS = ("PNG", "JPEG", "WEBP")
MAX_PIXELS = 25_000_000
"""Width times height; ImageNet's largest training image has 14 million (reliability: image bombs)."""

MAX_BYTES = 128 * 1024 * 1024
"""Of one encoded file: 25 million RGB pixels take 75 MB without any compression."""

ORIENTATION = 0x0112
"""EXIF 2.3, table 4: the tag that says how the camera was held."""

TURNS: dict[int, Image.Transpose] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

STRIP = 256
"""Rows that are converted at once."""

EIGHT = 8
"""Bits of a channel that pixels are given at."""

GREY = frozenset({"1", "L", "I;16", "I;16B", "I;16L", "I;16N", "I"})
RULES = 2
"""Raised by hand when the same file gives other pixels than before."""

USUAL = Decoding()

ORIENTATIONS = {
    "applied": "EXIF rotation applied; an unknown or unreadable tag is ignored",
    "ignored": "EXIF rotation ignored",
}
ALPHAS = {"black": "composited on black", "dropped": "dropped; hidden colours show"}
POLICY: dict[str, str] = {
    "formats": "PNG, JPEG and WebP, by content; others refused",
    "colour profile": "ignored",
    "depth": "16-bit values keep their upper 8 bits",
    "animation": "refused; of a JPEG with further pictures the first is taken",
}
"""Facts about every set of image files; what an entry may choose is added by `policy`."""


def policy(decoding: Decoding) -> dict[str, str]:
    """How files of an entry are decoded, in words, for the record."""
    chosen = {"orientation": ORIENTATIONS[decoding.orientation], "alpha": ALPHAS[decoding.alpha]}
    return {**POLICY, **chosen}


@contextmanager
def strict_pillow() -> Iterator[None]:
    """Decode in here, in any thread: Pillow's warnings about odd metadata are silent, damage is not.

    They stay silent afterwards: restoring the filters of the whole process from one thread would undo
    what another one set meanwhile. Raises CellError where some import has told Pillow to fill damaged
    images with grey.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise CellError(
            "decode",
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set, so damaged images would be filled with grey;"
            " run without the library that sets it",
        )
    warnings.filterwarnings("ignore", module=r"PIL\.")
    yield


def decode(data: bytes, name: str, channels: int, decoding: Decoding = USUAL) -> Image.Image:
    """One image file as a Pillow image of mode RGB (3 channels) or L (1 channel).

    Grey files give three equal channels; colour files are refused where one channel is wanted,
    unless all their channels are equal. Raises CellError of kind `decode` that starts with `name`.
    """
    if len(data) > MAX_BYTES:
        raise _refused(name, f"expected at most {MAX_BYTES} bytes, got {len(data)}")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size_and_frames(image, name)
            image.load()
            check_rows(image, data, name)
            if decoding.alpha == "dropped":
                image.info.pop("transparency", None)
            _mend_clear_colour(image, data, name)
            upright = _upright(image) if decoding.orientation == "applied" else image
            flat = _flat(upright, name, alpha=decoding.alpha)
    except (CellError, MemoryError):
        raise
    except Exception as error:  # decoders fed with damaged bytes raise whatever comes
        raise _refused(name, _reason(data, error)) from error
    if channels == 1 and flat.mode != "L":
        return _single(flat, name)
    return flat if channels == 1 or flat.mode == "RGB" else flat.convert("RGB")


def _refused(name: str, reason: str) -> CellError:
    return CellError("decode", f"{name}: {reason}")


def _reason(data: bytes, error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not a PNG, JPEG or WebP image (starts with {data[:4].hex() or 'nothing'})"
    if isinstance(error, Image.DecompressionBombError):
        return f"expected at most {MAX_PIXELS} pixels: {error}"
    return f"damaged image: {str(error) or type(error).__name__}"


def _check_size_and_frames(image: Image.Image, name: str) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise _refused(name, f"expected at most {MAX_PIXELS} pixels, got {image.width} x {image.height}")
    if getattr(image, "n_frames", 1) != 1 and image.format != "MPO":
        raise _refused(name, "expected one picture, got an animation")


def _mend_clear_colour(image: Image.Image, data: bytes, name: str) -> None:
    """Bring the transparent colour of a PNG (tRNS) to the depth at which Pillow gives the pixels.

    Pillow scales grey values of 2 and 4 bits to 8, and not the colour. Of 16-bit RGB it keeps the upper
    bits alone, which cannot tell the transparent colour from its neighbours: refused.
    """
    clear = image.info.get("transparency")
    if clear is None or image.format != "PNG" or data[12:16] != b"IHDR":
        return
    depth = data[24]
    if image.mode == "L" and depth < EIGHT:
        image.info["transparency"] = clear * (255 // (2**depth - 1))
    elif image.mode == "RGB" and depth > EIGHT:
        raise _refused(name, "a transparent colour in a PNG of 16-bit colours is not supported")


def _upright(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(ORIENTATION)
        turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a damaged metadata block must not cost the image
        return image
    return image if turn is None else image.transpose(turn)


def _flat(image: Image.Image, name: str, alpha: str) -> Image.Image:
    """Mode L for grey files, RGB for all others."""
    if image.mode.startswith("I"):
        return _upper_bits(image)
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA", "La", "RGBa"):
        return _opaque(image, alpha=alpha)
    if image.mode in GREY:
        return image.convert("L")
    if image.mode in ("P", "RGB", "CMYK", "YCbCr"):
        return image.convert("RGB")
    raise _refused(name, f"colour mode {image.mode} is not supported")


def _upper_bits(image: Image.Image) -> Image.Image:
    grey = np.empty((image.height, image.width), np.uint8)
    clear = image.info.get("transparency")
    for box in _strips(image):
        values = np.asarray(image.crop(box)).astype(np.int64)
        part = grey[box[1] : box[3]]
        part[:] = np.clip(values, 0, 0xFFFF) >> 8
        if isinstance(clear, int):
            part[values == clear] = 0
    return Image.fromarray(grey)


def _opaque(image: Image.Image, alpha: str) -> Image.Image:
    """RGB, composited on black or with alpha dropped."""
    flat = Image.new("RGB", image.size)
    for box in _strips(image):
        part = image.crop(box)
        part.info = image.info
        clear = part.convert("RGBA")
        flat.paste(clear.convert("RGB"), box, clear.getchannel("A") if alpha == "black" else None)
    return flat


def _strips(image: Image.Image) -> Iterator[tuple[int, int, int, int]]:
    """Boxes of rows, top to bottom: copies of a whole picture of MAX_PIXELS would take 100 MB each."""
    for top in range(0, image.height, STRIP):
        yield 0, top, image.width, min(top + STRIP, image.height)


def _single(image: Image.Image, name: str) -> Image.Image:
    red, green, blue = (np.asarray(band) for band in image.split())
    if not ((red == green).all() and (green == blue).all()):
        raise _refused(name, "expected a grey image (channels 1 in the entry), got colours")
    return Image.fromarray(red)
