"""The one Jinja environment: everything escaped, everything defined, links to https only."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import TypeAdapter, ValidationError

from robustboard.errors import UserError, WorkspaceError, echo
from robustboard.fields import HttpsUrl
from robustboard.leaderboard.cells import margin_text, percent_text
from robustboard.leaderboard.compare import p_text
from robustboard.site import numerals
from robustboard.site.policy import policy
from robustboard.site.sections import seeds_of, shown_number

_URL: TypeAdapter[str] = TypeAdapter(HttpsUrl)
_ANCHOR = re.compile(r"[^a-z0-9]+")


def url(text: str) -> str:
    """An address that may stand in a link. Raises UserError unless it is a plain https:// address.

    Entries are checked when they are read; this holds whatever a template is given.
    """
    try:
        return _URL.validate_python(text)
    except ValidationError as error:
        raise UserError(f"expected an https:// address for a link, got {echo(text)}") from error


def anchor(text: str) -> str:
    """Letters and digits of a text, for ids inside a page."""
    return _ANCHOR.sub("-", text.casefold()).strip("-") or "x"


def environment(templates: Path) -> Environment:
    """Templates of a folder. Raises WorkspaceError when there is none."""
    if not templates.is_dir():
        raise WorkspaceError(f"{templates}: expected the folder of templates, found none")
    made = Environment(
        # The sheet stands in the pages of boards, so that they paint without waiting for a second file.
        loader=FileSystemLoader([templates, templates.parent / "static"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    made.globals.update({"policy": policy, "seeds_of": seeds_of})
    made.filters.update(
        {
            "url": url,
            "anchor": anchor,
            "percent": percent_text,
            "points": numerals.points,
            "p_value": p_text,
            "frozen": shown_number,
            "value": numerals.value,
            "bounds": numerals.bounds,
            "plus_minus": margin_text,
            "whole": numerals.whole,
            "short": numerals.short,
            "millions": numerals.millions,
            "duration": numerals.duration,
            "ranks": numerals.ranks,
            "plural": numerals.plural,
            "listed": numerals.listed,
        }
    )
    return made
