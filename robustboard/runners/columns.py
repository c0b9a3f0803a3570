"""Columns of a prediction table, images in one order for every condition. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from robustboard.errors import StoreError
from robustboard.runners.estimates import Flags
from robustboard.runners.predictions import PredictionTable


@dataclass(frozen=True, slots=True)
class Columns:
    """Predictions of the measured images: images in one order, the same for every condition."""

    labels: npt.NDArray[Any]
    right: dict[str, Flags]
    status: dict[str, npt.NDArray[Any]]
    table: PredictionTable
    rows: dict[str, npt.NDArray[np.intp]]
    """Where the rows of each condition stand in the table."""

    def values(self, column: str, condition: str) -> npt.NDArray[Any]:
        """A column of the table at the rows of one condition."""
        return np.asarray(self.table.column(column)[self.rows[condition]])

    def has(self, column: str, condition: str) -> bool:
        """Whether a nullable column is filled at the rows of one condition."""
        chosen = self.table.table.column(column).take(self.rows[condition])
        return len(chosen) > 0 and chosen.null_count == 0


def columns_of(table: PredictionTable, names: Sequence[str]) -> Columns:
    """Right or wrong an image and condition, without the skipped images.

    Raises StoreError when a condition is missing, or its images or labels are not those of `clean`.
    """
    known = table.conditions()
    if sorted(known) != sorted(names):
        raise StoreError(f"predictions: expected conditions {sorted(names)}, got {sorted(known)}")
    sample, condition = table.column("sample_id"), table.column("condition")
    label, predicted, status = table.column("label"), table.column("predicted"), table.column("status")
    rows: dict[str, npt.NDArray[np.intp]] = {}
    for name in names:
        chosen = np.flatnonzero((condition == name) & (status != "skipped"))
        rows[name] = chosen[np.argsort(sample[chosen], kind="stable")]
    first = rows[names[0]]
    for name, chosen in rows.items():
        if not np.array_equal(sample[chosen], sample[first]) or not np.array_equal(
            label[chosen], label[first]
        ):
            raise StoreError(f"predictions: images or labels of {name} are not those of {names[0]}")
    return Columns(
        label[first],
        {name: predicted[chosen] == label[chosen] for name, chosen in rows.items()},
        {name: status[chosen] for name, chosen in rows.items()},
        table,
        rows,
    )
