"""What a model's page says of the way from file to network."""

from __future__ import annotations

import re
from typing import Any

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.site.render import render
from tests.leaderboard.made_up import World, made

EXTERNAL = {
    "id": "handed-v1",
    "name": "Handed in",
    "summary": "Images of somebody.",
    "procedure": {
        "kind": "external",
        "norm": "linf",
        "made_by": "somebody",
        "settings": [
            {
                "datasets": ["squares"],
                "budgets": ["1/10"],
                "headline": "1/10",
                "file": {"path": "external/x.npz", "sha256": "0" * 64},
            }
        ],
    },
    "source": "made up",
    "added": "2026-01-31",
}


def test_the_page_says_which_pixels_each_number_is_of(world: World, site: Any, templates: Any) -> None:
    """B050: attacks in memory and sets from files stand apart, each with its encoding."""
    world.benchmarks["handed-v1"] = made(BenchmarkEntry, EXTERNAL)
    world.add_model("net")
    results = []
    for benchmark, encoding in (("pgd-v1", "float32 in memory"), ("handed-v1", "8-bit from file")):
        result = world.result("net", benchmark)
        preparation = {**result.facts.preparation, "encoding": encoding}
        facts = result.facts.model_copy(update={"preparation": preparation})
        results.append(result.model_copy(update={"facts": facts}))
    results.append(world.result("net", "clean-v1"))

    page = render(site(results), templates)["m/net.html"]

    section = page[page.index("From file to network") : page.index("</details>", page.index("From file to"))]
    facts_of = dict(re.findall(r"<h3>(.*?)</h3>(.*?)</dl>", section, re.DOTALL))
    assert sorted(facts_of) == ["Squares", "Squares, Handed in"]
    assert "<dt>encoding</dt><dd>float32 in memory</dd>" in facts_of["Squares"]
    assert "<dt>encoding</dt><dd>8-bit from file</dd>" in facts_of["Squares, Handed in"]


def test_derived_numbers_stand_on_the_page_in_points(world: World, site: Any, templates: Any) -> None:
    world.add_dataset("circles", size=400, matched_clean="squares")
    world.add_model("net")
    world.add_model("tuned", base="net", intervention="AugMix")
    results = [world.result(name, correct=540) for name in ("net", "tuned")]
    results += [
        world.result(name, dataset="circles", correct=hits) for name, hits in (("net", 200), ("tuned", 260))
    ]
    clean = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
    derived = [
        {"id": derive, "title": derive, "benchmark": "clean-v1", "dataset": "circles", "derive": derive}
        for derive in ("drop", "relative-robustness")
    ]
    pages = render(site(results, [clean, *derived], datasets=("squares", "circles")), templates)
    page, other = pages["m/tuned.html"], pages["m/net.html"]
    section, others = (
        text[text.index('id="shifts"') : text.index("</table>", text.index('id="shifts"'))]
        for text in (page, other)
    )
    names, values = r'scope="row" class="name">([^<]*)', r'<td class="n">([^<]+)<'
    assert re.findall(names, section) == ["accuracy drop", "relative robustness"]
    assert re.findall(values, section) == ["25.0\u00a0pp", "+15.0\u00a0pp"]
    assert re.findall(names, others) == ["accuracy drop"]
    assert "AugMix" in page
    assert '<dt>Compared with</dt><dd><a href="../m/net.html">' in page
