"""How much room the cache takes, and what it does where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from robustboard.errors import UserError
from robustboard.runners.sources import cache
from robustboard.runners.sources.cache import Cache, cache_of
from robustboard.runners.sources.fitting import View
from robustboard.workspace import Workspace
from tests.runners.sources.lab import Lab, as_parquet, encode, noise

ROW = 32 + 8 * 8 * 3
"""Bytes of one image of the sets below: digest and pixels."""


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[int, int], bool]:
    """Opens the file of a set of so many 8 x 8 x 3 images, for a limit in rows; whether it may be kept."""
    clock = 0

    def attempt(rows: int, limit: int, first: int = 0) -> bool:
        nonlocal clock
        hashes = [bytes([rows, number]) * 16 for number in range(first, first + rows)]
        views = Cache(tmp_path / "cache", limit * ROW).open(View(3, 8, None), hashes)
        clock += 1
        for path in (tmp_path / "cache").glob("*"):
            if path.stat().st_mtime > 10**6:
                os.utime(path, (clock, clock))
        return views is not None

    return attempt


def sizes(folder: Path) -> list[int]:
    return sorted(path.stat().st_size // ROW for path in (folder / "cache").glob("*"))


def test_the_longest_unused_sets_go_first(tmp_path: Path, opened: Callable[[int, int], bool]) -> None:
    assert opened(3, 10)
    assert opened(4, 10)
    assert opened(3, 10), "used again, so younger than the four"
    assert opened(5, 10)

    assert sizes(tmp_path) == [3, 5]


def test_a_set_beyond_the_limit_is_not_kept_and_nothing_goes_for_it(
    tmp_path: Path, opened: Callable[[int, int], bool]
) -> None:
    assert opened(3, 10)
    assert not opened(11, 10)
    assert not opened(1, 0)
    assert not opened(0, 10)

    assert sizes(tmp_path) == [3]


def test_a_short_disk_is_left_alone(
    tmp_path: Path, opened: Callable[[int, int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opened(3, 10)
    usage = shutil._ntuple_diskusage
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 10**12, cache.RESERVE + 100))

    assert not opened(4, 10)
    assert sizes(tmp_path) == [3]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_fills_up_costs_the_cache_and_not_the_run(
    lab: Lab, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real file system that is full after a third of the rows."""
    images = noise(40, size=32)
    source = as_parquet(lab.workspace.output, [encode(image) for image in images], [0] * 40)
    entry, spec = lab.entry(source, 40), lab.input(32)
    monkeypatch.setattr(cache, "RESERVE", -(10**9))
    monkeypatch.setenv(cache.VARIABLE, str(small_disk))
    for _ in range(2):
        found = lab.load(entry, space=lab.digits(), spec=spec).pixels(range(40))
        assert np.array_equal(found[:, 0], images.astype(np.float32) / 255)
    (path,) = small_disk.iterdir()
    assert any(path.read_bytes())


def test_a_place_that_is_no_folder_costs_the_cache_and_not_the_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    images = noise(3, size=8)
    entry = lab.entry(as_parquet(lab.workspace.output, [encode(image) for image in images], [0] * 3), 3)
    found = lab.load(entry, space=lab.digits()).pixels(range(3))
    assert np.array_equal(found[:, 0], images.astype(np.float32) / 255)
    assert (tmp_path / "file").read_bytes() == b"x"


def test_folder_and_limit_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path, tmp_path)
    assert cache_of(workspace) == Cache(tmp_path / "runs" / "cache", 20 * 10**9)
    monkeypatch.setenv(cache.VARIABLE, "/somewhere")
    monkeypatch.setenv(cache.LIMIT_VARIABLE, "0.5")
    assert cache_of(workspace) == Cache(Path("/somewhere"), 500_000_000)


@pytest.mark.parametrize("value", ["much", "nan", "inf", "1e999"])
def test_a_limit_that_is_no_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(cache.LIMIT_VARIABLE, value)

    with pytest.raises(UserError, match="ROBUSTBOARD_CACHE_GB: expected a number of GB, 0 for no cache, got"):
        cache_of(Workspace(tmp_path, tmp_path))
