from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageFile

from robustboard.errors import CellError
from robustboard.runners.sources.decoding import MAX_PIXELS, decode, strict_pillow
from tests.runners.sources.lab import photographs

RAMP = np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8)


def encode(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def rgb(data: bytes) -> npt.NDArray[np.uint8]:
    with strict_pillow():
        return np.asarray(decode(data, "row 7", 3))


def refusal(data: bytes, channels: int = 3) -> str:
    with strict_pillow(), pytest.raises(CellError) as caught:
        decode(data, "row 7", channels)
    assert caught.value.kind == "decode"
    assert caught.value.reason.startswith("row 7: ")
    assert "\n" not in caught.value.reason
    return caught.value.reason


def two_halves(**options: Any) -> bytes:
    image = Image.new("RGB", (40, 20), (255, 0, 0))
    image.paste((0, 0, 255), (20, 0, 40, 20))
    return encode(image, "JPEG", quality=95, **options)


def tag(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


# Rotation


def test_rotation_tag_is_applied() -> None:
    """B005: tag 6 turns 40x20 with a red left half into 20x40 with a red top half."""
    found = rgb(two_halves(exif=tag(6)))

    assert found.shape == (40, 20, 3)
    assert found[:18, :, 0].min() > 200
    assert found[:18, :, 2].max() < 60
    assert found[22:, :, 2].min() > 200
    assert found[22:, :, 0].max() < 60


@pytest.mark.parametrize("value", [1, 0, 9, 99])
def test_tags_without_meaning_leave_the_image_as_stored(value: int) -> None:
    """B005: tag 99 is ignored."""
    assert np.array_equal(rgb(two_halves(exif=tag(value))), rgb(two_halves()))


@pytest.mark.parametrize("cut", [8, 12, 20])
def test_damaged_metadata_block_does_not_cost_the_image(cut: int) -> None:
    """B005: an unreadable EXIF block is ignored."""
    block = b"Exif\x00\x00" + tag(6).tobytes()[6:]
    broken = b"Exif\x00\x00MM\x00*" + b"\xff" * 40 if cut == 8 else block[:cut] + b"\xff" * 20

    assert rgb(two_halves(exif=broken)).shape == (20, 40, 3)


@pytest.mark.parametrize(
    ("value", "turned"),
    [
        (2, np.fliplr),
        (3, lambda a: np.rot90(a, 2)),
        (4, np.flipud),
        (5, lambda a: a.swapaxes(0, 1)),
        (6, lambda a: np.rot90(a, -1)),
        (7, lambda a: np.rot90(a, 2).swapaxes(0, 1)),
        (8, np.rot90),
    ],
)
def test_all_seven_turns_of_the_exif_standard(value: int, turned: Any) -> None:
    """The turns of EXIF 2.3, table 4, written with NumPy."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 3), np.uint8)

    assert np.array_equal(rgb(encode(Image.fromarray(pixels), exif=tag(value))), turned(pixels))


# Modes


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "RGBA", "LA"])
def test_modes_of_one_grey_ramp_are_equal_value_for_value(mode: str) -> None:
    """B006: all give 3x8x8 with the same values."""
    found = rgb(encode(Image.fromarray(RAMP).convert(mode)))

    assert np.array_equal(found, np.stack([RAMP] * 3, axis=2))


def test_cmyk_is_close_to_the_grey_ramp() -> None:
    """B006: CMYK JPEG of quality 100 within 3 of 255."""
    found = rgb(encode(Image.fromarray(RAMP).convert("CMYK"), "JPEG", quality=100))

    assert np.abs(found.astype(int) - RAMP[..., None]).max() <= 3


def test_transparent_pixels_are_black_whatever_colour_they_hide() -> None:
    """B006: alpha is composited on black."""
    pixels = np.dstack([RAMP, RAMP, RAMP, np.zeros_like(RAMP)])

    assert rgb(encode(Image.fromarray(pixels))).max() == 0


def test_half_transparent_pixels_are_half_as_bright() -> None:
    pixels = np.dstack([RAMP, RAMP, RAMP, np.full_like(RAMP, 128)])

    assert np.abs(rgb(encode(Image.fromarray(pixels))) - RAMP[..., None] * (128 / 255)).max() <= 1


@pytest.mark.parametrize("mode", ["P", "L", "RGB"])
def test_transparent_colour_of_a_palette_or_header_is_black(mode: str) -> None:
    """A PNG may name one colour, or one place of its palette, as transparent (tRNS)."""
    image = Image.fromarray(RAMP).convert(mode)
    clear: Any = {"P": image.convert("P").getpixel((7, 7)), "L": 252, "RGB": (252, 252, 252)}[mode]
    found = rgb(encode(image, transparency=clear))

    assert found[7, 7].tolist() == [0, 0, 0]
    assert found[7, 6].tolist() == [248, 248, 248]


@pytest.mark.parametrize("clear", [None, 0xFFFE])
def test_sixteen_bit_grey_keeps_its_upper_bits(clear: int | None) -> None:
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1040
    values[7, 7] = 0xFFFE
    options: dict[str, Any] = {} if clear is None else {"transparency": clear}
    found = rgb(encode(Image.fromarray(values), **options))

    assert found[7, 7, 0] == (255 if clear is None else 0)
    assert np.array_equal(found[:7, :, 1], values[:7] // 256)


def test_one_bit_images_are_black_and_white() -> None:
    assert set(np.unique(rgb(encode(Image.fromarray(RAMP > 100))))) == {0, 255}


def test_one_channel_is_given_where_all_three_are_equal() -> None:
    """B025: channels delivered equal channels declared."""
    with strict_pillow():
        found = decode(encode(Image.fromarray(RAMP).convert("RGB")), "row 7", 1)

    assert found.mode == "L"
    assert np.array_equal(np.asarray(found), RAMP)


def test_colours_are_refused_where_one_channel_is_wanted() -> None:
    """B025: three different channels are never mixed into one unasked."""
    pixels = np.dstack([RAMP, RAMP, RAMP])
    pixels[3, 3, 2] += 1

    assert "channels 1" in refusal(encode(Image.fromarray(pixels)), channels=1)


@pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning")
@pytest.mark.parametrize("path", photographs(), ids=lambda path: path.name)
def test_photographs_decode_as_another_library_decodes_them(path: Path) -> None:
    """torchvision's own decoders give the same pixels."""
    torchvision_io = pytest.importorskip("torchvision.io")
    torch = pytest.importorskip("torch")
    data = path.read_bytes()
    encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    theirs = torchvision_io.decode_image(encoded, torchvision_io.ImageReadMode.RGB).numpy()

    assert np.array_equal(rgb(data).transpose(2, 0, 1), theirs)


# What is refused


@pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "PPM", "EPS", "ICO"])
def test_other_formats_are_refused(kind: str) -> None:
    """Pillow opens 43 formats; we take three."""
    assert "not a PNG, JPEG or WebP" in refusal(encode(Image.new("RGB", (16, 16)), kind))


