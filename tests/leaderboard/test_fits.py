"""Fits as content: read strictly, and equal to what the published accuracies give."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustboard import workspace
from robustboard.errors import ContentError
from robustboard.leaderboard.fits import FitEntry, load_fits
from robustboard.registry.catalog import load_catalog
from robustboard.registry.reported import Reported, load_reported
from robustboard.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
REFERENCE = REPOSITORY.parent / "shared" / "reference" / "effective_robustness_fits.csv"
FIT = """\
name: Circles after squares
summary: Made up.
origin: re-fitted
shifted: circles
clean: squares
pieces:
  - start: 0.5
    slope: 0.9
    intercept: -0.5
    r: 0.99
    n: 20
  - start: 0.8
    slope: 2
    intercept: -3
    r: 0.9
    n: 30
source: made up
added: 2026-01-31
"""


@pytest.fixture(scope="session")
def reported() -> Mapping[str, Reported]:
    return load_reported(workspace.find(REPOSITORY))


@pytest.fixture(scope="session")
def fits(reported: Mapping[str, Reported]) -> Mapping[str, FitEntry]:
    space = workspace.find(REPOSITORY)
    return load_fits(space, load_catalog(space), reported)


def load(
    folder: Path, world: Any, text: str, name: str = "line", known: Mapping[str, Reported] | None = None
) -> FitEntry:
    space = Workspace(folder, folder)
    space.fits.mkdir(parents=True, exist_ok=True)
    (space.fits / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load_fits(space, world.catalog, known or {})[name]


def test_a_fit_reads_back_as_a_line(tmp_path: Path, world: Any) -> None:
    world.add_dataset("circles", size=600)
    found = load(tmp_path, world, FIT)
    assert (found.shifted, found.clean, found.line.starts) == ("circles", "squares", (0.5, 0.8))
    assert found.line.expected(0.5) == pytest.approx(1 / (1 + np.exp(0.5)))
    assert found.line.expected(0.9) == pytest.approx(1 / (1 + np.exp(3 - 2 * np.log(9))))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("shifted: circles", "shifted: circle", ":4: shifted: expected a known dataset, got 'circle'"),
        ("clean: squares\n", "", "shifted: expected both of shifted and clean, or neither"),
        ("start: 0.8", "start: 0.5", "pieces: expected pieces with rising starts, got '1/2 1/2'"),
        ("start: 0.8", "start: 80", "pieces.1.start: expected a share above 0 and at most 1"),
        ("n: 20", "n: 2", "pieces.0.n: expected at least 3 models, got '2'"),
        ("slope: 0.9", "slope: nan", "pieces.0.slope: expected a decimal number"),
        ("origin: re-fitted", "origin: fitted", "origin: expected"),
        (
            "source: made up",
            "fitted_on:\n  source: nobody\n  shifted: a\n  clean: b\nsource: made up",
            "fitted_on.source: expected a known source in registry/reported, got 'nobody'",
        ),
    ],
)
def test_a_faulty_fit_is_refused_with_file_line_and_field(
    tmp_path: Path, world: Any, old: str, new: str, message: str
) -> None:
    world.add_dataset("circles", size=600)
    assert old in FIT
    with pytest.raises(ContentError) as caught:
        load(tmp_path, world, FIT.replace(old, new))
    assert "leaderboard/fits/line.yaml:" in str(caught.value)
    assert message in str(caught.value)


def test_a_correlation_above_one_is_refused(tmp_path: Path, world: Any) -> None:
    world.add_dataset("circles", size=600)
    with pytest.raises(ContentError, match=r"pieces\.0\.r"):
        load(tmp_path, world, FIT.replace("r: 0.99", "r: 1.01"))


def test_names_of_the_source_are_checked(
    tmp_path: Path, world: Any, reported: Mapping[str, Reported]
) -> None:
    world.add_dataset("circles", size=600)
    on = (
        "fitted_on:\n  source: imagenet-testbed\n  shifted: imagenet-z\n  clean: val\n  table: none\n"
        "excluded: [resnet51]\n"
    )
    with pytest.raises(ContentError) as caught:
        load(tmp_path, world, on + FIT, known=reported)
    assert "fitted_on.shifted: expected a known dataset of imagenet-testbed, got 'imagenet-z'" in str(
        caught.value
    )
    assert "fitted_on.table: expected a known table of imagenet-testbed, got 'none'" in str(caught.value)
    assert "excluded.0: expected a model of imagenet-testbed, got 'resnet51'" in str(caught.value)


def test_no_fit_may_take_the_word_that_means_the_boards_own(tmp_path: Path, world: Any) -> None:
    world.add_dataset("circles", size=600)
    with pytest.raises(ContentError, match=r"another file name than own\.yaml"):
        load(tmp_path, world, FIT, "own")


def test_without_a_folder_there_are_no_fits(tmp_path: Path, world: Any) -> None:
    assert load_fits(Workspace(tmp_path, tmp_path), world.catalog, {}) == {}


def test_every_fit_is_called_re_fitted(fits: Mapping[str, FitEntry]) -> None:
    """The paper prints no coefficients."""
    assert {entry.origin for entry in fits.values()} == {"re-fitted"}
    assert all(entry.source.startswith("re-fitted from") for entry in fits.values())


@pytest.mark.skipif(not REFERENCE.exists(), reason="no published numbers at hand")
def test_every_published_fit_is_here(fits: Mapping[str, FitEntry]) -> None:
    wanted: dict[tuple[str, str], dict[str, float]] = {}
    with REFERENCE.open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            wanted.setdefault((row["dataset"], row["table"]), {})[row["metric"]] = float(row["value"])
    expected = sorted(
        (n["logit_slope"], n["logit_intercept"], n["pearson_r_in_logit_space"], n["n_models"])
        for n in wanted.values()
    )
    found = sorted((p.slope, p.intercept, p.r, p.n) for entry in fits.values() for p in entry.pieces)
    assert not set(expected) - set(found)
    assert len(expected) == 10


def test_the_reported_accuracies_of_standard_models_give_the_coefficients(
    fits: Mapping[str, FitEntry], reported: Mapping[str, Reported]
) -> None:
    """Independent least squares over the group STANDARD, each piece over its own range."""
    shares: dict[tuple[str, str], float] = {}
    groups: dict[str, str | None] = {}
    for score in reported["imagenet-testbed"].scores:
        shares[score.model, score.dataset] = score.value / 100
        groups[score.model] = score.table
    checked = 0
    for entry in fits.values():
        if entry.fitted_on is None:
            continue
        x, y = entry.fitted_on.clean, entry.fitted_on.shifted
        standard = [m for m, table in groups.items() if table == entry.fitted_on.table]
        names = [m for m in standard if {(m, x), (m, y)} <= set(shares) and m not in entry.excluded]
        ends = [float(piece.start) for piece in entry.pieces[1:]] + [1.0]
        for piece, end in zip(entry.pieces, ends, strict=True):
            chosen = [m for m in names if float(piece.start) <= shares[m, x] < end]
            clean = np.log([shares[m, x] / (1 - shares[m, x]) for m in chosen])
            shifted = np.log([shares[m, y] / (1 - shares[m, y]) for m in chosen])
            slope, intercept = np.polyfit(clean, shifted, 1)
            assert len(chosen) == piece.n, entry.id
            assert [slope, intercept] == pytest.approx([piece.slope, piece.intercept], abs=1e-4), entry.id
            assert np.corrcoef(clean, shifted)[0, 1] == pytest.approx(piece.r, abs=1e-4)
            checked += 1
    assert checked == 11
