"""Reads a built page as a browser would, and checks what must hold of every one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

from robustboard.site.policy import digest

REPOSITORY = Path(__file__).resolve().parents[2]
VOID = {"meta", "link", "br", "img", "hr", "input"}
EMPTY_SVG = {"path", "rect", "circle", "line", "use"}
BINARY = {"data/leaderboard.parquet", "data/checksums.txt"}
"""Files that the build writes beside the pages."""
EARLY = 'document.documentElement.className = "has-js"'
SHEET = (REPOSITORY / "site" / "static" / "site.css").read_text(encoding="utf-8")


class Page(HTMLParser):
    """What a strict reader without scripts sees: balanced elements, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripted: list[bool] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.rows: list[list[str]] = []
        self.places: list[tuple[str, tuple[str, ...]]] = []
        self.inline: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>: {names}"
        self.tags.append((tag, dict(attrs)))
        hidden = any(self.scripted) or "js" in (dict(attrs).get("class") or "").split()
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and not hidden:
            self.rows[-1].append("")
        if tag == "svg" and "td" in self.open:
            self.rows[-1][-1] += "(drawing)"
        if tag not in VOID:
            self.open.append(tag)
            self.scripted.append(hidden)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in EMPTY_SVG, f"<{tag}/> is no empty element"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> where </{self.open[-1]}> was expected"
        self.open.pop()
        self.scripted.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.inline.append((self.open[-1], data))
            return
        if any(self.scripted):
            return
        self.text.append(data)
        self.places.append((data, tuple(self.open)))
        if self.rows and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] = f"{self.rows[-1][-1]}{data}"

    def values(self, name: str) -> list[str]:
        return [found for _, attributes in self.tags if (found := attributes.get(name))]

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.text))


def cells(page: Page) -> list[list[str]]:
    return [[re.sub(r"\s+", " ", cell).strip() for cell in row] for row in page.rows]


def check_all(pages: Mapping[str, str]) -> None:
    """Every page is sound, and every link inside the site leads somewhere."""
    static = {f"static/{p.name}" for p in (REPOSITORY / "site" / "static").iterdir()} | BINARY
    for path, text in pages.items():
        if not path.endswith(".html"):
            continue
        page = Page(text)
        ids = page.values("id")
        assert len(ids) == len(set(ids)), f"{path}: an id twice"
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(page.values(name)) <= set(ids), f"{path}: {name} leads nowhere"
        for tag, attributes in page.tags:
            assert tag not in ("iframe", "object", "embed", "base"), f"{path}: <{tag}>"
            assert tag != "form" or "action" not in attributes, f"{path}: a form that sends"
            assert tag != "script" or "src" not in attributes or "defer" in attributes
            assert "style" not in attributes, f"{path}: style attribute in <{tag}>"
            assert not any(name.startswith("on") for name in attributes), f"{path}: handler in <{tag}>"
            assert not (attributes.get("src") or "").startswith(("http", "//")), f"{path}: another host"
        policies = [
            a["content"]
            for t, a in page.tags
            if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
        ]
        assert len(policies) == 1
        assert (policies[0] or "").startswith("default-src 'none'; script-src 'self' 'sha256-")
        for kind, inline in page.inline:
            assert digest(inline) in (policies[0] or ""), f"{path}: a {kind} that the policy does not name"
            assert inline in (EARLY, SHEET)
        assert [t for t, _ in page.tags].count("h1") == 1
        assert [t for t, _ in page.tags].count("main") == 1
        targets = [*page.values("href"), *page.values("src"), *page.values("data-exact")]
        for target in [*targets, *page.values("data-compare")]:
            if target.startswith(("https://", "data:image/png;base64,")):
                continue
            assert not re.match(r"[a-z]+:|/", target), f"{path}: {target}"
            place, _, fragment = target.partition("#")
            found = posixpath.normpath(posixpath.join(posixpath.dirname(path), place)) if place else path
            assert found in pages or found in static, f"{path}: {target} leads nowhere"
            assert not place or not place.endswith("/"), f"{path}: {target} is a folder"
            if fragment and "=" not in fragment and found.endswith(".html"):
                assert f'id="{fragment}"' in pages[found], f"{path}: {target} has no such place"
