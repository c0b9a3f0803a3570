"""Results are functions of predictions, and files that hold anything else are refused."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robustboard import jsons
from robustboard.errors import StoreError
from robustboard.runners.evaluate import Session, run_cells
from robustboard.runners.keys import Cell
from robustboard.runners.plan import wanted_cells
from robustboard.runners.profiles import Sample
from robustboard.runners.record import Result, Score
from robustboard.runners.score import headline, read_result, result_bytes, result_path, write_result
from robustboard.runners.store import Store
from tests.runners.small import CLEAN, PGD, PROFILE, Place, files


def run(place: Place, *cells: Cell, **options: Any) -> None:
    session = Session(
        workspace=place.workspace,
        catalog=place.catalog,
        benchmarks=place.benchmarks,
        lock=place.lock,
        profile=options.pop("profile", PROFILE),
        **options,
    )
    assert run_cells(cells or wanted_cells(place.catalog, place.benchmarks), session).exit_code == 0


def test_delete_every_summary_and_score_brings_back_the_same_bytes(place: Place) -> None:
    """One full run of each cell, and a partial one."""
    run(place)
    run(place, CLEAN, profile=PROFILE.model_copy(update={"subset": Sample(count=20, seed=0)}))
    before = place.summaries()
    assert len(before) == 4
    shutil.rmtree(place.workspace.results)
    shutil.rmtree(place.workspace.runs / "partial")
    rebuilt = place.score()
    assert [item.changed for item in rebuilt] == [True] * 4
    assert place.summaries() == before
    assert [item.changed for item in place.score()] == [False] * 4


def test_of_two_runs_of_a_cell_the_one_last_asked_for_stands_on_the_board(place: Place) -> None:
    """B063: another seed is another run; both stay, and the file shows the newer entry."""
    run(place, PGD)
    first = read_result(result_path(place.workspace, PGD.name))
    entry = place.benchmarks["pgd-v1"]
    place.benchmarks["pgd-v1"] = entry.model_copy(update={"seed": 9})
    (stale,) = place.score()
    assert stale.path is None
    assert stale.reason == "the seed has changed since"
    run(place, PGD)
    second = read_result(result_path(place.workspace, PGD.name))
    assert (first.key.seed, second.key.seed) == (0, 9)
    assert len(Store(place.workspace.runs).digests()) == 2
    place.benchmarks["pgd-v1"] = entry
    run(place, PGD, use_committed=False)
    assert result_path(place.workspace, PGD.name).read_bytes() == result_bytes(first)


def test_score_tells_what_it_cannot_rebuild(place: Place) -> None:
    run(place, CLEAN, PGD)
    store = Store(place.workspace.runs)
    key = store.current_key(store.current()[PGD.name])
    shard = store.folder(key.digest) / "s00000.parquet"
    shard.write_bytes(b"")
    good, bad = place.score()
    assert good.path is not None
    assert bad.path is None
    assert "s00000.parquet: sha256" in bad.reason
    store.set_current(PGD.name, store.current_key(store.current()[CLEAN.name]))
    _, wrong = place.score()
    assert "names the run of another cell" in wrong.reason


@pytest.fixture
def written(place: Place) -> tuple[Path, Result]:
    run(place, CLEAN)
    path = result_path(place.workspace, CLEAN.name)
    return path, read_result(path)


def test_a_hundred_edits_of_one_byte_are_refused(written: tuple[Path, Result]) -> None:
    """E3, D1: no predictions are needed to see the damage."""
    path, _ = written
    data = path.read_bytes()
    generator = random.Random(5)
    for _ in range(100):
        place, byte = generator.randrange(len(data)), generator.randrange(256)
        if data[place] == byte:
            byte ^= 1
        path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
        with pytest.raises(StoreError, match=r"clean-v1--digits\.json: "):
            read_result(path)


Change = Callable[[dict[str, Any]], Any]


def _set(*keys: Any, to: Any) -> Change:
    def change(value: dict[str, Any]) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return change


def _drop(*keys: Any) -> Change:
    def change(value: dict[str, Any]) -> None:
        for key in keys[:-1]:
            value = value[key]
        del value[keys[-1]]

    return change


FORGERIES: dict[str, Change] = {
    "scores.0.n": _drop("scores", 0, "n"),
    "scores.0.value": _set("scores", 0, "value", to="0.9"),
    "scores.0: ": _set("scores", 0, "value", to=1.5),
    "scores.1: ": _set("scores", 1, "value", to=None),
    "scores.0.correct": _set("scores", 0, "correct", to=True),
    "key_digest": _set("key_digest", to="0" * 64),
    "key: the content belongs to": _set("key", "model", to="other"),
    "key.seed": _set("key", "seed", to="0"),
    "key.subset.count": _set("key", "subset", to={"count": 0, "seed": 0}),
    "headline": _set("headline", to="robust_accuracy@linf 1/10"),
    "evaluated": _set("skipped", to=1),
    "status": _set("status", to="reported"),
    "facts.seconds": _set("facts", "seconds", to=None),
    "rank": _set("rank", to=1),
}


@pytest.mark.parametrize("field", FORGERIES)
def test_a_forged_result_is_refused_by_file_and_field_even_with_a_right_hash(
    written: tuple[Path, Result], field: str
) -> None:
    """D1, B066: a missing count, text for a number, shares above 1, another cell's key."""
    path, _ = written
    value = json.loads(path.read_bytes())
    del value["sha256"]
    FORGERIES[field](value)
    path.write_bytes(jsons.canonical({**value, "sha256": jsons.digest("robustboard.seal/1", value)}))
    with pytest.raises(StoreError) as caught:
        read_result(path, "results/x.json")
    assert str(caught.value).startswith(f"results/x.json: {field}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_result_in_another_place_is_refused(written: tuple[Path, Result]) -> None:
    path, _ = written
    moved = path.with_name("pgd-v1--digits.json")
    path.rename(moved)
    with pytest.raises(StoreError, match=r"key: the content belongs to tiny/clean-v1--digits\.json"):
        read_result(moved)
    with pytest.raises(StoreError, match="cannot read: No such file"):
        read_result(path)


def test_an_undefined_score_is_null_with_a_reason_in_the_file(
    place: Place, written: tuple[Path, Result]
) -> None:
    """B066: never NaN, 0 or blank; the file is JSON for every strict parser."""
    _, result = written
    undefined = Score(
        metric="clean_accuracy",
        condition="clean",
        value=None,
        low=None,
        high=None,
        n=0,
        status="undefined",
        reason="no image was measured",
    )
    result = result.model_copy(update={"scores": (undefined,)})
    path, changed = write_result(place.workspace, result)
    assert changed
    value = jsons.strict(path.read_bytes(), "x")
    assert value["scores"][0]["value"] is None
    assert value["scores"][0]["reason"] == "no image was measured"
    assert headline(read_result(path)) == "clean_accuracy@clean undefined (no image was measured)"


def test_results_here_and_elsewhere_do_not_mix(place: Place) -> None:
    """Output may go to another folder than the content; the content stays as it was."""
    before = files(place.workspace.content / "registry")
    run(place, CLEAN)
    assert files(place.workspace.content / "registry") == before
