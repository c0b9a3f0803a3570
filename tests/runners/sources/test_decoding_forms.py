"""Every form that a PNG, JPEG or WebP may take, against values worked out from the raw bytes."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from robustboard.errors import CellError
from robustboard.registry.entries import Decoding
from robustboard.runners.sources.decoding import USUAL, decode, policy, strict_pillow
from tests.runners.sources.lab import Lab, as_folder, encode

Values = npt.NDArray[np.int64]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""PNG colour type → numbers a pixel (PNG specification, table 11.1)."""


def rgb(data: bytes, decoding: Decoding = USUAL) -> Values:
    with strict_pillow():
        return np.asarray(decode(data, "row 7", 3, decoding)).astype(np.int64)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(values: Values, depth: int, colour: int, *extra: bytes) -> bytes:
    """A PNG of (h, w, c) stored values, written by hand."""
    rows = b""
    for row in values:
        bits = "".join(format(int(value), f"0{depth}b") for value in row.reshape(-1))
        bits += "0" * (-len(bits) % 8)
        rows += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], depth, colour, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), *extra, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def drawn(depth: int, colour: int) -> Values:
    return np.random.default_rng(depth * 10 + colour).integers(0, 2**depth, (5, 7, CHANNELS[colour]))


def to_bytes(values: Values, depth: int) -> Values:
    """Stored values at 8 bits: spread out below, the upper half above."""
    return values // 256 if depth == 16 else values * 255 // (2**depth - 1)


@pytest.mark.parametrize(
    ("colour", "depth"), [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16)], ids=str
)
def test_opaque_pngs_of_every_depth(colour: int, depth: int) -> None:
    """B006: grey and colour, 1 to 16 bits; 16-bit values keep their upper 8."""
    values = drawn(depth, colour)

    assert np.array_equal(
        rgb(png(values, depth, colour)), np.broadcast_to(to_bytes(values, depth), (5, 7, 3))
    )


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("colour", [4, 6])
def test_pngs_with_alpha_fade_to_black(colour: int, depth: int) -> None:
    """B006: grey and alpha, colours and alpha: value times alpha / 255, to the nearest."""
    values = to_bytes(drawn(depth, colour), depth)
    expected = values[..., :-1] * values[..., -1:] / 255
    found = rgb(png(drawn(depth, colour), depth, colour))

    assert np.abs(found - expected).max() <= 0.5


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("colour", [4, 6])
def test_an_entry_may_drop_alpha(colour: int, depth: int) -> None:
    """B006: the other rule, as evaluations that call convert("RGB") have it."""
    values = to_bytes(drawn(depth, colour), depth)
    found = rgb(png(drawn(depth, colour), depth, colour), Decoding(alpha="dropped"))

    assert np.array_equal(found, np.broadcast_to(values[..., :-1], (5, 7, 3)))


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_palettes_of_every_depth(depth: int) -> None:
    """B006: places of a palette are looked up."""
    values, colours = drawn(depth, 3), np.random.default_rng(0).integers(0, 256, (2**depth, 3))
    data = png(values, depth, 3, chunk(b"PLTE", bytes(colours.reshape(-1).tolist())))

    assert np.array_equal(rgb(data), colours[values[..., 0]])


@pytest.mark.parametrize("depth", [2, 4, 8])
def test_palettes_with_an_alpha_each(depth: int) -> None:
    """B006: the first four places have an alpha, the others are opaque."""
    values, generator = drawn(depth, 3) % 8, np.random.default_rng(0)
    colours = generator.integers(0, 256, (2**depth, 3))
    alphas = np.array([0, 128, 255, 64] + [255] * 252)
    transparent = chunk(b"tRNS", bytes([0, 128, 255, 64]))
    data = png(values % 2**depth, depth, 3, chunk(b"PLTE", bytes(colours.reshape(-1).tolist())), transparent)
    places = values[..., 0] % 2**depth

    assert np.abs(rgb(data) - colours[places] * alphas[places][..., None] / 255).max() <= 0.5
    assert np.array_equal(rgb(data, Decoding(alpha="dropped")), colours[places])


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_one_transparent_grey_at_every_depth(depth: int) -> None:
    """B006: the value is meant at the depth of the file, where Pillow has scaled the pixels already."""
    values = drawn(depth, 0)
    values[2, 3], values[0, 0] = 1, 0
    data = png(values, depth, 0, chunk(b"tRNS", struct.pack(">H", 1)))
    opaque = to_bytes(values, depth)

    assert np.array_equal(rgb(data), np.broadcast_to(np.where(values == 1, 0, opaque), (5, 7, 3)))
    assert np.array_equal(rgb(data, Decoding(alpha="dropped")), np.broadcast_to(opaque, (5, 7, 3)))


