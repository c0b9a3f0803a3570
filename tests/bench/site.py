"""How long a million predictions and a site of 2,000 models take, beside pandas on CSV and a naive rebuild.

    python -m tests.bench.site [--models 2000]

Ratios above 1 are in our favour. Counts are compared before any time is printed, and pages byte by byte.
"""

from __future__ import annotations

import argparse
import io
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from robustboard import jsons
from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.outcomes import read_outcomes
from robustboard.registry.catalog import load_catalog
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, count_right, pack
from robustboard.runners.record import Result
from robustboard.site.build import Built, build, write_files
from robustboard.site.environment import environment
from robustboard.site.render import SiteInput, render
from robustboard.workspace import Workspace
from tests.leaderboard.made_up import World, made

MODELS, BENCHMARKS, IMAGES = 20, 50, 1000
ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "site" / "templates"
SETS, PROTOCOLS = 5, ("clean-v1", "noise-v1", "pgd-v1")
NAIVE_PAGES = 40


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Median time of this process, which other programs on the machine change little."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def say(name: str, ours: float, theirs: float, peer: str) -> None:
    """One line of the report."""
    sys.stdout.write(f"{name}: {1000 * ours:.2f} ms; {peer}: {1000 * theirs:.1f} ms; {theirs / ours:.1f}x\n")


def million() -> None:
    """A million rows right or wrong to a thousand shares."""
    flags = np.random.default_rng(0).random((MODELS * BENCHMARKS, IMAGES)) < 0.7
    names = [(f"m{i // BENCHMARKS}", f"b{i % BENCHMARKS}") for i in range(len(flags))]
    index = np.repeat(np.arange(len(flags)), IMAGES)
    table = pd.DataFrame(
        {
            "model": [names[i][0] for i in index],
            "benchmark": [names[i][1] for i in index],
            "sample": np.tile([f"{n:05}" for n in range(IMAGES)], len(flags)),
            "label": 1,
            "predicted": flags.reshape(-1).astype(int),
        }
    )
    text, parquet = io.StringIO(), io.BytesIO()
    table.to_csv(text, index=False)
    table.to_parquet(parquet, index=False)

    def means(found: pd.DataFrame) -> Any:
        return (found["label"] == found["predicted"]).groupby([found["model"], found["benchmark"]]).sum()

    def from_csv() -> Any:
        return means(pd.read_csv(io.StringIO(text.getvalue())))

    def from_parquet() -> Any:
        columns = ["model", "benchmark", "label", "predicted"]
        return means(pd.read_parquet(io.BytesIO(parquet.getvalue()), columns=columns))

    packed = np.packbits(flags, axis=1)
    expected = from_csv()
    ours = count_right(packed)
    if [expected[name] for name in names] != ours.tolist():
        raise SystemExit("the counts differ")
    memory, csv = seconds(lambda: count_right(packed), 50), seconds(from_csv)
    say("1,000,000 outcomes, packed bits in memory", memory, csv, "pandas on CSV")
    say("1,000,000 outcomes, packed bits in memory", memory, seconds(from_parquet), "pandas on Parquet")
    with tempfile.TemporaryDirectory() as folder:
        results = _stored(flags, Path(folder))
        if len(read_outcomes([Path(folder)], results)) != len(flags):
            raise SystemExit("outcomes are missing")
        stored = seconds(lambda: read_outcomes([Path(folder)], results))
    say("the same from 1,000 sealed files, counts checked against results", stored, csv, "pandas on CSV")


def _stored(flags: np.ndarray[Any, Any], folder: Path) -> dict[Cell, Result]:
    """Outcome files of a thousand results."""
    world = World()
    world.add_dataset("squares", size=IMAGES)
    world.add_model("one")
    results = {}
    for number, right in enumerate(flags):
        result = world.result("one", correct=int(right.sum()), seed=number)
        cell = Cell(f"m{number // BENCHMARKS}", f"b{number % BENCHMARKS}", "squares")
        results[cell] = result
        outcomes = PerImage(
            key_digest=result.key_digest, images=IMAGES, samples="s" * 64, right={"clean": pack(right)}
        )
        path = folder / f"{cell.name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jsons.seal(outcomes))
    return results


