from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from robustboard.site.render import render

STATIC = Path(__file__).resolve().parents[2] / "site" / "static"
CSS = (STATIC / "site.css").read_text(encoding="utf-8")
HEAT = [f"--h{step}" for step in range(7)]


def palettes() -> dict[str, dict[str, str]]:
    """Variables of both themes, as hex colours."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, flags=re.DOTALL)
    light, dark = (dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6});", block)) for block in blocks[:2])
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_define_the_same_colours(theme: str) -> None:
    assert set(palettes()[theme]) == set(palettes()["light"])
    assert {*HEAT, "--page", "--text", "--quiet", "--accent", "--s5"} <= set(palettes()[theme])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_every_ground(theme: str) -> None:
    """WCAG AA: 4.5 for text, also on heat cells, hatches, panels and the head of the front page."""
    colours = palettes()[theme]
    grounds = ["--page", "--panel", "--hero"]
    pairs = [(ink, ground) for ink in ("--text", "--quiet", "--accent") for ground in grounds]
    pairs += [(ink, step) for ink in ("--text", "--cell-quiet") for step in HEAT]
    pairs += [("--cell-quiet", "--hatch"), ("--good", "--page"), ("--warn", "--page")]
    low = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_and_marks_stand_out_from_the_ground(theme: str) -> None:
    """WCAG 1.4.11: 3 for graphics, on the page and in the head of the front page."""
    colours = palettes()[theme]
    marks = [f"--s{number}" for number in range(6)] + ["--mark"]
    for ground in ("--page", "--hero"):
        low = {mark: contrast(colours[mark], colours[ground]) for mark in marks}
        assert {mark: ratio for mark, ratio in low.items() if ratio < 3} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_heat_steps_go_one_way_in_lightness(theme: str) -> None:
    """Never a scale that turns: from the page's own lightness away from the text's."""
    steps = [luminance(palettes()[theme][step]) for step in HEAT]
    assert steps == sorted(steps, reverse=theme == "light")
    assert len(set(steps)) == 7


def test_the_sheet_asks_nobody_else() -> None:
    assert "url(" not in CSS
    assert "@import" not in CSS
    assert "http" not in CSS


def test_styles_stay_small() -> None:
    assert len(gzip.compress(CSS.encode())) < 7_000


def test_a_board_of_two_hundred_by_thirty_stays_below_100_kilobytes(
    world: Any, site: Any, templates: Any
) -> None:
    columns, results = [], []
    for number in range(30):
        world.add_dataset(f"set{number}", size=600)
        columns.append(
            {
                "id": f"c{number}",
                "title": f"Column {number}",
                "benchmark": "clean-v1",
                "dataset": f"set{number}",
            }
        )
    for model in range(200):
        world.add_model(f"net{model:03}")
        results += [
            world.result(
                f"net{model:03}", "clean-v1", f"set{number}", correct=(7 * model + 31 * number) % 600
            )
            for number in range(30)
        ]
    made = site(results, columns, order="c0", datasets=[f"set{number}" for number in range(30)])
    page = render(made, templates)["board/squares.html"]
    script = (STATIC / "board.js").read_bytes()
    assert CSS in page
    assert len(gzip.compress(page.encode())) + len(gzip.compress(script)) < 100_000
