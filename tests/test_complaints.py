"""Errors of pydantic are told with the line and the dotted field of the document, in our words."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

import pytest
from pydantic import Field, model_validator

from robustboard import yamls
from robustboard.errors import ContentError
from robustboard.fields import Count, EntryId, Exact, Flag, Line, Number, refuse
from robustboard.yamls import Frozen


class Square(Frozen):
    kind: Literal["square"]
    side: Count


class Circle(Frozen):
    kind: Literal["circle"]
    radius: Exact
    square: Line = "none"
    """A field with the name of another member's tag."""


class Group(Frozen):
    """Its tag is the name of a key of it, as with `attack: pgd` in a protocol of kind attack."""

    kind: Literal["group"]
    group: Line
    parts: tuple[Annotated[Square | Circle, Field(discriminator="kind")], ...] = Field(min_length=1)


Shape = Annotated[Square | Circle | Group, Field(discriminator="kind")]


class Plain(Frozen):
    """Fields of Python's own types, for the words of pydantic that they bring forth."""

    number: int = 0
    real: float = 0.0
    text: str = ""
    flag: bool = False
    few: tuple[str, ...] = Field(default=(), max_length=1)
    short: Annotated[str, Field(min_length=2, max_length=3)] = "ab"
    low: Annotated[int, Field(ge=1, lt=3)] = 1


class Drawing(Frozen):
    shape: Shape
    more: tuple[Shape, ...] = ()
    named: dict[EntryId, Shape] = Field(default={})
    note: Line | None = None
    plain: Plain | None = None
    scale: Exact = Fraction(1)
    colours: tuple[Number, ...] = ()
    shown: Flag = True

    @model_validator(mode="after")
    def _check(self) -> Drawing:
        if self.scale == 13:
            raise refuse("a lucky number", field="scale", got=self.scale)
        return self


def said(text: str) -> list[str]:
    with pytest.raises(ContentError) as caught:
        yamls.build(yamls.parse(text.encode(), "x.yaml"), Drawing, "x.yaml")
    return [line.removeprefix("x.yaml:") for line in str(caught.value).splitlines()]


