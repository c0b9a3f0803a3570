"""The report under a pull request, as a reader of Markdown shows it."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from robustboard.leaderboard.changes import EntryChange, Report


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
