"""B3: over thirty bombs of images, archives and tables: little memory, nothing left, the run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.battery import bombs
from tests.battery.local_hub import ROOT, tree
from tests.runners.sources.lab import Lab, as_folder, encode

MOST = 300
"""MB of memory that meeting all of them may take."""
SLOW = ("compressed text", "colour profile", "WebP of 26 megapixels")
"""Images that take a second to make."""
HARMLESS = {"more rows than it says.image"}
"""What comes after the last row is never unpacked."""


def meet(how: str, folder: Path) -> dict[str, Any]:
    """What the driver says."""
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bomb_driver.py")), how, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bombs") / "bombs"
    found.mkdir()
    for name, make in bombs.IMAGES.items():
        (found / f"{name}.image").write_bytes(make())
    for name, make in {**bombs.ARCHIVES, **bombs.TABLES}.items():
        (found / name).write_bytes(make())
    for name, make in bombs.CARDS.items():
        (found / f"{name}.card").write_bytes(make())
    return found


@pytest.mark.long
def test_bombs_are_refused_in_little_memory_and_leave_nothing(folder: Path) -> None:
    before = tree(folder)
    found = meet("safe", folder)
    scratch = folder.with_name("scratch")

    assert len(found["files"]) >= 30
    for name, (told, *_) in found["files"].items():
        if name in HARMLESS or name.endswith(".card"):
            assert told in ("ok", "classes: None"), name
        else:
            assert told.startswith(("decode: ", "labels: ")), (name, told)
            assert "\n" not in told
    assert found["peak"] < MOST, found
    assert tree(folder) == before
    assert not scratch.exists() or list(scratch.iterdir()) == []
    assert sum(path.stat().st_size for path in folder.iterdir()) < 60_000_000, "they are small"


@pytest.mark.long
@pytest.mark.parametrize("name", bombs.LARGEST)
def test_the_largest_picture_that_is_read_takes_little_memory(name: str, tmp_path: Path) -> None:
    """25 megapixels: less than three copies at a time."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "large.image").write_bytes(bombs.LARGEST[name]())
    found = meet("safe", tmp_path / "one")
    assert found["files"]["large.image"][0] == "ok"
    assert found["peak"] <= MOST


@pytest.mark.long
def test_control_careless_readers_take_the_memory(folder: Path, tmp_path: Path) -> None:
    """One image and one archive are enough."""
    few = tmp_path / "few"
    few.mkdir()
    for name in ("13,000 squared, one bit.image", "zeros.zip"):
        (few / name).write_bytes((folder / name).read_bytes())
    found = meet("careless", few)
    assert found["peak"] > 1.5 * MOST, found


def test_a_run_goes_on_past_bombs_in_a_folder(lab: Lab) -> None:
    """Asked to, it leaves them out and lists them."""
    good = {f"cat/{number}.png": encode(number) for number in range(3)}
    quick = [name for name in bombs.IMAGES if name not in SLOW and f"{name}.image" not in HARMLESS]
    bad = {f"dog/{number}.png": bombs.IMAGES[name]() for number, name in enumerate(quick)}
    entry = lab.entry(as_folder(lab.workspace.output, good | bad), len(good) + len(bad))
    found = lab.load(entry, skip_damaged=True)
    assert list(found.ids) == sorted(good)
    assert sorted(found.skipped) == sorted(bad)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    from robustboard.workspace import Workspace

    monkeypatch.delenv("ROBUSTBOARD_DATA", raising=False)
    (tmp_path / "data").mkdir()
    return Lab(Workspace(tmp_path, tmp_path))
