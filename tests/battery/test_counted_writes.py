"""F2: every command against a Hub that counts: nothing is written, there or elsewhere, without --yes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from robustboard import cli
from tests.battery.local_hub import CANARY, Asker, LocalHub, fresh
from tests.battery.workspace import OUT, furnish

SET = "moved-digits@1.0.0"
CELL = ("-m", "hub-net", "-b", "clean-v1", "-d", "hub-set")
RUNS: dict[str, list[tuple[str, ...]]] = {
    "check": [("check",)],
    "list": [("list",), ("list", "datasets")],
    "lock": [("lock",), ("lock", "model/hub-net", "dataset/hub-set")],
    "plan": [("plan", *CELL)],
    "run": [("run", *CELL, "--quiet"), ("run", "-m", "hub-net", "-d", "closed-set", "--quiet")],
    "score": [("score",)],
    "verify": [("verify",)],
    "board": [("board",), ("board", "digits")],
    "site": [("site",)],
    "compare": [("compare", "hub-net", "tiny")],
    "testset list": [("testset", "list")],
    "testset build": [("testset", "build", SET, "--quiet")],
    "testset verify": [("testset", "verify", SET)],
    "testset publish": [("testset", "publish", SET, "--repo", OUT)],
    "testset pull": [("testset", "pull", SET, "--repo", OUT, "--quiet")],
    "predictions publish": [("predictions", "publish", "--repo", "org/predictions", "--tag", "2026.1")],
    "predictions pull": [("predictions", "pull", "org/predictions")],
    "predictions export": [("predictions", "export", "hub-net", "--to", "TO/export")],
    "new model": [("new", "model", "org/net")],
    "new dataset": [("new", "dataset", "org/digits")],
}
"""Commands with words that make them do their work; all others are run as they are and end in a refusal."""

LONG = {"demo"}
"""Takes minutes, and asks no Hub: the digits of scikit-learn and models trained here."""
WRITING = ("POST", "PUT", "PATCH", "DELETE")


def every_command() -> Iterator[str]:
    """`run`, `testset build` ... as they are registered."""
    root: Any = get_command(cli.app)
    for name, command in sorted(root.commands.items()):
        below = getattr(command, "commands", None)
        yield from (f"{name} {each}" for each in sorted(below)) if below else [name]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    (found.root / "writable").touch()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asker(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    found = Asker(hub, tmp_path_factory.mktemp("asker") / "home")
    found.value("patient", 1.5, 16_384)
    found.value("loopback_only")
    yield found
    found.stop()


@pytest.mark.long
def test_without_yes_no_command_writes_anywhere(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    """Every registered command, those that publish too; then the control: with --yes it is counted."""
    root = tmp_path / "place"
    furnish(root, hub, asker)
    shutil.copytree(root / "registry", tmp_path / "registry")
    hub.forget()
    commands = [name for name in every_command() if name not in LONG]
    done = {}
    for name in sorted(commands, key=lambda each: list(RUNS).index(each) if each in RUNS else len(RUNS)):
        for words in RUNS.get(name, [tuple(name.split())]):
            spelled = [word.replace("TO/", f"{tmp_path}/") for word in words]
            code, out, told = asker.value("command", ["--workspace", str(root), *spelled])
            assert "Traceback" not in told, (words, told)
            assert CANARY not in out + told, words
            done[name] = code
    assert set(done) == set(commands)
    worked = ("check", "lock", "run", "site", "testset publish")
    assert {name: done[name] for name in worked} == dict.fromkeys(worked, 0)
    assert [line for line in hub.requests() if line.split()[0] in WRITING] == []
    assert hub.requests(), "they did ask the Hub"
    assert asker.value("refused_connections") == []

    shutil.copytree(tmp_path / "registry", fresh(root / "registry"), dirs_exist_ok=True)  # without blanks
    code, _, told = asker.value(
        "command", ["--workspace", str(root), "testset", "publish", SET, "--repo", OUT, "--yes"]
    )
    assert code == 0, told
    written = [line for line in hub.requests() if line.split()[0] in WRITING]
    assert len(written) >= 5, written
