"""The main path on real digits: same bytes whatever happens, and every failure said aloud."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

from robustboard import durable, jsons
from robustboard.errors import CellError, DiskFullError, UserError
from robustboard.registry.entries import FolderData, InputSpec, LabelSpace, ModelEntry
from robustboard.runners import evaluate, procedures, session
from robustboard.runners.classifier import Classifier
from robustboard.runners.evaluate import Session, run_cells
from robustboard.runners.failures import read_failures
from robustboard.runners.identity import trained_path
from robustboard.runners.keys import Cell
from robustboard.runners.networks import build_network
from robustboard.runners.outcomes import Summary, time_limit
from robustboard.runners.plan import wanted_cells
from robustboard.runners.profiles import RunProfile, Sample
from robustboard.runners.progress import Lines
from robustboard.runners.score import read_result
from robustboard.runners.store import OpenRun, Store
from robustboard.runners.weights import Weights
from robustboard.workspace import Workspace
from tests.runners.small import PROFILE, Place, files

CLEAN = Cell("tiny", "clean-v1", "digits")
NOISE = Cell("tiny", "noise-v1", "digits")
PGD = Cell("tiny", "pgd-v1", "digits")
SIX_TENTHS = 0.6


def run(place: Place, *cells: Cell, profile: RunProfile = PROFILE, **options: Any) -> Summary:
    """Run cells, all of them where none is named."""
    return run_cells(cells or wanted_cells(place.catalog, place.benchmarks), start(place, profile, **options))


def start(place: Place, profile: RunProfile = PROFILE, **options: Any) -> Session:
    return Session(
        workspace=place.workspace,
        catalog=place.catalog,
        benchmarks=place.benchmarks,
        lock=place.lock,
        profile=profile,
        **options,
    )


def result_file(place: Place, cell: Cell) -> Path:
    return place.workspace.results / f"{cell.name}.json"


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
    cells = (CLEAN, NOISE, PGD) if threads == 1 else (CLEAN, NOISE)
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


class Reader(nn.Module):
    """Reads the class off the grey level: 0 for 0, 1 for 25, …, 9 for 225 of 255."""

    def forward(self, images: Tensor) -> Tensor:
        level = images.mean((1, 2, 3)) * 255 / 25
        return -((level[:, None] - torch.arange(10.0)) ** 2)


SPEC = InputSpec(size=8, channels=1, normalization="inside")


def levels(place: Place, classes: list[int], shown: list[int]) -> None:
    """Add a dataset of grey PNG files, one an image: stored under `classes`, looking like `shown`."""
    root = place.workspace.content / "data" / "levels"
    for number, (label, level) in enumerate(zip(classes, shown, strict=True)):
        path = root / str(label) / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 25 * level, np.uint8)).save(path)
    entry = place.catalog.dataset("digits").model_copy(
        update={"id": "levels", "source": FolderData(kind="folder", path="levels"), "size": len(classes)}
    )
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "levels": entry})


Load = Callable[..., Classifier]


@pytest.fixture
def readers(place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, nn.Module]:
    """Model id → network; models of these ids need no weights, `reader` is registered."""
    networks: dict[str, nn.Module] = {"reader": Reader()}
    place.model("reader", input=SPEC)

    def locate(entry: ModelEntry, **_: object) -> Weights:
        return Weights(Path("nowhere"), jsons.digest("test", entry.id))

    def load(entry: ModelEntry, space: LabelSpace, _: Weights, *, allow_plugins: bool) -> Classifier:
        assert not allow_plugins
        return Classifier(networks[entry.id], entry.input, len(space.classes))

    monkeypatch.setattr(session, "locate_weights", locate)
    monkeypatch.setattr(session, "load_classifier", load)
    return networks


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


class Broken(nn.Module):
    """A network whose forward pass does what it is told."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.act = act

    def forward(self, images: Tensor) -> Tensor:
        return self.act(images)


def _raise(error: BaseException) -> Callable[[Tensor], Tensor]:
    def act(_: Tensor) -> Tensor:
        raise error

    return act


def _hang(_: Tensor) -> Tensor:
    time.sleep(60)
    return torch.zeros(1)


BAD: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "m01-raises": (_raise(RuntimeError("sizes do not match\nsecond line")), "load"),
    "m04-nan": (lambda x: torch.full((len(x), 10), float("nan")), "non-finite"),
    "m06-infinite": (lambda x: torch.full((len(x), 10), float("inf")), "non-finite"),
    "m09-narrow": (lambda x: torch.zeros(len(x), 9), "class-count"),
    "m11-wide": (lambda x: torch.zeros(len(x), 1000), "class-count"),
    "m13-hangs": (_hang, "timeout"),
    "m16-memory": (_raise(MemoryError()), "out-of-memory"),
    "m19-words": (lambda _: "logits", "load"),  # type: ignore[dict-item,return-value]  # the point of it
}


