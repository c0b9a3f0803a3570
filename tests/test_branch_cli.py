"""A pull request from guard to comparison, on a real checkout with real runs; then tampered ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from robustboard import cli
from robustboard.errors import RobustboardError
from tests.leaderboard.forging import Ground, ground, resealed
from tests.runners.small import DIGITS_MODEL

BOARD = """\
name: Digits
summary: A test.
label_space: digits
datasets: [digits]
order: clean
columns:
  - id: clean
    title: Clean
    benchmark: clean-v1
    dataset: digits
"""
SECOND = DIGITS_MODEL.replace("Tiny net", "Other net").replace("seed: 1", "seed: 2")
NEW = ("registry/models/other.yaml", "leaderboard/results/other", "leaderboard/outcomes/other",
       "leaderboard/verifications/other")  # fmt: skip


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    found = ground(tmp_path_factory.mktemp("ground"))
    root = found.workspace.content
    (root / "registry/models/other.yaml").write_text(SECOND)
    for name in ("leaderboard/boards/digits.yaml", "site/templates/x", "CHANGELOG.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(BOARD if name.endswith("digits.yaml") else "")
    (root / ".gitignore").write_text("runs/\n")
    return found


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def commit(root: Path, message: str = "change") -> None:
    git(root, "add", "-A")
    git(root, "-c", "user.name=T", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", message)


@pytest.fixture
def checkout(field: Ground, tmp_path: Path) -> Path:
    """`main` with one model, and a branch that adds another with its results."""
    root = Path(shutil.copytree(field.workspace.content, tmp_path / "checkout"))
    aside = tmp_path / "aside"
    for name in NEW:
        if (root / name).exists():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(root / name, aside / name)
    git(root, "init", "-q", "-b", "main")
    commit(root)
    git(root, "checkout", "-q", "-b", "proposed")
    for name in NEW[:2]:
        shutil.move(aside / name, root / name)
    commit(root)
    return root


def robustboard(root: Path, *words: str) -> Result:
    return CliRunner().invoke(cli.app, ["--workspace", str(root), *words], prog_name="robustboard")


def test_a_model_with_its_results_passes_and_is_compared(checkout: Path, tmp_path: Path) -> None:
    """The robot's path: guard, check, results, comparison as Markdown and JSON."""
    guarded = robustboard(checkout, "guard", "main", "--models")
    assert (guarded.exit_code, guarded.stdout.split()) == (0, ["other"])
    assert robustboard(checkout, "check").exit_code == 0
    held = robustboard(checkout, "check-results", "--base", "main")
    total = len(list((checkout / "leaderboard/results").glob("*/*.json")))
    assert held.exit_code == 0
    assert held.output.strip() == f"{total} results, 1 of them new or changed: no problem"
    done = robustboard(checkout, "compare-branch", "main", "--to", str(tmp_path / "report"))
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report" / "report.md").read_text()
    data: dict[str, Any] = json.loads((tmp_path / "report" / "report.json").read_text())
    assert data["faults"] == []
    assert data["entries"] == [{"kind": "model", "path": "registry/models/other.yaml", "what": "new"}]
    (result,) = data["results"]
    assert (result["cell"], result["what"], result["best"]) == ("other/clean-v1--digits", "new", "tiny")
    assert result["place"][1] == 2
    assert data["moves"] == [{"after": "no rank", "before": "absent", "board": "digits", "model": "other"}]
    assert "| other/clean-v1--digits | new |" in page
    assert "points" in result["verdict"]


def edit(root: Path, name: str, **changes: Any) -> None:
    path = root / "leaderboard/results" / name
    values = json.loads(path.read_text())
    values["scores"][0].update(changes)
    path.write_bytes(resealed(values))


def forged_count(root: Path) -> None:
    path = root / "leaderboard/results/other/clean-v1--digits.json"
    score = json.loads(path.read_text())["scores"][0]
    count = score["correct"] - 1
    edit(root, "other/clean-v1--digits.json", correct=count, value=count / score["n"])


def removed(root: Path) -> None:
    (root / "leaderboard/results/tiny/noise-v1--digits.json").unlink()


def other_predictions(root: Path) -> None:
    mine = root / "leaderboard/results/other/clean-v1--digits.json"
    theirs = json.loads((root / "leaderboard/results/tiny/clean-v1--digits.json").read_text())
    mine.write_bytes(resealed({**json.loads(mine.read_text()), "shards": theirs["shards"]}))


def other_protocol(root: Path) -> None:
    path = root / "benchmarks/clean-v1.yaml"
    path.write_text(
        path.read_text().replace("  kind: clean\n", "  kind: clean\n  temperatures: [1/2, 1, 2]\n")
    )


TAMPERED = {
    "forged count": (forged_count, r"other/clean-v1--digits\.json: scores\.0\.correct: expected"),
    "removed file": (removed, r"tiny/noise-v1--digits\.json: \(whole file\): expected the file to stay"),
    "other model's predictions": (other_predictions, r"other/clean-v1--digits\.json: shards\.0: expected"),
    "wrong protocol": (other_protocol, r"other/clean-v1--digits\.json: key\.protocol_digest: expected"),
}