@pytest.mark.parametrize("data", [b"", b"\x89PNG", b"<html>", b"\xff\xd8\xff", b"\0" * 100])
def test_files_that_are_no_images_are_refused(data: bytes) -> None:
    refusal(data)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_animations_are_refused(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), (value, 0, 0)) for value in (0, 100, 200)]

    assert "animation" in refusal(encode(frames[0], kind, save_all=True, append_images=frames[1:]))


def test_of_a_jpeg_with_further_pictures_the_first_counts() -> None:
    """Cameras append a preview (MPO)."""
    pictures = [Image.new("RGB", (16, 8), (200, 0, 0)), Image.new("RGB", (8, 8))]
    found = rgb(encode(pictures[0], "MPO", save_all=True, append_images=pictures[1:]))

    assert found.shape == (8, 16, 3)
    assert found[..., 0].min() > 190


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_every_truncation_is_refused(kind: str) -> None:
    """B008: a file cut anywhere is damaged, never filled with grey."""
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    data = encode(Image.fromarray(pixels), kind)

    for share in range(1, 20):
        refusal(data[: len(data) * share // 20])


def test_a_pillow_that_fills_in_damage_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)

    with pytest.raises(CellError, match="LOAD_TRUNCATED_IMAGES is set"), strict_pillow():
        pass


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_of(width: int, height: int, *extra: bytes, colour: int = 0) -> bytes:
    """A PNG of black pixels, made by hand so that no memory is needed to make it."""
    bytes_a_pixel = {0: 1, 2: 3, 6: 4}[colour]
    pack = zlib.compressobj(1)
    row = b"\0" * (1 + width * bytes_a_pixel)
    body = b"".join(pack.compress(row) for _ in range(height)) + pack.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), *extra, chunk(b"IDAT", body), chunk(b"IEND", b"")]
    )


def bombs() -> dict[str, bytes]:
    """Small files that would grow."""
    inflated = zlib.compress(b"\0" * 200_000_000, 1)
    jpeg = bytearray(encode(Image.new("L", (16, 16)), "JPEG"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", 65_000, 65_000)
    webp = bytearray(encode(Image.new("RGB", (16, 16)), "WEBP", lossless=True))
    webp[21:25] = struct.pack("<I", 16_382 | 16_382 << 14)
    extended = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<IIIH", 10, 0, 0xFFFFFFFF, 0xFFFF)
    return {
        "grey PNG of 13,000 squared": png_of(13_000, 13_000),
        "colour PNG of 9,000 squared": png_of(9_000, 9_000, colour=2),
        "alpha PNG of 6,000 squared": png_of(6_000, 6_000, colour=6),
        "PNG just above the limit": png_of(MAX_PIXELS // 100 + 1, 100),
        "wide PNG": png_of(30_000_000, 1),
        "PNG with a profile of 200 MB": png_of(8, 8, chunk(b"iCCP", b"x\0\0" + inflated)),
        "PNG with a text of 200 MB": png_of(8, 8, chunk(b"zTXt", b"x\0\0" + inflated)),
        "JPEG of 65,000 squared": bytes(jpeg),
        "WebP of 16,383 squared": bytes(webp),
        "extended WebP": extended,
    }


BOMBS = """
import pickle, resource, sys
from robustboard.errors import CellError
from robustboard.runners.sources.decoding import decode, strict_pillow
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, data in pickle.load(sys.stdin.buffer).items():
    with strict_pillow():
        try:
            print("decoded", decode(data, name, 3).size)
        except CellError as error:
            print("refused", error.reason)
print("grown by", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_image_bombs_are_refused_in_little_memory() -> None:
    """Ten bombs: one line each, less than 100 MB more memory, and the run goes on."""
    import pickle

    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", BOMBS],
        input=pickle.dumps(bombs()),
        capture_output=True,
        check=True,
    )
    *lines, grown = found.stdout.decode().splitlines()

    assert len(lines) == 10
    assert all(line.startswith("refused ") for line in lines), lines
    assert int(grown.split()[-1]) < 100_000, "kilobytes"


def test_the_largest_image_allowed_is_decoded() -> None:
    with strict_pillow():
        assert decode(png_of(5_000, 5_000), "row 7", 1).size == (5_000, 5_000)


def test_too_many_bytes_are_refused_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustboard.runners.sources.decoding.MAX_BYTES", 60)

    assert "at most 60 bytes" in refusal(encode(Image.fromarray(RAMP)))
