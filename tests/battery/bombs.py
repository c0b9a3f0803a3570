"""Thirty small files that fill the memory, the disk or the clock of a careless reader."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image

Maker = Callable[[], bytes]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int, height: int, *, depth: int = 1, colour: int = 0, rows: int | None = None, extra: bytes = b""
) -> bytes:
    """A black PNG of any size, its rows packed one at a time."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = bytes(1 + (width * channels * depth + 7) // 8)
    count = height if rows is None else rows
    at_once = max(1, 2**20 // len(row))
    packer = zlib.compressobj(6)
    packed = b"".join(packer.compress(row * min(at_once, count - n)) for n in range(0, count, at_once))
    packed += packer.flush()
    palette = chunk(b"PLTE", bytes(6)) if colour == 3 else b""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + palette + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def text_bomb(kind: bytes) -> bytes:
    """A tiny picture with a description of 100 MB."""
    packed = zlib.compress(bytes(100_000_000), 6)
    return png(4, 4, extra=chunk(kind, b"x\0\0" + packed))


def animation(kind: str, frames: int) -> bytes:
    images = [Image.new("RGB", (8, 8), (number % 256, 0, 0)) for number in range(frames)]
    buffer = io.BytesIO()
    images[0].save(buffer, kind, save_all=True, append_images=images[1:])
    return buffer.getvalue()


def jpeg(width: int, height: int) -> bytes:
    """A real JPEG whose header claims another size."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    data = bytearray(buffer.getvalue())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def webp() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (16_383, 1_600)).save(buffer, "WEBP", quality=1, method=0)
    return buffer.getvalue()


def other(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, kind)
    return buffer.getvalue()


IMAGES: dict[str, Maker] = {
    "13,000 squared, one bit": lambda: png(13_000, 13_000),
    "20,000 squared, colours": lambda: png(20_000, 20_000, depth=8, colour=2, rows=10),
    "65,535 squared": lambda: png(65_535, 65_535, rows=10),
    "wide as can be": lambda: png(2**31 - 1, 1, rows=0),
    "palette": lambda: png(12_000, 12_000, depth=8, colour=3, rows=10),
    "sixteen bits": lambda: png(10_000, 10_000, depth=16, colour=6, rows=10),
    "more rows than it says": lambda: png(8, 8, rows=5_000_000),
    "fewer rows than it says": lambda: png(4_000, 4_000, depth=8, colour=2, rows=10),
    "compressed text": lambda: text_bomb(b"zTXt"),
    "colour profile": lambda: text_bomb(b"iCCP"),
    "JPEG of 65,500 squared": lambda: jpeg(65_500, 65_500),
    "WebP of 26 megapixels": webp,
    "animated PNG": lambda: animation("PNG", 200),
    "animated WebP": lambda: animation("WEBP", 50),
    "GIF": lambda: animation("GIF", 200),
    "TIFF": lambda: other("TIFF"),
    "BMP": lambda: other("BMP"),
    "icon": lambda: other("ICO"),
    "PostScript": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n{} loop\n",
}


LARGEST: dict[str, Maker] = {
    "colours and alpha": lambda: png(5_000, 5_000, depth=8, colour=6),
    "sixteen bits of grey": lambda: png(5_000, 5_000, depth=16),
}
"""Pictures as large as may be, packed to nothing."""


def tar_header(name: str, size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = 0
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    # A size beyond eight octal digits is written in base 256 (GNU).
    head[124:136] = b"\x80" + size.to_bytes(11, "big")
    head[148:156] = b"        "
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    return bytes(head)


def long_header(kind: bytes) -> bytes:
    """A member that says its own description has 120 MB, and brings them packed."""
    return gzip.compress(tar_header("./././@x", 120_000_000, kind) + bytes(120_000_512), 6, mtime=0)


def sparse() -> bytes:
    return tar_header("a.png", 2**40, tarfile.GNUTYPE_SPARSE) + bytes(1024)


def zip_of(count: int, *, size: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for number in range(count):
            with archive.open(f"cat/{number}.png", "w") as file:
                for _ in range(size // 1_000_000):
                    file.write(bytes(1_000_000))
    return buffer.getvalue()


def crowded_zip() -> bytes:
    """One member, listed three hundred thousand times."""
    whole = zip_of(1)
    start = whole.index(b"PK\x01\x02")
    entry = whole[start : whole.index(b"PK\x05\x06")]
    listed = entry * 300_000
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(listed), start, 0)
    return whole[:start] + listed + end


def overlapping_zip() -> bytes:
    """Many members that share the same packed bytes (Fifield 2019)."""
    whole = zip_of(1, size=20_000_000)
    start = whole.index(b"PK\x01\x02")
    entry = whole[start : whole.index(b"PK\x05\x06")]
    name = b"cat/0.png"
    listed = b"".join(entry.replace(name, b"cat/%01d.pn" % number + b"g") for number in range(10))
    listed += b"".join(entry.replace(name, b"ca%01d/0.png" % number) for number in range(10))
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 20, 20, len(listed), start, 0)
    return whole[:start] + listed + end


def crowded_tar() -> bytes:
    """Very many members of nothing."""
    info = tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT)
    return gzip.compress(info * 140_000, 1, mtime=0)


ARCHIVES: dict[str, Maker] = {
    "header.tar.gz": lambda: long_header(tarfile.GNUTYPE_LONGNAME),
    "pax.tar.gz": lambda: long_header(tarfile.XHDTYPE),
    "sparse.tar": sparse,
    "zeros.tar.gz": lambda: gzip.compress(bytes(120_000_000), 6, mtime=0),
    "twice.tar.gz": lambda: gzip.compress(gzip.compress(bytes(50_000_000), 9, mtime=0), 9, mtime=0),
    "crowded.tar.gz": crowded_tar,
    "zeros.zip": lambda: zip_of(1, size=120_000_000),
    "many.zip": lambda: zip_of(30, size=5_000_000),
    "crowded.zip": crowded_zip,
    "overlapping.zip": overlapping_zip,
    "bzip2.zip": lambda: zip_of(1, size=60_000_000, method=zipfile.ZIP_BZIP2),
}


def parquet_images(count: int, size: int, *, dictionary: bool) -> bytes:
    """`count` equal images of `size` bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    schema = pa.schema([("image", pa.binary()), ("label", pa.int64())])
    with pq.ParquetWriter(
        buffer, schema, compression="zstd", use_dictionary=["image"] if dictionary else False
    ) as out:
        images = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([bytes(size)]))
        table = pa.table([images.cast(pa.binary()), pa.array(np.zeros(count, np.int64))], schema=schema)
        out.write_table(table, row_group_size=count)
    return buffer.getvalue()


def parquet_labels() -> bytes:
    """Labels that are one text of 2 MB, 50 times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(50, np.int32)), pa.array(["x" * 2_000_000]))
    table = pa.table({"image": pa.array([b"x"] * 50), "label": labels})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def parquet_rows() -> bytes:
    """Many more rows than the entry says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    table = pa.table(
        {"image": pa.nulls(3_000_000, pa.binary()), "label": pa.array(np.zeros(3_000_000, np.int64))}
    )
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


TABLES: dict[str, Maker] = {
    "packed.parquet": lambda: parquet_images(40, 2_000_000, dictionary=False),
    "dictionary.parquet": lambda: parquet_images(60, 2_000_000, dictionary=True),
    "labels.parquet": parquet_labels,
    "rows.parquet": parquet_rows,
}
CARDS: dict[str, Maker] = {
    "aliases": lambda: (
        b"---\na: &a [x,x]\n"
        + b"".join(b"%c: &%c [*%c,*%c,*%c]\n" % (98 + n, 98 + n, 97 + n, 97 + n, 97 + n) for n in range(20))
        + b"---\n"
    ),
    "nesting": lambda: b"---\na: " + b"[" * 100_000 + b"]" * 100_000 + b"\n---\n",
}
