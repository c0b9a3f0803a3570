from __future__ import annotations

import sys
from collections import Counter

import pytest

from robustboard import console


@pytest.mark.parametrize("width", [1, 7, 20, 31, 32, 80])
def test_no_cell_is_lost_in_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drawn where it fits, else plain columns; folded perhaps, but every character is there."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    cells = ["digits-resnet-adv", "97.0 ±1.7", "<b>[red]", "1"]
    console.out_table(["model", "clean", "name", "rank"], [cells])
    printed = Counter(capsys.readouterr().out.split("rank", 1)[1])
    assert not Counter("".join(cells).replace(" ", "")) - printed
