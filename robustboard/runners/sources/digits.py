"""The UCI digits that come inside scikit-learn."""

from __future__ import annotations

import numpy as np

from robustboard.errors import CellError
from robustboard.registry import resolve
from robustboard.registry.entries import SklearnDigits
from robustboard.runners.sources.places import check_pins
from robustboard.runners.sources.stored import Request, Stored, StoredLabels, row_ids

LEVELS = 16
"""Stored values run from 0 to 16 (4 by 4 blocks of a bitmap, counted)."""

SIZE = 8
"""Height and width."""


def read_digits(source: SklearnDigits, request: Request) -> Stored:
    """Rows start to stop - 1 of the 1,797 digits, 8 by 8, one channel."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - takes a second to import

    path, _ = resolve.package_file("scikit-learn", resolve.DIGITS)
    check_pins(resolve.DIGITS, *resolve.digest_file(path, unpack=True), request)
    data = load_digits()
    if request.entry.native_size != SIZE:
        raise CellError("decode", f"expected native_size {SIZE} for scikit-learn's digits in the entry")
    rows = slice(source.start, source.stop)
    images = data.images[rows].astype(np.uint8)[..., np.newaxis]
    labels = StoredLabels([int(label) for label in data.target[rows]])
    return Stored(
        ids=row_ids(len(images), request.entry.size),
        labels=labels,
        images=images,
        origin=f"scikit-learn's digits, rows {source.start} to {source.stop - 1}",
        levels=LEVELS,
        names=lambda row: f"row {source.start + row}",
    )
