"""The command line as users and programs meet it: real processes, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from robustboard import commands
from robustboard.cli import app, main

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [
    "check",
    "list",
    "lock",
    "plan",
    "run",
    "score",
    "verify",
    "board",
    "site",
    "compare",
    "demo",
    "audit",
    "recompute",
    "invalidate",
    "guard",
    "check-results",
    "compare-branch",
]  # of the command line's interface
HEAVY = ("torch", "timm", "open_clip", "pandas", "pyarrow", "pydantic", "datasets", "scipy", "rich.console")


def robustboard(
    *arguments: str, output: Path, workspace: Path = ROOT, limit: float = 300
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ROBUSTBOARD_")}
    environment |= {"ROBUSTBOARD_OUTPUT": str(output), "ROBUSTBOARD_WORKSPACE": str(workspace)}
    return subprocess.run(
        [sys.executable, "-m", "robustboard", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
    )


def test_help_imports_nothing_heavy() -> None:
    """`--help` answers in a fraction of a second because torch and its like are never imported."""
    code = f"""
import sys
from robustboard import cli
try:
    cli.app(["--help"], prog_name="robustboard")
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert all(re.search(rf"^  {name} ", done.stdout, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_is_in_the_readme(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], prog_name="robustboard")
    assert shown.exit_code == 0
    assert f"robustboard {command}" in shown.output.split("Example")[1]
    assert f"robustboard {command}" in (ROOT / "README.md").read_text() or command == "demo"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run -m digits-resnett -b clean-v1", "unknown model 'digits-resnett' (did you mean digits-resnet"),
        ("plan -b pgd-v2", "unknown benchmark 'pgd-v2' (did you mean pgd-v1"),
        ("plan -d digit", "unknown dataset 'digit' (did you mean digits"),
        ("run -m digits-resnet --profile gpuu", "unknown run profile 'gpuu' (did you mean gpu?)"),
        ("board digitz", "unknown board 'digitz' (did you mean digits?)"),
        ("list model", "unknown kind of entry 'model' (did you mean models"),
        (
            "lock model/efficientnet-lite",
            "unknown entry to lock 'model/efficientnet-lite' (did you mean model/",
        ),
        ("lock model/digits-resnet", "model/digits-resnet needs no lock line: "),
        (
            "audit digits-resnet/fgsm-v1/digits",
            "its predictions are not here: measure it with `robustboard run`",
        ),
        ("compare digits-resnet nobody", "unknown model 'nobody' (known: "),
        ("run", "expected at least one of --model, --benchmark, --dataset"),
        ("run -m digits-resnet -d cifar10", "model digits-resnet fits nothing: "),
    ],
)
def test_wrong_names_get_one_line_and_exit_code_2(arguments: str, said: str, tmp_path: Path) -> None:
    """B004: the bad value, the nearest known ones, nothing written, no traceback."""
    done = robustboard(*arguments.split(), output=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_list_prints_json_for_programs_and_a_table_for_people(tmp_path: Path) -> None:
    rows = json.loads(robustboard("list", "datasets", "--json", output=tmp_path).stdout)
    assert {row["id"] for row in rows} == {p.stem for p in (ROOT / "registry" / "datasets").glob("*.yaml")}
    plain = robustboard("list", "datasets", output=tmp_path).stdout.splitlines()
    assert len(plain) == len(rows) + 1


def test_an_unresolved_pin_is_visible_and_a_run_says_what_to_do(tmp_path: Path) -> None:
    rows = json.loads(robustboard("list", "models", "--json", output=tmp_path).stdout)
    loose = [row["id"] for row in rows if row["pin"] == "unresolved"]
    assert loose
    done = robustboard("run", "-m", loose[0], "-b", "clean-v1", output=tmp_path)
    assert done.returncode == 1
    assert f"robustboard lock model/{loose[0]}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A workspace of its own that a test may spoil."""
    target = tmp_path / "workspace"
    for name in ("registry", "benchmarks", "runners", "leaderboard", "site"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("_build", "results"))
    return target


def test_check_prints_all_faults_of_all_files_at_once(copied: Path, tmp_path: Path) -> None:
    model = copied / "registry" / "models" / "digits-resnet.yaml"
    model.write_text(model.read_text().replace("loader: timm", "loader: timmm"))
    dataset = copied / "registry" / "datasets" / "digits.yaml"
    dataset.write_text(dataset.read_text() + "colour: red\n")
    protocol = copied / "benchmarks" / "pgd-v1.yaml"
    protocol.write_text(protocol.read_text().replace("[1/20, 1/10, 1/5, 3/10]", "[8]", 1))
    for path, said in (
        ("leaderboard/boards/digits.yaml", "colour: red\n"),
        ("leaderboard/fits/imagenet-v2.yaml", "colour: red\n"),
        ("runners/cpu.yaml", "colour: red\n"),
        ("registry/reported/robustbench.yaml", "colour: red\n"),
    ):
        (copied / path).write_text((copied / path).read_text() + said)

    done = robustboard("check", output=tmp_path, workspace=copied)

    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert all(
        re.match(r"(registry|benchmarks|leaderboard|runners)/[\w./-]+:\d+: ([\w.]+: )?expected ", line)
        for line in lines
    ), lines
    assert {line.split(":")[0] for line in lines} >= {
        "benchmarks/pgd-v1.yaml",
        "leaderboard/boards/digits.yaml",
        "leaderboard/fits/imagenet-v2.yaml",
        "registry/datasets/digits.yaml",
        "registry/models/digits-resnet.yaml",
        "registry/reported/robustbench.yaml",
        "runners/cpu.yaml",
    }


def test_a_failing_benchmark_does_not_stop_the_others(copied: Path, tmp_path: Path) -> None:
    """B072: results 1 and 3 are kept, the summary counts, the exit code is 1."""
    output = tmp_path / "output"
    (copied / "registry" / "datasets" / "digits-broken.yaml").write_text(
        (copied / "registry" / "datasets" / "digits.yaml")
        .read_text()
        .replace("name: ", "name: Broken ", 1)
        .replace(
            "kind: sklearn-digits", "kind: npz\n  file:\n    path: gone/missing.npz\n    sha256: " + "0" * 64
        )
        .replace("  start: 1197\n", "")
        .replace("  stop: 1797\n", "")
    )
    done = robustboard(
        "run", "-m", "digits-resnet", "-b", "clean-v1", "-b", "noise-v1", "--smoke", "--quiet",
        output=output, workspace=copied,
    )  # fmt: skip

    assert done.returncode == 1, done.stderr
    assert "gone/missing.npz" in done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"2 ok, 0 skipped.*, 1 failed", done.stderr), done.stderr


