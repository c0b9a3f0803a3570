"""Types of the fields of content files: text in, checked value out.

Each accepts the text that stands in a YAML file, or a value that already has the right Python
type. A refusal says what was expected; the reader adds file, line, field and what was found.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_NUMBER = 40
_FRACTION = re.compile(r"[0-9]{1,12}/[0-9]{1,12}")
_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def refuse(expected: str) -> PydanticCustomError:
    """An error that the reader prints as `expected ..., got ...`."""
    return PydanticCustomError("expected", "expected {expected}", {"expected": expected})


def _integer(value: Any) -> Any:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise refuse("a whole number in plain digits")
        return int(value)
    return value


def _flag(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise refuse("true or false")
        return value == "true"
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise refuse("a decimal number")
        return float(value)
    return value


def _fraction(value: Any) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if not isinstance(value, str) or len(value) > MAX_NUMBER:
        raise refuse("a fraction such as 8/255 or a decimal number such as 0.03")
    if _FRACTION.fullmatch(value):
        top, bottom = value.split("/")
        if int(bottom) == 0:
            raise refuse("a fraction whose denominator is not 0")
        return Fraction(int(top), int(bottom))
    if _DECIMAL.fullmatch(value):
        try:
            return Fraction(Decimal(value))
        except (InvalidOperation, ValueError, OverflowError):
            pass
    raise refuse("a fraction such as 8/255 or a decimal number such as 0.03")


def _pattern(expression: str, expected: str) -> Any:
    compiled = re.compile(expression)

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise refuse(expected)
        return value

    return BeforeValidator(check)


ID_RULE = "an id of 2 to 64 characters a-z 0-9 . _ - without --, no reserved file name"


def is_entry_id(text: str) -> bool:
    """Whether a text can be the id of an entry, and so the stem of a file on every system."""
    return bool(
        re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,63}", text)
        and "--" not in text
        and not text.endswith(".")
        and not _RESERVED.fullmatch(text)
    )


def _entry_id(value: Any) -> Any:
    if not isinstance(value, str) or not is_entry_id(value):
        raise refuse(ID_RULE)
    return value


def _line(value: Any) -> Any:
    if not isinstance(value, str) or not value.strip() or "\n" in value or len(value) > 300:
        raise refuse("one line of text, at most 300 characters")
    return value


def _name(value: Any) -> Any:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= 80
        or not value[0].isalnum()
        or value != value.strip()
        or "\n" in value
    ):
        raise refuse("a name of 1 to 80 characters that starts with a letter or digit")
    return value


def _relative(value: Any) -> Any:
    parts = value.split("/") if isinstance(value, str) else [""]
    if (
        len(parts) > 8
        or not re.fullmatch(r"[A-Za-z0-9._/+-]{1,200}", value if isinstance(value, str) else "")
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise refuse("a relative path without `..`, of letters, digits and . _ + - /")
    return value


def _date(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value) if re.fullmatch(r"\d{4}-\d\d-\d\d", value) else value
        except ValueError:
            raise refuse("a date such as 2026-01-31") from None
    return value


Integer = Annotated[int, BeforeValidator(_integer)]
Count = Annotated[int, BeforeValidator(_integer), Field(ge=1, le=10**9)]
Index = Annotated[int, BeforeValidator(_integer), Field(ge=0, le=10**9)]
Seed = Annotated[int, BeforeValidator(_integer), Field(ge=0, le=2**32 - 1)]
Channels = Annotated[Literal[1, 3], BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Day = Annotated[date, BeforeValidator(_date)]
Exact = Annotated[
    Fraction,
    PlainValidator(_fraction),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "description": "a fraction (8/255) or a decimal"}),
]
EntryId = Annotated[str, BeforeValidator(_entry_id)]
Name = Annotated[str, BeforeValidator(_name)]
Line = Annotated[str, BeforeValidator(_line)]
Prose = Annotated[str, Field(min_length=1, max_length=4096)]
RelativePath = Annotated[str, BeforeValidator(_relative)]
Commit = Annotated[str, _pattern(r"[0-9a-f]{40}", "a commit hash of 40 hex digits")]
Revision = Annotated[
    str,
    _pattern(r"[0-9a-f]{40}|unresolved", "a commit hash of 40 hex digits, or the word unresolved"),
]
Sha256 = Annotated[str, _pattern(r"[0-9a-f]{64}", "a SHA-256 of 64 hex digits")]
RepoId = Annotated[
    str,
    _pattern(
        r"(?!.*(--|\.\.))[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}(?<!\.git)",
        "a Hub repository such as timm/resnet18.a1_in1k, without scheme or revision",
    ),
]
Word = Annotated[
    str, _pattern(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", "one word of letters, digits and . _ + -")
]
HttpsUrl = Annotated[
    str, _pattern(r"https://[A-Za-z0-9.-]+(/[A-Za-z0-9._~:/?#@!$&()*+,;=%-]*)?", "an https:// address")
]
