"""Typed downloads, checksums, sitemap and the word to robots."""

from __future__ import annotations

import hashlib
import io
import json
import xml.etree.ElementTree as ET

import jsonschema
import pyarrow.parquet as pq
import pytest
from jinja2 import Environment

from robustboard.errors import UserError
from robustboard.site.downloads import COLUMNS, records
from robustboard.site.indexes import checked_address, data_files, index_files
from robustboard.site.render import SiteInput, render
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of

MAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture
def site(world: World) -> SiteInput:
    """One measured model with a name that a spreadsheet would run, one that nobody ran."""
    world.add_model("one")
    world.models["one"] = world.models["one"].model_copy(update={"name": "=1+1"})
    world.add_model("two")
    return site_of(world, [world.result("one", "pgd-v1", undefined=["area_under_curve"])])


def test_the_parquet_holds_the_rows_with_types(site: SiteInput) -> None:
    table = pq.read_table(io.BytesIO(data_files(site)["data/leaderboard.parquet"]))
    assert table.column_names == list(COLUMNS)
    assert (str(table.schema.field("value").type), str(table.schema.field("n").type)) == ("double", "int64")
    assert table.to_pylist() == records(site.catalog, site.measured, site.boards)
    assert "=1+1" in table.column("model_name").to_pylist()


def test_two_builds_give_the_same_parquet(site: SiteInput) -> None:
    assert data_files(site) == data_files(site)


def test_every_row_of_the_json_keeps_to_the_schema(site: SiteInput, templates: Environment) -> None:
    pages = render(site, templates)
    validator = jsonschema.Draft202012Validator(json.loads(pages["data/schema.json"]))
    rows = json.loads(pages["data/leaderboard.json"])["scores"]
    assert len(rows) > 5
    assert [fault.message for row in rows for fault in validator.iter_errors(row)] == []
    assert list(validator.iter_errors({**rows[0], "value": "x"})) != []
    assert list(validator.iter_errors({**rows[0], "extra": 1})) != []


def test_checksums_are_those_that_sha256sum_checks() -> None:
    files = {"data/a.csv": b"a\n", "data/x/b.js": b"b", "data/index.html": b"no", "index.html": b"no"}
    lines = index_files(files, None)["data/checksums.txt"].decode().splitlines()
    sums = [hashlib.sha256(data).hexdigest() for data in (b"a\n", b"b")]
    assert lines == [f"{sums[0]}  a.csv", f"{sums[1]}  x/b.js"]


def test_the_map_names_every_page_where_the_address_is_known() -> None:
    files = {"index.html": b"", "m/a&b.html": b"", "404.html": b"", "data/x.csv": b""}
    found = index_files(files, "https://example.org/board/")
    urls = [element.text for element in ET.fromstring(found["sitemap.xml"]).iter(f"{MAP}loc")]
    assert urls == ["https://example.org/board/index.html", "https://example.org/board/m/a&b.html"]
    assert b"Sitemap: https://example.org/board/sitemap.xml" in found["robots.txt"]
    without = index_files(files, None)
    assert "sitemap.xml" not in without
    assert b"Sitemap" not in without["robots.txt"]


def test_an_address_is_https() -> None:
    assert checked_address("https://example.org/a") == "https://example.org/a/"
    assert checked_address(None) is None
    for bad in ("http://example.org", "javascript:alert(1)", "example.org", ""):
        with pytest.raises(UserError, match="expected --address https://"):
            checked_address(bad)
