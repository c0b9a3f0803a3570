from __future__ import annotations

from typing import Any

from robustboard.leaderboard.entries import ReportedView
from robustboard.registry.reported import Reported, ReportedSource
from robustboard.registry.scores import ReportedScore
from robustboard.site import published


def source(arrange: str = "tables") -> ReportedSource:
    values = {"id": "paper", "name": "Paper", "summary": "s", "license": "MIT", "imported_from": "p.csv"}
    return ReportedSource.model_validate({**values, "arrange": arrange})


def score(model: str, value: float, **more: Any) -> ReportedScore:
    values = {"model": model, "dataset": "d", "metric": "top1_accuracy", "value": value, "unit": "percent"}
    return ReportedScore.model_validate({**values, "table": "T1", **more})


def test_tables_stand_apart_and_models_keep_the_order_of_names_not_of_values() -> None:
    scores = (score("b", 99.0), score("A", 1.0), score("A", 5.0, table="T2"))
    first, second = published.tables(Reported(source(), scores))
    assert (first.title, second.title) == ("T1", "T2")
    assert [(row.model, row.values) for row in first.rows] == [("A", ("1",)), ("b", ("99",))]


def test_one_table_keeps_settings_as_rows_and_has_no_number_where_the_source_has_none() -> None:
    scores = (score("a", 1.5), score("a", 2.5, table="T2", dataset="e"))
    (table,) = published.tables(Reported(source("rows"), scores))
    assert [heading.dataset for heading in table.headings] == ["d", "e"]
    assert [(row.setting, row.values) for row in table.rows] == [("T1", ("1.5", None)), ("T2", (None, "2.5"))]


def test_units_are_never_mixed_in_one_column() -> None:
    scores = (score("a", 50.0), score("b", 0.5, unit="fraction"))
    (table,) = published.tables(Reported(source(), scores))
    assert [heading.unit for heading in table.headings] == ["share of 1", "%"]
    assert [row.values for row in table.rows] == [(None, "50"), ("0.5", None)]


def test_a_board_mentions_only_its_datasets() -> None:
    reported = {"paper": Reported(source(), (score("a", 1.0), score("a", 2.0, dataset="e"), score("b", 3.0)))}
    found = published.mention(ReportedView(source="paper", datasets=("d",)), reported)
    assert (found.numbers, found.models) == (2, 2)


def test_claims_are_found_by_the_name_of_the_repository(world: Any) -> None:
    hub = {"kind": "hub", "repo": "timm/resnet18.a1_in1k", "revision": "0" * 40}
    model = world.add_model("resnet18", source=hub)
    reported = Reported(source(), (score("resnet18.a1_in1k", 70.5), score("other", 1.0)))
    (claim,) = published.claims(model, published.claims_by_name([reported]))
    assert (claim.source, claim.text, claim.metric) == ("paper", "70.5 %", "top1 accuracy")


def test_values_have_places_by_which_they_sort_and_errors_sort_the_other_way() -> None:
    scores = (
        score("a", 9.5),
        score("b", 10.2),
        score("a", 9.5, metric="mCE"),
        score("b", 10.2, metric="mCE"),
    )
    (table,) = published.tables(Reported(source(), scores))
    assert [heading.direction for heading in table.headings] == ["lower", "higher"]
    assert [row.places for row in table.rows] == [("0", "1"), ("1", "0")]


def test_a_table_of_one_metric_over_several_sets_is_shaded_within_columns() -> None:
    """A step is never narrower than a point: reported numbers come without interval."""
    scores = tuple(
        score(m, v + n, dataset=d) for m, v in (("a", 10.0), ("b", 80.0)) for n, d in enumerate("xyz")
    )
    (matrix,) = published.tables(Reported(source(), scores))
    assert [row.shades for row in matrix.rows] == [(0, 0, 0), (6, 6, 6)]
    close = tuple(score(m, v, dataset=d) for m, v in (("a", 10.0), ("b", 10.4)) for d in "xyz")
    (flat,) = published.tables(Reported(source(), close))
    assert len({shade for row in flat.rows for shade in row.shades}) == 1
    (two,) = published.tables(Reported(source(), scores[:2]))
    assert two.rows[0].shades == (None, None)
