from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from jinja2 import Environment

from robustboard import workspace
from robustboard.errors import StoreError
from robustboard.registry.reported import load_reported
from robustboard.runners.record import Subset
from robustboard.runners.verifications import Standing
from robustboard.site.render import SiteInput, render
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of
from tests.site.reading import REPOSITORY, Page, cells, check_all

CLEAN = {"id": "clean", "title": "Clean", "group": "Natural", "benchmark": "clean-v1", "dataset": "squares"}
PGD = {"id": "pgd", "title": "PGD 1/10", "group": "Attack", "benchmark": "pgd-v1", "dataset": "squares"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</title></table></main><b>",
    "{{ 7*7 }}{% raw %}",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "W" * 80,
]


@pytest.fixture(scope="module")
def full() -> SiteInput:
    """A site with ranked, incomplete, partial, outdated, undefined and unmeasured models."""
    world = World()
    falling = [500, 400, 200, 100]
    results = []
    for number in range(6):
        world.add_model(
            f"net{number}", adversarial_training={"norm": "linf", "eps": "1/10"} if number else None
        )
        results += [
            world.result(f"net{number}", benchmark, correct=550 - 9 * number, falling=falling)
            for benchmark in ("clean-v1", "noise-v1", "pgd-v1")
        ]
    world.add_model("half", training={"datasets": ["all"], "overlap": {"squares": "yes"}})
    world.add_model("part", paper="https://example.org/paper", bibtex="@misc{a,\n title={<b>}\n}")
    hub = {"kind": "hub", "repo": "timm/resnet50.a1_in1k", "revision": "unresolved"}
    world.add_model("new", source=hub)
    world.add_model("old")
    world.add_model("null")
    results += [
        world.result("half"),
        world.result("part", correct=50, subset=Subset(count=100, seed=0)),
        world.result("old", model_digest="0" * 64),
        world.result("null", undefined=["clean_accuracy"]),
    ]
    return site_of(world, results, [CLEAN, PGD], load_reported(workspace.find(REPOSITORY)), order="pgd")


@pytest.fixture(scope="module")
def pages(full: SiteInput, templates: Environment) -> dict[str, str]:
    """Its pages."""
    return render(full, templates)


def test_all_pages_are_sound_and_all_links_lead_somewhere(pages: dict[str, str]) -> None:
    check_all(pages)
    expected = {
        "index.html",
        "404.html",
        "method.html",
        "b/index.html",
        "m/index.html",
        "reported/index.html",
    }
    expected |= {"data/index.html", "data/leaderboard.csv", "data/leaderboard.json", "board/squares.html"}
    expected |= {"m/net0.html", "m/new.html", "b/pgd-v1.html", "reported/robustbench.html"}
    assert expected <= set(pages)


def test_an_empty_site_is_sound(site: Any, templates: Any) -> None:
    pages = render(site(), templates)
    check_all(pages)
    assert "Nothing has been measured here yet" in Page(pages["index.html"]).words


def test_two_builds_give_the_same_bytes(
    full: SiteInput, templates: Environment, pages: dict[str, str]
) -> None:
    assert render(full, templates) == pages


def test_a_board_shows_ranks_values_intervals_and_words(pages: dict[str, str]) -> None:
    table = cells(Page(pages["board/squares.html"]))
    rows = {row[1]: row for row in table if len(row) == 5}
    assert rows["Net net0"] == ["1–6", "Net net0", "91.7 ±2.5", "66.7 ±3.9", "✓ verified"]  # noqa: RUF001 - an en dash, as printed
    assert rows["Net half"] == [
        "no rank",
        "Net half",
        "83.3 ±3.2",
        "not run",
        "✓ verified ! seen in training",
    ]
    assert rows["Net part"][2] == "50.0 ±9.6 partial"
    assert rows["Net old"][2] == "83.3 ±3.2 outdated"
    assert rows["Net null"][2] == "undefined"


def test_the_board_says_who_shares_first_place_and_why_cells_are_odd(pages: dict[str, str]) -> None:
    words = Page(pages["board/squares.html"]).words
    names = "Net net0, Net net1, Net net2, Net net3, Net net4 and Net net5"
    assert f"{names} share first place by PGD 1/10: they cannot be told apart." in words
    assert "Clean, partial: measured on 100 of 600 images (Net part)" in words
    assert "Clean, outdated: the model's entry has changed since (Net old)" in words
    assert "Clean, undefined: made up to be undefined (Net null)" in words
    assert "squares: test images were in training (Net half)" in words


