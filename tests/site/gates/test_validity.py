"""Gate 3: valid HTML on every page, and no link inside the site that leads nowhere."""

from __future__ import annotations

import json
import posixpath
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import html5lib
import pytest
from html5lib.html5parser import ParseError

from tests.site.gates.conftest import REPOSITORY, kinds

# From disk no file counts as 'self' for the validator, so it calls our own style sheet blocked; the browser
# knows better (test_access.py). Its CSS checker has not heard of the property paint-order of SVG 2.
KNOWN_WRONG = ".*(Content Security Policy|paint-order).*"
VNU = REPOSITORY / ".venv" / "vnu" / "node_modules" / "vnu-jar" / "build" / "dist" / "vnu.jar"


def faults(paths: list[Path]) -> list[str]:
    """What the validator of the W3C's editors says, a line each."""
    java = shutil.which("java")
    if java is None or not VNU.exists():
        pytest.skip("no Java or no vnu.jar: tests/system-packages.sh installs it with npm")
    command = [
        java,
        "-Xss4m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-jar",
        str(VNU),
        "--format",
        "json",
        "--stdout",
    ]
    command += ["--filterpattern", KNOWN_WRONG]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    return [
        f"{Path(each['url']).name}:{each.get('lastLine', 0)}: {each['message']}"
        for each in json.loads(done.stdout)["messages"]
        if each["type"] == "error" or each.get("subType") == "warning"
    ]


def test_every_page_parses_without_an_error(real: Path, made_up: Path) -> None:
    """By the rules of the HTML standard, strictly."""
    for path in [*kinds(real), made_up / "board" / "squares.html", made_up / "m" / "net-00.html"]:
        try:
            html5lib.HTMLParser(strict=True).parse(path.read_text(encoding="utf-8"))
        except ParseError as error:
            raise AssertionError(f"{path}: {error}") from error


def test_the_validator_finds_faults_in_a_bad_page_and_in_no_kind_of_ours(
    real: Path, board: Path, tmp_path: Path
) -> None:
    """One start of Java for the control and for a page of every kind."""
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><html lang=en><title>t</title><p><div></p><a href='a b'>x</a>")
    found = faults([bad, *kinds(real), board])
    assert [line for line in found if line.startswith("bad.html:")]
    assert [line for line in found if not line.startswith("bad.html:")] == []


@pytest.mark.long
def test_the_validator_has_nothing_to_say_of_any_page(real: Path) -> None:
    assert faults(sorted(real.rglob("*.html"))) == []


class Links(HTMLParser):
    """Ids of a page, and what it points at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {found["id"] or ""} if "id" in found else set()
        self.targets += [found[key] or "" for key in ("href", "src", "data-exact") if key in found]


def test_every_link_inside_the_site_leads_somewhere(real: Path) -> None:
    """Files and places in them, of every page; never a folder, never an absolute path."""
    pages = {
        path.relative_to(real).as_posix(): Links(path.read_text(encoding="utf-8"))
        for path in real.rglob("*.html")
    }
    bad = []
    for name, page in pages.items():
        for link in page.targets:
            if link.startswith(("https://", "data:", "mailto:")):
                continue
            target, _, fragment = link.partition("#")
            found = posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) if target else name
            lost = fragment and "=" not in fragment and found in pages and fragment not in pages[found].ids
            if lost or not (real / found).is_file():
                bad.append(f"{name}: {link}")
    assert bad == []
