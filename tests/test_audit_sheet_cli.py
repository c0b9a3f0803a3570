"""`robustboard audit-sheet` as people meet it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from robustboard.cli import app
from robustboard.runners.audit_sheet import ANSWERS, COLUMNS


def filled(folder: Path, *answers: str) -> Path:
    rows = [f"{row},net,vq,clip,{row:05d},a,ant,{'0' * 64},{answer}" for row, answer in enumerate(answers)]
    path = folder / ANSWERS
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    return path


def test_a_filled_sheet_gives_the_oracles_precision(tmp_path: Path) -> None:
    path = filled(tmp_path, "yes", "yes", "yes", "no", "unsure", "")
    shown = CliRunner().invoke(app, ["audit-sheet", "read", str(path)])
    assert shown.exit_code == 0
    assert "vq by clip\t6\t3\t1\t1\t1\t75.0 [30.1, 95.4]\t60.0" in shown.stdout
    told = CliRunner().invoke(app, ["audit-sheet", "read", str(path), "--json"])
    assert json.loads(told.stdout)[str(path)][0]["precision"] == 0.75


def test_the_help_has_examples() -> None:
    for command in ("write", "read"):
        assert (
            f"Example: robustboard audit-sheet {command}"
            in CliRunner().invoke(app, ["audit-sheet", command, "--help"]).stdout
        )
