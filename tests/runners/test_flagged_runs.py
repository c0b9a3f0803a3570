"""Flags on the main path: in the record, the same at any batch size and after any interruption."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from robustboard.benchmarks.entries import BenchmarkEntry, Cascade, CascadeStep, Ladder
from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.results import read_results
from robustboard.runners import sanity
from robustboard.runners.flags import flags
from robustboard.runners.keys import Cell
from robustboard.runners.networks import Rippled
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Checks, Result, RunKey, SanityFlag
from robustboard.runners.score import read_result
from robustboard.runners.scoring import scores
from robustboard.runners.store import Store
from robustboard.workspace import Workspace
from tests.conftest import Labelled
from tests.runners.measuring import run as measure_on
from tests.runners.readers import Reader, levels, result_file, run
from tests.runners.small import PROFILE, Place
from tests.runners.test_randomness import Noisy

CLEAN = Cell("reader", "clean-v1", "levels")
PGD = Cell("reader", "pgd-v1", "levels")


@pytest.fixture
def noisy(place: Place, readers: dict[str, nn.Module]) -> Place:
    """B047: a reader of grey levels that adds Gaussian noise (0.3) in its forward pass; two shards."""
    readers["reader"] = Noisy(Reader())
    classes = [number % 10 for number in range(40)]
    levels(place, classes, classes)
    return place


def beside(place: Place, name: str) -> Place:
    """Another workspace with the same entries, nothing measured yet."""
    other = Place(Workspace(place.workspace.content, place.workspace.output.parent / name))
    other.catalog, other.benchmarks = place.catalog, dict(place.benchmarks)
    return other


def result(place: Place, cell: Cell) -> Result:
    return read_result(result_file(place, cell))


def predictions(place: Place, cell: Cell) -> PredictionTable:
    stored = Store(place.workspace.runs).read(result(place, cell).key_digest)
    assert stored is not None
    return stored.predictions


def test_a_random_model_gives_the_same_numbers_at_every_batch_size_and_others_for_another_seed(
    noisy: Place,
) -> None:
    """B047: twice with the same seed, once with another; the flag is in each record."""
    again, other = beside(noisy, "again"), beside(noisy, "other")
    for name, entry in other.benchmarks.items():
        other.benchmarks[name] = entry.model_copy(update={"seed": 7})
    run(noisy, CLEAN, PGD)
    run(again, CLEAN, PGD, profile=PROFILE.model_copy(update={"batch_size": 64}), use_committed=False)
    run(other, CLEAN, PGD, use_committed=False)
    for cell in (CLEAN, PGD):
        first = result(noisy, cell)
        assert first.flags[0].name == "non-deterministic"
        assert first.facts.batch_size == sanity.ROWS
        assert predictions(again, cell).table.equals(predictions(noisy, cell).table)
        assert result(again, cell).flags == first.flags
        assert result(other, cell).key_digest != first.key_digest
        assert not predictions(other, cell).table.equals(predictions(noisy, cell).table)
        assert result(other, cell).flags[0].name == "non-deterministic"


def test_a_random_model_stays_out_of_the_standard_column(noisy: Place) -> None:
    """B047."""
    run(noisy, PGD)
    column = {"id": "pgd", "title": "PGD", "benchmark": "pgd-v1", "dataset": "levels"}
    values = {
        "id": "levels",
        "name": "Levels",
        "summary": "x",
        "label_space": "digits",
        "datasets": ("levels",),
    }
    entry = BoardEntry.model_validate({**values, "columns": (column,), "order": "pgd"})
    cells = read_results([noisy.workspace.results])
    (row,) = build_board(entry, noisy.catalog, Measured.of(cells, noisy.catalog, noisy.benchmarks)).rows
    assert row.ranks is None
    assert row.unranked == "PGD: its answers change from pass to pass"


def test_flags_are_rebuilt_from_the_store_and_verified(noisy: Place) -> None:
    run(noisy, CLEAN)
    before = result_file(noisy, CLEAN).read_bytes()
    result_file(noisy, CLEAN).unlink()
    noisy.score()
    assert result_file(noisy, CLEAN).read_bytes() == before
    assert noisy.verify() == ()


def test_an_interrupted_run_ends_with_the_same_flags(noisy: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second shard fails at first; the first one's look is kept and not taken again."""
    straight = beside(noisy, "straight")
    run(straight, PGD)
    plain, looks = sanity.look, []

    def look(*arguments: Any, **options: Any) -> Checks:
        looks.append(options["ids"][0])
        if len(looks) == 2:
            raise RuntimeError("power cut")
        return plain(*arguments, **options)

    monkeypatch.setattr(sanity, "look", look)
    assert run(noisy, PGD).exit_code == 1
    assert run(noisy, PGD).exit_code == 0
    assert len(looks) == 3
    assert looks[1] == looks[2] != looks[0]
    one, two = result(straight, PGD), result(noisy, PGD)
    assert one.flags == two.flags != ()
    assert one.facts.checks == two.facts.checks
    assert one.facts.checks is not None
    assert one.facts.checks.images == 16 + 10


