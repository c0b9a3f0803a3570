"""pydantic's validation errors → problems with line, dotted field and `expected ..., got ...`."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from robustboard.errors import Problem, echo, suggestion
from robustboard.nodes import Mapping as MappingNode
from robustboard.nodes import Node, Scalar, Sequence, field_name

Location = tuple[int | str, ...]

MISSING = "expected a value, got none: the field is required"
NOTHING = "expected a value, got nothing: write one or leave the line out"
_EMPTY = frozenset({"", "~", "null", "Null", "NULL"})
BLANK = "TODO"
"""Begins a value that somebody has still to fill in."""

# pydantic's names of wrong shapes → what was expected. Fields of robustboard.fields speak for themselves.
_SHAPES: Mapping[str, str] = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "date_type": "a date such as 2026-01-31",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than_equal": ("ge", "a number of at least"),
    "greater_than": ("gt", "a number above"),
    "less_than_equal": ("le", "a number of at most"),
    "less_than": ("lt", "a number below"),
    "too_short": ("min_length", "a list or mapping whose length is at least"),
    "too_long": ("max_length", "a list or mapping whose length is at most"),
    "string_too_short": ("min_length", "text whose length is at least"),
    "string_too_long": ("max_length", "text whose length is at most"),
}


def locate(root: MappingNode, location: Location) -> tuple[int, str]:
    """Line and dotted name of keys and list places; as far as the document has them."""
    node: Node = root
    line = root.line
    for part in location:
        stepped = _step(node, part)
        if stepped is None:
            break
        line, node = stepped
    return line, field_name([str(part) for part in location])


def _step(node: Node, part: int | str) -> tuple[int, Node] | None:
    if isinstance(node, MappingNode) and isinstance(part, str) and part in node.items:
        return node.items[part]
    if isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
        return node.items[part].line, node.items[part]
    return None


def empty_values(node: Node, name: str, path: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Keys and list places that were left blank or are marked so; depth is bounded by the reader's limits."""
    if isinstance(node, Scalar):
        if not node.quoted and node.text in _EMPTY:
            yield Problem(name, node.line, field_name(path), NOTHING)
        if node.text == BLANK or node.text.startswith((f"{BLANK} ", f"{BLANK}:")):
            message = f"expected a value, got the blank {echo(node.text)}: fill it in"
            yield Problem(name, node.line, field_name(path), message)
        return
    items: list[tuple[str, Node]]
    if isinstance(node, Sequence):
        items = [(str(number), item) for number, item in enumerate(node.items)]
    else:
        items = [(key, value) for key, (_, value) in node.items.items()]
    for key, item in items:
        yield from empty_values(item, name, (*path, key))


def complaints(
    error: ValidationError, node: MappingNode, model: type[BaseModel], name: str, count: int
) -> list[Problem]:
    """One problem a fault, in line order.

    Only the first `count` have a message: finding what a stranger may have meant takes time.
    """
    items = [item for item in error.errors(include_url=False) if _counts(item)]
    placed = [
        (*locate(node, place.path), number, place) for number, place in enumerate(_places(items, model))
    ]
    placed.sort(key=lambda found: found[:3])
    return [
        Problem(name, line, field, _message(items[number], place) if rank < count else str(number))
        for rank, (line, field, number, place) in enumerate(placed)
    ]


