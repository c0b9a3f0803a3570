from __future__ import annotations

import pytest

from robustboard.leaderboard.cells import percent_text
from robustboard.runners.record import Score
from robustboard.site import numerals


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.761, 1, "76.1"),
        (1.0, 1, "100.0"),
        (0.0, 1, "0.0"),
        (0.9999, 1, "99.9"),
        (0.0001, 1, "0.1"),
        (0.99999, 2, "99.99"),
        (0.5, 2, "50.00"),
    ],
)
def test_percent_never_claims_perfection_or_nothing(share: float, digits: int, text: str) -> None:
    assert percent_text(share, digits) == text


def made(**more: object) -> Score:
    values: dict[str, object] = {"metric": "clean_accuracy", "condition": "clean", "n": 10}
    values |= {"value": 0.5, "low": 0.25, "high": 0.75}
    return Score.model_validate({**values, **more})


def test_values_and_bounds_follow_the_unit() -> None:
    assert (numerals.value(made()), numerals.bounds(made())) == ("50.0", "25.00 to 75.00")
    ratio = made(unit="ratio", value=1.25, low=1.0, high=1.5)
    assert (numerals.value(ratio), numerals.bounds(ratio)) == ("1.250", "1.00 to 1.50")
    count = made(unit="count", value=1234.0, low=None, high=None)
    assert (numerals.value(count), numerals.bounds(count)) == ("1,234", "none")
    error = made(metric="mce", unit="percent", value=76.07, low=75.5, high=76.5)
    assert (numerals.value(error), numerals.bounds(error)) == ("76.1", "75.50 to 76.50")


@pytest.mark.parametrize(("number", "text"), [(300_000, "0.3"), (10_000_000, "10"), (1_000, "0.001")])
def test_sizes_in_addresses_are_millions(number: int, text: str) -> None:
    assert numerals.millions(number) == text


@pytest.mark.parametrize(
    ("difference", "signed", "text"),
    [
        (0.0563, True, "+5.6\u00a0pp"),
        (0.0563, False, "5.6\u00a0pp"),
        (-0.0074, True, "\u22120.7\u00a0pp"),
        (-0.0074, False, "\u22120.7\u00a0pp"),
        (0.0, True, "0.0\u00a0pp"),
        (-0.0001, True, "0.0\u00a0pp"),
        (0.0001, True, "0.0\u00a0pp"),
    ],
)
def test_differences_are_percentage_points_with_a_true_minus(
    difference: float, *, signed: bool, text: str
) -> None:
    assert numerals.points(difference, signed=signed) == text


def test_a_gain_has_a_plus_and_a_drop_has_none() -> None:
    gain = made(metric="effective_robustness", unit="difference", value=0.05, low=-0.01, high=0.1)
    assert (numerals.value(gain), numerals.bounds(gain, 1)) == ("+5.0\u00a0pp", "\u22121.0 to 10.0")
    drop = made(metric="accuracy_drop", unit="difference", direction="lower", value=0.05, low=0.0, high=0.1)
    assert numerals.value(drop, 2) == "5.00\u00a0pp"


def test_undefined_is_a_word() -> None:
    """B066: not nan, None, 0 or blank."""
    score = made(value=None, low=None, high=None, status="undefined", reason="no image")
    assert numerals.value(score) == "undefined"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1234, "1.23 k"), (12_345, "12.3 k"), (123_456, "123 k"), (7_654_321, "7.65 M")],
)
def test_short_keeps_three_digits(number: int, text: str) -> None:
    assert numerals.short(number) == text.replace(" ", numerals.NBSP)


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (59.94, "59.9 s"), (200.2, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert numerals.duration(seconds) == text.replace(" ", numerals.NBSP, 1).replace(
        " s", f"{numerals.NBSP}s"
    ).replace(" min", f"{numerals.NBSP}min")


def test_lists_read_as_sentences() -> None:
    assert numerals.listed([]) == ""
    assert numerals.listed(["A"]) == "A"
    assert numerals.listed(["A", "B"]) == "A and B"
    assert numerals.listed(["A", "B", "C"]) == "A, B and C"
    assert numerals.listed(list("ABCDEFGH"), most=4) == "A, B, C and 5 others"


def test_ranks_and_plurals() -> None:
    assert [numerals.ranks(found) for found in (None, (1, 1), (2, 5))] == ["", "1", "2\u20135"]
    assert [numerals.plural(n, "model") for n in (0, 1, 2000)] == ["0 models", "1 model", "2,000 models"]