def test_a_sound_model_has_checks_and_no_flag(place: Place) -> None:
    cell = Cell("tiny", "pgd-v1", "digits")
    run(place, cell)
    found = result(place, cell)
    assert found.flags == ()
    assert found.facts.checks is not None
    assert (found.facts.checks.images, found.facts.checks.unbounded) == (16 + 16 + 16 + 10, 0)


AUTO = Cascade(
    kind="cascade",
    norm="linf",
    attacks=(CascadeStep(attack="apgd-ce", steps=4), CascadeStep(attack="square", queries=60)),
    settings=(Ladder(datasets=("digits",), budgets=(Fraction(3, 10),), headline=Fraction(3, 10)),),
)


@pytest.fixture(scope="module")
def masked(standard_net: nn.Module) -> nn.Module:
    """A sound network behind ripples."""
    return Rippled(standard_net, waves=1000, slope=100)


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(batch_size=st.integers(1, 70), backwards=st.booleans())
def test_batch_size_and_order_of_shards_never_change_a_flag(
    masked: nn.Module, digits_test: Labelled, run_key: RunKey, batch_size: int, *, backwards: bool
) -> None:
    """On a network with flags to lose: two shards of 20 images at any batch size, in any order."""
    assert flags_of(masked, digits_test, run_key, batch_size, backwards=backwards) == flags_of(
        masked, digits_test, run_key, 32, backwards=False
    )


_KNOWN: dict[tuple[int, bool], tuple[SanityFlag, ...]] = {}


def flags_of(
    network: nn.Module, digits: Labelled, key: RunKey, batch_size: int, *, backwards: bool
) -> tuple[SanityFlag, ...]:
    if (batch_size, backwards) in _KNOWN:
        return _KNOWN[batch_size, backwards]
    parts: dict[int, tuple[PredictionTable, Checks]] = {}
    for shard in (1, 0) if backwards else (0, 1):
        part = slice(20 * shard, 20 * shard + 20)
        images, labels = digits[0][part], digits[1][part]
        ids = [f"image-{20 * shard + row:03}" for row in range(20)]
        looked = sanity.look(
            AUTO,
            AUTO.settings[0],
            classifier=network,
            classes=None,
            images=images,
            labels=labels,
            ids=ids,
            key=key,
            device="cpu",
        )
        parts[shard] = measure_on(AUTO, network, images, labels, key, batch_size=batch_size, ids=ids), looked
    rows = [row for shard in (0, 1) for row in parts[shard][0].table.to_pylist()]
    order = sorted(range(len(rows)), key=lambda place: (rows[place]["condition"] != "clean", place))
    table = PredictionTable(PredictionTable.concat([parts[0][0], parts[1][0]]).table.take(np.array(order)))
    entry = BenchmarkEntry(
        id="x-v1", name="X", summary="x", procedure=AUTO, source="test", added=date(2026, 1, 1)
    )
    found, _ = scores(entry, AUTO.settings[0], table)
    checks = Checks.worst([parts[shard][1] for shard in parts])
    raised = flags(entry, AUTO.settings[0], found, table, checks)
    assert "black-box-stronger" in {flag.name for flag in raised}
    _KNOWN[batch_size, backwards] = raised
    return raised
