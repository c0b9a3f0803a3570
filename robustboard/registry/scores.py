"""Numbers that others published."""

from __future__ import annotations

from typing import Literal

from robustboard.fields import Line, Number, Word
from robustboard.yamls import Frozen


class ReportedScore(Frozen):
    """A number that a paper or another board states; shown, never ranked."""

    model: Line
    dataset: Line
    metric: Word
    value: Number
    unit: Literal[
        "percent",
        "fraction",
        "percentage_points",
        "percent_of_AlexNet",
        "epoch",
        "rank",
        "count",
        "dimensionless",
    ]
    table: Line | None = None
