"""Runs on generated images from entries to results, the gate in front of them, and transfer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from robustboard.analyse_cli import analyse, generated_runs
from robustboard.commands import Content
from robustboard.errors import UserError
from robustboard.leaderboard.generated import value
from robustboard.runners.audit_sheet import questions, write_sheet
from robustboard.runners.evaluate import Session, run_cells
from robustboard.runners.generated_images import accepted_of
from robustboard.runners.keys import Cell
from robustboard.runners.score import read_result, result_path
from robustboard.runners.transfer import transfer
from robustboard.workspace import Workspace
from tests.runners.small import PROFILE, Place

CELL = Cell("tiny", "fmr-v1", "digits")
PAIR = "floor by judge"
ORACLE = """\
name: Judge
summary: The model itself.
judge:
  kind: classifier
  model: tiny
label_space: digits
competence:
  - dataset: digits
    accuracy: {accuracy}
license: MIT
added: 2026-01-31
"""
GENERATOR = """\
name: Floor
summary: Without learned weights.
method:
  kind: transformations
  transformations: [affine]
license: MIT
added: 2026-01-31
"""
PROTOCOL = """\
name: Generated
summary: Generated images.
procedure:
  kind: generated
  budget: 3
  settings:
    - datasets: [digits]
      generators:
        - generator: floor
          step_size: 0.2
      oracles: [judge]
shard_size: 60
source: a test
added: 2026-01-31
"""


def session(root: Path, *, accuracy: str = "0.3") -> Session:
    """A place with an oracle, a generator and a protocol."""
    for name, text in (
        ("registry/oracles/judge.yaml", ORACLE.format(accuracy=accuracy)),
        ("registry/generators/floor.yaml", GENERATOR),
        ("benchmarks/fmr-v1.yaml", PROTOCOL),
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    place = Place(Workspace(root, root))
    return Session(place.workspace, place.catalog, place.benchmarks, place.lock, PROFILE)


@pytest.fixture
def root(trained_root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_root, tmp_path / "place"))


def test_a_run_stores_images_and_scores_and_is_done_once(root: Path) -> None:
    """The model is its own oracle here: what it accepts it gets right, and the result says so."""
    first = session(root)
    assert run_cells([CELL], first).outcomes[CELL].state == "ok"
    found = read_result(result_path(first.workspace, CELL.name))
    assert found.headline == f"fmr@{PAIR}"
    assert value(found, "perturbed_accuracy", PAIR) == 1.0
    assert {flag.name for flag in found.flags} >= {"oracle-shares-weights", "oracle-shares-data"}
    assert set(found.key.parts) == {"oracle/judge", "generator/floor"}
    again = session(root)
    assert run_cells([CELL], again).outcomes[CELL].state == "skipped"
    run = again.store.read(found.key_digest)
    assert run is not None
    (row,) = transfer(again, {"tiny": run}, PAIR)
    assert row.accuracy == {"tiny": 1.0}
    assert row.images == value(found, "accepted_images", PAIR)


def content(place: Session) -> Content:
    return Content(place.workspace, place.catalog, place.benchmarks, place.lock)


def test_analyse_tells_the_gate_the_control_and_the_nearest_training_images(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Affine changes start as they are, so nothing leaks; digits of the test part are no training digits."""
    place = session(root)
    run_cells([CELL], place)
    capsys.readouterr()
    analyse(content(place), "fmr-v1", "digits", with_transfer=True, with_neighbours=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    (gate,), (leak,), (near,) = told["gates"], told["leaks"], told["neighbours"]
    assert (gate["oracle"], gate["images"]) == ("judge", 100)
    assert 0 <= gate["brier_score"] <= 2
    assert (leak["lost"], leak["gained"], leak["p_value"]) == (0, 0, 1.0)
    assert (near["training"], near["copies"]) == ("digits-train", 0)
    assert near["original"] > 0
    assert [each["half"] for each in told["margins"]] == ["low", "high"]
    assert told["transfer"][0]["accuracy"] == {"tiny": 1.0}
    analyse(content(place), "fmr-v1", "digits", with_transfer=False, with_neighbours=True, as_json=False)
    shown = capsys.readouterr().out
    assert "nearer to training" in shown
    assert "Brier score" in shown


def test_a_run_from_before_a_change_is_not_analysed(root: Path) -> None:
    place = session(root)
    run_cells([CELL], place)
    protocol = root / "benchmarks/fmr-v1.yaml"
    protocol.write_text(protocol.read_text().replace("budget: 3", "budget: 4"))
    changed = Place(place.workspace)
    now = Content(place.workspace, changed.catalog, changed.benchmarks, changed.lock)
    with pytest.raises(UserError, match="1 from before a change of the entries"):
        generated_runs(now, "fmr-v1", "digits")


def test_a_sheet_shows_accepted_images_beside_their_sources(root: Path, tmp_path: Path) -> None:
    """Equal seeds draw equal images, others draw others; what is drawn is what the run stored."""
    place = session(root)
    run_cells([CELL], place)
    setting, runs = generated_runs(content(place), "fmr-v1", "digits")
    assert [use.generator for use in setting.generators] == ["floor"]
    entry = place.catalog.dataset("digits")
    samples = place.samples("digits", place.catalog.model("tiny").input)
    first, same, other = (
        questions(place.workspace, runs, [PAIR], samples, count=5, seed=seed) for seed in (1, 1, 2)
    )
    assert [each.sample_id for each in first] == [each.sample_id for each in same]
    assert [each.sample_id for each in first] != [each.sample_id for each in other]
    found = accepted_of(place.workspace, runs["tiny"], PAIR)
    for each in first:
        row, source = found.ids.index(each.sample_id), samples.ids.index(each.sample_id)
        assert np.array_equal(each.changed, found.images[row])
        assert np.array_equal(each.source, np.rint(samples.pixels([source])[0] * 255))
        assert each.label == samples.labels[source]
    write_sheet(tmp_path / "sheet", first, place.catalog.label_space(entry.label_space), "five")
    assert len((tmp_path / "sheet/answers.csv").read_text().splitlines()) == 6


def test_an_oracle_below_its_demand_stops_the_cell_with_the_number(root: Path) -> None:
    refused = session(root, accuracy="1")
    outcome = run_cells([CELL], refused).outcomes[CELL]
    assert outcome.kind == "incompetent"
    assert "below the 100 % that its entry demands" in outcome.reason
    assert not result_path(refused.workspace, CELL.name).exists()


def test_what_an_entry_says_of_its_oracle_or_generator_is_part_of_the_key(root: Path) -> None:
    def digest() -> str:
        return (
            session(root)
            .keys.key(
                CELL, weights_sha256="1" * 64, data_fingerprint="2" * 64, precision="float32", subset=None
            )
            .digest
        )

    before = digest()
    (root / "registry/generators/floor.yaml").write_text("", encoding="utf-8")
    assert digest() == before
    changed = GENERATOR.replace("[affine]", "[affine, blur]")
    place = session(root)
    (root / "registry/generators/floor.yaml").write_text(changed, encoding="utf-8")
    other = Place(place.workspace)
    keys = Session(place.workspace, other.catalog, other.benchmarks, other.lock, PROFILE).keys
    after = keys.key(
        CELL, weights_sha256="1" * 64, data_fingerprint="2" * 64, precision="float32", subset=None
    ).digest
    assert after != before
