from __future__ import annotations

import typer
from typer.testing import CliRunner

from robustboard import examples

LONG = "tool sub paint --with " + "-".join(["colour"] * 14)


def painted() -> typer.Typer:
    """A program with a group, as ours are."""
    app, group = typer.Typer(rich_markup_mode=None), typer.Typer(rich_markup_mode=None)

    def paint() -> None:
        """Paint it."""

    paint.__doc__ = (
        f"Paint it.\n\n    In one\n    go.\n\n    Examples:\n      {LONG}\n\n      tool sub paint\n    "
    )
    group.command()(paint)
    group.command("none")(lambda: None)
    app.add_typer(group, name="sub")
    return app


def test_each_example_is_one_line_that_can_be_copied() -> None:
    """However long; other paragraphs are still filled."""
    app = painted()
    examples.keep_lines(app)
    examples.keep_lines(app)
    lines = CliRunner().invoke(app, ["sub", "paint", "--help"], terminal_width=80).output.splitlines()
    start = lines.index("  Examples:")
    assert lines[start + 1 : start + 4] == [f"    {LONG}", "    tool sub paint", ""]
    assert "  In one go." in lines


def test_a_single_example_stands_below_its_heading_and_help_without_one_stays() -> None:
    assert examples.laid_out("Paint.\n\nExample: tool paint") == "Paint.\n\n\b\nExample:\n  tool paint"
    assert examples.laid_out("Paint.\n\nFor example: red.") == "Paint.\n\nFor example: red."
