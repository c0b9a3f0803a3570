"""Derived columns on boards: what they compare, when they are undefined, and published heights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from robustboard import workspace
from robustboard.leaderboard.board import Board, build_board
from robustboard.leaderboard.cells import CellView, Measured, cell_text
from robustboard.leaderboard.derived import is_standard
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.fits import FitEntry, load_fits
from robustboard.registry.catalog import load_catalog
from robustboard.registry.reported import load_reported
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result, Subset
from tests.leaderboard.made_up import World

REPOSITORY = Path(__file__).resolve().parents[2]


def column(derive: str, **more: Any) -> dict[str, Any]:
    return {"id": "x", "title": "X", "benchmark": "clean-v1", "dataset": "circles", "derive": derive, **more}


MEASURED = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}


def board(
    world: World,
    results: Sequence[Result],
    *columns: Mapping[str, Any],
    fits: Mapping[str, FitEntry] | None = None,
    order: str = "clean",
) -> Board:
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    entry = {
        "id": "squares",
        "name": "Squares",
        "summary": "Squares.",
        "label_space": "shapes",
        "datasets": list(world.datasets),
        "columns": [MEASURED, *columns],
        "order": order,
    }
    measured = Measured.of(cells, world.catalog, world.benchmarks)
    return build_board(BoardEntry.model_validate_json(json.dumps(entry)), world.catalog, measured, fits)


def cell(found: Board, model: str, place: int = 1) -> CellView:
    (row,) = [row for row in found.rows if row.model == model]
    return row.cells[place]


@pytest.fixture
def shifted(world: World) -> World:
    """Squares, and circles as their shifted images."""
    world.add_dataset("circles", size=400, matched_clean="squares")
    return world


def both(world: World, name: str, clean: int, circles: int, **model: Any) -> list[Result]:
    if name not in world.models:
        world.add_model(name, **model)
    return [world.result(name, correct=clean), world.result(name, dataset="circles", correct=circles)]


def test_the_drop_is_against_the_matched_clean_dataset(shifted: World) -> None:
    found = board(shifted, both(shifted, "net", 540, 200), column("drop"))
    view = cell(found, "net")
    low, high = confint_proportions_2indep(540, 600, 200, 400, method="newcomb", compare="diff")
    assert view.status == "ok"
    assert view.value == pytest.approx(0.4)
    assert view.bounds == pytest.approx((low, high))
    assert cell_text(view) == f"40.0 pp ±{100 * max(high - 0.4, 0.4 - low):.1f}"
    assert found.directions == ("higher", "lower")
    assert found.rows[0].ranks == (1, 1)


def test_noise_drops_from_the_clean_accuracy_of_its_own_run(world: World) -> None:
    """Without a matched clean dataset the shift is in the benchmark."""
    world.add_model("net")
    noisy = world.result("net", "noise-v1", correct=570, falling=[500, 450, 300, 200])
    name = {"benchmark": "noise-v1", "dataset": "squares", "score": "noise_accuracy@gaussian 1/5"}
    found = board(world, [world.result("net"), noisy], column("drop", **name))
    assert cell(found, "net").value == pytest.approx(0.45)
    assert cell(found, "net").score.condition == "gaussian 1/5"  # type: ignore[union-attr] # ok


def test_another_clean_side_can_be_named(shifted: World) -> None:
    shifted.add_dataset("ovals", size=100)
    results = [*both(shifted, "net", 540, 200), shifted.result("net", dataset="ovals", correct=90)]
    found = board(shifted, results, column("drop", clean={"dataset": "ovals"}))
    assert cell(found, "net").value == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ("missing", "undefined", "clean accuracy on squares is not run: nobody has run it"),
        ("outdated", "undefined", "clean accuracy on squares is outdated: the seed has changed since"),
        ("partial", "undefined", "clean accuracy on squares is partial: measured on 100 of 600 images"),
        ("classes", "undefined", "clean accuracy on squares is over other classes"),
        ("undefined", "undefined", "clean accuracy on squares is undefined: made up to be undefined"),
    ],
)
def test_without_a_sound_clean_cell_there_is_no_drop(
    shifted: World, change: str, status: str, reason: str
) -> None:
    shifted.add_model("net")
    clean: dict[str, list[Result]] = {
        "missing": [],
        "outdated": [shifted.result("net", seed=7)],
        "partial": [shifted.result("net", correct=90, subset=Subset(count=100, seed=0))],
        "undefined": [shifted.result("net", undefined=["clean_accuracy"])],
    }
    results = clean.get(change, [shifted.result("net")])
    results.append(shifted.result("net", dataset="circles", correct=200))
    found = board(shifted, results, column("drop"))
    if change == "classes":
        other = results[0].model_copy(
            update={"key": results[0].key.model_copy(update={"labels_digest": "9" * 64})}
        )
        cells = {Cell("net", "clean-v1", r.key.dataset): r for r in (other, results[1])}
        measured = Measured(cells, {}, {}, shifted.benchmarks)
        found = build_board(found.entry, shifted.catalog, measured)
    view = cell(found, "net")
    assert (view.status, view.reason, view.value) == (status, reason, None)


def test_a_derived_cell_is_as_the_one_that_it_comes_from(shifted: World) -> None:
    shifted.add_model("none")
    shifted.add_model("part")
    results = [shifted.result("none"), shifted.result("part", correct=540)]
    results.append(shifted.result("part", dataset="circles", correct=50, subset=Subset(count=100, seed=0)))
    found = board(shifted, results, column("drop"))
    assert (cell(found, "none").status, cell(found, "none").reason) == ("not run", "nobody has run it")
    assert cell(found, "part").status == "partial"
    assert cell(found, "part").value == pytest.approx(0.4)


def test_derived_cells_keep_no_row_from_its_rank_unless_they_order(shifted: World) -> None:
    results = [*both(shifted, "net", 540, 200), *both(shifted, "old", 500, 100)[:1]]
    assert [row.ranks for row in board(shifted, results, column("drop")).rows] == [(1, 1), (2, 2)]
    ordered = board(shifted, results, column("drop"), order="x")
    assert [(row.model, row.ranks) for row in ordered.rows] == [("net", (1, 1)), ("old", None)]


def test_the_smallest_drop_comes_first(shifted: World) -> None:
    results = [*both(shifted, "falls", 590, 100), *both(shifted, "stands", 400, 260)]
    assert [row.model for row in board(shifted, results, column("drop"), order="x").rows] == [
        "stands",
        "falls",
    ]


def test_relative_robustness_is_against_the_base_that_the_entry_names(shifted: World) -> None:
    results = both(shifted, "base", 540, 200) + both(shifted, "tuned", 530, 260, base="base")
    results += both(shifted, "orphan", 530, 260, base="unmeasured") + both(shifted, "plain", 530, 260)
    shifted.add_model("unmeasured")
    found = board(shifted, results, column("relative-robustness"))
    assert cell(found, "tuned").value == pytest.approx(0.15)
    assert cell(found, "tuned").bounds == pytest.approx(
        confint_proportions_2indep(260, 400, 200, 400, method="newcomb", compare="diff")
    )
    assert cell_text(cell(found, "tuned")) == "+15.0 pp ±6.8"
    assert cell(found, "plain").reason == "the entry names no base to compare it with"
    assert cell(found, "orphan").reason == "its base unmeasured is not run: nobody has run it"


def made_line(world: World, counts: Mapping[str, tuple[int, int]], **special: dict[str, Any]) -> list[Result]:
    return [
        result
        for name, (clean, circles) in counts.items()
        for result in both(world, name, clean, circles, **special.get(name, {}))
    ]


STANDARD = ("net-a", "net-b", "net-c", "net-d")
COUNTED = {
    "net-a": (400, 150),
    "net-b": (450, 190),
    "net-c": (500, 230),
    "net-d": (550, 300),
    "robust": (440, 300),
}
ROBUST = {"adversarial_training": {"norm": "linf", "eps": "8/255"}}


def test_an_own_fit_goes_through_standard_models_alone(shifted: World) -> None:
    results = made_line(shifted, COUNTED, robust=ROBUST)
    found = board(shifted, results, column("effective-robustness", fit="own"))
    standard = [COUNTED[name] for name in STANDARD]
    clean = np.array([clean / 600 for clean, _ in standard])
    circles = np.array([hit / 400 for _, hit in standard])
    line = stats.linregress(np.log(clean / (1 - clean)), np.log(circles / (1 - circles)))
    foretold = 1 / (1 + np.exp(-(line.intercept + line.slope * np.log(440 / 160))))
    assert cell(found, "robust").value == pytest.approx(0.75 - foretold)
    assert cell(found, "robust").score.interval == "bootstrap-95"  # type: ignore[union-attr] # ok
    (piece,) = found.as_data()["lines"]["x"]["pieces"]
    assert [piece["slope"], piece["intercept"], piece["n"]] == pytest.approx([line.slope, line.intercept, 4])
    derived = found.derived["x"]
    assert [point.model for point in derived.points if point.fitted] == list(STANDARD)
    assert derived.fit is not None


def test_an_own_fit_is_the_same_each_time(shifted: World) -> None:
    results = made_line(shifted, COUNTED, robust=ROBUST)
    first, again = (
        board(shifted, order, column("effective-robustness", fit="own")).as_data()
        for order in (results, results[::-1])
    )
    assert first == again


def test_an_own_fit_leaves_out_the_models_that_a_column_names(shifted: World) -> None:
    results = made_line(shifted, COUNTED)
    found = board(shifted, results, column("effective-robustness", fit="own", exclude=["robust"]))
    assert [point.model for point in found.derived["x"].points if not point.fitted] == ["robust"]
    assert cell(found, "robust").value is not None


def test_two_standard_models_are_no_line(shifted: World) -> None:
    results = made_line(
        shifted, {name: COUNTED[name] for name in ("net-a", "net-b", "robust")}, robust=ROBUST
    )
    found = board(shifted, results, column("effective-robustness", fit="own"))
    reason = "a line needs 3 models trained in the ordinary way and measured on both sides; here are 2"
    assert [cell(found, name).reason for name in ("net-a", "robust")] == [reason, reason]
    assert found.derived["x"].reason == reason


def test_models_of_equal_clean_accuracy_are_no_line(shifted: World) -> None:
    results = made_line(shifted, {"net-a": (400, 150), "net-b": (400, 190), "net-c": (400, 230)})
    found = board(shifted, results, column("effective-robustness", fit="own"))
    assert "equal clean accuracies" in (cell(found, "net-a").reason or "")


@pytest.mark.parametrize(
    ("more", "standard"),
    [
        ({}, True),
        (ROBUST, False),
        ({"intervention": "AugMix"}, False),
        ({"base": "net"}, False),
        ({"training": {"datasets": ["squares-train", "the web"]}}, False),
        ({"loader": "open_clip", "zero_shot": {"templates": ["a {}"]}}, False),
    ],
)
def test_standard_models_are_those_trained_in_the_ordinary_way(
    world: World, more: dict[str, Any], *, standard: bool
) -> None:
    assert is_standard(world.add_model("net", **more)) is standard


# Published numbers


@cache
def published() -> tuple[dict[str, dict[str, float]], Mapping[str, FitEntry]]:
    """Dataset → model → accuracy in percent of the testbed, and all fits."""
    space = workspace.find(REPOSITORY)
    reported = load_reported(space)
    found: dict[str, dict[str, float]] = {}
    for item in reported["imagenet-testbed"].scores:
        found.setdefault(item.dataset, {})[item.model] = item.value
    return found, load_fits(space, load_catalog(space), reported)


def board_of_the_testbed(world: World) -> tuple[Board, list[str]]:
    """Made-up results with the accuracies that the testbed reports, beside the fit of ImageNet-V2."""
    accuracies, fits = published()
    clean, shifted = accuracies["val"], accuracies["imagenetv2-matched-frequency-format-val"]
    world.add_dataset("imagenet-1k", size=50_000)
    world.add_dataset("imagenet-v2", size=10_000, matched_clean="imagenet-1k")
    names = sorted(clean)
    results = []
    for number, name in enumerate(names):
        world.add_model(f"net{number:03}")
        results.append(
            world.result(f"net{number:03}", dataset="imagenet-1k", correct=round(clean[name] * 500))
        )
        results.append(
            world.result(f"net{number:03}", dataset="imagenet-v2", correct=round(shifted[name] * 100))
        )
    columns = [
        {**MEASURED, "id": "val", "dataset": "imagenet-1k"},
        column("effective-robustness", dataset="imagenet-v2", fit="imagenet-v2"),
    ]
    return board(world, results, *columns, fits=fits, order="val"), names


def test_published_models_have_their_published_effective_robustness(world: World) -> None:
    """Zero-shot CLIP ViT-B/32 stands 5.63 points above the line of ImageNet-V2, ResNet-50 0.74 below."""
    found, names = board_of_the_testbed(world)
    clip = cell(found, f"net{names.index('vit_b_32_clip_zeroshot'):03}", 2)
    resnet = cell(found, f"net{names.index('resnet50'):03}", 2)
    assert (clip.status, resnet.status) == ("ok", "ok")
    assert 100 * (clip.value or 0.0) == pytest.approx(5.63, abs=0.01)
    assert 100 * (resnet.value or 0.0) == pytest.approx(-0.74, abs=0.01)
    assert cell_text(clip) == "+5.6 pp ±1.1"
    assert len(found.derived["x"].points) == 195


def test_all_published_models_stand_where_the_line_by_hand_puts_them(world: World) -> None:
    found, names = board_of_the_testbed(world)
    accuracies, _ = published()
    clean = np.array([accuracies["val"][name] for name in names]) / 100
    shifted = np.array([accuracies["imagenetv2-matched-frequency-format-val"][name] for name in names]) / 100
    expected = shifted - 1 / (1 + np.exp(0.497690) * (1 / clean - 1) ** 0.923229)
    values = [cell(found, f"net{number:03}", 2).value for number in range(len(names))]
    assert values == pytest.approx(list(expected), abs=1e-5)


def test_an_unknown_fit_leaves_the_cells_undefined(shifted: World) -> None:
    found = board(shifted, both(shifted, "net", 540, 200), column("effective-robustness", fit="nowhere"))
    assert cell(found, "net").reason == "there is no fit nowhere"
