"""How cells fail: for a stated reason, without taking the others along, and what is stored stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from robustboard import durable
from robustboard.errors import CellError, DiskFullError, UserError
from robustboard.registry.entries import FolderData
from robustboard.runners import evaluate, procedures
from robustboard.runners.failures import read_failures
from robustboard.runners.keys import Cell
from robustboard.runners.outcomes import time_limit
from robustboard.runners.score import read_result
from robustboard.runners.store import OpenRun
from tests.runners.readers import SPEC, Reader, levels, result_file, run
from tests.runners.small import CLEAN, NOISE, PROFILE, Place


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


def test_images_that_do_not_fit_into_memory_are_said_to_need_it(
    place: Place, readers: dict[str, nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    levels(place, [0], [0])
    place.model("large", input=SPEC)
    readers["large"] = Reader()

    def samples(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(evaluate.Session, "samples", samples)
    cell = Cell("large", "clean-v1", "levels")
    assert run(place, cell).outcomes[cell].kind == "out-of-memory"


def test_a_failure_that_cannot_be_kept_does_not_end_the_run(place: Place) -> None:
    """Where the folder of failures cannot be written, other cells are measured all the same."""
    absent = place.catalog.dataset("digits").model_copy(
        update={"id": "absent", "source": FolderData(kind="folder", path="absent")}
    )
    place.catalog = replace(place.catalog, datasets={**place.catalog.datasets, "absent": absent})
    place.workspace.runs.mkdir(parents=True, exist_ok=True)
    (place.workspace.runs / "failed").write_text("a file in its place")
    summary = run(place, Cell("tiny", "clean-v1", "absent"), CLEAN)
    assert summary.text().splitlines()[-1] == "1 ok, 0 skipped (already done), 1 failed"
    assert summary.exit_code == 1
