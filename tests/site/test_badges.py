"""Badges name model, benchmark, number and release, and never a number that does not count."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from jinja2 import Environment

from robustboard.leaderboard.cells import Measured
from robustboard.site.badges import badges
from robustboard.site.render import render
from robustboard.site.sections import site_badges
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of

SVG = "{http://www.w3.org/2000/svg}"


def test_a_badge_says_whose_number_it_is_and_where_it_comes_from(
    world: World, templates: Environment
) -> None:
    world.add_model("one")
    site = site_of(world, [world.result("one", correct=540)])
    (badge,) = site_badges(site)
    assert badge.path == "badge/one/clean-v1.svg"
    drawing = ET.fromstring(render(site, templates)[badge.path])
    said = drawing.get("aria-label")
    assert said == "Net one: Protocol clean-v1, Squares: 90.0 % ±2.7 (robustboard 0.0.0)"
    texts = [element.text for element in drawing.iter(f"{SVG}text")]
    assert texts == ["Net one · Protocol clean-v1, Squares", "90.0 % ±2.7 · robustboard 0.0.0"]
    assert drawing.findtext(f"{SVG}title") == said
    line = badge.markdown("https://example.org/")
    assert line.endswith("(https://example.org/badge/one/clean-v1.svg)](https://example.org/m/one.html)")


def test_a_number_that_does_not_count_is_not_on_a_badge(world: World) -> None:
    world.add_model("one")
    for result, word in (
        (world.result("one", correct=540, protocol_digest="9" * 64), "outdated"),
        (world.result("one", correct=540, skipped=20), "partial"),
    ):
        (badge,) = site_badges(site_of(world, [result]))
        assert badge.right.startswith(f"{word} · ")
        assert "90" not in badge.name


def test_a_dataset_that_is_not_the_boards_first_is_named_in_the_address(world: World) -> None:
    world.add_dataset("more", size=600)
    world.add_model("one")
    site = site_of(
        world, [world.result("one"), world.result("one", dataset="more")], datasets=("squares", "more")
    )
    assert sorted(b.path for b in site_badges(site)) == [
        "badge/one/clean-v1--more.svg",
        "badge/one/clean-v1.svg",
    ]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><svg onload=alert(1)>', "W" * 80, "a](b)"])
def test_hostile_names_print_as_text(world: World, templates: Environment, name: str) -> None:
    world.add_model("one")
    world.models["one"] = world.models["one"].model_copy(update={"name": name})
    site = site_of(world, [world.result("one")])
    (badge,) = site_badges(site)
    drawing = ET.fromstring(render(site, templates)[badge.path])
    assert {element.tag for element in drawing.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "title", "rect", "path", "g", "text")
    }
    assert name in (drawing.get("aria-label") or "")
    assert len(badge.left) <= 60
    assert badge.markdown("").count("](") == 2


def test_results_without_an_entry_have_no_badge(world: World) -> None:
    world.add_model("one")
    site: Any = site_of(world, [world.result("one")])
    gone = type(site.catalog)({}, site.catalog.datasets, site.catalog.label_spaces, {})
    assert badges(gone, site.benchmarks, Measured(site.measured.results, {}, {}), [], "x") == []
