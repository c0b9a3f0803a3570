from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from robustboard import fields


def read(kind: Any, value: object) -> Any:
    """The value that a field of that type makes of a text."""
    return TypeAdapter(kind).validate_python(value)


def refused(kind: Any, value: object) -> bool:
    """Whether the field refuses, in words of its own."""
    with pytest.raises(ValidationError) as caught:
        read(kind, value)
    kinds = {item["type"] for item in caught.value.errors()}
    return kinds <= {"expected", "literal_error"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.03", Fraction(3, 100)),
        ("3e-2", Fraction(3, 100)),
        ("3.0e-2", Fraction(3, 100)),
        ("8/255", Fraction(8, 255)),
        ("0.031", Fraction(31, 1000)),
        ("1e-3", Fraction(1, 1000)),
        ("1/510", Fraction(1, 510)),
        ("16/510", Fraction(8, 255)),
        ("0", Fraction(0)),
        ("12", Fraction(12)),
    ],
)
def test_fractions_are_exact(text: str, value: Fraction) -> None:
    """B001: 0.03, 3e-2 and 3.0e-2 are one number; 0.031 and 8/255 are two."""
    assert read(fields.Exact, text) == value


@settings(max_examples=200)
@given(st.integers(0, 10**12 - 1), st.integers(1, 10**12 - 1))
def test_a_fraction_is_read_back_from_what_is_written(top: int, bottom: int) -> None:
    value = read(fields.Exact, f"{top}/{bottom}")
    assert value == Fraction(top, bottom)
    assert read(fields.Exact, TypeAdapter(fields.Exact).dump_python(value)) == value


@settings(max_examples=200)
@given(st.decimals(min_value=0, max_value=1000, allow_nan=False, places=6))
def test_a_decimal_means_what_it_says(value: Any) -> None:
    assert read(fields.Exact, str(value)) == Fraction(str(value))


@pytest.mark.parametrize("value", ["0", "-1", "-0.5", "0/7"])
def test_a_budget_is_above_zero(value: str) -> None:
    assert refused(fields.Positive, value)


@pytest.mark.parametrize(
    ("value", "right"), [("1", True), ("1/255", True), ("256/255", False), ("8", False), ("0", False)]
)
def test_a_share_is_at_most_the_whole(value: str, right: bool) -> None:  # noqa: FBT001 - a table's column
    """B001: 8 never passes for eight pixel levels of 255."""
    assert read(fields.Share, value) <= 1 if right else refused(fields.Share, value)


@pytest.mark.parametrize("text", ["0", "7", "-3", "999999999999999999"])
def test_whole_numbers_in_plain_digits(text: str) -> None:
    assert read(fields.Integer, text) == int(text)


@pytest.mark.parametrize(
    "value",
    ["01", "+1", "1.0", "1e3", "0x1", "1_0", " 1", "1 ", "\u0661", "9" * 19, "", True, 1.0, None, [1]],
)
def test_other_spellings_of_whole_numbers_are_refused(value: object) -> None:
    assert refused(fields.Integer, value)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(fields.Count, 1, 10**9), (fields.Index, 0, 10**9), (fields.Seed, 0, 2**32 - 1)]
)
def test_ranges_of_whole_numbers(kind: Any, low: int, high: int) -> None:
    assert [read(kind, str(low)), read(kind, high)] == [low, high]
    assert refused(kind, str(low - 1))
    assert refused(kind, high + 1)


def test_channels_are_whole_numbers() -> None:
    assert read(fields.Channels, "3") == 3
    assert isinstance(read(fields.Channels, "1"), int)
    assert refused(fields.Channels, "2")


def test_flags_are_two_words() -> None:
    assert read(fields.Flag, "true") is True
    assert read(fields.Flag, "false") is False
    for value in ("True", "yes", "1", 1, 0, "", None):
        assert refused(fields.Flag, value)


@pytest.mark.parametrize("text", ["2026-01-31", "2024-02-29", "1998-07-01"])
def test_dates_are_iso_days(text: str) -> None:
    assert read(fields.Day, text) == date.fromisoformat(text)


@pytest.mark.parametrize("text", ["0.5", "0", "-1.25", "1e-3", "0.485"])
def test_numbers_are_decimal(text: str) -> None:
    assert read(fields.Number, text) == float(text)


@pytest.mark.parametrize("value", ["nan", "inf", "1/2", "0x1", ".5", "1,5", True, None, "1e1000"])
def test_other_numbers_are_refused(value: object) -> None:
    assert refused(fields.Number, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e-6", 1e-6),
        ("true", True),
        ("false", False),
        ("deep_tiered", "deep_tiered"),
        (("1", "2"), (1, 2)),
        ((), ()),
    ],
)
def test_arguments_are_what_they_look_like(text: object, value: object) -> None:
    found = read(fields.Argument, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", ["no", "None", "NULL", "a b", "", ("a",), (("1",),), {"a": 1}, None, "off"])
def test_arguments_that_could_mean_two_things_are_refused(value: object) -> None:
    assert refused(fields.Argument, value)


@pytest.mark.parametrize(
    "text", ["digits", "resnet50.a1_in1k", "vit-b-16", "a1", "0x", "x" * 64, "console", "com", "lpt10"]
)
def test_ids(text: str) -> None:
    assert fields.is_entry_id(text)
    assert read(fields.EntryId, text) == text


@pytest.mark.parametrize(
    "name", ["con", "prn", "aux", "nul", "com1", "lpt9", "con.x", "nul.tar.gz", "com0", "aux.b.c"]
)
def test_names_that_windows_keeps_for_itself_are_no_ids(name: str) -> None:
    assert not fields.is_entry_id(name)


@pytest.mark.parametrize(
    "text", ["timm/resnet18.a1_in1k", "ILSVRC/imagenet-1k", "uoft-cs/cifar10", "a/b", "x_y/_z"]
)
def test_repositories(text: str) -> None:
    assert read(fields.RepoId, text) == text


@pytest.mark.parametrize(
    "text", ["a", "a/b.gz", "fashion-mnist/t10k-images-idx3-ubyte.gz", "pkg_1/m+x/w.pth"]
)
def test_relative_paths(text: str) -> None:
    assert read(fields.RelativePath, text) == text


@pytest.mark.parametrize(
    "text",
    [
        "https://arxiv.org/abs/1412.6572",
        "https://example.org",
        "https://a-b.co.uk/x?y=1&z=%20#top",
        "https://x.org/~a/(b)",
    ],
)
def test_addresses(text: str) -> None:
    assert read(fields.HttpsUrl, text) == text


@pytest.mark.parametrize("text", ["pgd-v1", "a.b-v10", "x-v9999"])
def test_versioned_ids(text: str) -> None:
    assert read(fields.VersionedId, text) == text


@pytest.mark.parametrize("text", ["pgd", "pgd-v0", "pgd-v01", "pgd-v1a", "pgdv1", "pgd-v", "pgd-v12345"])
def test_a_protocol_without_a_version_is_refused(text: str) -> None:
    assert refused(fields.VersionedId, text)


@pytest.mark.parametrize("text", ["timm", "open_clip", "plugin:mine", "plugin:a-b_c"])
def test_loaders(text: str) -> None:
    assert read(fields.LoaderName, text) == text


@pytest.mark.parametrize(
    "kind", [fields.Name, fields.Line, fields.Prose, fields.Word, fields.EntryId, fields.RepoId]
)
@settings(max_examples=40)
@given(value=st.none() | st.booleans() | st.integers() | st.floats() | st.lists(st.text()) | st.binary())
def test_texts_are_texts(kind: Any, value: object) -> None:
    assert refused(kind, value)
