"""Runs on generated images from entries to results, the gate in front of them, and transfer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from robustboard.leaderboard.generated import value
from robustboard.runners.evaluate import Session, run_cells
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
