"""Gates 2, 7 and 10: nothing for axe to find, all of it by keyboard, and no sideways scrolling."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.site.gates.conftest import Open, Opened, kinds

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
STATES = ("", "#view=all", "#q=0&full=1&pin=net-01,net-02")
FEW_ROWS = """() => {
  const keep = (inside, most) => [...inside.children].slice(most).forEach((each) => each.remove());
  document.querySelectorAll("tbody").forEach((body) => keep(body, 6));
  document.querySelectorAll("ul, dl").forEach((list) => keep(list, 12));
}"""
FOCUSED = """() => {
  const found = document.activeElement, style = getComputedStyle(found);
  return [found.dataset.key || found.innerText || found.getAttribute("aria-label") || "", style.outlineStyle];
}"""


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, as shipped in a package."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def violations(found: Opened, axe: str) -> list[str]:
    """What axe finds, one line an element."""
    found.page.evaluate(axe)
    result: dict[str, Any] = found.page.evaluate(
        "tags => axe.run({runOnly: tags, resultTypes: ['violations'], preload: false})", TAGS
    )
    return [
        f"{each['id']}: {node['target'][0]}: {node['failureSummary']}"
        for each in result["violations"]
        for node in each["nodes"][:3]
    ]


def test_axe_finds_what_is_wrong(open_page: Open, tmp_path: Path, axe: str) -> None:
    """The control: pale text, a picture without words, a table of empty headers."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<html><body><p style='color:#ccc;background:#fff'>pale</p><img src='x.png'><input></body></html>"
    )
    with open_page(page) as found:
        names = {line.partition(":")[0] for line in violations(found, axe)}
    assert {"color-contrast", "image-alt", "label", "html-has-lang"} <= names


def test_every_kind_of_page_is_sound_in_the_browser(open_page: Open, real: Path, axe: str) -> None:
    """Gates 1, 2, 5, 8 and 10 of each kind of page, opened from disk once.

    Nothing for axe, no word to the console, nothing refused by the policy, five files at most and none
    of another host, no sideways scroll at 320 pixels. Rows beyond the first few are taken out for axe,
    since they are of no new kind; the long run keeps them all.
    """
    bad: dict[str, list[Any]] = {}
    with open_page(real / "404.html") as found:
        page = found.page
        for path in kinds(real):
            page.set_viewport_size({"width": 1280, "height": 900})
            found.complaints.clear()
            found.requests.clear()
            page.goto(path.as_uri())
            page.evaluate(FEW_ROWS)
            faults = violations(found, axe)
            faults += [f"console: {word}" for word in found.complaints]
            faults += [url for url in found.requests if not url.startswith(("file://", "data:"))]
            faults += found.requests if len([u for u in found.requests if u.startswith("file")]) > 5 else []
            page.set_viewport_size({"width": 320, "height": 900})
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            faults += [f"{over} pixels too wide"] if over > 0 else []
            if faults:
                bad[path.relative_to(real).as_posix()] = faults
    assert bad == {}


def test_axe_finds_nothing_on_a_dark_board_on_a_phone_with_a_panel_open(
    open_page: Open, board: Path, axe: str
) -> None:
    with open_page(board, "#pin=net-01,net-02", dark=True, width=390) as found:
        found.page.evaluate(FEW_ROWS)
        found.page.locator("summary", has_text="Choose columns").click()
        assert violations(found, axe) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "window",
    [{"width": width, "dark": dark} for width in (1280, 390, 320) for dark in (False, True)],
    ids=lambda window: f"{window['width']} {'dark' if window['dark'] else 'light'}",
)
def test_axe_finds_nothing_in_any_theme_size_and_state(
    open_page: Open,
    real: Path,
    board: Path,
    axe: str,
    window: dict[str, Any],
) -> None:
    bad = {}
    for path, state in [*((page, "") for page in kinds(real)), *((board, state) for state in STATES)]:
        with open_page(path, state, **window) as found:
            lines = violations(found, axe)
        if lines:
            bad[f"{path.parent.name}/{path.name}{state}"] = lines
    assert bad == {}


@pytest.mark.long
def test_no_page_scrolls_sideways_at_320_pixels(open_page: Open, real: Path, board: Path) -> None:
    """Gate 10, of every page with all its rows."""
    wide = {}
    with open_page(board, width=320) as found:
        for path in [board, *sorted(real.rglob("*.html"))]:
            found.page.goto(path.as_uri())
            over = found.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if over > 0:
                wide[f"{path.parent.name}/{path.name}"] = over
    assert wide == {}


def test_every_control_is_reached_and_shown_by_keyboard(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        reached = []
        for _ in range(55):
            found.page.keyboard.press("Tab")
            name, outline = found.page.evaluate(FOCUSED)
            assert outline != "none", f"{name} has no outline when it has the focus"
            reached.append(name.strip().partition("\n")[0])
        for control in ("q", "view", "Choose columns", "Filter", "Show", "Export", "Copy link", "Reset"):
            assert control in reached, reached
        assert {"Model", "Clean", "PGD 1/10"} <= set(reached)
        assert any(name.startswith("Pin Net") for name in reached)


def test_the_table_can_be_skipped(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        found.page.locator("a.skip", has_text="Skip the table").focus()
        found.page.keyboard.press("Enter")
        found.page.keyboard.press("Tab")
        after = found.page.evaluate(
            """() => document.querySelector("[data-board]")
              .compareDocumentPosition(document.activeElement) & Node.DOCUMENT_POSITION_FOLLOWING"""
        )
        inside = found.page.evaluate("document.activeElement.closest('[data-board]') !== null")
    assert after
    assert not inside


def test_a_heading_sorts_by_keyboard_and_says_so_once(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        found.page.evaluate(
            """() => {
              window.said = [];
              const line = document.querySelector("[role=status]");
              new MutationObserver(() => said.push(line.textContent)).observe(line, {childList: true});
            }"""
        )
        found.page.get_by_role("button", name="Clean", exact=True).focus()
        found.page.keyboard.press("Enter")
        assert found.page.evaluate("said.length") == 1
        assert found.page.evaluate("said[0]").endswith("sorted by Clean, high to low")
        sorted_by = found.page.locator("[aria-sort]")
        assert sorted_by.count() == 1
        assert sorted_by.first.get_attribute("data-c") == "clean"
        found.page.keyboard.press("Enter")
        assert found.page.locator("[aria-sort]").first.get_attribute("aria-sort") == "ascending"
        assert found.page.evaluate("document.activeElement.innerText").strip() == "Clean"


def test_escape_closes_a_panel_and_returns_the_focus(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        found.page.locator("summary", has_text="Choose columns").focus()
        found.page.keyboard.press("Enter")
        found.page.keyboard.press("Tab")
        assert found.page.locator("details.pop[open]").count() == 1
        found.page.keyboard.press("Escape")
        assert found.page.locator("details.pop[open]").count() == 0
        assert found.page.evaluate("document.activeElement.innerText").strip() == "Choose columns"


def test_one_panel_is_open_at_a_time(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        found.page.locator("summary", has_text="Choose columns").click()
        found.page.keyboard.press("Escape")
        found.page.locator("summary", has_text="Show").click()
        found.page.locator("summary", has_text="Export").click()
        assert found.page.locator("details.pop[open] summary").inner_text().startswith("Export")
