"""Canonical JSON: one value, one sequence of bytes; and a reader that refuses what JSON forbids."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from robustboard.errors import StoreError, echo


def canonical(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, two-space indent, shortest round-trip floats and a final newline.

    Raises ValueError for NaN and infinities: undefined is null, with a reason beside it.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def digest(domain: str, value: Any) -> str:
    """SHA-256 (64 hex digits) of the compact canonical JSON of `value`, prefixed by a domain name.

    The domain keeps equal values of different meaning apart, so that a key of one kind can
    never be taken for a key of another.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(domain.encode("ascii") + b"\0" + text.encode("ascii")).hexdigest()


def strict(data: bytes, name: str) -> Any:
    """Parse JSON; NaN, Infinity, overflowing numbers and duplicate keys are errors.

    Raises StoreError that names the file.
    """

    def refuse_constant(text: str) -> Any:
        raise StoreError(f"{name}: expected a JSON number, got {echo(text)}")

    def finite(text: str) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise StoreError(f"{name}: expected a finite number, got {echo(text)}")
        return value

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise StoreError(f"{name}: key {echo(key)} stands twice in one object")
            found[key] = value
        return found

    try:
        return json.loads(
            data, parse_constant=refuse_constant, parse_float=finite, object_pairs_hook=unique
        )
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{name}: not JSON: {error}") from error
