from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from robustboard.errors import CellError
from robustboard.registry.entries import LockedEntry, LockedFile
from robustboard.registry.resolve import DIGITS


def entry(lab: Any, start: int, stop: int, **fields: Any) -> Any:
    source = {"kind": "sklearn-digits", "start": start, "stop": stop}
    return lab.entry(source, stop - start, **{"native_size": 8, "channels": 1, **fields})


def test_rows_are_those_of_scikit_learn_divided_by_sixteen(lab: Any) -> None:
    samples = lab.load(entry(lab, 1197, 1797), space=lab.digits())
    pixels, labels = load_digits(return_X_y=True)

    assert samples.shape == (1, 8, 8)
    assert samples.labels.tolist() == labels[1197:].tolist()
    assert np.array_equal(
        samples.pixels(range(600)).reshape(600, 64), (pixels[1197:] / 16).astype(np.float32)
    )
    assert samples.pixels(range(600)).max() == 1


def test_three_channels_repeat_the_grey_and_say_so(lab: Any) -> None:
    """B025: grey is repeated for three channels, and this is recorded."""
    samples = lab.load(entry(lab, 0, 5, channels=3), space=lab.digits())
    found = samples.pixels([0, 3])

    assert found.shape == (2, 3, 8, 8)
    assert np.array_equal(found[:, 0], found[:, 2])
    assert samples.facts["channels"] == "3, grey repeated"


def test_another_native_size_is_refused(lab: Any) -> None:
    with pytest.raises(CellError, match="native_size 8"):
        lab.load(entry(lab, 0, 5, native_size=28), space=lab.digits())


def test_another_table_of_digits_than_the_locked_one_is_refused(lab: Any) -> None:
    locked = LockedEntry(files=(LockedFile(path=DIGITS, size=1, sha256="0" * 64),))
    with pytest.raises(CellError, match="hash-mismatch"):
        lab.load(entry(lab, 0, 5), space=lab.digits(), locked=locked)
