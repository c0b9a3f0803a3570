"""Frozen releases and what changed between them: numbers, never ranks."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from robustboard.errors import StoreError, UserError
from robustboard.site.releases import (
    Release,
    changes,
    freeze,
    numbers_of,
    read_release,
    read_releases,
    release_key,
)
from robustboard.site.render import SiteInput, render
from robustboard.site.sections import past_by_model, release_about, scores_text
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of

ATOM = "{http://www.w3.org/2005/Atom}"


def frozen(site: SiteInput, folder: Path, name: str = "2026.11", date: str = "2026-11-30") -> Release:
    return freeze(folder, name, date, scores=scores_text(site), boards=site.boards, about=release_about(site))


@pytest.fixture
def two(world: World) -> SiteInput:
    """Two measured models."""
    world.add_model("one")
    world.add_model("two")
    return site_of(world, [world.result("one", correct=540), world.result("two", correct=300)])


def test_the_record_names_the_images_of_current_results_alone(two: SiteInput) -> None:
    """What is outdated or unchecked may have been measured on other images."""
    good, other = sorted(two.measured.results)
    key = two.measured.results[other].key.model_copy(update={"data_fingerprint": "f" * 64})
    results = {**two.measured.results, other: two.measured.results[other].model_copy(update={"key": key})}
    measured = replace(two.measured, results=results, outdated={other: "nobody has checked it"})
    found = release_about(replace(two, measured=measured))
    assert found["datasets"] == {"squares": results[good].key.data_fingerprint}
    assert list(found["protocols"]) == ["clean-v1 on squares"]


def test_freezing_the_same_numbers_again_changes_no_byte(two: SiteInput, tmp_path: Path) -> None:
    frozen(two, tmp_path)
    before = {p.name: p.read_bytes() for p in (tmp_path / "2026.11").iterdir()}
    assert sorted(before) == ["boards.json", "leaderboard.csv", "release.json"]
    again = frozen(two, tmp_path, date="2027-01-01")
    assert {p.name: p.read_bytes() for p in (tmp_path / "2026.11").iterdir()} == before
    assert again.record.date.isoformat() == "2026-11-30"


def test_other_numbers_under_a_taken_name_are_refused(two: SiteInput, world: World, tmp_path: Path) -> None:
    frozen(two, tmp_path)
    other = site_of(world, [world.result("one", correct=541), world.result("two", correct=300)])
    with pytest.raises(UserError, match=r"2026\.11 exists with other numbers; releases never change"):
        frozen(other, tmp_path)


@pytest.mark.parametrize("name", ["2026-11", "26.11", "2026.13", "2026.11/../x", "", "2026.11.0"])
def test_a_release_is_named_by_year_and_month(two: SiteInput, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"expected a release YEAR\.MONTH"):
        frozen(two, tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["boards.json", "leaderboard.csv", "release.json"])
def test_a_release_that_was_edited_is_refused(two: SiteInput, tmp_path: Path, name: str) -> None:
    frozen(two, tmp_path)
    path = tmp_path / "2026.11" / name
    path.write_bytes(path.read_bytes().replace(b"one", b"uno", 1).replace(b"2026-11-30", b"2026-11-29", 1))
    with pytest.raises(StoreError, match=name.replace(".", r"\.")):
        read_release(tmp_path / "2026.11")


def test_releases_stand_in_the_order_of_their_dates(two: SiteInput, tmp_path: Path) -> None:
    for name in ("2026.11.2", "2027.01", "2026.11", "2026.11.10"):
        frozen(two, tmp_path, name)
    assert [r.name for r in read_releases(tmp_path)] == ["2026.11", "2026.11.2", "2026.11.10", "2027.01"]
    assert release_key("2026.11") < release_key("2026.11.2")
    assert read_releases(tmp_path / "absent") == ()


def test_adding_a_model_changes_no_other_models_cells(two: SiteInput, world: World, tmp_path: Path) -> None:
    """The newcomer takes the first place: ranks of all others move, and none of their numbers."""
    before = frozen(two, tmp_path)
    world.add_model("best")
    site = site_of(
        world,
        [world.result(name, correct=hits) for name, hits in (("one", 540), ("two", 300), ("best", 600))],
    )
    ranks = {row.model: row.ranks for row in site.boards["squares"].rows}
    assert ranks["one"] == (2, 2)
    found = changes(before, numbers_of(scores_text(site)), name="now")
    assert (found.added, found.removed, found.cells) == (("best",), (), ())


def test_a_changed_number_is_told_with_both_values(two: SiteInput, world: World, tmp_path: Path) -> None:
    before = frozen(two, tmp_path)
    site = site_of(world, [world.result("one", correct=500), world.result("two", correct=300)])
    found = changes(before, numbers_of(scores_text(site)), name="now")
    (cell,) = found.cells
    assert (cell.model, cell.benchmark, cell.score) == ("one", "clean-v1", "clean_accuracy@clean")
    assert cell.before is not None
    assert cell.after is not None
    assert (float(cell.before["value"]), float(cell.after["value"])) == (0.9, 500 / 600)


def test_a_result_that_went_is_told(two: SiteInput, world: World, tmp_path: Path) -> None:
    before = frozen(two, tmp_path)
    site = site_of(world, [world.result("one", correct=540)])
    found = changes(before, numbers_of(scores_text(site)), name="now")
    assert (found.removed, found.cells) == (("two",), ())


def pages_of(
    site: SiteInput, releases: tuple[Release, ...], templates: Environment, **more: Any
) -> dict[str, str]:
    values = {
        name: getattr(site, name) for name in ("catalog", "benchmarks", "boards", "measured", "reported")
    }
    return render(SiteInput(**values, version="0.0.0", releases=releases, **more), templates)


def test_pages_of_a_release_are_a_function_of_its_files(
    two: SiteInput, world: World, templates: Environment, tmp_path: Path
) -> None:
    """Rebuilt when the board has moved on, its pages have the same bytes, and say that they are old."""
    release = frozen(two, tmp_path)
    first = pages_of(two, (release,), templates)
    later = site_of(world, [world.result("one", correct=100), world.result("two", correct=300)])
    second = pages_of(later, read_releases(tmp_path), templates)
    for name in ("r/2026.11/index.html", "r/2026.11/squares.html"):
        assert first[name] == second[name]
    assert "90.0" in second["r/2026.11/squares.html"]
    assert "16.7" in second["board/squares.html"]
    assert 'href="../../board/squares.html"' in second["r/2026.11/squares.html"]


def test_the_feed_is_sound_atom_and_knows_no_rank(
    two: SiteInput, world: World, templates: Environment, tmp_path: Path
) -> None:
    frozen(two, tmp_path)
    later = site_of(world, [world.result("one", correct=500), world.result("two", correct=300)])
    frozen(later, tmp_path, "2026.12", "2026-12-24")
    text = pages_of(later, read_releases(tmp_path), templates, address="https://example.org/b/")[
        "changes.xml"
    ]
    feed = ET.fromstring(text)
    assert feed.find(f"{ATOM}updated") is not None
    entries = feed.findall(f"{ATOM}entry")
    assert [e.findtext(f"{ATOM}id") for e in entries] == [
        "urn:robustboard:release:2026.12",
        "urn:robustboard:release:2026.11",
    ]
    assert [e.findtext(f"{ATOM}updated") for e in entries] == ["2026-12-24T00:00:00Z", "2026-11-30T00:00:00Z"]
    said = [e.findtext(f"{ATOM}content") or "" for e in entries]
    assert said[0].startswith("one, clean-v1 on squares, clean_accuracy@clean: 90.00 % to 83.33 %.")
    assert said[1].startswith("New: one, two.")
    assert "rank" not in text
    links = [e.find(f"{ATOM}link") for e in entries]
    assert [link.get("href") for link in links if link is not None] == [
        "https://example.org/b/r/2026.12/index.html",
        "https://example.org/b/r/2026.11/index.html",
    ]


def test_a_models_past_stands_on_its_page(two: SiteInput, templates: Environment, tmp_path: Path) -> None:
    release = frozen(two, tmp_path)
    (row,) = past_by_model((release,))["one"]
    assert (row.benchmark, row.score, row.values) == ("clean-v1", "clean_accuracy@clean", ("90.00 %",))
    assert "In releases" in pages_of(two, (release,), templates)["m/one.html"]


def test_a_release_names_protocols_and_fingerprints(two: SiteInput, tmp_path: Path) -> None:
    frozen(two, tmp_path)
    record = json.loads((tmp_path / "2026.11" / "release.json").read_text())
    assert list(record["protocols"]) == ["clean-v1 on squares"]
    assert record["datasets"] == {"squares": "2" * 64}
