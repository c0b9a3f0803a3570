"""The main path on real digits: same bytes whatever happens, and every failure said aloud."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import nn

from robustboard.runners import evaluate
from robustboard.runners.identity import trained_path
from robustboard.runners.keys import Cell
from robustboard.runners.networks import build_network
from robustboard.runners.profiles import RunProfile, Sample
from robustboard.runners.progress import Lines
from robustboard.runners.score import read_result
from robustboard.runners.store import OpenRun, Store
from robustboard.workspace import Workspace
from tests.runners.readers import levels, result_file, run
from tests.runners.small import CLEAN, NOISE, PGD, PROFILE, Place, files

SIX_TENTHS = 0.6


def test_clean_accuracy_is_that_of_an_independent_loop(place: Place) -> None:
    """Weights, pixels and argmax by hand; no code of the runner but the network's constructor."""
    assert run(place, CLEAN).exit_code == 0
    entry = place.catalog.model("tiny")
    network = build_network(entry, 10)
    network.load_state_dict(load_file(trained_path(entry, place.workspace)))
    network.eval()
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels[1197:1297] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    large = nn.functional.interpolate(images, (16, 16), mode="bilinear", antialias=True)
    with torch.no_grad():
        right = int((network((large - 0.306) / 0.377).argmax(1).numpy() == labels[1197:1297]).sum())
    score = read_result(result_file(place, CLEAN)).scores[0]
    assert (score.metric, score.correct, score.n, score.value) == ("clean_accuracy", right, 100, right / 100)
    assert SIX_TENTHS / 2 < right / 100 < 1


