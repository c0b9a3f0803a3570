"""B1: thirty artefacts that could run code: no canary is ever written, each is refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.battery import artefacts as evil
from tests.battery.code_cases import CASES, LABELS, Stage
from tests.battery.local_hub import Asker, LocalHub
from tests.conftest import PROTOCOL


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asker(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    found = Asker(hub, tmp_path_factory.mktemp("asker") / "home")
    yield found
    found.stop()


@pytest.fixture
def stage(hub: LocalHub, asker: Asker, tmp_path: Path) -> Stage:
    import shutil

    for kind in ("models", "datasets"):
        shutil.rmtree(hub.root / kind, ignore_errors=True)
    asker.value("cache", str(tmp_path / "cache"))
    found = Stage(tmp_path / "place", hub, asker, tmp_path / "canary")
    found.write("registry/lock.yaml", "{}\n")
    found.write("registry/labels/shapes.yaml", LABELS)
    found.write("benchmarks/pgd-v1.yaml", PROTOCOL)
    return found


QUICK = (
    "pickle.bin",
    "checkpoint.pth",
    "legacy.pt",
    "export.pt2",
    "pickle as safetensors",
    "only a pickle",
    "loading script",
    "pipe",
)


@pytest.mark.parametrize("name", QUICK)
def test_an_artefact_is_refused_in_one_line(name: str, stage: Stage) -> None:
    refuse(name, stage)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_all_artefacts_are_refused_in_one_line(name: str, stage: Stage) -> None:
    refuse(name, stage)


def refuse(name: str, stage: Stage) -> None:
    """One artefact: nothing runs, and one line says why."""
    case, words = CASES[name]
    told = case(stage)
    assert not stage.canary.exists(), f"{name} ran its code"
    assert words in told
    assert len(told.strip().splitlines()) == 1, told
    assert "Traceback" not in told


def test_control_careless_readers_run_the_code(tmp_path: Path) -> None:
    """The same artefacts, read as careless programs read them: every one of twelve leaves its canary."""
    ran = []
    for number, (name, (make, reader)) in enumerate(evil.CARELESS.items()):
        canary = tmp_path / f"canary-{number}"
        data = make(canary)
        with evil.whatever():
            reader(data, tmp_path)
        if canary.exists():
            ran.append(name)
    assert ran == list(evil.CARELESS)


def test_webdataset_is_no_part_of_the_runner() -> None:
    """Its default decoders unpickle, and its URLs run commands."""
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert "webdataset" not in text