SHAPE = "shape: {kind: square, side: 3}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("shape:\n  kind: square\n  side: x\n", "3: shape.side: expected a whole number from 1"),
        (
            "shape:\n  kind: squar\n  side: 1\n",
            "2: shape.kind: expected square, circle or group, got 'squar' (did you",
        ),
        ("shape:\n  side: 1\n", "1: shape.kind: expected a value, got none: the field is required"),
        ("shape:\n  kind: circle\n", "1: shape.radius: expected a value, got none: the field is required"),
        ("shape:\n  kind: circle\n  radius: 1\n  square: []\n", "4: shape.square: expected one line of text"),
        (
            "shape:\n  kind: square\n  sied: 1\n  side: 1\n",
            "3: shape.sied: expected a known key, got 'sied' (did you mean side?)",
        ),
        (
            "shape:\n  kind: square\n  radius: 1\n  side: 1\n",
            "3: shape.radius: expected a known key, got 'radius'",
        ),
        (
            f"{SHAPE}more:\n  - kind: circle\n    radius: 1\n  - kind: circle\n    radius: 1/0\n",
            "6: more.1.radius: expected a fraction whose",
        ),
        (f"{SHAPE}more:\n  - square\n", "3: more.0: expected a mapping, got 'square'"),
        (f"{SHAPE}more: square\n", "2: more: expected a list, got 'square'"),
        (
            f"{SHAPE}named:\n  a1:\n    kind: square\n    side: 0\n",
            "5: named.a1.side: expected a whole number",
        ),
        (
            f"{SHAPE}named:\n  A1: {{kind: square, side: 1}}\n",
            "3: named.A1: expected an id of 2 to 64 characters",
        ),
        (
            "shape:\n  kind: group\n  group: x\n  parts: []\n",
            "4: shape.parts: expected a list or mapping whose length is at least 1, got 0",
        ),
        (
            "shape:\n  kind: group\n  group: x\n  parts:\n  - kind: circle\n    radius: x\n",
            "6: shape.parts.0.radius: expected a fraction",
        ),
        (
            "shape:\n  kind: group\n  group: x\n  parts:\n  - kind: circle\n    radius: 1\n    radios: 1\n",
            "7: shape.parts.0.radios: expected a known key, got 'radios' (did you mean radius?)",
        ),
        (f"{SHAPE}note:\n", "2: note: expected a value, got nothing"),
        (f"{SHAPE}note: ~\n", "2: note: expected a value, got nothing"),
        (f"{SHAPE}note: null\n", "2: note: expected a value, got nothing"),
        (f"{SHAPE}note: [x]\n", "2: note: expected one line of text, 1 to 300 characters, got a list"),
        (
            f"{SHAPE}note: {{x: y}}\n",
            "2: note: expected one line of text, 1 to 300 characters, got a mapping",
        ),
        (f"{SHAPE}scale: 13\n", "2: scale: expected a lucky number, got '13'"),
        (f"{SHAPE}colours: [1, x]\n", "2: colours.1: expected a decimal number, got 'x'"),
        (f"{SHAPE}colours:\n  - 1\n  - x\n", "4: colours.1: expected a decimal number, got 'x'"),
        (f"{SHAPE}shown: True\n", "2: shown: expected true or false, got 'True' (did you mean true?)"),
        (f"{SHAPE}plain: {{number: x}}\n", "2: plain.number: expected a whole number, got 'x'"),
        (f"{SHAPE}plain: {{real: x}}\n", "2: plain.real: expected a number, got 'x'"),
        (f"{SHAPE}plain: {{text: [x]}}\n", "2: plain.text: expected text, got a list"),
        (f"{SHAPE}plain: {{flag: yes}}\n", "2: plain.flag: expected true or false, got 'yes'"),
        (
            f"{SHAPE}plain: {{few: [a, b]}}\n",
            "2: plain.few: expected a list or mapping whose length is at most 1, got 2",
        ),
        (
            f"{SHAPE}plain: {{short: a}}\n",
            "2: plain.short: expected text whose length is at least 2, got 'a'",
        ),
        (
            f"{SHAPE}plain: {{short: abcd}}\n",
            "2: plain.short: expected text whose length is at most 3, got 'abcd'",
        ),
        (f"{SHAPE}plain: x\n", "2: plain: expected a mapping, got 'x'"),
    ],
)
def test_line_field_and_words(text: str, line: str) -> None:
    found = said(text)
    assert len(found) == 1
    assert found[0].startswith(line), found[0]


def test_all_faults_come_in_the_order_of_lines() -> None:
    text = "shown: maybe\nshape:\n  kind: square\n  side: no\nmore:\n  - x\nscale: y\n"
    assert [line.split(":")[0] for line in said(text)] == ["1", "4", "6", "7"]


def test_a_file_with_many_faults_shows_the_first_twenty_lines_and_the_count() -> None:
    text = SHAPE + "colours:\n" + "  - x\n" * 50
    found = said(text)
    assert len(found) == 20
    assert found[0].startswith("3: colours.0:")
    assert found[-1] == "22: expected a file with fewer faults, got 50: the rest is not shown"


def test_values_are_echoed_in_printable_ascii_and_bounded() -> None:
    (line,) = said(f'{SHAPE}scale: "::error::\\u4e2d {"x" * 900}"\n')
    value = line.split(", got ")[1]
    assert value.startswith(r"'::error::\u4e2d xxx")
    assert value.endswith("...'")
    assert len(value) == 62


def test_a_validator_that_raises_value_error_is_told_in_its_own_words() -> None:
    class Picky(Frozen):
        note: Line

        @model_validator(mode="after")
        def _check(self) -> Picky:
            raise ValueError("expected another note, got this one")

    with pytest.raises(ContentError) as caught:
        yamls.build(yamls.parse(b"note: x\n", "x.yaml"), Picky, "x.yaml")
    assert str(caught.value) == "x.yaml:1: expected another note, got this one"
