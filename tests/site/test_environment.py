from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from robustboard.errors import UserError, WorkspaceError
from robustboard.site.environment import anchor, environment, url

TEMPLATES = Path(__file__).resolve().parents[2] / "site" / "templates"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "{{ 7 * 7 }}",
    "</td></table><b>",
    "x" * 300,
    "\u202eright to left",
    "a&b<c",
]


@pytest.mark.parametrize("name", ["page.html.j2", "page.html", "page", "page.txt", "page.svg"])
@pytest.mark.parametrize("text", HOSTILE)
def test_every_template_name_is_escaped(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text('<p title="{{ text }}">{{ text }}</p>')
    page = environment(tmp_path).get_template(name).render(text=text)
    inside = page.removeprefix('<p title="').removesuffix("</p>")
    assert not set(inside.replace('">', "", 1)) & set("<>\"'")


def test_an_undefined_name_stops_the_build(tmp_path: Path) -> None:
    """B066: a template prints no blank for a missing field."""
    (tmp_path / "page.html").write_text("{{ model.nmae }}{{ absent }}")
    with pytest.raises(UndefinedError):
        environment(tmp_path).get_template("page.html").render(model={"name": "x"})


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "http://example.org/",
        "data:text/html,<script>alert(1)</script>",
        "//example.org",
        "https://user@example.org",
        'https://example.org/" onmouseover="alert(1)',
        " https://example.org",
        "https://example.org/\nnext",
        "",
    ],
)
def test_only_plain_https_addresses_become_links(text: str) -> None:
    with pytest.raises(UserError, match="expected an https:// address"):
        url(text)


def test_an_https_address_passes_unchanged() -> None:
    assert url("https://arxiv.org/abs/2010.09670") == "https://arxiv.org/abs/2010.09670"


def test_anchors_are_plain() -> None:
    assert [anchor(text) for text in ("Linf 8/255", "<b>", "é")] == ["linf-8-255", "b", "x"]


def test_missing_templates_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError):
        environment(tmp_path / "absent")


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*")), ids=lambda path: path.name)
def test_templates_hold_nothing_that_escapes_the_rules(path: Path) -> None:
    """No way round escaping, no inline script or style, no unquoted attribute, no other host."""
    text = path.read_text(encoding="utf-8")
    outside = re.sub(r"\{%.*?%\}|\{#.*?#\}", "", text, flags=re.DOTALL)
    assert "|safe" not in text.replace(" ", "")
    assert "Markup" not in text
    assert "autoescape" not in text
    own = re.sub(r'<script src="\{\{ root \}\}static/[a-z]+\.js" defer></script>', "", text)
    if path.name == "base.html.j2":  # its one script and its sheet stand in the policy by their hashes
        own = own.replace("<script>{{ early }}</script>", "").replace("<style>{{ sheet }}</style>", "")
    assert "<script" not in own
    assert "<style" not in own
    assert not re.search(r"\sstyle\s*=", outside)
    assert not re.search(r"\son[a-z]+\s*=", outside)
    assert not re.search(r"<[a-z][^>]*\s[a-z-]+=(?![\"'])\{\{", outside)
    assert not re.search(r"(src|href)=\"(https?:)?//", outside)
    for target in re.findall(r"href=\"\{\{ ([^}]*)\}\}\"", outside):
        assert "|url" in target.replace(" ", ""), f"{path.name}: a link without the url filter: {target}"


def test_the_rules_test_would_notice(tmp_path: Path) -> None:
    bad: dict[str, Any] = {"a": "{{ x|safe }}", "b": "<script>", "c": '<a href="{{ x }}">'}
    for name, text in bad.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(AssertionError):
            test_templates_hold_nothing_that_escapes_the_rules(path)
