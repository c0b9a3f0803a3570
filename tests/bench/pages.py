"""How long boards of the size of the reported ones take to render, to open and to sort in Chromium.

    python -m tests.bench.pages

Prints a line each; nothing is gated, since times of a shared machine wander. Rendering is told in seconds of
one core.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from robustboard import workspace
from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.registry.catalog import load_catalog
from robustboard.registry.reported import load_reported
from robustboard.site.build import site_input
from robustboard.site.environment import environment
from robustboard.site.render import render
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of
from tests.site.gates.conftest import ARGUMENTS, NAMES, REPOSITORY, write

MODELS, SETS = 236 + 195, 10
"""As many models as RobustBench and the ImageNet testbed report together, in 30 columns."""
REPEATS = 5
SORT = """async () => {
  const button = document.querySelectorAll("button.sort")[%d], started = performance.now();
  button.click();
  document.body.getBoundingClientRect();
  await new Promise((then) => requestAnimationFrame(() => setTimeout(then)));
  return performance.now() - started;
}"""


def say(line: str) -> None:
    """One line on the terminal."""
    sys.stdout.write(f"{line}\n")


def large(folder: Path) -> Path:
    """A board of 431 models by 30 columns on disk."""
    world = World()
    columns, results = [], []
    for number in range(SETS):
        world.add_dataset(f"set{number}", size=600)
        for benchmark in ("clean-v1", "noise-v1", "pgd-v1"):
            name = f"{benchmark[:-3]}-{number}"
            columns.append({"id": name, "title": name, "benchmark": benchmark, "dataset": f"set{number}"})
    for model in range(MODELS):
        world.add_model(f"net{model:03}")
        for number in range(SETS):
            for benchmark in ("clean-v1", "noise-v1", "pgd-v1"):
                counts = [500, 400, (7 * model + 31 * number) % 400, 10]
                correct = (11 * model + number) % 600
                results.append(
                    world.result(f"net{model:03}", benchmark, f"set{number}", correct=correct, falling=counts)
                )
    site = site_of(world, results, columns, order="clean-0", datasets=[f"set{n}" for n in range(SETS)])
    started = time.process_time()
    pages = render(site, environment(REPOSITORY / "site" / "templates"))
    took = time.process_time() - started
    say(f"render {MODELS} models by {len(columns)} columns, {len(pages)} files: {took:.1f} s of one core")
    return write(pages, folder)


def shipped(folder: Path) -> Path:
    """The site of this repository on disk."""
    space = workspace.find(REPOSITORY)
    catalog = load_catalog(space)
    started = time.process_time()
    site = site_input(space, catalog, load_benchmarks(space, catalog), [space.committed_results])
    pages = render(site, environment(REPOSITORY / "site" / "templates"))
    rows = sum(len(item.scores) for item in load_reported(space).values())
    say(f"render the shipped site with {rows} reported numbers: {time.process_time() - started:.1f} s")
    return write(pages, folder)


def clock(page: Page, path: Path) -> None:
    """Time to open a page and to sort it."""
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    opened = page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
    rows = page.locator("[data-board] tbody tr").count()
    times = [page.evaluate(SORT % (1 + number % 2)) for number in range(REPEATS)]
    say(
        f"{path.parent.name}/{path.stem}: {rows} rows, opened in {opened} ms,"
        f" sorted in {statistics.median(times):.0f} ms (median of {REPEATS}, to the next frame)"
    )


def main() -> None:
    """Print all of it."""
    path = next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
    if path is None:
        raise SystemExit("no Chromium on this machine: tests/system-packages.sh installs it")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        made, real = large(folder / "large"), shipped(folder / "real")
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        page = browser.new_page()
        clock(page, made / "board" / "squares.html")
        for source in ("robustbench", "imagenet-testbed"):
            clock(page, real / "reported" / f"{source}.html")
        browser.close()


if __name__ == "__main__":
    main()