def _counts(item: ErrorDetails) -> bool:
    """Whether an error is one of its own: a list is also called short when its items are at fault."""
    return item["type"] != "too_short" or len(item["input"]) < item["ctx"]["min_length"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an error lies, in the document's own keys, and what type was wanted around it."""

    path: Location
    around: object


def _places(items: list[ErrorDetails], model: type[BaseModel]) -> Iterator[_Place]:
    """Where each error lies; a validator may have named a field inside the value that it refused."""
    routes: dict[Location, tuple[tuple[bool, ...], object]] = {}
    for item in items:
        # Items of one list lie alike: a hundred errors in it take one walk through the types.
        shape = tuple(0 if isinstance(part, int) else part for part in item["loc"])
        if shape not in routes:
            routes[shape] = _walk(model, shape)
        kept, around = routes[shape]
        context: Mapping[str, Any] = item.get("ctx", {})
        field = context.get("field", "") if item["type"] == "expected" else ""
        if item["type"].startswith("union_tag"):
            field = str(context["discriminator"]).strip("'")
        inner = [int(part) if part.isdecimal() else part for part in field.split(".") if part]
        yield _Place((*compress(item["loc"], kept), *inner), around)


def _walk(model: type[BaseModel], location: Location) -> tuple[tuple[bool, ...], object]:
    """Which parts of pydantic's location are keys or list places, and the model around the last one.

    The others are tags of unions and `[key]`. Only the types can tell a tag from a key of the same name.
    """
    kept: list[bool] = []
    current: object = model
    around: object = model
    for part in location:
        current = _bare(current)
        members = _members(current)
        tags = _tags(members) if len(members) > 1 else {}
        kept.append(part != "[key]" and part not in tags)
        if part in tags:
            current = around = tags[str(part)]
        elif kept[-1]:
            around = members[0] if len(members) == 1 else around
            current = _inside(current, part)
    return tuple(kept), around


def _bare(annotation: object) -> object:
    """A type without Annotated and without None."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return _bare(rest[0])
    return annotation


def _members(annotation: object) -> list[type[BaseModel]]:
    """Models that a value of this type may be: one, or those of a tagged union."""
    bare = _bare(annotation)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return [bare]
    if get_origin(bare) in (Union, types.UnionType):
        return [model for part in get_args(bare) for model in _members(part)]
    return []


def _tags(members: list[type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """Tag → member, for every literal field of one value."""
    return {
        str(get_args(field.annotation)[0]): member
        for member in members
        for field in member.model_fields.values()
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
    }


def _inside(annotation: object, part: int | str) -> object:
    """The type of a field, a list's item or a mapping's value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part)) or annotation.model_fields.get("root")
        if field is None:
            return None
        inner = field.annotation
        return _inside(_bare(inner), part) if "root" in annotation.model_fields else inner
    arguments = get_args(annotation)
    if get_origin(annotation) in (tuple, list) and arguments:
        return arguments[0]
    if get_origin(annotation) is dict:
        return arguments[1]
    return None


def _message(item: ErrorDetails, place: _Place) -> str:
    kind, value = item["type"], item["input"]
    context: Mapping[str, Any] = item.get("ctx", {})
    if kind == "expected":
        got = context.get("got", value)
        near = suggestion(got, context["near"]) if isinstance(got, str) and "near" in context else ""
        return f"expected {context['expected']}, got {_shown(got)}{near}"
    if kind == "extra_forbidden":
        key = str(place.path[-1])
        fields = getattr(place.around, "model_fields", {})
        return f"expected a known key, got {echo(key)}{suggestion(key, set(fields) - {'id'})}"
    if kind in ("missing", "union_tag_not_found"):
        return MISSING
    if kind in ("literal_error", "union_tag_invalid"):
        listed = str(context.get("expected") or context.get("expected_tags"))
        got = context.get("tag", value)
        options = [part.strip(" '") for part in listed.replace(" or ", ",").split(",")]
        expected = " or ".join([", ".join(options[:-1]), options[-1]] if len(options) > 1 else options)
        return f"expected {expected}, got {_shown(got)}{suggestion(str(got), options)}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        got = context["actual_length"] if "actual_length" in context else _shown(value)
        return f"expected {words} {context[key]}, got {got}"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    return f"expected {_SHAPES.get(kind, 'another value')}, got {_shown(value)}"


def _shown(value: object) -> str:
    """A value for a message: its text, or its shape."""
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else echo(value)