@pytest.mark.parametrize(
    "path", ["index.html", "board/squares.html", "m/null.html", "b/clean-v1.html", "m/new.html"]
)
def test_no_undefined_value_leaks_into_a_page(pages: dict[str, str], path: str) -> None:
    """B066: neither nan nor None nor a blank cell."""
    page = Page(pages[path])
    assert not re.search(r"\b(nan|None|inf|Undefined)\b", page.words)
    body = [cell for row in cells(page) for cell in row]
    assert all(body.count(blank) <= 2 for blank in ("", "-"))


def test_an_undefined_score_stands_with_its_reason(pages: dict[str, str]) -> None:
    page = Page(pages["b/clean-v1.html"])
    row = next(row for row in cells(page) if "Net null" in row)
    assert row[-1] == "undefined made up to be undefined"
    assert next(row for row in reversed(cells(page)) if row)[1] == "Net null"


def test_status_words_come_from_run_records_alone(pages: dict[str, str]) -> None:
    assert "verified" not in Page(pages["m/new.html"]).words
    assert "not measured" in Page(pages["m/new.html"]).words
    assert "verified" in Page(pages["m/net0.html"]).words
    source = Page(pages["reported/robustbench.html"]).words
    assert "verified" not in source
    assert "reported" in source
    assert "never ranked" in source


def test_reported_numbers_are_on_no_board(pages: dict[str, str]) -> None:
    """B069: claimed and measured are separate; the claim stands beside, in its own table."""
    board = cells(Page(pages["board/squares.html"]))
    assert all("reported" not in cell for row in board for cell in row)
    model = Page(pages["m/new.html"]).words
    assert "Reported by others" in model
    assert "80.22 %" in model or "ImageNet-A" in model


def test_a_model_page_holds_exact_counts_curve_command_and_citation(pages: dict[str, str]) -> None:
    page = Page(pages["m/net0.html"])
    assert "550 of 600" in page.words
    assert "robustboard run -m net0 -b clean-v1 -b noise-v1 -b pgd-v1 -d squares" in page.words
    assert "Accuracy on Squares, in %" in page.words
    assert "as stored, divided by 16" in page.words
    assert "123 k parameters" in page.words.replace("\u00a0", " ")
    assert "trained against Linf 1/10" in Page(pages["m/net1.html"]).words
    assert "@misc{a, title={<b>} }" in Page(pages["m/part.html"]).words
    assert 'href="https://example.org/paper"' in pages["m/part.html"]


def test_the_benchmark_page_is_sorted_with_whiskers_on_its_own_range(pages: dict[str, str]) -> None:
    page = Page(pages["b/clean-v1.html"])
    names = [row[1] for row in cells(page) if len(row) == 5 and row[1].startswith("Net net")]
    assert names == [f"Net net{number}" for number in range(6)]
    assert sum(attributes.get("class") == "whiskers" for _, attributes in page.tags) == 9


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_print_as_text(world: Any, site: Any, templates: Any, text: str) -> None:
    """Names, summaries and citations of strangers are text, in titles and attributes too."""
    world.add_model("net")
    changes = {"name": text, "license": text, "bibtex": text}
    world.models["net"] = world.models["net"].model_copy(update=changes)
    world.datasets["squares"] = world.datasets["squares"].model_copy(update={"name": text, "license": text})
    for name, entry in list(world.benchmarks.items()):
        world.benchmarks[name] = entry.model_copy(update={"name": text, "summary": text, "source": text})
    results = [world.result("net"), world.result("net", "pgd-v1", correct=500, falling=[4, 3, 2, 1])]
    pages = render(site(results, [CLEAN, {**PGD, "title": text[:40]}], order="pgd"), templates)
    check_all(pages)
    assert text in "".join(Page(pages["m/net.html"]).text)


def test_a_name_that_turns_the_reading_direction_is_isolated(
    world: World, site: Any, templates: Environment
) -> None:
    """The registry refuses such names; a page that got one all the same keeps the turn inside the name."""
    text = "net \u202egpj.exe"
    for name in ("one", "two"):
        world.add_model(name)
        world.models[name] = world.models[name].model_copy(update={"name": text})
    results = [
        world.result("one"),
        world.result("one", "pgd-v1"),
        world.result("two", undefined=["clean_accuracy"]),
    ]
    pages = render(site(results, [CLEAN, PGD]), templates)
    for path in ("index.html", "board/squares.html", "m/index.html", "b/clean-v1.html"):
        places = [place for data, place in Page(pages[path]).places if "\u202e" in data]
        assert places
        assert all("bdi" in place or place[-1] in ("title", "caption") for place in places)


