"""A build is killed at any moment: it goes on, and the bytes are the same."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robustboard import durable
from robustboard.runners.testsets import attempts
from robustboard.runners.testsets.build import build
from robustboard.runners.testsets.manifest import MANIFEST
from robustboard.runners.testsets.verify import verify
from tests.runners.testsets.sets import files, material

FORK = multiprocessing.get_context("fork")
MEMORY = Path("/dev/shm")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory where that is possible, and parts of two tries, so that there are many moments."""
    monkeypatch.setattr(attempts, "PART", 2)
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path))
    yield folder
    shutil.rmtree(folder)


def make(place: Path, name: str, per_class: int) -> None:
    build(material(per_class=per_class, shard_rows=15), place / name / "set", place / name / "work")


def begun(place: Path, name: str, per_class: int) -> Any:
    process = FORK.Process(target=make, args=(place, name, per_class))
    process.start()
    return process


def state(folder: Path) -> str:
    """absent, or whole; anything else is a failure."""
    if not (folder / MANIFEST).exists():
        return "absent"
    assert verify(folder).damages == ()
    return "whole"


def test_twenty_kills_at_random_moments(place: Path) -> None:
    """Point 4's shown-by: 20 times kill -9; each time no set or a whole one; in the end the same bytes."""
    started = time.perf_counter()
    make(place, "undisturbed", 4)
    seconds = time.perf_counter() - started
    drawn = random.Random(1)
    killed = 0
    while killed < 20:
        process = begun(place, "killed", 4)
        process.join(drawn.uniform(0, seconds / 2))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        assert process.exitcode in (0, -signal.SIGKILL)
        if state(place / "killed" / "set") == "whole":
            assert files(place / "killed" / "set") == files(place / "undisturbed" / "set")
            shutil.rmtree(place / "killed")
    make(place, "killed", 4)
    assert files(place / "killed" / "set") == files(place / "undisturbed" / "set")
    assert not list(place.rglob(f"{durable.TEMPORARY}*"))


OPERATIONS: list[tuple[Any, str]] = [
    (os, "fsync"),
    (Path, "mkdir"),
    (Path, "replace"),
    (Path, "unlink"),
    (shutil, "rmtree"),
]


def _die_at(moment: int, place: Path) -> None:
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
    make(place, "killed", 1)


def test_a_kill_before_every_single_operation(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E1 without luck: at each call that changes the disk, in turn, and the next build gets on."""
    monkeypatch.setattr(attempts, "PART", 8)
    make(place, "undisturbed", 1)
    moment = 0
    while True:
        writer = FORK.Process(target=_die_at, args=(moment, place))
        writer.start()
        writer.join()
        state(place / "killed" / "set")
        make(place, "killed", 1)
        assert files(place / "killed" / "set") == files(place / "undisturbed" / "set"), moment
        shutil.rmtree(place / "killed")
        if writer.exitcode == 0:
            break
        assert writer.exitcode == -signal.SIGKILL
        moment += 1
    assert moment > 20


def test_a_manifest_that_comes_before_its_files_is_caught(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: written first, it stands beside nothing once the build is killed."""
    real = durable.write

    def hasty(path: Path, data: bytes) -> None:
        if path.suffix == ".parquet":
            real(path.parent.parent / MANIFEST, b"{}")
            raise KeyboardInterrupt
        real(path, data)

    monkeypatch.setattr(durable, "write", hasty)
    with pytest.raises(KeyboardInterrupt):
        make(place, "hasty", 1)
    with pytest.raises(AssertionError):
        state(place / "hasty" / "set")
