"""Gate 8 and battery C1: hostile text prints as text on every kind of page, with and without the policy."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jinja2 import Environment

from robustboard.errors import UserError
from robustboard.site.downloads import board_script
from robustboard.site.policy import policy
from robustboard.site.render import SiteInput, render
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of
from tests.site.gates.conftest import write
from tests.site.gates.hostile import STRINGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SINKS = {
    "text": "<p>{}</p>",
    "double quotes": '<p title="{}">x</p>',
    "single quotes": "<p title='{}'>x</p>",
    "link": '<a href="{}">x</a>',
    "script": '<script>var found = {{"name": "{}"}};</script>',
}
HEAD = "<!doctype html><meta charset=utf-8>"
# Scripts of a frame call the `alert` of their own window; what they fire is counted at the top. Clicks and
# movements of a mouse are played to every element, since some strings wait for one.
FRAMES = """async (documents) => {
  window.fired = [];
  const frames = documents.map((text, number) => {
    const frame = document.createElement("iframe");
    frame.name = String(number);
    frame.srcdoc = text;
    document.body.append(frame);
    return frame;
  });
  const loaded = (frame) => new Promise((then) => frame.addEventListener("load", then, {once: true}));
  await Promise.all(frames.map(loaded));
  await new Promise((then) => setTimeout(then, 300));
  for (const frame of frames) {
    for (const each of frame.contentDocument?.querySelectorAll("*") ?? []) {
      each.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
      each.focus?.();
      each.click?.();
    }
  }
  await new Promise((then) => setTimeout(then, 300));
  return [...new Set(window.fired)].map(Number);
}"""
ALARM = "window.alert = () => { (top.fired ||= []).push(window.name || parent.name); };"

Run = Callable[[list[str]], list[int]]


@pytest.fixture(scope="session")
def run(browser: Browser) -> Run:
    """A function from documents, one a frame, to the numbers of those that ran a script."""

    def ran(documents: list[str]) -> list[int]:
        context = browser.new_context()
        context.add_init_script(ALARM)
        page = context.new_page()
        found: list[int] = page.evaluate(FRAMES, documents)
        context.close()
        return sorted(found)

    return ran


def safe(environment: Environment, sink: str, text: str) -> str:
    """The sink as our templates and downloads would fill it."""
    template = {
        "text": "<p>{{ x }}</p>",
        "double quotes": '<p title="{{ x }}">x</p>',
        "single quotes": "<p title='{{ x }}'>x</p>",
        "link": '<a href="{{ x|url }}">x</a>',
        "script": '<p data-x="{{ x }}">x</p>',
    }[sink]
    try:
        return environment.from_string(template).render(x=text)
    except UserError:
        return "refused"


def naive(sink: str, text: str) -> str:
    return SINKS[sink].format(text)


def test_there_are_fifty_different_strings() -> None:
    assert len(set(STRINGS)) == 50


def test_a_naive_template_runs_at_least_fifteen(run: Run) -> None:
    """The control: without it a quiet browser would prove nothing."""
    fired = run([HEAD + naive("text", text) for text in STRINGS])
    assert len(fired) >= 15
    others = [sink for sink in SINKS if sink != "text"]
    fired = run([HEAD + naive(sink, text) for sink in others for text in STRINGS[36:]])
    assert {number // len(STRINGS[36:]) for number in fired} == {0, 1, 2, 3}


def test_templates_run_none_of_them_even_without_the_policy(run: Run, templates: Environment) -> None:
    """50 strings in 5 places, one a frame."""
    assert run([HEAD + safe(templates, sink, text) for sink in SINKS for text in STRINGS]) == []


def test_the_policy_alone_runs_none_of_them(run: Run) -> None:
    """A second wall: what a careless template would print is refused by the browser."""
    rule = f'<meta http-equiv="Content-Security-Policy" content="{policy("x")}">'
    places = [("text", text) for text in STRINGS]
    places += [(sink, text) for sink in SINKS if sink != "text" for text in STRINGS[36:]]
    assert run([HEAD + rule + naive(sink, text) for sink, text in places]) == []


def hostile_site(text: str) -> SiteInput:
    """A site whose every free text is one string."""
    world = World()
    for name in ("one", "two"):
        world.add_model(name)
        changes = {"name": text, "license": text, "bibtex": text, "intervention": text}
        world.models[name] = world.models[name].model_copy(update=changes)
    world.datasets["squares"] = world.datasets["squares"].model_copy(update={"name": text, "license": text})
    for name, entry in list(world.benchmarks.items()):
        world.benchmarks[name] = entry.model_copy(update={"name": text, "summary": text, "source": text})
    results = [world.result(model, name) for model in world.models for name in ("clean-v1", "pgd-v1")]
    columns = [
        {"id": name, "title": "Column", "group": "Group", "benchmark": f"{name}-v1", "dataset": "squares"}
        for name in ("clean", "pgd")
    ]
    made = site_of(world, results, columns, order="pgd")
    board = made.boards["squares"]
    for column in board.entry.columns:
        object.__setattr__(column, "title", text[:40])  # as many as an entry may have
        object.__setattr__(column, "group", text[:40])
    return made


def _pages(made: SiteInput, environment: Environment) -> dict[str, str]:
    return {path: text for path, text in render(made, environment).items() if path.endswith(".html")}


@pytest.mark.long
@pytest.mark.parametrize("text", STRINGS)
def test_no_kind_of_page_runs_a_hostile_string(run: Run, templates: Environment, text: str) -> None:
    """Battery C1 on real pages, with the policy taken out, so that escaping alone stands in the way."""
    pages = _pages(hostile_site(text), templates)
    bare = [re.sub(r"<meta http-equiv[^>]*>|<script[^>]*></script>", "", page) for page in pages.values()]
    assert run(bare) == []


@pytest.mark.parametrize("text", [STRINGS[38], "net \u202egpj.exe", "W" * 300])
def test_a_hostile_board_works_and_breaks_no_layout(
    open_page: Any, templates: Environment, tmp_path: Path, text: str
) -> None:
    """Gate 8: printed as text, sorted and found, nothing refused, no sideways scroll at 320 pixels."""
    made = hostile_site(text)
    folder = write(render(made, templates), tmp_path / "site")
    with open_page(folder / "board" / "squares.html", width=320) as found:
        page = found.page
        page.locator("button.sort").nth(1).focus()
        page.keyboard.press("Enter")
        page.locator("input[type=search]").fill(text[:12])
        assert len(found.ids()) == 2
        assert text in page.locator("tbody th bdi").first.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert found.complaints == []


def named(names: Sequence[str]) -> SiteInput:
    """A site with a model of each name."""
    world = World()
    for number, name in enumerate(names):
        model = world.add_model(f"net-{number:02}")
        world.models[model.id] = model.model_copy(update={"name": name})
    column = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
    return site_of(world, [world.result(name) for name in world.models], [column])


def test_names_in_the_file_of_numbers_stay_text(browser: Browser) -> None:
    """The script that holds unrounded numbers sets one variable and does nothing else."""
    names = [*STRINGS, "__proto__", "\u2028", "</script>"]
    context = browser.new_context()
    context.add_init_script(ALARM)
    page = context.new_page()
    page.evaluate(board_script(named(names).boards["squares"]))
    assert page.evaluate("robustboard.squares.rows.map((row) => row[1])") == names
    assert page.evaluate("window.fired") is None
    context.close()


def test_exports_are_safe_for_spreadsheets(open_page: Any, templates: Environment, tmp_path: Path) -> None:
    """Battery C2 for exports: a quote goes before what a spreadsheet would run; strict parsers read all."""
    names = ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "＝1", 'a"b,c', "null", "line\nbreak"]  # noqa: RUF001 - full-width, on purpose
    folder = write(render(named(names), templates), tmp_path / "site")
    with open_page(folder / "board" / "squares.html") as found:
        found.page.locator("summary", has_text="Export").click()
        with found.page.expect_download() as download:
            found.page.locator("[data-save=csv]").click()
        text = Path(download.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    assert [row["name"] for row in rows] == [f"'{name}" for name in names[:6]] + names[6:]
    assert all(float(row["clean"]) == 500 / 600 for row in rows)
