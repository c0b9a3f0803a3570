from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.site.controls import Facets, choices, facets, family, places
from robustboard.site.downloads import board_script

CLEAN = {"id": "clean", "title": "Clean", "benchmark": "clean-v1", "dataset": "squares"}
PGD = {"id": "pgd", "title": "PGD", "benchmark": "pgd-v1", "dataset": "squares"}


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("resnet18", "resnet"),
        ("tf_mobilenetv3_small_100.in1k", "mobilenet"),
        ("ViT-B-32", "vit"),
        ("convnextv2_tiny", "convnext"),
        ("tf_efficientnet_b0.ap_in1k", "efficientnet"),
        ("test_vit.r160_in1k", "vit"),
        ("rippled", "rippled"),
        ("3d", "3d"),
    ],
)
def test_the_family_is_what_stands_before_version_size_and_variant(architecture: str, expected: str) -> None:
    assert family(architecture) == expected


def test_places_are_those_of_unrounded_values_with_gaps_kept_last() -> None:
    """B068: 81.251 before 81.249, 9.5 after 10.2, equal values share a place."""
    values = [0.095, 0.102, 1.0, None, 0.81249, 0.81251, 0.5, 0.5]
    assert places(values, "higher") == ["5", "4", "0", "-", "2", "1", "3", "3"]
    assert places(values, "lower") == ["0", "1", "5", "-", "3", "4", "2", "2"]


@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), st.floats(-1, 1)), max_size=12), st.sampled_from(["higher", "lower"]))
def test_places_order_like_values(values: list[float | None], direction: Any) -> None:
    found = places(values, direction)
    for mine, place in zip(values, found, strict=True):
        better = {v for v in values if v is not None and mine is not None}
        better = {v for v in better if mine is not None and (v > mine if direction == "higher" else v < mine)}
        assert place == ("-" if mine is None else str(len(better)))


def test_a_row_is_filtered_by_what_its_records_say(world: Any, site: Any) -> None:
    world.add_model("net", architecture={"name": "resnet18"}, training={"datasets": ["a", "b"]})
    world.add_model("half")
    board = site([world.result("net"), world.result("net", "pgd-v1"), world.result("half")], [CLEAN, PGD])
    rows = {row.model: facets(row, world.models[row.model]) for row in board.boards["squares"].rows}
    assert rows["net"] == Facets("resnet", ("a", "b"), 123_456, "verified", complete=True)
    assert rows["half"].complete is False


def test_only_what_splits_the_rows_can_be_chosen() -> None:
    one = Facets("resnet", ("a",), 2_000_000, "verified", complete=True)
    other = Facets("vit", ("a", "b"), 50_000_000, "verified", complete=True)
    found = choices([one, other])
    assert (found.arch, found.data, found.statuses, found.complete) == (
        ("resnet", "vit"),
        ("a", "b"),
        (),
        False,
    )
    assert found.sizes == (3_000_000, 10_000_000, 30_000_000)
    assert choices([one, one]).any is False


def test_the_script_of_a_board_holds_every_digit(world: Any, site: Any) -> None:
    world.add_model("net")
    made = site([world.result("net", correct=1)])
    assert repr(1 / 600) in board_script(made.boards["squares"])
    assert board_script(made.boards["squares"]).startswith('(window.robustboard ||= {})["squares"] = {')