def test_a_hostile_address_stops_the_build(world: Any, site: Any, templates: Any) -> None:
    world.add_model("net")
    world.models["net"] = world.models["net"].model_copy(update={"paper": "javascript:alert(1)"})
    with pytest.raises(Exception, match="expected an https:// address for a link"):
        render(site(), templates)


def test_two_thousand_rows_stay_two_thousand(world: Any, site: Any, templates: Any) -> None:
    """B071: nothing is thinned out, and the largest value is on top."""
    results = []
    for number in range(2000):
        world.add_model(f"net{number:04}")
        results.append(world.result(f"net{number:04}", correct=600 if number == 1500 else 300))
    pages = render(site(results), templates)
    rows = [row for row in cells(Page(pages["board/squares.html"])) if len(row) == 4][1:]
    assert len(rows) == 2000
    assert rows[0][:2] == ["1", "Net net1500"]
    assert pages["data/leaderboard.csv"].count("\n") == 2001
    assert "The first 8 of 2,000 models." in Page(pages["index.html"]).words


@pytest.mark.parametrize("shares", [[9.5, 10.2, 100.0, None, 81.249, 81.251, 50.0, 50.0]])
def test_the_delivered_order_is_that_of_unrounded_values(
    world: Any, site: Any, templates: Any, shares: list[float | None]
) -> None:
    """B068: 9.5 is not above 10.2, 81.251 is above 81.249 though both print 81.2 or 81.3."""
    world.add_dataset("squares", size=100_000)
    results = []
    for number, share in enumerate(shares):
        world.add_model(f"net{number}")
        world_pgd = world.result(f"net{number}", "pgd-v1")
        results.append(world_pgd)
        if share is not None:
            results.append(world.result(f"net{number}", correct=round(share * 1000)))
    table = cells(Page(render(site(results, [CLEAN, PGD]), templates)["board/squares.html"]))
    shown = [row[2] for row in table if len(row) == 5][1:]
    values = [text.split(" ")[0] for text in shown]
    assert values == ["100.0", "81.3", "81.2", "50.0", "50.0", "10.2", "9.5", "not"]
    assert shown[-1] == "not run"


def test_a_result_without_a_named_score_stops_the_build(world: Any, site: Any) -> None:
    """B066: the record and the field are named."""
    world.add_model("net")
    with pytest.raises(
        StoreError, match=r"net/clean-v1--squares\.json: scores: expected noise_accuracy@uniform 1/10"
    ):
        site([world.result("net")], [{**CLEAN, "score": "noise_accuracy@uniform 1/10"}])


def test_two_hundred_models_by_thirty_columns_take_less_than_ten_seconds(
    world: Any, site: Any, templates: Any
) -> None:
    columns, results = [], []
    for number in range(10):
        world.add_dataset(f"set{number}", size=600)
    for model in range(200):
        world.add_model(f"net{model:03}")
    for number in range(10):
        for benchmark in ("clean-v1", "noise-v1", "pgd-v1"):
            name = f"{benchmark[:-3]}-{number}"
            columns.append({"id": name, "title": name, "benchmark": benchmark, "dataset": f"set{number}"})
            for model in range(200):
                falling = [500, 400, 300 - model, 10]
                results.append(
                    world.result(
                        f"net{model:03}", benchmark, f"set{number}", correct=500 + model % 90, falling=falling
                    )
                )
    started = time.process_time()
    made = site(results, columns, order="clean-0", datasets=[f"set{number}" for number in range(10)])
    pages = render(made, templates)
    assert time.process_time() - started < 10
    rows = cells(Page(pages["board/squares.html"]))
    assert sum(len(row) == 33 for row in rows) == 201
    assert sum(path.startswith("m/") for path in pages) == 201


def test_only_what_was_run_or_audited_here_is_counted_as_verified(world: Any, site: Any) -> None:
    tiers = {
        "ran": Standing("verified"),
        "attacked": Standing("adaptive"),
        "counted": Standing("recomputed"),
        "told": Standing("reported"),
        "wrong": Standing("verified", (), "another crop"),
    }
    for name in tiers:
        world.add_model(name)
    made = site([world.result(name) for name in tiers])
    trust = {cell: tiers[cell.model] for cell in made.measured.results}
    found = replace(made, measured=replace(made.measured, trust=trust))
    assert made.verified == 5 * found.verified / 2