def test_eight_bad_models_in_a_grid_of_twenty(place: Place, readers: dict[str, nn.Module]) -> None:
    """E6: twelve are measured, eight fail for the right kind of reason, in one run."""
    levels(place, list(range(10)), list(range(10)))
    bad_numbers = {name[:3] for name in BAD}
    names = [f"m{n:02d}" for n in range(20) if f"m{n:02d}" not in bad_numbers] + list(BAD)
    for name in names:
        place.model(name, input=SPEC)
        readers[name] = Broken(BAD[name][0]) if name in BAD else Reader()
    cells = [Cell(name, "clean-v1", "levels") for name in sorted(names)]
    summary = run(place, *cells, profile=PROFILE.model_copy(update={"time_limit_seconds": 6}))
    assert {
        cell.model: outcome.kind for cell, outcome in summary.outcomes.items() if outcome.state == "failed"
    } == {name: kind for name, (_, kind) in BAD.items()}
    assert summary.text().splitlines()[-1] == "12 ok, 0 skipped (already done), 8 failed"
    assert "failed m01-raises/clean-v1--levels: load: RuntimeError: sizes do not match" in summary.text()
    assert len(summary.text().splitlines()) == 9
    assert summary.exit_code == 1
    failures = read_failures(place.workspace)
    assert {cell.model: failure.kind for cell, failure in failures.items()} == {
        name: kind for name, (_, kind) in BAD.items()
    }
    readers["m04-nan"] = Reader()
    run(place, Cell("m04-nan", "clean-v1", "levels"))
    assert len(read_failures(place.workspace)) == 7


def test_a_failing_benchmark_does_not_take_the_others_along(place: Place) -> None:
    """B072: the second of three lacks its files: exit code 1, two results kept, a last summary with why."""
    absent = place.catalog.dataset("digits").model_copy(
        update={"id": "absent", "source": FolderData(kind="folder", path="absent")}
    )
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "absent": absent})
    cells = [CLEAN, Cell("tiny", "clean-v1", "absent"), NOISE]
    summary = run(place, *cells)
    assert summary.exit_code == 1
    assert summary.text().splitlines()[-1] == "2 ok, 0 skipped (already done), 1 failed"
    assert "failed tiny/clean-v1--absent: missing: dataset absent: " in summary.text()
    for cell in (CLEAN, NOISE):
        assert read_result(result_file(place, cell)).complete
    assert not result_file(place, cells[1]).exists()


def after(count: int, error: BaseException) -> Callable[..., Any]:
    """The real `measure`, but after so many calls it raises."""
    real, calls = procedures.measure, [0]

    def measure(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] > count:
            raise error
        return real(*arguments, **options)

    return measure


def test_ctrl_c_keeps_finished_shards_and_says_how_to_go_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B072: Ctrl-C gives 130; the same command goes on with the next shard."""
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "measure", after(6, KeyboardInterrupt()))
        summary = run(place)
    assert summary.exit_code == 130
    assert summary.text() == (
        "1 ok, 0 skipped (already done), 0 failed, 2 not started"
        " (interrupted; the same command goes on from here)"
    )
    calls: list[int] = []
    real = evaluate.measure_shard

    def counted(index: int, *arguments: Any) -> None:
        calls.append(index)
        real(index, *arguments)

    monkeypatch.setattr(evaluate, "measure_shard", counted)
    assert run(place).exit_code == 0
    assert calls == [2, 3, 0, 1, 2, 3]
    assert not list(place.workspace.output.rglob(f"{durable.TEMPORARY}*"))


def test_a_full_disk_ends_the_run_with_code_three_and_it_goes_on_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E4: one line with what is needed and free; finished cells are kept."""
    real = OpenRun.put
    calls = [0]

    def put(self: OpenRun, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] > 6:
            raise DiskFullError("runs/x/s00002.parquet", 4_000, 12)
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(OpenRun, "put", put)
        summary = run(place)
    assert summary.exit_code == 3
    assert "no room on the disk: 4000 bytes needed, 12 free" in summary.text()
    assert summary.outcomes[CLEAN].state == "ok"
    assert run(place).exit_code == 0


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


def test_a_traceback_is_shown_on_demand_only(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evaluate, "measure", after(0, ZeroDivisionError("one / nothing")))
    run(place, CLEAN)
    assert "Traceback" not in capsys.readouterr().err
    run(place, CLEAN, debug=True)
    assert "ZeroDivisionError: one / nothing" in capsys.readouterr().err


def test_a_device_that_is_not_there_is_an_error_before_anything_runs(place: Place) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(UserError, match="CUDA"):
        run(place, CLEAN, profile=PROFILE.model_copy(update={"device": "cuda"}))


def test_a_time_limit_ends_with_its_block() -> None:
    with pytest.raises(CellError, match="timeout: not finished within 1 seconds"), time_limit(1):
        time.sleep(30)
    with time_limit(1):
        pass
    time.sleep(1.1)


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
