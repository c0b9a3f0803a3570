"""Pages beside boards: what they say is what the functions behind them give."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jinja2 import Environment

from robustboard.leaderboard.entries import SeedGroup
from robustboard.leaderboard.howmany import needed
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, pack, unpack
from robustboard.site.compare import script_json
from robustboard.site.render import SiteInput, render
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of

FLAGS = np.arange(600) < 540


def with_outcomes(world: World) -> SiteInput:
    """One measured model with the outcome of every image, and one without."""
    world.add_model("one")
    world.add_model("two")
    results = [world.result("one", correct=540), world.result("two", correct=500)]
    site = site_of(world, results)
    outcomes = PerImage(
        key_digest=results[0].key_digest, images=600, samples="5" * 64, right={"clean": pack(FLAGS)}
    )
    measured = replace(site.measured, outcomes={Cell("one", "clean-v1", "squares"): outcomes})
    return replace(site, measured=measured)


def data_of(script: str) -> dict[str, Any]:
    """What data/outcomes/MODEL.js hands over."""
    found = re.fullmatch(r"robustboardOutcomes\((.*)\);\n", script)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_outcomes_of_a_model_hold_the_bits_of_every_image(world: World, templates: Environment) -> None:
    pages = render(with_outcomes(world), templates)
    (row,) = data_of(pages["data/outcomes/one.js"])["rows"]
    assert (row["score"], row["value"], row["n"]) == ("clean_accuracy@clean", 0.9, 600)
    ((text, weight),) = row["bits"]
    assert weight == 1.0
    assert np.array_equal(unpack(text, 600, "x"), FLAGS)
    (other,) = data_of(pages["data/outcomes/two.js"])["rows"]
    assert "bits" not in other
    assert row["key"].startswith(other["key"])


def test_a_number_that_does_not_count_is_not_compared(world: World, templates: Environment) -> None:
    world.add_model("one")
    pages = render(site_of(world, [world.result("one", protocol_digest="9" * 64)]), templates)
    assert data_of(pages["data/outcomes/one.js"])["rows"] == []


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "\u2028", "'\"\\", "&amp;"])
def test_nothing_in_a_script_ends_it(text: str) -> None:
    found = script_json({"name": text})
    assert json.loads(found) == {"name": text}
    assert not set(found) & set("<>&\u2028")


def test_the_method_page_says_how_many_images(world: World, templates: Environment) -> None:
    page = render(site_of(world), templates)["method.html"]
    expected = needed(0.89, 0.90)
    assert f"<b>{expected.paired:,}</b><br><small>{expected.unpaired:,}</small>" in page


def test_trainings_of_one_recipe_stand_together_on_the_board(world: World, templates: Environment) -> None:
    """Clean accuracies 80, 85 and 90 %: mean 85.0, deviation 5.0, of three."""
    for name in ("a1", "a2", "a3"):
        world.add_model(name)
    results = [world.result(name, correct=hits) for name, hits in (("a1", 480), ("a2", 510), ("a3", 540))]
    site = site_of(world, results)
    board = site.boards["squares"]
    seeds = (SeedGroup(name="Net a", models=("a1", "a2", "a3")),)
    entry = board.entry.model_copy(update={"seeds": seeds})
    told = replace(site, boards={"squares": replace(board, entry=entry)})
    page = render(told, templates)["board/squares.html"]
    assert "Over several seeds" in page
    assert "85.0 <small>sd 5.0, 3</small>" in page
    assert "Over several seeds" not in render(site, templates)["board/squares.html"]


def test_the_page_for_missing_addresses_works_at_any_depth(world: World, templates: Environment) -> None:
    at = "https://example.org/board/"
    page = render(replace(site_of(world), address=at), templates)["404.html"]
    assert f'href="{at}static/site.css"' in page
    assert f'href="{at}index.html"' in page
    assert 'href="static/site.css"' in render(site_of(world), templates)["404.html"]


def test_every_new_page_is_reached_from_every_other(world: World, templates: Environment) -> None:
    pages = render(site_of(world), templates)
    for name in ("compare.html", "s/index.html", "changes.html", "r/index.html", "submit.html", "cite.html"):
        assert f'href="{name}"' in pages["index.html"]