def test_the_way_from_entry_to_page(copied: Path, tmp_path: Path) -> None:
    """run → score → verify → board → compare → site, as a user types them."""
    output = tmp_path / "output"
    done = robustboard("run", "-m", "digits-resnet", "-b", "clean-v1", output=output, workspace=copied)
    assert done.returncode == 0, done.stderr
    assert "1 ok" in done.stderr
    again = robustboard("run", "-m", "digits-resnet", "-b", "clean-v1", output=output, workspace=copied)
    assert (again.returncode, "1 skipped" in again.stderr) == (0, True)

    result = output / "leaderboard" / "results" / "digits-resnet" / "clean-v1--digits.json"
    before = result.read_bytes()
    result.unlink()
    assert robustboard("score", output=output, workspace=copied).returncode == 0
    assert result.read_bytes() == before
    assert robustboard("verify", output=output, workspace=copied).returncode == 0

    (board,) = [
        b
        for b in json.loads(robustboard("board", "--json", output=output, workspace=copied).stdout)
        if b["id"] == "digits"
    ]
    assert "digits-resnet" in json.dumps(board)
    built = robustboard("site", output=output, workspace=copied)
    index = Path(built.stdout.strip())
    assert index == output / "site" / "_build" / "index.html"
    assert "digits-resnet" in index.read_text()
    compared = robustboard(
        "compare", "digits-resnet", "digits-densenet", "--json", output=output, workspace=copied
    )
    assert json.loads(compared.stdout)["differences"]


def test_version_and_module_agree(tmp_path: Path) -> None:
    from robustboard import __version__

    assert robustboard("--version", output=tmp_path).stdout == f"robustboard {__version__}\n"


def test_a_terminal_of_a_narrow_encoding_gets_escapes_not_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "robustboard", "--workspace", str(ROOT), "board", "digits"],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "ROBUSTBOARD_OUTPUT": str(tmp_path)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert all(line.startswith(b"flagged digits-masked: ") for line in done.stderr.splitlines())
    assert rb"\xb1" in done.stdout


def test_a_full_disk_behind_stdout_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "robustboard", "--workspace", str(ROOT), "list"],
            env=os.environ | {"ROBUSTBOARD_OUTPUT": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (3, b"output: No space left on device\n")


def test_ctrl_c_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 130 and one line, also where the command line library would leave in silence."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "load", stop)
    monkeypatch.setattr(sys, "argv", ["robustboard", "--output", str(tmp_path), "list"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert capfd.readouterr().err == "interrupted; run the same command again to go on\n"
