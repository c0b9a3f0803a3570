"""One browser for all gates, a made-up site with every state, and the site of this repository."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jinja2 import Environment

from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.registry.catalog import load_catalog
from robustboard.site.build import build
from robustboard.site.render import SiteInput, render
from robustboard.workspace import Workspace
from tests.site.gates.showcase import showcase

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REPOSITORY = Path(__file__).resolve().parents[3]
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PATIENCE = 120
"""Seconds to wait for another worker's build."""
PREFERRED = {"board": "digits", "m": "digits-resnet-adv", "b": "pgd-v1", "reported": "john-behmanush"}
"""Of the folders with many pages of one kind, the page that stands for them."""


@dataclass
class Opened:
    """A page and what the browser had to say of it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors of scripts, of the console, and of the policy."""
    requests: list[str] = field(default_factory=list)

    def table(self) -> list[list[str]]:
        """Words of the visible cells of the visible rows of the first table with rows to sort."""
        found: list[list[str]] = self.page.evaluate(
            """() => [...document.querySelectorAll("[data-board] tbody tr")].filter((row) => !row.hidden)
              .map((row) => [...row.cells].filter((cell) => cell.offsetParent))
              .map((cells) => cells.map((cell) => cell.innerText.trim()))"""
        )
        return found

    def view(self) -> dict[str, Any]:
        """All that a reader sees of a board: headings, rows, the line of words."""
        heads = self.page.evaluate(
            """() => [...document.querySelectorAll("[data-board] thead tr:last-child > *")]
              .filter((cell) => cell.offsetParent).map((cell) => cell.innerText.trim())"""
        )
        return {"heads": heads, "rows": self.table(), "status": self.status()}

    def status(self) -> str:
        """What is announced."""
        return self.page.locator("[role=status]").inner_text()

    def ids(self) -> list[str]:
        """Ids of the visible rows, in their order."""
        found: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll("[data-board] tbody tr")]
              .filter((row) => !row.hidden).map((row) => row.dataset.m)"""
        )
        return found


Open = Callable[..., AbstractContextManager[Opened]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of the system, started once."""
    path = next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
    if path is None:
        pytest.skip("no Chromium on this machine: tests/system-packages.sh installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Open:
    """A function that opens a file in a fresh window: theme, size, with scripts or without."""

    @contextmanager
    def opened(
        path: Path, fragment: str = "", *, width: int = 1280, dark: bool = False, scripts: bool = True
    ) -> Iterator[Opened]:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            accept_downloads=True,
            reduced_motion="reduce",
        )
        found = Opened(context.new_page())
        found.page.on("console", lambda m: found.complaints.append(m.text) if m.type == "error" else None)
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(f"{path.as_uri()}{fragment}")
        try:
            yield found
        finally:
            context.close()

    return opened


def write(pages: Mapping[str, str], folder: Path) -> Path:
    """Pages and static files on disk."""
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(REPOSITORY / "site" / "static", folder / "static", dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def shown() -> SiteInput:
    """What the made-up site is made of."""
    return showcase()


@pytest.fixture(scope="session")
def made_up(shown: SiteInput, templates: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up site on disk."""
    return write(render(shown, templates), tmp_path_factory.mktemp("gates") / "made-up")


@pytest.fixture(scope="session")
def board(made_up: Path) -> Path:
    """The page of the made-up board."""
    return made_up / "board" / "squares.html"


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The site of this repository's content and committed results, built once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "real"
    done = folder.with_suffix(".done")
    try:
        folder.mkdir()
    except FileExistsError:
        until = time.monotonic() + PATIENCE
        while not done.exists() and time.monotonic() < until:
            time.sleep(0.1)
        return folder
    space = Workspace(REPOSITORY, folder.parent)
    catalog = load_catalog(space)
    build(space, catalog, load_benchmarks(space, catalog), results=[space.committed_results], output=folder)
    done.touch()
    return folder


def kinds(folder: Path) -> list[Path]:
    """A page of every kind: those at the top, each index, and one of every folder."""
    found = sorted(folder.glob("*.html"))
    for each in sorted(path for path in folder.rglob("*") if path.is_dir()):
        pages = sorted(each.glob("*.html"))
        index = [page for page in pages if page.name == "index.html"]
        others = [page for page in pages if page.name != "index.html"]
        preferred = [page for page in others if page.stem == PREFERRED.get(each.name)]
        found += [*index, *(preferred or others[:1])]
    return found
