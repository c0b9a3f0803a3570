"""Runs are killed at any moment: nothing is lost, nothing is wrong, the bytes are the same."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robustboard import durable
from robustboard.errors import StoreError
from robustboard.runners.store import Store
from tests.runners.small import Made, files

ROOT = Path(__file__).parents[2]
FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


MEMORY = Path("/dev/shm")


@pytest.fixture
def small_root(trained_root: Path, tmp_path: Path) -> Iterator[Path]:
    """A trained workspace with 40 images in shards of 10 and two protocols, quick enough to be killed often.

    In memory where that is possible: a kill loses nothing that was handed to the system, so the
    flushes that cost most of the time say nothing here; test_power_loss.py is about those.
    """
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path))
    root = folder / "root"
    shutil.copytree(trained_root, root)
    (root / "benchmarks" / "clean-v1.yaml").unlink()
    edits = {"shard_size: 30": "shard_size: 10", "steps: 4": "steps: 2", "stop: 1297": "stop: 1237"}
    edits["size: 100"] = "size: 40"
    for path in (*root.glob("benchmarks/*.yaml"), root / "registry" / "datasets" / "digits.yaml"):
        text = path.read_text()
        for old, new in edits.items():
            text = text.replace(old, new)
        path.write_text(text)
    yield root
    shutil.rmtree(folder)


def drive(root: Path, kills: int, how: str, seed: int = 1) -> dict[str, Any]:
    script = ROOT / "tests" / "runners" / "kill_driver.py"
    done = subprocess.run(
        [sys.executable, str(script), str(root), str(kills), str(seed), how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


CLEAN = {"lost": 0, "wrong": 0, "failed": 0, "redone": 0, "unequal": 0, "leftovers": 0}


def test_fifty_kills_at_random_moments(small_root: Path) -> None:
    """E1, B065: 0 lost, 0 wrong, 0 failed reruns, no finished shard measured again, equal bytes."""
    found = drive(small_root, 50, "atomic")
    assert found["killed"] == 50
    assert found["completed"] > 0
    assert {name: found[name] for name in CLEAN} == CLEAN


def test_plain_writes_do_not_pass_the_same_kills(small_root: Path) -> None:
    """The control: files written in place are found damaged by the same count."""
    found = drive(small_root, 40, "plain")
    assert found["wrong"] + found["lost"] + found["failed"] > 0


def test_three_runners_at_once(small_root: Path) -> None:
    """E5, B065: the same cells at the same moment; nobody fails, equal bytes; with locks no shard twice.

    Without locks, as on some network disks, work is done twice and the bytes are the same.
    """
    found = drive(small_root, 0, "together")
    right = {"failed": 0, "twice": 0, "shards": 8, "wrong": 0, "unequal": False}
    assert found["locks"] == right
    assert found["no locks"]["twice"] > 0
    assert {**found["no locks"], "twice": 0} == right


@pytest.mark.long
def test_five_hundred_kills_at_random_moments(small_root: Path) -> None:
    """E1 at night's size."""
    found = drive(small_root, 500, "atomic", seed=2)
    assert {name: found[name] for name in CLEAN} == CLEAN


OPERATIONS: list[tuple[Any, str]] = [
    (os, "fsync"),
    (os, "link"),
    (Path, "mkdir"),
    (Path, "replace"),
    (Path, "unlink"),
]


def _die_at(moment: int, root: str, made: Made) -> None:
    """Complete a run, but die just before the operation of that number."""
    left = [moment]

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return act

    for owner, name in OPERATIONS:
        setattr(owner, name, deadly(getattr(owner, name)))
    made.into(Store(Path(root)))


def test_a_kill_before_every_single_operation(tmp_path: Path, made: Made) -> None:
    """E1 without luck: at each call that changes the disk, in turn; readers and the next run get on."""
    reference = Store(tmp_path / "reference" / "runs")
    made.into(reference)
    moment = 0
    while True:
        store = Store(tmp_path / str(moment) / "runs")
        writer = FORK.Process(target=_die_at, args=(moment, str(store.root), made))
        writer.start()
        writer.join()
        if writer.exitcode == 0:
            break
        assert writer.exitcode == -signal.SIGKILL
        store.read(made.key.digest)
        made.into(store)
        assert files(store.root, facts=True) == files(reference.root, facts=True), moment
        moment += 1
    assert moment > 40


def test_a_store_that_forgets_to_write_the_record_last_is_caught(tmp_path: Path, made: Made) -> None:
    """The control of the one above: a record without its shards is an error to every reader."""
    store = Store(tmp_path / "runs")
    made.into(store)
    (store.folder(made.key.digest) / "s00001.json").unlink()
    with pytest.raises(StoreError, match=r"s00001\.json: cannot read"):
        store.read(made.key.digest)
    assert not list(store.root.rglob(f"{durable.TEMPORARY}*"))