def test_one_transparent_colour() -> None:
    """B006: of 8 bits."""
    values = drawn(8, 2)
    data = png(values, 8, 2, chunk(b"tRNS", struct.pack(">HHH", *values[2, 3])))
    clear = (values == values[2, 3]).all(axis=2, keepdims=True)

    assert np.array_equal(rgb(data), np.where(clear, 0, values))


def test_a_transparent_colour_of_sixteen_bits_is_refused() -> None:
    """Pillow keeps 8 bits of each channel, which cannot tell that colour from its neighbours."""
    values = drawn(16, 2)
    data = png(values, 16, 2, chunk(b"tRNS", struct.pack(">HHH", *values[2, 3])))

    with pytest.raises(CellError, match="row 7: a transparent colour in a PNG of 16-bit colours"):
        rgb(data)
    assert np.array_equal(rgb(data, Decoding(alpha="dropped")), values // 256)


def adam7(pixels: Values) -> bytes:
    """An interlaced PNG of (h, w, 3), pass by pass (PNG specification, section 8.2)."""
    passes = [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]
    body = b""
    for top, left, down, right in passes:
        part = pixels[top::down, left::right]
        if part.size:
            body += b"".join(b"\0" + bytes(row.reshape(-1).tolist()) for row in part)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(body)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_interlaced_png() -> None:
    values = np.random.default_rng(0).integers(0, 256, (9, 11, 3))

    assert np.array_equal(rgb(adam7(values)), values)


# JPEG


def photograph() -> Image.Image:
    ramp = np.linspace(0, 255, 64 * 48 * 3).reshape(48, 64, 3)
    return Image.fromarray(
        (ramp + np.random.default_rng(0).normal(0, 9, ramp.shape)).clip(0, 255).astype("u1")
    )


def by_opencv(data: bytes) -> Values:
    cv2 = pytest.importorskip("cv2")
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    return np.asarray(found[..., ::-1]).astype(np.int64)


@pytest.mark.parametrize(
    "options",
    [
        {"progressive": True},
        {"subsampling": "4:4:4"},
        {"subsampling": "4:2:2"},
        {"subsampling": "4:2:0"},
        {"restart_marker_rows": 1},
        {"optimize": True, "quality": 10},
    ],
    ids=str,
)
def test_jpegs_of_every_kind_as_opencv_decodes_them(options: dict[str, Any]) -> None:
    """Progressive, all samplings, restart markers: within 1 of a libjpeg of another build."""
    buffer = io.BytesIO()
    photograph().save(buffer, "JPEG", **options)

    assert np.abs(rgb(buffer.getvalue()) - by_opencv(buffer.getvalue())).max() <= 1


def test_grey_jpeg_has_three_equal_channels() -> None:
    """B006: as OpenCV reads the one channel."""
    cv2 = pytest.importorskip("cv2")
    buffer = io.BytesIO()
    photograph().convert("L").save(buffer, "JPEG")
    grey = cv2.imdecode(np.frombuffer(buffer.getvalue(), np.uint8), cv2.IMREAD_GRAYSCALE)

    assert np.array_equal(rgb(buffer.getvalue()), np.repeat(grey[..., None], 3, axis=2))


def inks(stored: tuple[float, float, float, float], transform: int) -> bytes:
    """A JPEG of one colour in four components, with Adobe's marker: 0 is CMYK, 2 is YCCK."""
    pixels = np.zeros((16, 16, 4), np.uint8)
    pixels[...] = [255 - round(value) for value in stored]
    buffer = io.BytesIO()
    Image.frombytes("CMYK", (16, 16), pixels.tobytes()).save(buffer, "JPEG", quality=100, subsampling=0)
    data = bytearray(buffer.getvalue())
    data[data.index(b"Adobe") + 11] = transform
    return bytes(data)


CYAN, MAGENTA, YELLOW, BLACK = 200, 100, 50, 30
PRINTED = np.array([(255 - ink) * (255 - BLACK) / 255 for ink in (CYAN, MAGENTA, YELLOW)])
"""Red is what cyan and black leave of white, and so on."""


def test_cmyk_jpeg_is_what_the_inks_leave_of_white() -> None:
    """B006: Adobe stores inks inverted; (1 - C)(1 - K), without a colour profile."""
    data = inks((255 - CYAN, 255 - MAGENTA, 255 - YELLOW, 255 - BLACK), transform=0)

    assert np.abs(rgb(data) - PRINTED).max() <= 1.5


def test_ycck_jpeg_is_what_the_inks_leave_of_white() -> None:
    """B006: luma and chroma of the inks (BT.601, as in JFIF), black beside them."""
    red, green, blue = CYAN, MAGENTA, YELLOW
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    chroma = (128 + (blue - luma) / 1.772, 128 + (red - luma) / 1.402)

    assert np.abs(rgb(inks((luma, *chroma, 255 - BLACK), transform=2)) - PRINTED).max() <= 2.5


def test_an_entry_may_ignore_the_rotation_tag() -> None:
    """B005: the other rule, as evaluations that only open the file have it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    photograph().save(buffer, "JPEG", exif=exif)
    ignored = rgb(buffer.getvalue(), Decoding(orientation="ignored"))

    assert np.abs(ignored - by_opencv(buffer.getvalue())).max() <= 1
    assert np.array_equal(rgb(buffer.getvalue()), np.rot90(ignored, -1))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_rotation_tags_of_other_formats_are_applied_too(kind: str) -> None:
    """B005: EXIF blocks of PNG and WebP."""
    exif = Image.Exif()
    exif[0x0112] = 6
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    pixels = np.asarray(photograph())
    data = encode(pixels, kind, exif=exif, **options)

    assert np.array_equal(rgb(data), np.rot90(pixels, -1))


# What changes nothing


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_colour_profiles_are_ignored(kind: str) -> None:
    """A profile that swaps nothing and one that is noise give the pixels of the file without either."""
    plain = encode(np.asarray(photograph()), kind)
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()

    for profile in (lab, b"\xff" * 200):
        assert np.array_equal(rgb(encode(np.asarray(photograph()), kind, icc_profile=profile)), rgb(plain))


def test_gamma_and_texts_of_a_png_are_ignored() -> None:
    values = drawn(8, 2)
    gamma = chunk(b"gAMA", struct.pack(">I", 100_000))
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "x" * 10_000)

    assert np.array_equal(rgb(png(values, 8, 2, gamma)), values)
    assert np.array_equal(rgb(encode(values.astype(np.uint8), pnginfo=text)), values)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_bytes_after_the_image_are_ignored(kind: str) -> None:
    data = encode(np.asarray(photograph()), kind)

    assert np.array_equal(rgb(data + b"trailing"), rgb(data))


def test_formats_are_told_by_content_and_not_by_name(lab: Lab) -> None:
    """A PNG called .jpg is decoded, a text called .png is refused, zero bytes are refused."""
    files = {"cat/a.jpg": encode(np.asarray(photograph())), "dog/b.bmp": encode(1), "fox/c": encode(2)}
    entry = lab.entry(as_folder(lab.workspace.output, files), 3)
    found = lab.load(entry, spec=lab.input(48)).pixels([0, 1, 2])
    assert np.array_equal(found[0].transpose(1, 2, 0) * 255, np.asarray(photograph())[:, 8:56])

    for name, data, reason in (("a.jpg", b"hello", "not a PNG, JPEG or WebP"), ("a.jpg", b"", "nothing")):
        (lab.data / "set" / "cat" / name).write_bytes(data)
        with pytest.raises(CellError, match=f"set/cat/{name}: .*{reason}"):
            lab.load(entry).pixels([0])


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "BMP"])
def test_formats_that_are_not_taken_say_so(kind: str) -> None:
    """Animated GIF and 16-bit TIFF never reach their decoders."""
    frames = [Image.new("L", (8, 8), value) for value in (0, 100)]
    options: dict[str, Any] = {} if kind == "BMP" else {"save_all": True, "append_images": frames[1:]}
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, **options)

    with pytest.raises(CellError, match="row 7: not a PNG, JPEG or WebP image"):
        rgb(buffer.getvalue())


def test_what_an_entry_chooses_stands_in_the_record(lab: Lab) -> None:
    """B005, B006: the policy is recorded with the dataset."""
    chosen = Decoding(orientation="ignored", alpha="dropped")
    source = as_folder(lab.workspace.output, {"cat/a.png": encode(0)})
    usual = lab.load(lab.entry(source, 1)).facts
    facts = lab.load(lab.entry(source, 1, decoding=chosen.model_dump())).facts

    assert {name: usual[name] for name in policy(USUAL)} == policy(USUAL)
    assert (usual["orientation"], usual["alpha"]) == (
        "EXIF rotation applied; an unknown or unreadable tag is ignored",
        "composited on black",
    )
    assert (facts["orientation"], facts["alpha"]) == ("EXIF rotation ignored", "dropped; hidden colours show")
    assert facts["formats"] == "PNG, JPEG and WebP, by content; others refused"


def test_warnings_stay_silent_in_every_thread() -> None:
    """Pillow warns of odd metadata; a thread that decodes must not undo what another has set."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with strict_pillow():
            pass
        warnings.warn_explicit("odd tag", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin")
        warnings.warn_explicit("something else", UserWarning, "x.py", 1, module="elsewhere")

    assert [str(warning.message) for warning in caught] == ["something else"]
