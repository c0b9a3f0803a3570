"""Gates 1 and 9: small pages, few files, and no name of another host in what a page loads."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

STATIC = Path(__file__).resolve().parents[3] / "site" / "static"


def test_scripts_stay_below_fifteen_kilobytes() -> None:
    """Own JavaScript, unpacked, of the page of a board."""
    assert len((STATIC / "board.js").read_bytes()) < 15_000


def test_no_script_is_a_module_or_fetches() -> None:
    """What works from disk: classic scripts that ask for nothing but a script beside them."""
    for path in STATIC.glob("*.js"):
        code = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(fetch|XMLHttpRequest|import|eval|Function|localStorage)\b\s*\(", code), path
        assert not re.search(r"^\s*(import|export)\s", code, flags=re.MULTILINE), path
        assert "innerHTML" not in code, path
        assert ".style" not in code, path


def test_nothing_that_a_page_loads_names_another_host(real: Path) -> None:
    for path in real.rglob("*.html"):
        text = re.sub(r'src="data:[^"]*"', "", path.read_text(encoding="utf-8"))
        loaded = re.findall(r"<(?:script|link|img|iframe|source|image|use)[^>]*>", text)
        assert not [tag for tag in loaded if re.search(r"(?:https?:)?//", tag)], path


def test_pages_of_this_site_stay_small(real: Path) -> None:
    """HTML, style and script together, packed: 100 kilobytes for any page."""
    shared = sum(len(gzip.compress(path.read_bytes())) for path in STATIC.glob("*.[cj]s*"))
    large = {
        path.relative_to(real).as_posix(): size
        for path in real.rglob("*.html")
        if (size := len(gzip.compress(path.read_bytes())) + shared) > 100_000
    }
    assert large == {}
