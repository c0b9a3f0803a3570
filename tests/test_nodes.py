from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.errors import ContentError
from robustboard.nodes import Limits, Mapping, Scalar, Sequence, field_name, parse, plain, stranger


def said(document: str | bytes, limits: Limits = Limits()) -> str:  # noqa: B008 - frozen
    data = document if isinstance(document, bytes) else document.encode()
    with pytest.raises(ContentError) as caught:
        parse(data, "x.yaml", limits)
    return str(caught.value)


def test_nodes_know_their_lines() -> None:
    root = parse(b"a: 1\nb:\n  - x\n  - y: z\n\nc: {d: e,\n  f: g}\n", "x.yaml")
    assert root.items["a"] == (1, Scalar("1", 1, quoted=False))
    line, items = root.items["b"]
    assert line == 2
    assert isinstance(items, Sequence)
    assert [item.line for item in items.items] == [3, 4]
    line, inner = root.items["c"]
    assert isinstance(inner, Mapping)
    assert {key: place for key, (place, _) in inner.items.items()} == {"d": 6, "f": 7}


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "yes",
        "on",
        "1e-3",
        "010",
        "0x1F",
        "1:20:30",
        "1_000",
        ".inf",
        "2026-01-31",
        "null",
        "=",
        "1.0",
        "8/255",
    ],
)
def test_every_scalar_stays_the_text_that_was_written(text: str) -> None:
    assert plain(parse(f"a: {text}\n".encode(), "x.yaml")) == {"a": text}


@settings(max_examples=100, deadline=None)
@given(st.from_regex(r"[0-9a-f]{40}", fullmatch=True))
def test_a_hash_is_never_a_number(text: str) -> None:
    assert plain(parse(f"revision: {text}\n".encode(), "x.yaml")) == {"revision": text}


def test_quotes_are_told_apart_from_plain_text() -> None:
    root = parse(b"a: ''\nb:\nc: |\n  x\nd: \"~\"\n", "x.yaml")
    quoted = {key: node.quoted for key, (_, node) in root.items.items() if isinstance(node, Scalar)}
    assert quoted == {"a": True, "b": False, "c": True, "d": True}


def test_a_document_may_be_as_large_as_the_limits_and_no_larger() -> None:
    limits = Limits(bytes=40, scalar=10, nodes=7, depth=3)
    for sound in ("a: {b: {c: x}}\n", "a: 1234567890\n", "a: [1, 2, 3, 4]\n", "a: x\n" + "#" * 35):
        assert plain(parse(sound.encode(), "x.yaml", limits))
    assert "a.b.c: expected at most 3 levels" in said("a: {b: {c: {d: x}}}\n", limits)
    assert "a: expected at most 10 characters in one value, got 11" in said("a: 12345678901\n", limits)
    assert "expected at most 7 values in one file, got more" in said("a: [1, 2, 3, 4, 5]\n", limits)
    assert "expected at most 40 bytes, got more" in said("a: x\n" + "#" * 36, limits)


@pytest.mark.parametrize(
    "text", ["a", "\u00e9", "\u4e2d\u6587", "\U0001f600", "a b", "a\tb", "a\n  b", "\u2192", "\u03c3"]
)
def test_printable_text_of_any_language_is_welcome(text: str) -> None:
    assert stranger(text) is None
    assert plain(parse(f'a: "x"\nb: |\n  {text}\n'.encode(), "x.yaml"))


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x1b", "\x7f", "\u00a0", "\u200b", "\u202e", "\u2066", "\u2028", "\ufeff", "\ue000", "\ud800"],
)
def test_what_does_not_show_is_found(character: str) -> None:
    assert stranger(f"a{character}b") == character


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_of_both_kinds_are_read(newline: str) -> None:
    root = parse(f"a: x{newline}b: y{newline}".encode(), "x.yaml")
    assert plain(root) == {"a": "x", "b": "y"}
    assert root.items["b"][0] == 2


def test_a_byte_that_is_no_utf8_is_named_with_its_line() -> None:
    assert said(b"a: x\nb: \xff\n") == "x.yaml:2: expected UTF-8, got byte 0xff"


def test_field_names_are_printable_and_bounded() -> None:
    assert field_name(["a", "0", "b-c.d"]) == "a.0.b-c.d"
    assert field_name(["a b"]) == "'a b'"
    assert field_name(["\u202e: x"]) == r"'\u202e: x'"
    assert len(field_name(["k" * 80] * 8)) == 120
