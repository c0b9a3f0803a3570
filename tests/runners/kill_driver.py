"""Kills runs at random moments and counts what is lost or wrong; run by test_kill.py as a program.

    python kill_driver.py ROOT KILLS SEED atomic|plain|together

ROOT holds a planted workspace with a trained model. A fresh interpreter forks one child a run, so
that a kill costs no start of an interpreter. With `plain`, files are written in place, in two
halves, as naive code does, until that shows in the counts. `together` kills nobody but lets three
runs at the same cells at once, with file locks and without. Prints one JSON object.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from robustboard import durable
from robustboard.errors import RobustboardError
from robustboard.runners import evaluate
from robustboard.runners.evaluate import Session, run_cells
from robustboard.runners.jobs import Job
from robustboard.runners.plan import wanted_cells
from robustboard.runners.progress import Reporter, Silent
from robustboard.runners.score import read_result, result_path
from robustboard.runners.store import OpenRun, Store
from robustboard.workspace import Workspace
from tests.runners.small import PROFILE, Place, files


def write_in_place(path: Path, data: bytes) -> None:
    """What `durable.write` must not be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:
        file.write(data[: len(data) // 2])
        time.sleep(0.02)
        file.write(data[len(data) // 2 :])


def publish_in_place(path: Path, data: bytes) -> bool:
    """What `durable.publish` must not be."""
    write_in_place(path, data)
    return True


class Acknowledged(Silent):
    """Tells the parent, through a pipe, of each cell that the run calls finished."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def finish(self, name: str, line: str) -> None:
        if not line.startswith("failed"):
            os.write(self.pipe, f"{name}\n".encode())


def child(place: Place, pipe: int) -> None:
    """Run all cells, telling of finished cells and of each shard that is measured."""
    real = evaluate.measure_shard

    def told(index: int, run: OpenRun, job: Job, session: Session) -> None:
        os.write(pipe, f"measured {job.key.digest} {index}\n".encode())
        real(index, run, job, session)

    evaluate.measure_shard = told
    os._exit(run_all(place, Acknowledged(pipe)))


def run_all(place: Place, reporter: Reporter, benchmarks: Sequence[str] = ()) -> int:
    """Run the cells of these benchmarks, or all; the exit code."""
    session = Session(
        workspace=place.workspace,
        catalog=place.catalog,
        benchmarks=place.benchmarks,
        lock=place.lock,
        profile=PROFILE,
        reporter=reporter,
        use_committed=False,
    )
    cells = wanted_cells(place.catalog, place.benchmarks, benchmark_ids=benchmarks)
    return run_cells(cells, session).exit_code


def begun(place: Place) -> tuple[int, int]:
    """A run in a child: its process id, and the end of the pipe to read from."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            child(place, writing)
        finally:
            os._exit(70)
    os.close(writing)
    return process, reading


def ended(process: int, reading: int) -> tuple[int, list[str]]:
    """The status of a child once it is over, and the lines that it told."""
    with os.fdopen(reading) as pipe:
        told = pipe.read().splitlines()
    _, status = os.waitpid(process, 0)
    return status, told


def forked(place: Place, seconds: float | None) -> tuple[int, list[str]]:
    """One run in a child, killed after so many seconds; its status, and the lines that it told."""
    process, reading = begun(place)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    return ended(process, reading)


def stored_shards(store: Store) -> set[tuple[str, int]]:
    """(key, index) of every shard whose second file is there."""
    return {
        (digest, int(path.stem[1:]))
        for digest in store.digests()
        for path in store.folder(digest).glob("s0*.json")
    }


def lost(place: Place, names: list[str]) -> list[str]:
    """Cells called finished that are not there, whole, in store and results."""
    store, found = Store(place.workspace.runs), []
    for name in names:
        try:
            result = read_result(result_path(place.workspace, name))
            if store.read(result.key_digest) is None:
                found.append(name)
        except RobustboardError:
            found.append(name)
    return found


def fresh(root: Path, name: str) -> Place:
    """A copy of the workspace where nothing is measured yet."""
    folder = root.parent / name
    shutil.copytree(root, folder)
    return Place(Workspace(folder, folder))


def undisturbed(root: Path) -> tuple[float, dict[str, bytes]]:
    """How long a run takes that nobody disturbs, and all it leaves but circumstances."""
    # Loads what libraries load at first use, so that children need not; without gradients, whose
    # threads a fork would not survive.
    run_all(fresh(root, "warm"), Silent(), ["noise-v1"])
    place = fresh(root, "undisturbed")
    started = time.perf_counter()
    status, _ = forked(place, None)
    if status != 0:
        raise SystemExit("the undisturbed run failed")
    return time.perf_counter() - started, left_by(place)


def left_by(place: Place) -> dict[str, bytes]:
    """All files of runs and results, without circumstances."""
    return {**files(place.workspace.runs), **without_facts(place)}


def together(root: Path) -> dict[str, object]:
    """Three runs of the same cells at once, with locks, then without."""
    _, wanted = undisturbed(root)
    real, found = fcntl.flock, {}
    for name, lock in (("locks", real), ("no locks", lambda *_: None)):
        fcntl.flock = lock
        place = fresh(root, name)
        ends = [ended(*each) for each in [begun(place) for _ in range(3)]]
        measured = Counter(line for _, told in ends for line in told if line.startswith("measured "))
        found[name] = {
            "failed": sum(status != 0 for status, _ in ends),
            "twice": sum(count > 1 for count in measured.values()),
            "shards": len(measured),
            "wrong": len(place.verify()),
            "unequal": left_by(place) != wanted,
        }
    return {**found}


def main(root: Path, kills: int, seed: int, *, plain: bool) -> dict[str, object]:
    """Kill so many runs; every one begins where the killed one before it stopped."""
    seconds, wanted = undisturbed(root)
    if plain:
        durable.write, durable.publish = write_in_place, publish_in_place
    generator = random.Random(seed)
    counts = {"killed": 0, "lost": 0, "wrong": 0, "failed": 0, "redone": 0, "unequal": 0, "completed": 0}
    number, place = 0, fresh(root, "kill0")
    acknowledged: list[str] = []
    while counts["killed"] < kills and not (plain and counts["wrong"] + counts["lost"] + counts["failed"]):
        before = stored_shards(Store(place.workspace.runs))
        status, told = forked(place, generator.uniform(0, seconds))
        measured = [line.split() for line in told if line.startswith("measured ")]
        acknowledged += [line for line in told if not line.startswith("measured ")]
        counts["redone"] += sum((words[1], int(words[2])) in before for words in measured)
        counts["lost"] += len(lost(place, acknowledged))
        counts["wrong"] += bool(place.verify())
        if os.WIFSIGNALED(status):
            counts["killed"] += 1
        else:
            counts["failed"] += os.waitstatus_to_exitcode(status) != 0
        if not os.WIFSIGNALED(status) or generator.random() < 0.1:
            status, _ = forked(place, None)
            counts["failed"] += status != 0
            counts["completed"] += 1
            counts["unequal"] += left_by(place) != wanted
            shutil.rmtree(place.workspace.output)
            number, acknowledged = number + 1, []
            place = fresh(root, f"kill{number}")
    status, _ = forked(place, None)
    counts["failed"] += status != 0
    counts["unequal"] += left_by(place) != wanted
    leftovers = sum(1 for _ in place.workspace.output.rglob(f"{durable.TEMPORARY}*"))
    return {**counts, "leftovers": leftovers, "seconds_of_a_run": round(seconds, 2)}


def without_facts(place: Place) -> dict[str, bytes]:
    """Result files without their circumstances and the hash over them."""
    found = {}
    for name, data in place.summaries().items():
        value = json.loads(data)
        del value["facts"], value["sha256"]
        found[name] = json.dumps(value, sort_keys=True).encode()
    return found


if __name__ == "__main__":
    folder, count, start, how = sys.argv[1:]
    if how == "together":
        report = together(Path(folder))
    else:
        report = main(Path(folder), int(count), int(start), plain=how == "plain")
    sys.stdout.write(json.dumps(report))
