"""Every edit of what a run left is found, and named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from robustboard import jsons
from robustboard.runners.evaluate import Session, run_cells
from robustboard.runners.score import read_result, result_bytes, result_path
from robustboard.runners.store import Store
from robustboard.runners.verify import verify
from tests.runners.small import PGD, PROFILE, Place


@pytest.fixture
def measured(place: Place) -> Place:
    session = Session(place.workspace, place.catalog, place.benchmarks, place.lock, PROFILE)
    assert run_cells([PGD], session).exit_code == 0
    return place


def kept(place: Place) -> list[Path]:
    """All files of runs, results and pointers; not the weights, which have a check of their own."""
    roots = (place.workspace.runs, place.workspace.results)
    found = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in found if "weights" not in path.parts]


def test_a_sound_workspace_has_no_damage(measured: Place) -> None:
    report = verify(measured.workspace, measured.catalog, measured.benchmarks)
    assert (report.runs, report.results, report.damages) == (1, 1, ())


def test_a_hundred_edits_of_one_byte_are_found_and_the_file_is_named(measured: Place) -> None:
    """E3, D1: in shards, their reports, plans, records, pointers and results."""
    generator = random.Random(11)
    missed = []
    for _ in range(100):
        path = generator.choice(kept(measured))
        data = path.read_bytes()
        place = generator.randrange(len(data))
        path.write_bytes(
            data[:place] + bytes([data[place] ^ (1 << generator.randrange(8))]) + data[place + 1 :]
        )
        named = [line for line in measured.verify() if measured.workspace.show(path) in line]
        if not named:
            missed.append((path, place))
        path.write_bytes(data)
    assert missed == []
    assert measured.verify() == ()


def test_a_missing_file_is_found(measured: Place) -> None:
    for path in kept(measured):
        if path.is_relative_to(measured.workspace.results) or "current" in path.parts:
            continue  # without a result or pointer a cell is not measured yet, which is no damage
        data = path.read_bytes()
        path.unlink()
        assert measured.verify() != () or path.name == "result.json", path
        path.write_bytes(data)


def test_scores_that_the_predictions_do_not_give_are_found_even_with_right_hashes(measured: Place) -> None:
    """D1: a forger who computes the seal anew is caught where the predictions are at hand."""
    path = result_path(measured.workspace, PGD.name)
    result = read_result(path)
    first = result.scores[0]
    name = "leaderboard/results/tiny/pgd-v1--digits.json"
    for changes, said in (
        ({"correct": first.n}, f"{name}: scores.0: Value error, expected the share {first.n} of {first.n}"),
        ({"value": first.high}, f"{name}: scores.0: Value error, expected the share {first.correct}"),
        (
            {"correct": first.n, "value": 1.0, "high": 1.0},
            f"{name}: scores: the stored predictions give other scores",
        ),
    ):
        better = first.model_copy(update=changes)
        forged = result.model_copy(update={"scores": (better, *result.scores[1:])})
        path.write_bytes(result_bytes(forged))
        (damage,) = measured.verify()
        assert damage.startswith(said)
    path.write_bytes(result_bytes(result.model_copy(update={"shards": result.shards[1:]})))
    assert measured.verify() == (
        "leaderboard/results/tiny/pgd-v1--digits.json: shards: other predictions are stored under this key",
    )


def test_a_result_of_an_older_entry_is_no_damage(measured: Place) -> None:
    entry = measured.benchmarks["pgd-v1"]
    measured.benchmarks["pgd-v1"] = entry.model_copy(update={"seed": 9})
    assert measured.verify() == ()
    del measured.benchmarks["pgd-v1"]
    assert measured.verify() == ()


def test_a_swapped_shard_is_found(measured: Place) -> None:
    """Whole files in each other's place: every hash is right, but not for that place."""
    store = Store(measured.workspace.runs)
    folder = store.folder(store.current_key(store.current()[PGD.name]).digest)
    for ending in ("parquet", "json"):
        one, two = folder / f"s00000.{ending}", folder / f"s00001.{ending}"
        first, second = one.read_bytes(), two.read_bytes()
        one.write_bytes(second)
        two.write_bytes(first)
    assert any("s00000.parquet" in line for line in measured.verify())


def test_damage_in_an_unfinished_run_is_found(measured: Place) -> None:
    store = Store(measured.workspace.runs)
    folder = store.folder(store.current_key(store.current()[PGD.name]).digest)
    (folder / "result.json").unlink()
    (folder / "s00003.parquet").write_bytes(b"")
    damages = measured.verify()
    assert any("s00003.parquet: sha256" in line for line in damages)
    assert any(
        "current/tiny/pgd-v1--digits.json: names a run that is not finished" in line for line in damages
    )


def test_a_plan_of_another_run_is_found(measured: Place) -> None:
    store = Store(measured.workspace.runs)
    folder = store.folder(store.current_key(store.current()[PGD.name]).digest)
    stored = store.read(folder.name)
    assert stored is not None
    plan = stored.record.plan.model_copy(update={"images": 7})
    (folder / "plan.json").write_bytes(jsons.seal(plan))
    assert measured.verify() == (f"{store.name(folder / 'plan.json')}: not the plan of this run",)
