"""Canonical JSON, its strict reader, and files that carry their own hash."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from robustboard import jsons
from robustboard.errors import StoreError


class Small(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    count: int
    share: float | None
    words: tuple[str, ...] = ()


SMALL = Small(count=3, share=0.1, words=("a", "é"))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(json_values)
def test_canonical_bytes_round_trip_and_are_ascii(value: Any) -> None:
    data = jsons.canonical(value)
    assert jsons.strict(data, "x") == value
    assert jsons.canonical(jsons.strict(data, "x")) == data
    assert data.isascii()
    assert data.endswith(b"\n")


def test_canonical_form_is_sorted_indented_and_shortest() -> None:
    assert jsons.canonical({"b": 0.1, "a": [1, None]}) == (
        b'{\n  "a": [\n    1,\n    null\n  ],\n  "b": 0.1\n}\n'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_numbers_that_json_lacks_are_never_written(value: Any) -> None:
    """B066: a bare NaN makes browsers reject the whole file."""
    with pytest.raises(ValueError, match="JSON compliant"):
        jsons.canonical(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b'{"a": NaN}', "expected a JSON number, got 'NaN'"),
        (b'{"a": -Infinity}', "expected a JSON number, got '-Infinity'"),
        (b'{"a": 1e999}', "expected a finite number, got '1e999'"),
        (b'{"a": 1, "a": 2}', "key 'a' stands twice"),
        (b'{"a": 1', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 5_000, "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_strict_reader_names_the_file_and_the_fault(text: bytes, complaint: str) -> None:
    with pytest.raises(StoreError, match=r"^some/file\.json: ") as caught:
        jsons.strict(text, "some/file.json")
    assert complaint in str(caught.value)


def test_digest_is_sha256_of_domain_and_compact_json() -> None:
    expected = hashlib.sha256(b'robustboard.x/1\0{"a":[1,"b"]}').hexdigest()
    assert jsons.digest("robustboard.x/1", {"a": [1, "b"]}) == expected
    assert jsons.digest("robustboard.y/1", {"a": [1, "b"]}) != expected


def test_a_sealed_model_comes_back() -> None:
    data = jsons.seal(SMALL)
    assert jsons.unseal(data, Small, "x") == SMALL
    value = json.loads(data)
    assert value.pop("sha256") == jsons.digest("robustboard.seal/1", value)


def test_every_edit_of_one_byte_of_a_sealed_file_is_refused() -> None:
    data = jsons.seal(SMALL)
    silent = []
    for place in range(len(data)):
        for byte in {0x20, 0x30, 0x31, data[place] ^ 1, data[place] ^ 0x20} - {data[place]}:
            changed = data[:place] + bytes([byte]) + data[place + 1 :]
            try:
                jsons.unseal(changed, Small, "x")
            except StoreError:
                continue
            silent.append((place, byte))
    assert silent == []


def _resealed(**changes: Any) -> bytes:
    value = {"count": 3, "share": 0.1, "words": [], **changes}
    return jsons.canonical({**value, "sha256": jsons.digest("robustboard.seal/1", value)})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"count": "3"}, "count"),
        ({"count": True}, "count"),
        ({"count": 3.0}, "count"),
        ({"share": "0.1"}, "share"),
        ({"words": [1]}, "words.0"),
        ({"more": 1}, "more"),
    ],
)
def test_wrong_types_are_refused_by_field_even_with_a_right_hash(changes: dict[str, Any], field: str) -> None:
    """D1: text for a number, true for 1, unknown keys."""
    with pytest.raises(StoreError, match=rf"^x: {field}: "):
        jsons.unseal(_resealed(**changes), Small, "x")


def test_a_file_without_seal_or_with_other_spacing_is_refused() -> None:
    with pytest.raises(StoreError, match="x: sha256: expected the hash"):
        jsons.unseal(b'{"count": 3}', Small, "x")
    with pytest.raises(StoreError, match="x: sha256: expected the hash"):
        jsons.unseal(b"[]", Small, "x")
    with pytest.raises(StoreError, match="canonical"):
        jsons.unseal(jsons.seal(SMALL).replace(b"  ", b" "), Small, "x")
