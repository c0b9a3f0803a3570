"""Scatter of accuracy under a shift over clean accuracy: places by hand, published models, and the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment

from robustboard import workspace
from robustboard.leaderboard.board import Board, build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.fits import FitEntry, load_fits
from robustboard.registry.catalog import load_catalog
from robustboard.registry.reported import Reported, load_reported
from robustboard.runners.keys import Cell
from robustboard.site.charts import LEFT, RIGHT
from robustboard.site.render import SiteInput, render
from robustboard.site.scatter import BOTTOM, TOP, LogitAxis, Scatter, scatters
from tests.leaderboard.made_up import World
from tests.site.conftest import site_of

REPOSITORY = Path(__file__).resolve().parents[2]
CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
SHIFT = {
    "id": "shift",
    "title": "Effective",
    "benchmark": "clean-v1",
    "dataset": "circles",
    "derive": "effective-robustness",
    "fit": "own",
}
COUNTS = {
    "net-a": (400, 150),
    "net-b": (450, 190),
    "net-c": (500, 230),
    "net-d": (550, 300),
    "robust": (440, 300),
}
ROBUST: dict[str, Any] = {"adversarial_training": {"norm": "linf", "eps": "8/255"}}
SHARES = st.floats(0.001, 0.999)


def logit(value: float) -> float:
    return float(np.log(value / (1 - value)))


def shifted_site(world: World, counts: Mapping[str, tuple[int, int]], **column: Any) -> SiteInput:
    world.add_dataset("circles", size=400, matched_clean="squares")
    results = []
    for name, (clean, circles) in counts.items():
        world.add_model(name, **(ROBUST if name == "robust" else {}))
        results.append(world.result(name, correct=clean))
        results.append(world.result(name, dataset="circles", correct=circles))
    return site_of(world, results, [CLEAN, {**SHIFT, **column}], datasets=("squares", "circles"))


def only(site: SiteInput, reported: Mapping[str, Reported] | None = None) -> Scatter:
    (found,) = scatters(site.boards["squares"], site.catalog, reported or {})
    return found


@settings(deadline=None)
@given(st.lists(SHARES, min_size=1, max_size=6))
def test_an_axis_holds_its_values_and_round_ticks_in_order(shares: list[float]) -> None:
    axis = LogitAxis.around([logit(share) for share in shares])
    assert all(0 < axis.along(logit(share)) < 1 for share in shares)
    ticks = axis.ticks()
    assert list(ticks) == sorted(set(ticks))
    assert len(ticks) >= 2
    assert all(axis.start <= logit(tick) <= axis.end for tick in ticks)
    assert all(round(tick * 10_000, 8).is_integer() for tick in ticks)


def test_an_axis_of_nothing_has_a_range() -> None:
    assert LogitAxis.around([]).start < 0 < LogitAxis.around([]).end


def test_dots_stand_in_logit_scale(world: World) -> None:
    """The distance of two dots is that of their logits, on both axes."""
    found = only(shifted_site(world, COUNTS))
    dots = {series.name: series.dots[0] for series in found.series}
    a, b, d = (dots[f"Net net-{name}"] for name in "abd")
    for first, second, third, n, place in ((a.x, b.x, d.x, 600, 0), (a.y, b.y, d.y, 400, 1)):
        la, lb, ld = (logit(COUNTS[f"net-{name}"][place] / n) for name in "abd")
        assert (second - first) / (third - first) == pytest.approx((lb - la) / (ld - la), abs=2e-3)
    assert all(LEFT < dot.left < dot.x < dot.right < RIGHT for dot in dots.values())
    assert all(TOP < dot.high < dot.y < dot.low < BOTTOM for dot in dots.values())


def test_the_line_is_straight_solid_between_fitted_models_and_dashed_beyond(world: World) -> None:
    found = only(shifted_site(world, COUNTS))
    assert [stroke.beyond for stroke in found.strokes] == [True, False, True]
    slopes = [(s.y2 - s.y1) / (s.x2 - s.x1) for s in found.strokes if s.x2 - s.x1 > 2]
    assert slopes == pytest.approx([slopes[0]] * len(slopes), rel=0.02)
    dots = {series.name: series.dots[0] for series in found.series}
    assert found.strokes[1].x1 == dots["Net net-a"].x
    assert found.strokes[1].x2 == dots["Net net-d"].x
    x, y = dots["Net robust"].x, dots["Net robust"].y
    on_line = found.strokes[1].y1 + slopes[0] * (x - found.strokes[1].x1)
    assert y < on_line, "a model of positive effective robustness stands above the line"


def test_where_the_line_foretells_less_than_the_canvas_shows_it_is_cut(world: World) -> None:
    found = only(shifted_site(world, {**COUNTS, "net-e": (590, 396)}))
    for stroke in (*found.strokes, *found.equal):
        assert LEFT <= stroke.x1 < stroke.x2 <= RIGHT
        assert all(TOP <= y <= BOTTOM for y in (stroke.y1, stroke.y2))


def test_the_table_holds_what_the_line_foretells(world: World) -> None:
    site = shifted_site(world, COUNTS)
    found = only(site)
    line = site.boards["squares"].derived["shift"].fit
    assert line is not None
    rows = {row.name: row for row in found.rows}
    assert rows["Net robust"].foretold == pytest.approx(line.line.expected(440 / 600))
    assert [row.name for row in found.rows] == [row.name for row in site.boards["squares"].rows]
    assert "The line goes through 4 models of this board trained in the ordinary way (r =" in found.line


def test_many_models_are_drawn_by_kind_of_training(world: World) -> None:
    many = {**COUNTS, "net-e": (480, 200), "net-f": (490, 210)}
    found = only(shifted_site(world, many))
    assert [(series.name, len(series.dots)) for series in found.series] == [
        ("Trained in the ordinary way", 6),
        ("Other training", 1),
    ]


def test_without_a_line_dots_are_drawn_and_the_reason_is_said(world: World) -> None:
    found = only(shifted_site(world, {"net-a": (400, 150), "robust": (440, 300)}))
    assert (found.strokes, len(found.series)) == ((), 2)
    assert found.line.startswith("There is no line: a line needs 3 models")
    assert {row.foretold for row in found.rows} == {None}


def test_a_board_without_effective_robustness_has_no_figure(world: World) -> None:
    world.add_model("net")
    site = site_of(world, [world.result("net")])
    assert scatters(site.boards["squares"], site.catalog, {}) == ()


@pytest.fixture(scope="module")
def reported() -> Mapping[str, Reported]:
    return load_reported(workspace.find(REPOSITORY))


@pytest.fixture(scope="module")
def fits(reported: Mapping[str, Reported]) -> Mapping[str, FitEntry]:
    space = workspace.find(REPOSITORY)
    return load_fits(space, load_catalog(space), reported)


def published_board(world: World, fits: Mapping[str, FitEntry], fit: str, *names: str) -> tuple[Board, Any]:
    """A board whose column uses a published fit, with made-up results of the named models."""
    entry = fits[fit]
    assert entry.shifted is not None
    for name in {entry.shifted, entry.clean}:
        world.add_dataset(str(name), size=10_000)
    world.datasets[entry.shifted] = world.datasets[entry.shifted].model_copy(
        update={"matched_clean": entry.clean}
    )
    results = []
    for name in names:
        world.add_model(name)
        results += [world.result(name, dataset=d, correct=6_000) for d in (entry.shifted, str(entry.clean))]
    column = {**SHIFT, "dataset": entry.shifted, "fit": fit}
    site = site_of(
        world, results, [{**CLEAN, "dataset": str(entry.clean)}, column], datasets=tuple(world.datasets)
    )
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    measured = Measured.of(cells, world.catalog, world.benchmarks)
    return build_board(site.boards["squares"].entry, world.catalog, measured, fits), site


def test_reported_models_are_drawn_faintly_apart_from_measured_ones(
    world: World, fits: Mapping[str, FitEntry], reported: Mapping[str, Reported]
) -> None:
    """All 195 models of the testbed, 85 of them those that the line goes through."""
    board, site = published_board(world, fits, "imagenet-v2", "net")
    (found,) = scatters(board, site.catalog, reported)
    assert found.reported is not None
    assert (len(found.reported.fitted), len(found.reported.others)) == (85, 110)
    assert [series.name for series in found.series] == ["Net net"]
    assert "1 measured model and 195 reported ones" in found.description
    assert "(r = 0.998); re-fitted from" in found.line
    near = []
    (line,) = (stroke for stroke in found.strokes if not stroke.beyond)
    slope = (line.y2 - line.y1) / (line.x2 - line.x1)
    for x, y in found.reported.fitted:
        near.append(abs(y - (line.y1 + slope * (x - line.x1))))
    assert max(near) < 25, "standard models lie close to the line of ImageNet-V2"


def test_imagenet_a_has_two_lines_that_part_at_the_model_that_filtered_it(
    world: World, fits: Mapping[str, FitEntry], reported: Mapping[str, Reported]
) -> None:
    board, site = published_board(world, fits, "imagenet-a")
    (found,) = scatters(board, site.catalog, reported)
    solid = [stroke for stroke in found.strokes if not stroke.beyond]
    assert len(solid) == 2
    assert solid[0].x2 == pytest.approx(solid[1].x1)
    steep = [(s.y1 - s.y2) / (s.x2 - s.x1) for s in solid]
    assert steep[1] / steep[0] == pytest.approx(2.955960 / 0.689446, rel=0.03)
    assert "33 and 51 published models trained in the ordinary way (r = 0.641 and 0.951)" in found.line
    assert found.reported is not None
    assert len(found.reported.fitted) == 84, "ResNet-50, with 0, has no place here"


def test_the_page_shows_figure_legend_and_table(world: World, templates: Environment) -> None:
    site = shifted_site(world, COUNTS)
    page = render(site, templates)["board/squares.html"]
    figure = page[page.index('<figure class="chart scatter">') :]
    assert figure.count("<use ") == 2 * len(COUNTS), "a mark in the figure and one in the legend each"
    assert '<title id="t-shift">Accuracy on Circles over clean accuracy</title>' in figure
    assert "5 measured models." in figure
    assert "dashed beyond the models fitted" in figure
    (row,) = re.findall(r'net-d\.html">.*?</tr>', figure[figure.index("<tbody>") :])
    numbers = re.findall(r"<td class=\"n\">([^<]*)", row)
    assert [number.strip() for number in numbers[:2]] == ["91.7", "75.0"]
    assert numbers[3].strip().endswith("pp")


def test_two_renderings_are_the_same(world: World, templates: Environment) -> None:
    site = shifted_site(world, COUNTS)
    assert render(site, templates) == render(site, templates)
