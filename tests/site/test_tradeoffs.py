from __future__ import annotations

from typing import Any

from robustboard.registry.reported import Reported, ReportedSource
from robustboard.registry.scores import ReportedScore
from robustboard.site import published
from robustboard.site.render import render
from robustboard.site.tradeoffs import generated_plots, reported_plots, trade_offs
from tests.site.gates.showcase import showcase
from tests.site.reading import Page
from tests.site.test_render import PGD

CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}


def figures(made: Any) -> Any:
    return trade_offs(made.boards["squares"], made.catalog, made.benchmarks, made.measured)


def test_the_frontier_holds_ranked_models_alone(world: Any, site: Any) -> None:
    for name in ("good", "robust", "beaten", "partial"):
        world.add_model(name)
    results = [
        result
        for name, clean, robust in (("good", 590, 300), ("robust", 500, 400), ("beaten", 480, 200))
        for result in (
            world.result(name, correct=clean),
            world.result(name, "pgd-v1", falling=[clean, robust, 9, 0]),
        )
    ]
    found = figures(site([*results, world.result("partial", correct=599)], [CLEAN, PGD], order="pgd"))
    assert [each.name for each in found.clean.frontier] == ["Net robust", "Net good"]
    assert {each.name for each in found.clean.subjects} == {"Net good", "Net robust", "Net beaten"}
    assert found.clean.subjects[0].y_text == "PGD 1/10 66.7 %"
    assert found.costs == ()  # all cost the same, which tells nothing


def test_costs_come_from_the_records_of_runs() -> None:
    found = figures(showcase())
    assert [each.id for each in found.costs] == ["over-parameters", "over-macs", "over-time"]
    size = {each.name: each.x for each in found.costs[0].subjects}
    assert size["Net net-00"] == 40_000
    assert found.costs[0].frontier[-1].name == "Net net-00"
    assert found.devices == ("cpu",)


def test_a_board_ordered_by_clean_accuracy_has_no_figure_of_it_over_itself(world: Any, site: Any) -> None:
    for name in ("one", "two"):
        world.add_model(name)
    assert figures(site([world.result("one"), world.result("two")])).clean is None


def test_reported_models_have_a_frontier_of_their_own() -> None:
    values = {"id": "paper", "name": "Paper", "summary": "s", "license": "MIT", "imported_from": "p.csv"}
    source = ReportedSource.model_validate({**values, "arrange": "tables"})
    scores = tuple(
        ReportedScore.model_validate(
            {"model": name, "dataset": "d", "metric": metric, "value": value, "unit": "percent", "table": "T"}
        )
        for name, clean, robust in (("a", 95.0, 60.0), ("b", 90.0, 70.0), ("c", 89.0, 50.0))
        for metric, value in (("clean_accuracy", clean), ("autoattack_accuracy", robust))
    )
    (table,) = published.tables(Reported(source, scores))
    (found,) = reported_plots(table, "p1")
    assert [each.name for each in found.frontier] == ["b", "a"]
    assert found.subjects[0].x_text == "clean 90.0 %"
    assert reported_plots(table, "p1", ["other"]) == ()
    assert len(reported_plots(table, "p1", ["d"])) == 1


def test_fmr_stands_over_clean_accuracy_of_every_model_that_has_both(world: Any, site: Any) -> None:
    """Made up: a protocol whose headline is an FMR, in percent."""
    world.benchmarks["fmr-v1"] = world.benchmarks["clean-v1"].model_copy(update={"id": "fmr-v1"})
    results = []
    for name, clean, value in (("one", 540, 40.0), ("two", 480, 90.0), ("three", 300, None)):
        world.add_model(name)
        results.append(world.result(name, correct=clean))
        if value is not None:
            made = world.result(name, "fmr-v1")
            told: dict[str, Any] = {
                "metric": "fmr",
                "condition": "vq by clip",
                "value": value,
                "unit": "percent",
            }
            fmr = made.scores[0].model_copy(
                update={**told, "low": value - 5, "high": value + 5, "correct": None}
            )
            results.append(made.model_copy(update={"headline": "fmr@vq by clip", "scores": (fmr,)}))
    made = site(results)
    (found,) = generated_plots(made.boards["squares"], made.catalog, made.measured)
    assert [(each.name, each.x_text, each.y_text) for each in found.subjects] == [
        ("Net two", "clean 80.0 %", "FMR 90.0 %"),
        ("Net one", "clean 90.0 %", "FMR 40.0 %"),
    ]
    assert found.frontier == ()
    assert found.title.endswith(", fmr-v1"), "two protocols of one dataset have two figures"


def test_heat_maps_hold_what_the_run_of_corruptions_counted(templates: Any) -> None:
    pages = render(showcase(), templates)
    model = pages["m/net-00.html"]
    assert "Corruptions, accuracy in %" in Page(model).words
    start = model.index('class="matrix"')
    table = model[start : model.index("</table>", start)]
    assert table.count("<tr>") == 4
    assert "80.0 " in table  # 480 of 600 images under Gaussian noise of severity 1
    assert "net-00" in pages["b/corruptions-v1.html"]
    assert 'class="matrix"' in pages["b/corruptions-v1.html"]
    assert 'class="matrix"' not in pages["b/clean-v1.html"]