def test_all_cells_are_measured_once_and_then_skipped_with_a_message(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B063: nothing changed, so nothing runs, and the run says so."""
    first = run(place)
    assert first.text() == "3 ok, 0 skipped (already done), 0 failed"
    before = files(place.workspace.output, facts=True)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(evaluate, "measure", never)
    for use_committed in (True, False):
        again = run(place, use_committed=use_committed)
        assert again.text() == "0 ok, 3 skipped (already done), 0 failed"
        assert again.exit_code == 0
        assert "already" in again.outcomes[PGD].reason
    assert files(place.workspace.output, facts=True) == before
    assert place.verify() == ()


def predictions(place: Place) -> dict[str, list[dict[str, Any]]]:
    store = Store(place.workspace.runs)
    found = {}
    for digest in store.digests():
        stored = store.read(digest)
        assert stored is not None
        found[stored.record.plan.key.benchmark] = stored.predictions.table.to_pylist()
    return found


@pytest.mark.parametrize(("batch_size", "threads"), [(1, 1), (7, 2), (64, 1)])
def test_batch_size_threads_and_order_of_shards_change_no_prediction(
    place: Place, batch_size: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B037, E7: the classes and statuses are equal, to the row; n counts each image once."""
    other = Place(Workspace(place.workspace.content, place.workspace.output.parent / "other"))
    shutil.copytree(place.workspace.runs, other.workspace.runs)
    cells = (CLEAN, NOISE, PGD) if threads == 1 else (CLEAN,)
    run(place, *cells)
    plain = OpenRun.__init__

    def shuffled(self: OpenRun, *arguments: Any) -> None:
        plain(self, *arguments)
        self.missing = [index for index in (2, 0, 3, 1) if index in self.missing]

    monkeypatch.setattr(OpenRun, "__init__", shuffled)
    profile = PROFILE.model_copy(update={"batch_size": batch_size, "threads": threads})
    run(other, *cells, profile=profile, use_committed=False)
    torch.set_num_threads(1)
    one, two = predictions(place), predictions(other)
    assert one.keys() == two.keys() == {cell.benchmark for cell in cells}
    for name, rows in one.items():
        assert len(rows) == len(two[name])
        for row, twin in zip(rows, two[name], strict=True):
            assert {**row, "confidence": 0, "distance": 0} == {**twin, "confidence": 0, "distance": 0}
            assert row["confidence"] == pytest.approx(twin["confidence"], abs=1e-5)
            assert row["distance"] == pytest.approx(twin["distance"], abs=1e-6)
    assert read_result(result_file(other, CLEAN)).scores[0].n == 100


READ = Cell("reader", "clean-v1", "levels")


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("batch_size", [1, 4, 10, 16])
@pytest.mark.parametrize("shard_size", [4, 10])
def test_a_small_last_batch_or_shard_weighs_no_more(place: Place, batch_size: int, shard_size: int) -> None:
    """B037: eight right, two wrong, in batches of 1, 4, 10, 16 and in 3 shards or 1: 0.8 over n = 10."""
    levels(place, [*range(8), 8, 9], [*range(8), 0, 1])
    benchmark = place.benchmarks["clean-v1"].model_copy(update={"shard_size": shard_size})
    place.benchmarks["clean-v1"] = benchmark
    assert run(place, READ, profile=PROFILE.model_copy(update={"batch_size": batch_size})).exit_code == 0
    score = read_result(result_file(place, READ)).scores[0]
    assert (score.value, score.n, score.correct) == (0.8, 10, 8)


@pytest.mark.usefixtures("readers")
def test_changed_data_is_another_run_even_with_equal_size_and_time(place: Place) -> None:
    """B016: 1.0, then 0.9 under another fingerprint; the first run stays in the store."""
    levels(place, list(range(10)), list(range(10)))
    assert run(place, READ).exit_code == 0
    first = read_result(result_file(place, READ))
    assert first.scores[0].value == 1.0
    root = place.workspace.content / "data" / "levels"
    path, other = root / "3" / "003.png", root / "5" / "005.png"
    times = path.stat()
    assert len(other.read_bytes()) == times.st_size
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    summary = run(place, READ)
    assert summary.outcomes[READ].state == "ok"
    second = read_result(result_file(place, READ))
    assert second.scores[0].value == 0.9
    assert second.key.data_fingerprint != first.key.data_fingerprint
    store = Store(place.workspace.runs)
    assert sorted(store.digests()) == sorted([first.key_digest, second.key_digest])
    assert store.read(first.key_digest) is not None
    assert place.verify() == ()


def test_a_run_killed_before_its_result_file_is_mended(place: Place) -> None:
    """The record is stored, the result file is not: the next run writes the same bytes."""
    run(place)
    path = result_file(place, PGD)
    before = path.read_bytes()
    path.unlink()
    (place.workspace.runs / "current" / f"{PGD.name}.json").unlink()
    assert run(place, PGD).outcomes[PGD].state == "skipped"
    assert path.read_bytes() == before
    assert place.verify() == ()


def test_a_damaged_shard_of_a_finished_run_is_measured_again_to_the_same_bytes(place: Place) -> None:
    run(place, PGD)
    store = Store(place.workspace.runs)
    (digest,) = store.digests()
    before = files(store.folder(digest))
    path = store.folder(digest) / "s00002.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    (damage,) = place.verify()
    assert damage.startswith(f"runs/{digest[:2]}/{digest}/s00002.parquet: sha256: expected ")
    summary = run(place, PGD, use_committed=False)
    assert summary.outcomes[PGD].state == "ok"
    assert files(store.folder(digest)) == before
    assert place.verify() == ()


def test_a_result_that_came_with_the_content_is_taken_if_its_key_is_the_same(place: Place) -> None:
    """A fresh clone has results and no predictions: only what is not known is measured."""
    run(place, CLEAN)
    for name in ("current", Store(place.workspace.runs).digests()[0][:2]):
        shutil.rmtree(place.workspace.runs / name)
    summary = run(place, CLEAN, NOISE)
    assert summary.text() == "1 ok, 1 skipped (already done), 0 failed"
    assert len(Store(place.workspace.runs).digests()) == 1
    assert run(place, CLEAN, use_committed=False).outcomes[CLEAN].state == "ok"
    place.benchmarks["clean-v1"] = place.benchmarks["clean-v1"].model_copy(update={"seed": 5})
    assert run(place, CLEAN).outcomes[CLEAN].state == "ok"


def part(count: int, seed: int) -> RunProfile:
    return PROFILE.model_copy(update={"subset": Sample(count=count, seed=seed)})


@pytest.mark.usefixtures("readers")
def test_a_limit_is_a_seeded_sample_over_the_classes_and_never_ranked(place: Place) -> None:
    """B014: 100 images sorted by class, 10 a class; limit 10 with seeds 0 (twice) and 1, and limit 1000."""
    levels(
        place,
        [label for label in range(10) for _ in range(10)],
        [label for label in range(10) for _ in range(10)],
    )
    store = Store(place.workspace.runs)

    def measured(profile: RunProfile) -> tuple[list[str], str]:
        summary = run(place, READ, profile=profile)
        assert summary.exit_code == 0
        (record,) = [
            stored.record
            for digest in store.digests()
            if (stored := store.read(digest)) and digest[:12] in summary.outcomes[READ].reason
        ]
        _, table = store.read_shard(record.plan.key_digest, 0)
        return table.table.column("sample_id").to_pylist(), summary.outcomes[READ].reason

    first, told = measured(part(10, 0))
    assert "on 10 images of 100, so partial and never ranked" in told
    assert measured(part(10, 0))[0] == first
    assert len(first) == 10
    assert len({name.split("/")[0] for name in first}) > 5
    assert first != [f"0/{number:03d}.png" for number in range(10)]
    assert measured(part(10, 1))[0] != first
    assert not place.workspace.results.exists()
    partial = sorted(path.name for path in (place.workspace.runs / "partial" / "reader").iterdir())
    assert partial == [f"clean-v1--levels--10-of-100-seed-{seed}.json" for seed in (0, 1)]
    result = read_result(place.workspace.runs / "partial" / "reader" / partial[0])
    assert (result.evaluated, result.images, result.complete) == (10, 100, False)
    _, told = measured(part(1000, 0))
    assert "on 100 images, key" in told
    full = read_result(result_file(place, READ))
    assert (full.evaluated, full.images, full.complete) == (100, 100, True)
    before = result_file(place, READ).read_bytes()
    measured(part(10, 0))
    assert result_file(place, READ).read_bytes() == before


@pytest.mark.usefixtures("readers")
def test_damaged_images_stop_a_cell_unless_they_are_to_be_skipped(place: Place) -> None:
    """A run that left images out is partial, and says how many."""
    levels(place, list(range(10)), list(range(10)))
    (place.workspace.content / "data" / "levels" / "4" / "004.png").write_bytes(b"no image")
    summary = run(place, READ)
    assert (summary.exit_code, summary.outcomes[READ].kind) == (1, "decode")
    assert "004.png" in summary.outcomes[READ].reason
    summary = run(place, READ, skip_damaged=True)
    assert summary.exit_code == 0
    result = read_result(place.workspace.runs / "partial" / "reader" / "clean-v1--levels--9-of-10.json")
    assert (result.evaluated, result.skipped, result.images, result.complete) == (9, 1, 10, False)
    assert result.scores[0].n == 9
    assert not result_file(place, READ).exists()


def test_progress_lines_tell_stage_rate_and_end(place: Place) -> None:
    stream = io.StringIO()
    run(place, CLEAN, reporter=Lines(stream, every=0))
    text = stream.getvalue()
    assert "tiny/clean-v1--digits: shard 4 of 4" in text
    assert "100% tiny/clean-v1--digits" in text
    assert "images/s, 0:00 left" in text
    assert text.splitlines()[-1].startswith("ok tiny/clean-v1--digits: clean_accuracy@clean ")


def test_facts_hold_cost_and_machine_but_no_name_of_it(place: Place) -> None:
    run(place, CLEAN)
    facts = read_result(result_file(place, CLEAN)).facts
    network = build_network(place.catalog.model("tiny"), 10)
    assert facts.parameters == sum(parameter.numel() for parameter in network.parameters())
    assert facts.macs is not None
    assert facts.macs > 100_000
    assert facts.peak_memory_bytes > 10_000_000
    assert facts.environment["torch"] == torch.__version__.split("+")[0]
    text = json.dumps(facts.model_dump(mode="json"))
    assert os.uname().nodename not in text
    assert str(Path.home()) not in text
