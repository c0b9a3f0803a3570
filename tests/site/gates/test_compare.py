"""The page of comparisons, from disk: the numbers of the program, in the address, by keyboard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import Environment

from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.compare import compare, p_text
from robustboard.leaderboard.entries import BoardEntry
from robustboard.runners.keys import Cell
from robustboard.runners.per_image import PerImage, pack
from robustboard.runners.record import Result
from robustboard.site.render import SiteInput, render
from tests.leaderboard.made_up import World, made
from tests.site.gates.conftest import Open, write

N = 600
Flags = np.ndarray[Any, Any]
RATES = {"net-a": (0.9, 0.5), "net-b": (0.85, 0.4), "net-c": (0.9, 0.49)}
NOISE = "noise_accuracy@uniform 1/10"


def rights(name: str) -> dict[str, dict[str, Flags]]:
    """Right or wrong under every condition, by benchmark; models share what is hard in an image."""
    ease = np.random.default_rng(0).random(N)
    own = np.random.default_rng(sum(map(ord, name))).random(N)
    mixed = 0.7 * ease + 0.3 * own
    clean, robust = (mixed < np.quantile(mixed, rate) for rate in RATES[name])
    draws = {f"uniform 1/10 draw {k}": mixed + 0.05 * k < np.quantile(mixed, 0.8) for k in range(3)}
    return {
        "clean-v1": {"clean": clean},
        "pgd-v1": {"clean": clean, "linf 1/10": robust & clean},
        "noise-v1": {"clean": clean, **draws},
    }


def noisy(result: Result, right: Mapping[str, Flags]) -> Result:
    """With the mean over draws that the bits give."""
    value = float(np.mean([flags for name, flags in right.items() if "draw" in name]))
    scores = tuple(
        s.model_copy(update={"value": value, "correct": None, "low": value - 0.03, "high": value + 0.03})
        if f"{s.metric}@{s.condition}" == NOISE
        else s
        for s in result.scores
    )
    return result.model_copy(update={"scores": scores})


@pytest.fixture(scope="module")
def facts() -> tuple[SiteInput, dict[Cell, Result], dict[Cell, PerImage]]:
    """Three models on three protocols; the third lacks outcomes of single images under attack."""
    world, results, outcomes = World(), {}, {}
    for name in (*RATES, "net-d"):
        world.add_model(name)
        for benchmark, right in rights(name).items() if name in RATES else ():
            clean = int(right["clean"].sum())
            falling = [int(right["linf 1/10"].sum())] * 4 if benchmark == "pgd-v1" else [300] * 4
            result = world.result(name, benchmark, correct=clean, falling=falling)
            if benchmark == "noise-v1":
                result = noisy(result, right)
            cell = Cell(name, benchmark, "squares")
            results[cell] = result
            if (name, benchmark) != ("net-c", "pgd-v1"):
                bits = {condition: pack(flags) for condition, flags in right.items()}
                outcomes[cell] = PerImage(
                    key_digest=result.key_digest, images=N, samples="s" * 64, right=bits
                )
    measured = Measured.of(results, world.catalog, world.benchmarks, outcomes=outcomes)
    columns = [{"id": b, "title": b, "benchmark": b, "dataset": "squares"} for b in ("clean-v1", "pgd-v1")]
    columns.append(
        {"id": "noise", "title": "noise", "benchmark": "noise-v1", "dataset": "squares", "score": NOISE}
    )
    values = {"id": "squares", "name": "x", "summary": "x", "label_space": "shapes", "datasets": ["squares"]}
    entry = made(BoardEntry, {**values, "columns": columns, "order": "clean-v1"})
    board = build_board(entry, world.catalog, measured)
    site = SiteInput(world.catalog, world.benchmarks, {"squares": board}, measured, {}, "0.0.0")
    return site, results, outcomes


@pytest.fixture(scope="module")
def page(facts: Any, templates: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """compare.html of these models."""
    return write(render(facts[0], templates), tmp_path_factory.mktemp("site")) / "compare.html"


def rows(found: Any) -> dict[str, list[str]]:
    """Words of each row by its heading."""
    lines: list[list[str]] = found.page.evaluate(
        """async () => { await new Promise((done) => setTimeout(done, 150));
          return [...document.querySelectorAll("#table tbody tr")]
            .map((row) => [...row.cells].map((cell) => cell.innerText)) }"""
    )
    return {line[0].replace("\n", " "): line[1:] for line in lines}


def words(share: float) -> str:
    text = f"{100 * share:+.1f}".replace("-", "\u2212")
    return "0.0" if text in ("+0.0", "\u22120.0") else text


def test_the_page_says_what_the_program_says(page: Path, facts: Any, open_page: Open) -> None:
    """Differences, paired intervals, p-values adjusted for the table, and verdicts are those of Python."""
    _, results, outcomes = facts
    expected = {
        (d.benchmark, f"{d.metric}@{d.condition}"): d
        for d in compare("net-b", "net-a", results, outcomes, every_score=True).differences
    }
    names = [
        ("clean-v1", "clean_accuracy@clean"),
        ("pgd-v1", "robust_accuracy@linf 1/10"),
        ("noise-v1", NOISE),
    ]
    with open_page(page, "#m=net-a,net-b") as found:
        shown = rows(found)
        assert found.complaints == []
    tested = [expected[name].pairs for name in names]
    headline = expected["noise-v1", "noise_accuracy@gaussian 1/10"]
    assert headline.pairs is None
    p_values = sorted(pairs.p_value for pairs in tested if pairs is not None)
    assert len(p_values) == 3
    for name, pairs in zip(names, tested, strict=True):
        assert pairs is not None
        metric, condition = name[1].split("@")
        line = shown[f"Protocol {name[0]} Squares; {metric.replace('_', ' ')}, {condition}"][1]
        assert f"{words(pairs.difference)} ({words(pairs.low)} to {words(pairs.high)})" in line
        place = p_values.index(pairs.p_value)
        adjusted = max(min(1.0, (3 - k) * p_values[k]) for k in range(place + 1))
        if adjusted < 0.001:
            assert "p < 0.001" in line
        else:
            assert float(line.rsplit("p ", 1)[1]) == pytest.approx(float(p_text(adjusted)), rel=0.06)
        assert ("clear" if adjusted < 0.05 else "tied") in line


def test_without_outcomes_intervals_decide(page: Path, open_page: Open) -> None:
    with open_page(page, "#m=net-a,net-c") as found:
        line = rows(found)["Protocol pgd-v1 Squares; robust accuracy, linf 1/10"][1]
        assert "intervals overlap" in line
        assert "tied" in line


def test_models_and_the_one_compared_with_stand_in_the_address(page: Path, open_page: Open) -> None:
    with open_page(page, "#m=net-a,net-b") as found:
        rows(found)
        found.page.locator("#add").fill("net-c")
        found.page.keyboard.press("Enter")
        found.page.locator("#baseline").select_option("net-b")
        before = rows(found)
        address = found.page.url
        assert address.endswith("#m=net-a,net-b,net-c&base=net-b")
        heads = found.page.locator("#table thead").inner_text()
        assert heads.index("net-b") < heads.index("net-a")
        assert "3 models" in found.status()
    with open_page(page, f"#{address.partition('#')[2]}") as found:
        assert rows(found) == before
        found.page.get_by_role("button", name="Remove Net net-b").click()
        rows(found)
        assert found.page.url.endswith("#m=net-a,net-c")
        assert found.complaints == []


@pytest.mark.parametrize("name", ["nobody", "%3Cimg src=x onerror=alert(1)%3E", "net-d"])
def test_models_that_are_not_there_are_named_as_text(page: Path, open_page: Open, name: str) -> None:
    with open_page(page, f"#m=net-a,{name}&strange&base=%E0%A4%A") as found:
        rows(found)
        assert "There is no model" in found.status()
        assert found.page.locator("main img").count() == 0
        assert found.complaints == []


def test_without_scripts_neighbours_stand_there(page: Path, open_page: Open) -> None:
    with open_page(page, scripts=False) as found:
        text = found.page.locator("main").inner_text()
        assert "Neighbours on x" in text
        assert not found.page.locator("#compare").is_visible()
