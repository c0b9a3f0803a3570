"""Failures are kept as data, replaced by newer ones, and forgotten once the cell is measured."""

from __future__ import annotations

import pytest

from robustboard.errors import StoreError
from robustboard.runners.failures import clear_failure, read_failures, write_failure
from robustboard.runners.keys import Cell
from robustboard.workspace import Workspace

CELL, OTHER = Cell("a-net", "clean-v1", "digits"), Cell("b-net", "clean-v1", "digits")


def test_a_failure_is_kept_until_it_is_cleared(digits_place: Workspace) -> None:
    assert read_failures(digits_place) == {}
    write_failure(digits_place, OTHER, "missing", "no file")
    write_failure(digits_place, CELL, "load", "first")
    write_failure(digits_place, CELL, "timeout", "second")
    found = read_failures(digits_place)
    assert [(cell, failure.kind, failure.reason) for cell, failure in found.items()] == [
        (CELL, "timeout", "second"),
        (OTHER, "missing", "no file"),
    ]
    clear_failure(digits_place, CELL)
    clear_failure(digits_place, CELL)
    assert list(read_failures(digits_place)) == [OTHER]


def test_a_damaged_or_misplaced_failure_is_named(digits_place: Workspace) -> None:
    write_failure(digits_place, CELL, "load", "why")
    path = digits_place.runs / "failed" / f"{CELL.name}.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"why", b"not"))
    with pytest.raises(StoreError, match=r"runs/failed/a-net/clean-v1--digits\.json: sha256"):
        read_failures(digits_place)
    path.write_bytes(data)
    path.rename(path.with_name("pgd-v1--digits.json"))
    with pytest.raises(StoreError, match=r"pgd-v1--digits\.json: expected the failure of this cell"):
        read_failures(digits_place)
