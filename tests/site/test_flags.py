"""Sanity flags on pages and in downloads: readable without colour and scripts, and never mere decoration."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from jinja2 import Environment

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.runners.record import Checks, Result
from robustboard.site.render import SiteInput, render
from tests.leaderboard.made_up import World, made
from tests.leaderboard.test_flagged import UNBOUNDED
from tests.leaderboard.test_flags import PROTOCOLS, falling, flag
from tests.site.conftest import site_of
from tests.site.reading import Page, cells, check_all
from tests.site.test_render import PGD

NOTED = flag("few-classes")


def pgd(world: World, model: str, robust: int, *flags: Any) -> Result:
    return world.result(model, "pgd-v1", falling=falling(robust)).model_copy(update={"flags": flags})


@pytest.fixture(scope="module")
def flagged() -> SiteInput:
    """A board with a flagged model that PGD calls the best and Square the worst, and with a sound one."""
    world = World()
    for name in ("square-v1", "full-v1"):
        values = {"id": name, "name": name, "summary": name, "source": "made up", "added": "2026-01-31"}
        world.benchmarks[name] = made(BenchmarkEntry, {**values, "procedure": PROTOCOLS[name]})
    for name in ("masked", "sound"):
        world.add_model(name)
    sound = pgd(world, "sound", 300, NOTED)
    checks = Checks(images=16, spread=0.0, softmax=False, inner_gradients=False, classes=2)
    clean = world.result("sound")
    results = [
        pgd(world, "masked", 450, UNBOUNDED),
        world.result("masked", "square-v1", falling=falling(60)),
        sound,
        clean.model_copy(update={"facts": clean.facts.model_copy(update={"checks": checks})}),
    ]
    return site_of(world, results, [PGD], order="pgd")


@pytest.fixture(scope="module")
def pages(flagged: SiteInput, templates: Environment) -> dict[str, str]:
    return render(flagged, templates)


def test_pages_with_flags_are_sound(pages: dict[str, str]) -> None:
    check_all(pages)


def test_a_boards_row_says_flagged_doubted_and_what_is_known(pages: dict[str, str]) -> None:
    rows = {row[1].split(" !")[0]: row for row in cells(Page(pages["board/squares.html"])) if len(row) == 4}
    assert rows["Net masked"] == [
        "2",
        "Net masked ! flagged worst known 10.0",
        "75.0 ±3.6 ! doubted",
        "✓ verified",
    ]
    assert rows["Net sound"][:3] == ["1", "Net sound", "50.0 ±4.0"]
    assert 'href="../m/masked.html#flags"' in pages["board/squares.html"]
    words = Page(pages["board/squares.html"]).words
    assert "Flagged, unbounded-survivors: made up (Net masked)" in words
    assert "Worst known number, which counts for the rank: 10.0 % under square-v1 (Net masked)" in words


def test_a_doubted_number_has_no_shade_and_moves_no_other(pages: dict[str, str]) -> None:
    body = pages["board/squares.html"]
    row = body[body.index("m/masked.html") :]
    assert '<td class="n gap">75.0' in row[: row.index("</tr>")]


def test_the_benchmark_page_marks_the_row_too(pages: dict[str, str]) -> None:
    names = [row[1] for row in cells(Page(pages["b/pgd-v1.html"])) if len(row) == 5]
    assert names[1:] == ["Net sound", "Net masked ! flagged worst known 10.0"]


def test_a_models_page_lists_name_place_numbers_and_meaning(pages: dict[str, str]) -> None:
    page = Page(pages["m/masked.html"])
    before, after = page.words.split("Sanity flags", 1)
    assert "rank 2 of 2 by PGD 1/10 ! flagged worst known 10.0" in before
    black, unbounded = after.split("! unbounded-survivors")
    assert "! black-box-strongerAn attack without gradients breaks images" in black
    assert "pgd-v1 on squares, linf 1/10: square-v1, with no gradient, leaves 60 of 600 images" in black
    assert "pgd-v1 on squares, linf unbounded: made up" in unbounded


def test_a_note_is_listed_and_marks_no_row(pages: dict[str, str]) -> None:
    page = Page(pages["m/sound.html"])
    assert "i few-classesThere are fewer classes" in page.words
    assert "flagged" not in Page(pages["board/squares.html"]).words.split("Net sound")[1].split("verified")[0]


def test_a_model_that_was_looked_at_in_vain_says_so(world: World, templates: Environment) -> None:
    world.add_model("net")
    plain = world.result("net")
    checks = Checks(images=16, spread=0.0, softmax=False, inner_gradients=False, classes=2)
    seen = plain.model_copy(update={"facts": plain.facts.model_copy(update={"checks": checks})})
    for result, said in ((seen, True), (plain, False)):
        words = Page(render(site_of(world, [result]), templates)["m/net.html"]).words
        assert ("No sanity flag was raised." in words) == said
        assert "Sanity flags" not in words


def test_the_page_of_methods_explains_every_flag(pages: dict[str, str]) -> None:
    from robustboard.runners.flags import MEANINGS

    words = Page(pages["method.html"]).words
    for name, meaning in MEANINGS.items():
        assert name in words
        assert meaning in words


def test_downloads_carry_flags(pages: dict[str, str]) -> None:
    rows = list(csv.DictReader(io.StringIO(pages["data/leaderboard.csv"])))
    names = {(row["model"], row["benchmark"]): row["flags"] for row in rows}
    assert names["masked", "pgd-v1"] == "black-box-stronger unbounded-survivors"
    assert names["masked", "square-v1"] == names["sound", "clean-v1"] == ""
    assert names["sound", "pgd-v1"] == "few-classes"
    value = json.loads(pages["data/leaderboard.json"])
    best, last = value["boards"][0]["rows"]
    assert (best["flags"], best["ranked_by"]) == ([], None)
    assert [each["name"] for each in last["flags"]] == ["black-box-stronger", "unbounded-survivors"]
    assert last["ranked_by"]["value"] == 0.1