def made_site(models: int) -> SiteInput:
    """A site of many models, 15 results each."""
    world, columns, results = World(), [], {}
    for number in range(SETS):
        world.add_dataset(f"set{number}", size=600)
    datasets = [f"set{number}" for number in range(SETS)]
    columns = [
        {"id": f"{b[:-3]}-{d}", "title": f"{b[:-3]} {d}", "benchmark": b, "dataset": d}
        for d in datasets
        for b in PROTOCOLS
    ]
    for model in range(models):
        world.add_model(f"net{model:04}")
        for dataset in datasets:
            for benchmark in PROTOCOLS:
                falling = [500, 300 + model % 190, 200, 10]
                result = world.result(
                    f"net{model:04}", benchmark, dataset, correct=500 + model % 90, falling=falling
                )
                results[Cell(f"net{model:04}", benchmark, dataset)] = result
    values = {"id": "many", "name": "Many", "summary": "Many.", "label_space": "shapes", "datasets": datasets}
    entry = made(BoardEntry, {**values, "columns": columns, "order": "pgd-set0"})
    started = time.process_time()
    measured = Measured.of(results, world.catalog, world.benchmarks)
    board = build_board(entry, world.catalog, measured)
    sys.stdout.write(f"board of {models} models: {time.process_time() - started:.1f} s\n")
    return SiteInput(world.catalog, world.benchmarks, {"many": board}, measured, {}, "0.0.0")


def site(models: int) -> None:
    """Rendering and writing, all new and nothing changed, beside doing all of it every time."""
    found, templates = made_site(models), environment(TEMPLATES)
    started = time.process_time()
    pages = render(found, templates)
    rendered = time.process_time() - started
    html = sum(name.endswith(".html") for name in pages)
    size = sum(map(len, pages.values())) / 1e6
    sys.stdout.write(f"rendered {html} pages, {len(pages)} files, {size:.0f} MB: {rendered:.1f} s\n")
    if render(found, templates) != pages:
        raise SystemExit("two renderings differ")

    def naive() -> None:
        fresh = environment(TEMPLATES)
        fresh.globals.update({"site": found})
        fresh.get_template("404.html.j2").render(root="", path="404.html")
        fresh.get_template("macros.html.j2")
        fresh.get_template("model.html.j2")

    each = seconds(naive, NAIVE_PAGES)
    say("one environment for all pages", rendered, rendered + each * html, "an environment a page")
    files = {name: text.encode("utf-8") for name, text in pages.items()}
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "ours", Path(folder) / "naive"
        started = time.process_time()
        write_files(first, files)
        everything = time.process_time() - started
        unchanged = seconds(lambda: write_files(first, files))

        def rewrite() -> None:
            for name, data in files.items():
                (second / name).write_bytes(data)

        for parent in {(second / name).parent for name in files}:
            parent.mkdir(parents=True, exist_ok=True)
        again = seconds(rewrite, 1)
        say("writing, all files new, each whole or not there", everything, again, "plain writes")
        say("writing, nothing changed", unchanged, again, "plain writes of all")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"peak memory: {peak:.0f} MiB\n")


def repository() -> None:
    """The site of this repository, built twice."""
    place = Workspace(ROOT, ROOT)
    catalog = load_catalog(place)
    benchmarks = load_benchmarks(place, catalog)
    with tempfile.TemporaryDirectory() as folder:

        def once() -> Built:
            return build(
                place, catalog, benchmarks, results=[place.committed_results], output=Path(folder) / "site"
            )

        first = seconds(once, 1)
        again = seconds(once)
        if once().written:
            raise SystemExit("a second build wrote files")
    say("the site of this repository, nothing changed", again, first, "building it")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=2000)
    million()
    repository()
    site(parser.parse_args().models)


if __name__ == "__main__":
    main()