QUICK = "forged count"


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(n, marks=pytest.mark.long) for n in TAMPERED if n != QUICK)]
)
def test_a_tampered_pull_request_is_refused_naming_file_and_field(name: str, checkout: Path) -> None:
    import re

    spoil, said = TAMPERED[name]
    spoil(checkout)
    commit(checkout)
    done = robustboard(checkout, "check-results", "--base", "main", "--json")
    assert done.exit_code == 2
    faults = json.loads(done.stdout)["faults"]
    assert any(re.search(said, fault) for fault in faults), faults
    report = json.loads(robustboard(checkout, "compare-branch", "main", "--json").stdout)
    assert report["faults"] == faults


@pytest.mark.long
def test_what_vanished_and_what_changed_is_told(checkout: Path) -> None:
    removed(checkout)
    forged_count(checkout)
    edit(checkout, "tiny/clean-v1--digits.json", correct=1, value=0.01, low=0.0, high=0.05)
    commit(checkout)
    report = json.loads(robustboard(checkout, "compare-branch", "main", "--json").stdout)
    told = {each["cell"]: each["what"] for each in report["results"]}
    assert told == {
        "other/clean-v1--digits": "new",
        "tiny/clean-v1--digits": "changed",
        "tiny/noise-v1--digits": "vanished",
    }
    changed = next(each for each in report["results"] if each["what"] == "changed")
    assert changed["before"]["correct"] > changed["after"]["correct"] == 1
    assert changed["verdict"].endswith("clear")


def test_texts_of_strangers_stay_in_their_cells(checkout: Path) -> None:
    from robustboard.leaderboard.changes import EntryChange, Report

    evil = "a|b\n## x <script>@all [x](y) `c` *d*"
    page = Report("0" * 40, (EntryChange("model", evil, "new"),), (), (), ((evil, evil),), (evil,)).markdown()
    for line in page.splitlines():
        assert "<" not in line
        assert "@all" not in line
        assert not line.startswith("## x")
    assert checkout.is_dir()


@pytest.mark.long
def test_nothing_new_is_said_in_one_line(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "main")
    assert (
        "Nothing that the board shows has changed." in robustboard(checkout, "compare-branch", "main").stdout
    )


def test_outside_a_checkout_it_is_one_line(field: Ground) -> None:
    done = robustboard(field.workspace.content, "check-results", "--base", "main")
    assert isinstance(done.exception, RobustboardError)
    assert "expected the top of a Git checkout, found none" in str(done.exception)


def test_audit_recompute_and_invalidate_from_the_command_line(checkout: Path) -> None:
    """The tiers of a result, earned and lost, as the board's data show them."""

    def cell() -> dict[str, Any]:
        (board,) = json.loads(robustboard(checkout, "board", "digits", "--json").stdout)
        found: dict[str, Any] = next(r for r in board["rows"] if r["model"] == "other")["cells"]["clean"]
        return found

    assert (cell()["status"], cell()["provenance"]) == ("unchecked", "reported")
    done = robustboard(checkout, "recompute", "other/clean-v1/digits")
    assert done.exit_code == 0, done.output
    assert (cell()["status"], cell()["provenance"]) == ("ok", "recomputed")
    words = ("audit", "other/clean-v1/digits", "--seed", "3", "--json", "--quiet", "--n")
    (few,) = json.loads(robustboard(checkout, *words, "50").stdout)
    assert (few["passed"], few["verified"], few["images"]) == (True, False, 50)
    assert cell()["provenance"] == "recomputed"
    audited = robustboard(checkout, *words, "600")
    assert audited.exit_code == 0, audited.output
    (told,) = json.loads(audited.stdout)
    assert (told["passed"], told["verified"]) == (True, True)
    assert (told["images"], told["of"], told["rows"]) == (100, 100, 100)
    assert (told["differing"], told["near_ties"], told["seed"]) == ([], 0, 3)
    shown = cell()
    assert shown["provenance"] == "verified"
    assert [each["how"] for each in shown["checks"]] == ["recomputation", "audit"]
    assert all(len(each["record_sha256"]) == 64 and each["who"] for each in shown["checks"])
    why = "measured with another crop"
    done = robustboard(checkout, "invalidate", "other/clean-v1/digits", "--reason", why)
    assert done.exit_code == 0, done.output
    assert robustboard(checkout, "check").exit_code == 0
    assert (cell()["status"], cell()["value"] is not None) == ("invalidated", True)
    assert "measured with another crop" in cell()["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit", "tiny/clean-v1"), "expected MODEL/BENCHMARK/DATASET, got 'tiny/clean-v1'"),
        (
            ("audit", "tiny/pgd-v1/digits", "--adaptive", "clean-v1"),
            "clean-v1 is no external set that names",
        ),
        (("audit", "nobody/clean-v1/digits"), "unknown model 'nobody'"),
        (("recompute", "tiny/fgsm-v1/digits"), "has no result: run it first"),
        (
            ("invalidate", "tiny/clean-v1/digits", "--reason", "x", "--link", "ftp://x"),
            "link: expected an https",
        ),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], said: str, checkout: Path) -> None:
    done = robustboard(checkout, *words)
    assert isinstance(done.exception, RobustboardError), done.output
    assert said in str(done.exception)
    assert done.exception.exit_code == 2


@pytest.mark.parametrize(
    "command", ["audit", "check", "check-results", "compare-branch", "guard", "invalidate", "recompute"]
)
def test_each_command_has_help_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"], prog_name="robustboard")
    assert f"robustboard {command}" in shown.output.split("Example")[1]
