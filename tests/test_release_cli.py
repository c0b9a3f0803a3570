"""`robustboard release`, `changes` and `howmany` as users meet them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from robustboard.cli import app
from robustboard.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
Command = Callable[..., Result]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the content, without releases."""
    folder = tmp_path_factory.mktemp("content")
    for name in ("registry", "benchmarks", "runners", "leaderboard", "site"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("_build", "releases"))
    return folder


@pytest.fixture(scope="module")
def command(place: Path) -> Command:
    """Runs a command in that copy."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["--workspace", str(place), *words], prog_name="robustboard")

    return run


@pytest.fixture(scope="module")
def frozen(place: Path, command: Command) -> Path:
    """A release of all that is there."""
    found = command("release", "2026.12", "--date", "2026-12-24")
    assert found.exit_code == 0, found.output
    folder = place / "leaderboard" / "releases" / "2026.12"
    assert found.stdout.strip() == str(folder)
    return folder


def test_freezing_twice_gives_the_same_files_and_nothing_has_changed_since(
    frozen: Path, command: Command
) -> None:
    before = {path.name: path.read_bytes() for path in frozen.iterdir()}
    assert command("release", "2026.12").exit_code == 0
    assert {path.name: path.read_bytes() for path in frozen.iterdir()} == before
    assert "nothing changed since release 2026.12" in command("changes").stderr


def test_a_release_holds_what_the_terminal_shows(frozen: Path, command: Command) -> None:
    boards = json.loads((frozen / "boards.json").read_text())
    shown = json.loads(command("board", "digits", "--json").stdout)
    assert [board for board in boards if board["id"] == "digits"] == shown


@pytest.mark.usefixtures("frozen")
def test_a_release_of_all_models_tells_them_as_new(place: Path, command: Command) -> None:
    (found,) = json.loads(command("changes", "--json").stdout)
    results = {path.parent.name for path in (place / "leaderboard" / "results").glob("*/*.json")}
    assert set(found["added"]) == results
    assert found["date"] == "2026-12-24"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["release", "december"], "expected a release YEAR.MONTH"),
        (["release", "2026.12", "--date", "24.12.2026"], "expected --date YYYY-MM-DD, got '24.12.2026'"),
        (["howmany", "0.9", "0.9"], "two accuracies that differ"),
        (["howmany", "90", "91"], "as a share, got 90"),
        (["howmany", "a", "91%"], "first: expected a share such as 0.9, or 90%, got 'a'"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(command: Command, words: list[str], message: str) -> None:
    found = command(*words)
    assert isinstance(found.exception, UserError)
    assert message in str(found.exception)
    assert found.exception.exit_code == 2


def test_howmany_prints_both_comparisons_and_the_same_as_json(command: Command) -> None:
    text = command("howmany", "90%", "0.92", "--disagree", "6%")
    assert text.exit_code == 0
    data = json.loads(command("howmany", "90%", "0.92", "--disagree", "6%", "--json").stdout)
    assert (data["first"], data["second"], data["disagreement"]) == (0.9, 0.92, 0.06)
    assert data["paired"] < data["unpaired"]
    assert f"{data['unpaired']:,}" in text.stdout
    assert f"{data['paired']:,}" in text.stdout


@pytest.mark.parametrize("name", ["release", "changes", "howmany"])
def test_help_has_an_example(command: Command, name: str) -> None:
    found = command(name, "--help")
    assert found.exit_code == 0
    assert f"robustboard {name}" in found.stdout
