"""Generated sets on the site: files as they were built, pictures where the licence allows, ids elsewhere."""

from __future__ import annotations

import base64
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment
from PIL import Image

from robustboard.errors import StoreError
from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.registry.testsets import TestSetEntry, load_test_sets
from robustboard.site.render import SiteInput, render
from robustboard.site.sets import ShownSet, shown_sets
from robustboard.workspace import Workspace
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of
from tests.site.reading import check_all

ROOT = Path(__file__).resolve().parents[2]
PLACE = Workspace(ROOT, ROOT)
Sets = tuple[Catalog, Mapping[str, TestSetEntry]]


@pytest.fixture(scope="module")
def registered() -> Sets:
    """The catalogue and recipes of this repository."""
    catalog = load_catalog(PLACE)
    return catalog, load_test_sets(PLACE, catalog)


@pytest.fixture
def built(registered: Sets) -> tuple[ShownSet, ...]:
    """What came with the content."""
    return shown_sets(registered[1], [PLACE.committed_sets], registered[0])


def digits(sets: tuple[ShownSet, ...]) -> ShownSet:
    return next(each for each in sets if each.entry.id == "digits-oracle-1.0.0")


def test_the_sets_that_come_with_the_content_are_those_of_their_recipes(built: tuple[ShownSet, ...]) -> None:
    """Every registered recipe that has files here has them whole, and the docs state their digests."""
    docs = (ROOT / "docs/testsets.md").read_text()
    shipped = [each for each in built if each.manifest is not None]
    assert {each.entry.reference for each in shipped} >= {"digits-oracle@1.0.0", "fashion-oracle@1.0.0"}
    for each in shipped:
        assert each.manifest is not None
        assert each.manifest.content_sha256 in docs
        assert each.files


def test_every_image_is_in_the_gallery_once_the_least_sure_first(built: tuple[ShownSet, ...]) -> None:
    shown = digits(built)
    every = [p.id for page in shown.pages() if page.label is None for p in page.pictures]
    assert len(every) == len(set(every)) == 200
    by_class = [p.id for page in shown.pages() if page.label is not None for p in page.pictures]
    assert sorted(by_class) == sorted(every)
    margins = [round(picture.margin, 2) for picture in shown.pictures]
    assert margins == sorted(margins)
    picture = shown.pictures[0].png
    image = Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2])))
    assert (image.format, image.size) == ("PNG", (8, 8))


def test_pictures_that_must_not_be_shown_are_ids(registered: Sets) -> None:
    catalog, entries = registered
    hidden = catalog.datasets["digits"].model_copy(update={"display_allowed": False})
    closed = Catalog(
        catalog.models, {**catalog.datasets, "digits": hidden}, catalog.label_spaces, catalog.class_subsets
    )
    shown = digits(shown_sets(entries, [PLACE.committed_sets], closed))
    assert len(shown.pictures) == 200
    assert {picture.png for picture in shown.pictures} == {""}
    assert shown.files == {}


def test_a_damaged_set_is_refused(registered: Sets, tmp_path: Path) -> None:
    shutil.copytree(PLACE.committed_sets / "digits-oracle", tmp_path / "digits-oracle")
    path = next(tmp_path.glob("digits-oracle/1.0.0/data/*.parquet"))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"test-00000-of-00001\.parquet: expected \d+ bytes with SHA-256"):
        shown_sets(registered[1], [tmp_path], registered[0])


def test_a_set_of_another_recipe_is_not_taken_for_this_one(registered: Sets) -> None:
    catalog, entries = registered
    entry = entries["digits-oracle-1.0.0"].model_copy(update={"seed": 2})
    shown = digits(shown_sets({**entries, entry.id: entry}, [PLACE.committed_sets], catalog))
    assert (shown.manifest, shown.files, shown.pictures) == (None, {}, ())


def test_an_older_version_names_the_newest(registered: Sets, world: World, templates: Environment) -> None:
    catalog, entries = registered
    old = entries["digits-oracle-1.0.0"]
    new = old.model_copy(update={"version": "1.10.0", "id": "digits-oracle-1.10.0"})
    newer = old.model_copy(update={"version": "1.9.0", "id": "digits-oracle-1.9.0"})
    sets = shown_sets({e.id: e for e in (old, new, newer)}, [PLACE.committed_sets], catalog)
    assert [each.entry.version for each in sets] == ["1.10.0", "1.9.0", "1.0.0"]
    pages = pages_of(site_of(world), sets, templates)
    assert "A newer version of this set is there" in pages["s/digits-oracle-v1.0.0.html"]
    assert "A newer version" not in pages["s/digits-oracle-v1.10.0.html"]


def pages_of(site: SiteInput, sets: tuple[ShownSet, ...], templates: Environment) -> dict[str, str]:
    values: dict[str, Any] = {
        name: getattr(site, name) for name in ("catalog", "benchmarks", "boards", "measured", "reported")
    }
    return render(SiteInput(**values, version="0.0.0", sets=sets), templates)


def test_pages_of_sets_are_sound(built: tuple[ShownSet, ...], world: World, templates: Environment) -> None:
    pages = pages_of(site_of(world), built, templates)
    files = {f"{each.folder}/{name}": "" for each in built for name in each.files}
    check_all({**pages, **files})
    assert pages["s/digits-oracle-v1.0.0.html"].count("<img") == 60
