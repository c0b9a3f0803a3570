"""Examples in --help: each on a line of its own, to be copied as it stands."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

AS_IT_STANDS = "\b"
"""Before a paragraph of help that is not to be filled anew; the sign is Click's."""

BEGINNING = re.compile(r"^Examples?:\s*", re.MULTILINE)


def keep_lines(app: typer.Typer) -> None:
    """Let the help of all commands, also of groups, show examples unbroken however narrow the terminal."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.help = laid_out(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            keep_lines(group.typer_instance)


def laid_out(text: str) -> str:
    """Help whose last part is `Example:` or `Examples:`, with one indented line an example."""
    found = BEGINNING.search(text)
    if found is None or AS_IT_STANDS in text:
        return text
    lines = [line.strip() for line in text[found.end() :].splitlines() if line.strip()]
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(
        [text[: found.start()].rstrip(), "", AS_IT_STANDS, heading, *(f"  {one}" for one in lines)]
    )
