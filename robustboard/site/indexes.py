"""Files about the site's files: Parquet and schema of the numbers, checksums, map of pages, robots."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from robustboard.errors import UserError, echo
from robustboard.fields import HttpsUrl
from robustboard.site import downloads

if TYPE_CHECKING:
    from robustboard.site.render import SiteInput

_URL: TypeAdapter[str] = TypeAdapter(HttpsUrl)
NUMBERS = ("value", "low", "high")
COUNTS = ("n", "correct")
ALWAYS = ("model", "benchmark", "dataset", "headline", "status")
"""Columns that every row fills."""


def checked_address(text: str | None) -> str | None:
    """Where the site will stand, with a slash at its end. Raises UserError unless it begins with https://."""
    if text is None:
        return None
    try:
        return _URL.validate_python(text).rstrip("/") + "/"
    except ValidationError as error:
        raise UserError(f"expected --address https://..., got {echo(text)}") from error


def parquet(records: list[dict[str, Any]]) -> bytes:
    """The records of data/leaderboard.csv with types; no text is changed for spreadsheets here."""
    kinds = {**dict.fromkeys(NUMBERS, pa.float64()), **dict.fromkeys(COUNTS, pa.int64())}
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in downloads.COLUMNS])
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def schema() -> dict[str, Any]:
    """JSON Schema of one record of data/leaderboard.json."""
    fields: dict[str, Any] = {}
    for name, meaning in downloads.COLUMNS.items():
        kind = "number" if name in NUMBERS else "integer" if name in COUNTS else "string"
        fields[name] = {"description": meaning, "type": kind if name in ALWAYS else [kind, "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One score of the leaderboard",
        "type": "object",
        "properties": fields,
        "required": list(downloads.COLUMNS),
        "additionalProperties": False,
    }


def data_files(site: SiteInput) -> dict[str, bytes]:
    """Downloads that are no text: data/leaderboard.parquet."""
    records = downloads.records(site.catalog, site.measured, site.boards)
    return {"data/leaderboard.parquet": parquet(records)}


def index_files(files: Mapping[str, bytes], address: str | None) -> dict[str, bytes]:
    """Checksums of all downloads, a word to robots, and a map of all pages where the address is known."""
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name.removeprefix('data/')}\n"
        for name, data in sorted(files.items())
        if name.startswith("data/") and not name.endswith(".html")
    )
    found = {"data/checksums.txt": sums.encode("ascii")}
    robots = "User-agent: *\nAllow: /\n"
    if address is not None:
        robots += f"Sitemap: {address}sitemap.xml\n"
        pages = sorted(name for name in files if name.endswith(".html") and name != "404.html")
        lines = "".join(f"<url><loc>{escape(address + name)}</loc></url>\n" for name in pages)
        head = '<?xml version="1.0" encoding="utf-8"?>\n'
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        found["sitemap.xml"] = f'{head}<urlset xmlns="{space}">\n{lines}</urlset>\n'.encode()
    return {**found, "robots.txt": robots.encode("ascii")}
