"""The report under a pull request, as a reader of Markdown shows it."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from robustboard.gits import Change
from robustboard.leaderboard.changes import EntryChange, Report, entry_changes
from robustboard.registry.guard import RULES


@pytest.mark.parametrize(
    "text",
    [
        r"\[here\](https://evil.example)",
        r"a\| b \| c",
        r"\*bold\*",
        r"\\[here\\](https://evil.example)",
        "&#64;all &lt;b&gt;",
        "~~gone~~",
        r"C:\folder\file",
    ],
)
def test_a_reader_sees_a_stranger_s_text_as_it_is(text: str) -> None:
    """Backslashes of the text do not undo the ones that are put before its signs."""
    entry = EntryChange("model", text, "new")
    page = Report("0" * 40, (entry,), (), (), (), ()).markdown()
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    cells = [token for token in reader.parse(page) if token.type == "inline"][-3:]
    inside = cells[1].children or []
    assert [each.type for each in inside if each.type not in ("text", "text_special")] == []
    assert "".join(each.content for each in inside).replace("\u200b", "") == text
    assert [cell.content for cell in (cells[0], cells[2])] == ["model", "new"]


def test_whatever_a_pull_request_may_touch_is_told() -> None:
    """A change that the guard lets pass is in the report; results and their bits are told of elsewhere."""
    paths = {
        "registry/models/net.yaml",
        "registry/labels/net.yaml",
        "registry/reported/net.yaml",
        "registry/reported/net.csv",
        "registry/lock.yaml",
        "benchmarks/clean-v2.yaml",
        "benchmarks/external/net.npz",
        "leaderboard/boards/net.yaml",
    }
    elsewhere = ("leaderboard/results/net/clean-v1--squares.json", "CHANGELOG.md")
    matched = [
        rule for rule in RULES if any(re.fullmatch(rule.pattern, path) for path in (*paths, *elsewhere))
    ]
    assert len(matched) == len(RULES)
    found = entry_changes(Change("M", "100644", "100644", "0" * 40, path) for path in sorted(paths))
    assert {change.path for change in found} == paths
