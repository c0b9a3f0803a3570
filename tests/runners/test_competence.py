"""What is kept of an oracle's gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from robustboard.errors import StoreError
from robustboard.runners.competence import Competence, keep_competence, read_competence
from robustboard.workspace import Workspace

FOUND = Competence(
    oracle="judge",
    identity="1" * 64,
    dataset="digits",
    fingerprint="2" * 64,
    images=200,
    right=150,
    expected_calibration_error=0.125,
    brier_score=0.5,
)


def test_what_is_kept_is_read_back_for_this_oracle_and_these_images_alone(tmp_path: Path) -> None:
    place = Workspace(tmp_path, tmp_path)
    keep_competence(place, FOUND)
    assert read_competence(place, "1" * 64, "2" * 64) == FOUND
    assert FOUND.accuracy == 0.75
    assert read_competence(place, "1" * 64, "3" * 64) is None


def test_a_record_that_was_edited_is_not_believed(tmp_path: Path) -> None:
    place = Workspace(tmp_path, tmp_path)
    keep_competence(place, FOUND)
    (path,) = (tmp_path / "runs/competence").glob("*.json")
    path.write_bytes(path.read_bytes().replace(b"150", b"199"))
    with pytest.raises(StoreError, match="damaged or was edited"):
        read_competence(place, "1" * 64, "2" * 64)


def test_a_record_under_the_name_of_another_oracle_is_not_taken(tmp_path: Path) -> None:
    place = Workspace(tmp_path, tmp_path)
    keep_competence(place, FOUND)
    (path,) = (tmp_path / "runs/competence").glob("*.json")
    data = path.read_bytes()
    keep_competence(place, FOUND.model_copy(update={"identity": "4" * 64}))
    (other,) = set((tmp_path / "runs/competence").glob("*.json")) - {path}
    other.write_bytes(data)
    with pytest.raises(StoreError, match="other images or another oracle"):
        read_competence(place, "4" * 64, "2" * 64)
