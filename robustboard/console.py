"""What commands print: tables and lines on stdout, messages on stderr, JSON where a program reads."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Sequence

NARROWEST = 8
"""Characters a column of a drawn table, gap and all; in less, cells would be cut away to nothing."""


def spell_out() -> None:
    """Let a stream of a narrow encoding (LC_ALL=C) show escapes for signs it lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """One message for people, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this module is where printing is allowed


def out(text: str) -> None:
    """One line of the command's answer, on stdout."""
    print(text, flush=True)  # noqa: T201 - this module is where printing is allowed


def out_json(value: object) -> None:
    """The command's answer as canonical JSON on stdout."""
    from robustboard import jsons  # noqa: PLC0415 - imports pydantic, which --help does without

    out(jsons.canonical(value).decode("ascii").rstrip("\n"))


def out_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table on stdout, as wide as the terminal; plain columns for a file, a pipe or a very narrow one."""
    if not sys.stdout.isatty() or shutil.get_terminal_size().columns < NARROWEST * len(headings):
        out("\t".join(headings))
        for row in rows:
            out("\t".join(row))
        return
    from rich import box  # noqa: PLC0415 - costs 40 ms, only people at a terminal pay it
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        # Text, not markup: names come from strangers.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
