"""Canonical JSON: one value, one sequence of bytes; and readers that refuse everything else."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from robustboard.errors import StoreError, echo

SEAL = "sha256"
M = TypeVar("M", bound=BaseModel)


def canonical(value: object) -> bytes:
    """UTF-8 JSON with sorted keys, two-space indent, shortest round-trip floats and a final newline.

    Raises ValueError for NaN and infinities: undefined is null, with a reason beside it.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def digest(domain: str, value: object) -> str:
    """SHA-256 (64 hex digits) of the compact canonical JSON of `value`, prefixed by a domain name.

    The domain keeps equal values of different meaning apart, so that a key of one kind can
    never be taken for a key of another.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(domain.encode("ascii") + b"\0" + text.encode("ascii")).hexdigest()


def strict(data: bytes, name: str) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse JSON; NaN, Infinity, overflowing numbers and duplicate keys are errors.

    Raises StoreError that names the file.
    """

    def refuse_constant(text: str) -> NoReturn:
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
        return json.loads(data, parse_constant=refuse_constant, parse_float=finite, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{name}: not JSON: {error}") from error


def model(value: object, kind: type[M], name: str) -> M:
    """A parsed JSON value as a model; StoreError with file, field and what is wrong."""
    try:
        return kind.model_validate_json(json.dumps(value, allow_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise StoreError(f"{name}: {field}: {first['msg']}, got {echo(first['input'])}") from error


def seal(entry: BaseModel) -> bytes:
    """Canonical JSON of a model, with the SHA-256 of its content under the key `sha256`."""
    value = entry.model_dump(mode="json")
    return canonical({**value, SEAL: digest("robustboard.seal/1", value)})


def unseal(data: bytes, kind: type[M], name: str) -> M:
    """The model that `seal` wrote, byte for byte.

    Raises StoreError, naming file and field, when a single byte differs from what was sealed.
    """
    value = strict(data, name)
    if not isinstance(value, dict) or not isinstance(value.get(SEAL), str):
        raise StoreError(f"{name}: {SEAL}: expected the hash of the content, got none")
    found = value.pop(SEAL)
    if found != digest("robustboard.seal/1", value):
        raise StoreError(f"{name}: {SEAL}: the content has another hash: the file is damaged or was edited")
    entry = model(value, kind, name)
    if seal(entry) != data:
        if canonical({**value, SEAL: found}) != data:
            raise StoreError(f"{name}: expected canonical JSON (sorted keys, two spaces), got other bytes")
        raise StoreError(f"{name}: a value is written in another form than this program writes it")
    return entry
