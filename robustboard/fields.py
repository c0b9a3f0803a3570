"""Types of the fields of content files: text in, checked value out.

Each accepts the text that stands in a YAML file, or a value that already has the right Python
type. A refusal says what was expected; the reader adds file, line, field and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, GetJsonSchemaHandler, PlainSerializer, PlainValidator
from pydantic_core import CoreSchema, PydanticCustomError

MAX_NUMBER = 40
MAX_LINE = 300
MAX_NAME = 80
MAX_PROSE = 4096
MAX_PARTS = 8
MAX_REPO = 96
MAX_SEED = 2**32 - 1
MAX_COUNT = 10**9
MAX_PIXELS = 4096

_FRACTION = re.compile(r"[0-9]{1,12}/[0-9]{1,12}")
_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")

ID_RULE = "an id of 2 to 64 characters a-z 0-9 . _ - without --, no reserved file name"
_FRACTION_RULE = "a fraction such as 8/255 or a decimal number such as 0.03"


def refuse(
    expected: str, *, field: str | None = None, got: object = None, near: Sequence[str] = ()
) -> PydanticCustomError:
    """An error that the reader prints as `expected ..., got ... (did you mean ...?)`.

    `field` names a field inside the refused value where that is where the fault lies; `got` replaces
    the value shown; `near` lists words that may have been meant.
    """
    context: dict[str, Any] = {"expected": expected}
    if field is not None:
        context["field"] = field
    if got is not None:
        context["got"] = str(got)
    if near:
        context["near"] = list(near)
    return PydanticCustomError("expected", "expected {expected}", context)


@dataclass(frozen=True, eq=False, slots=True)
class _Told:
    """What an editor is told about a field: a fresh copy each time, for pydantic 2.10 writes into it."""

    shape: Mapping[str, Any]

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self.shape)


def _shape(kind: str, rule: str, **more: object) -> _Told:
    return _Told({"type": kind, "description": rule, **more})


def _whole(low: int, high: int, expected: str) -> Callable[[object], int]:
    """Text of plain digits, or an int, in a range."""

    def check(value: object) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise refuse(expected)
        return value

    return check


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise refuse("true or false", near=("true", "false"))
    return value == "true"


def _number(value: object) -> object:
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise refuse("a decimal number")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("a decimal number")
    return value


def _fraction(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, str) or len(value) > MAX_NUMBER:
        raise refuse(_FRACTION_RULE)
    if _FRACTION.fullmatch(value):
        top, bottom = map(int, value.split("/"))
        if bottom == 0:
            raise refuse("a fraction whose denominator is not 0")
        return Fraction(top, bottom)
    if _DECIMAL.fullmatch(value):
        return Fraction(Decimal(value))
    raise refuse(_FRACTION_RULE)


def _above_zero(value: object) -> Fraction:
    found = _fraction(value)
    if found <= 0:
        raise refuse("a number above 0")
    return found


def _not_negative(value: object) -> Fraction:
    found = _fraction(value)
    if found < 0:
        raise refuse("a number of at least 0")
    return found


def _share(value: object) -> Fraction:
    found = _above_zero(value)
    if found > 1:
        raise refuse("a share above 0 and at most 1")
    return found


def _pattern(expression: str, expected: str, longest: int = MAX_LINE) -> tuple[BeforeValidator, _Told]:
    """A text that matches a whole expression, and what an editor is told about it."""
    compiled = re.compile(expression)

    def check(value: object) -> str:
        if not isinstance(value, str) or len(value) > longest or not compiled.fullmatch(value):
            raise refuse(expected)
        return value

    return BeforeValidator(check), _shape("string", expected, pattern=f"^({expression})$")


def is_entry_id(text: str) -> bool:
    """Whether a text can be the id of an entry, and so the stem of a file on every system."""
    return bool(
        re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,63}", text)
        and "--" not in text
        and not text.endswith(".")
        and not _RESERVED.fullmatch(text)
    )


def _entry_id(value: object) -> str:
    if not isinstance(value, str) or not is_entry_id(value):
        raise refuse(ID_RULE)
    return value


def _versioned(value: object) -> str:
    found = _entry_id(value)
    if not re.fullmatch(r".*-v[1-9][0-9]{0,3}", found):
        raise refuse("a file name that ends in a version, such as pgd-v1.yaml", got=found)
    return found


def _line(value: object) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= MAX_LINE
        or value != value.strip()
        or "\n" in value
        or "\t" in value
    ):
        raise refuse(f"one line of text, 1 to {MAX_LINE} characters")
    return value


def _name(value: object) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= MAX_NAME
        or not value[0].isalnum()
        or value != value.strip()
        or "\n" in value
        or "\t" in value
    ):
        raise refuse(f"a name of 1 to {MAX_NAME} characters on one line that starts with a letter or digit")
    return value


def _prose(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_PROSE:
        raise refuse(f"text of 1 to {MAX_PROSE} characters")
    return value


def _relative(value: object) -> str:
    parts = value.split("/") if isinstance(value, str) else []
    if (
        not isinstance(value, str)
        or not 1 <= len(parts) <= MAX_PARTS
        or len(value) > MAX_LINE
        or any(not _PART.fullmatch(part) or _RESERVED.fullmatch(part) for part in parts)
        or any(part.endswith(".") for part in parts)
    ):
        raise refuse(
            "a relative path of letters, digits and . _ + - / whose parts start with a letter or digit"
        )
    return value


def _repository(value: object) -> str:
    pattern = r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?/[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?"
    if (
        not isinstance(value, str)
        or len(value) > MAX_REPO
        or not re.fullmatch(pattern, value)
        or "--" in value
        or ".." in value
        or value.endswith(".git")
    ):
        raise refuse("a Hub repository such as timm/resnet18.a1_in1k, without scheme or revision")
    return value


def _date(value: object) -> date:
    if isinstance(value, date):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise refuse("a date such as 2026-01-31")


LOADERS = ("timm", "open_clip")


def _loader(value: object) -> str:
    if isinstance(value, str) and (
        value in LOADERS or re.fullmatch(r"plugin:[a-z0-9][a-z0-9_-]{0,63}", value)
    ):
        return value
    raise refuse("timm, open_clip or plugin:NAME", near=LOADERS)


_AMBIGUOUS = frozenset({"yes", "no", "on", "off", "null", "none", "nan", "inf"})
_ARGUMENT_RULE = "a number, a list of whole numbers, true or false, or one word"


def _argument(value: object) -> object:
    """Keyword arguments of constructors: the text says which of the kinds is meant."""
    if isinstance(value, list | tuple):
        return tuple(_whole(-MAX_COUNT, MAX_COUNT, _ARGUMENT_RULE)(item) for item in value)
    if not isinstance(value, str):
        if isinstance(value, bool | int | float):
            return value
        raise refuse(_ARGUMENT_RULE)
    if value in ("true", "false"):
        return value == "true"
    if _INTEGER.fullmatch(value):
        return int(value)
    if _DECIMAL.fullmatch(value):
        return float(value)
    if not _WORD.fullmatch(value) or value.casefold() in _AMBIGUOUS:
        raise refuse(_ARGUMENT_RULE)
    return value


_COUNT_RULE = f"a whole number from 1 to {MAX_COUNT}"
_INDEX_RULE = f"a whole number from 0 to {MAX_COUNT}"
_SEED_RULE = f"a whole number from 0 to {MAX_SEED}"
_PIXELS_RULE = f"a whole number from 1 to {MAX_PIXELS}"
_WHOLE_RULE = "a whole number in plain digits"
_HOST = r"(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}"


def _exact(check: Callable[[object], Fraction]) -> tuple[PlainValidator, PlainSerializer, _Told]:
    """An exact number: read by a rule, written as text such as 8/255."""
    told = _Told({"type": ["string", "number"], "description": _FRACTION_RULE})
    return PlainValidator(check), PlainSerializer(str, return_type=str), told


Integer = Annotated[int, BeforeValidator(_whole(-(10**18), 10**18, _WHOLE_RULE))]
Count = Annotated[
    int, BeforeValidator(_whole(1, MAX_COUNT, _COUNT_RULE)), _shape("integer", _COUNT_RULE, minimum=1)
]
Index = Annotated[
    int, BeforeValidator(_whole(0, MAX_COUNT, _INDEX_RULE)), _shape("integer", _INDEX_RULE, minimum=0)
]
Pixels = Annotated[
    int, BeforeValidator(_whole(1, MAX_PIXELS, _PIXELS_RULE)), _shape("integer", _PIXELS_RULE, minimum=1)
]
"""Height and width of an image."""
Seed = Annotated[
    int, BeforeValidator(_whole(0, MAX_SEED, _SEED_RULE)), _shape("integer", _SEED_RULE, minimum=0)
]
Channels = Annotated[Literal[1, 3], BeforeValidator(_whole(0, MAX_COUNT, "1 or 3"))]
Number = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Day = Annotated[date, BeforeValidator(_date)]
Exact = Annotated[Fraction, *_exact(_fraction)]
Positive = Annotated[Fraction, *_exact(_above_zero)]
NotNegative = Annotated[Fraction, *_exact(_not_negative)]
Share = Annotated[Fraction, *_exact(_share)]
EntryId = Annotated[
    str, BeforeValidator(_entry_id), _shape("string", ID_RULE, pattern="^[a-z0-9][a-z0-9._-]{1,63}$")
]
VersionedId = Annotated[str, BeforeValidator(_versioned)]
Name = Annotated[str, BeforeValidator(_name)]
Line = Annotated[str, BeforeValidator(_line)]
Prose = Annotated[str, BeforeValidator(_prose)]
RelativePath = Annotated[str, BeforeValidator(_relative), _shape("string", "a relative path")]
RepoId = Annotated[
    str, BeforeValidator(_repository), _shape("string", "a Hub repository: ORG/NAME", pattern="^[^/]+/[^/]+$")
]
LoaderName = Annotated[str, BeforeValidator(_loader), _shape("string", "timm, open_clip or plugin:NAME")]
Argument = Annotated[bool | int | float | str | tuple[int, ...], BeforeValidator(_argument)]
Commit = Annotated[str, *_pattern(r"[0-9a-f]{40}", "a commit hash of 40 hex digits")]
Revision = Annotated[
    str,
    *_pattern(r"[0-9a-f]{40}|unresolved", "a commit hash of 40 hex digits, or the word unresolved"),
]
Sha256 = Annotated[str, *_pattern(r"[0-9a-f]{64}", "a SHA-256 of 64 hex digits")]
Word = Annotated[str, *_pattern(_WORD.pattern, "one word of letters, digits and . _ + -")]
_PLACE = r"(?:0|[1-9][0-9]{0,5})"
Version = Annotated[
    str, *_pattern(rf"{_PLACE}\.{_PLACE}\.{_PLACE}", "a version of three whole numbers such as 1.0.0")
]
HttpsUrl = Annotated[
    str, *_pattern(rf"https://{_HOST}(?:/[A-Za-z0-9._~:/?#@!$&()*+,;=%-]*)?", "an https:// address")
]
