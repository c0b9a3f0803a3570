from __future__ import annotations

import pytest

from robustboard.leaderboard.cells import CellView
from robustboard.runners.record import Score
from robustboard.site.charts import UNIT_AXIS
from robustboard.site.curves import whisker


def view(unit: str, value: float, low: float, high: float) -> CellView:
    values = {"metric": "fmr", "condition": "clean", "n": 10, "unit": unit, "value": value}
    return CellView("ok", Score.model_validate({**values, "low": low, "high": high}), None, None)


@pytest.mark.parametrize(
    ("unit", "scale", "drawn"), [("share", 1, True), ("percent", 100, True), ("ratio", 1, False)]
)
def test_shares_and_percents_stand_at_the_same_place(unit: str, scale: float, *, drawn: bool) -> None:
    found = whisker(
        view(unit, 0.5 * scale, 0.25 * scale, 0.75 * scale), UNIT_AXIS, (0.4 * scale, 0.6 * scale)
    )
    assert (found is not None) == drawn
    if found is not None:
        assert (found.at, found.low, found.high, found.band) == (50, 25, 75, (40, 20))


def test_an_error_above_the_references_is_not_drawn() -> None:
    assert whisker(view("percent", 150.9, 147.3, 154.4), UNIT_AXIS) is None
