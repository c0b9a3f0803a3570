"""JSON Schemas of content files, for completion and hints in editors.

They are kinder than the reader: an editor sees YAML's own types, so a text that looks like a number
or a flag passes there as the number or flag it looks like.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel

from robustboard import durable, jsons
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.generators import GeneratorEntry
from robustboard.registry.labels import ClassGroups, ClassSubset, LabelSpace
from robustboard.registry.oracles import OracleEntry
from robustboard.registry.testsets import TestSetEntry
from robustboard.workspace import Workspace

ENTRIES: Mapping[str, type[BaseModel]] = {
    "model": ModelEntry,
    "dataset": DatasetEntry,
    "label-space": LabelSpace,
    "class-subset": ClassSubset,
    "class-groups": ClassGroups,
    "oracle": OracleEntry,
    "generator": GeneratorEntry,
    "test-set": TestSetEntry,
}
"""Name of the schema → type, for the files under registry/."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas(kinds: Mapping[str, type[BaseModel]]) -> dict[str, bytes]:
    """File name → content of a schema, for each kind of entry."""
    return {f"{name}.json": jsons.canonical(schema(name, model)) for name, model in sorted(kinds.items())}


def schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
    """The schema of one kind of file: no `id`, because the file's name is the id."""
    found = model.model_json_schema(mode="validation")
    found["properties"].pop("id", None)
    found["required"] = [key for key in found["required"] if key != "id"]
    _describe(found, model)
    owners = {owner.__name__: owner for owner in _models(model)}
    for part, inner in found.get("$defs", {}).items():
        _describe(inner, owners[part])
    found.update({"$schema": DIALECT, "title": f"robustboard {name}"})
    _relax(found)
    return found


def export(workspace: Workspace, kinds: Mapping[str, type[BaseModel]]) -> list[str]:
    """Write registry/schema/*.json where they differ; the names of those written."""
    written = []
    for name, data in schemas(kinds).items():
        path = workspace.registry / "schema" / name
        if not path.is_file() or path.read_bytes() != data:
            durable.write(path, data)
            written.append(name)
    return written


def _describe(found: dict[str, Any], model: type[BaseModel]) -> None:
    """Put the strings that stand below fields in the source into the schema."""
    for field, text in _field_docs(model).items():
        if field in found.get("properties", {}):
            found["properties"][field]["description"] = text


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner.__module__ in sys.modules:
            found.update(_module_docs(owner.__module__).get(owner.__name__, {}))
    return found


@cache
def _module_docs(module: str) -> Mapping[str, Mapping[str, str]]:
    """Class → field → the string below the field, for the classes of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(_pairs(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, " ".join(text.value.value.split())


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """A model and all models that its fields can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models(field.annotation)
    for part in get_args(annotation):
        yield from _models(part)


def _without_null(value: dict[str, Any]) -> None:
    """An optional field is left out, never written as null."""
    if "anyOf" in value:
        rest = [option for option in value["anyOf"] if option != {"type": "null"}]
        if len(rest) == 1:
            del value["anyOf"]
            value.update({**rest[0], **value})
    if value.get("default", "") in (None, {}, []):
        del value["default"]


def _relax(value: object) -> None:
    """Let every free text also be what YAML makes of it; drop titles that only repeat the key."""
    if isinstance(value, list):
        for item in value:
            _relax(item)
    if not isinstance(value, dict):
        return
    _without_null(value)
    if value.get("type") == "string" and not {"const", "enum", "format"} & set(value):
        value["type"] = ["string", "number", "boolean"]
    for key, item in value.items():
        if key in ("properties", "$defs") and isinstance(item, dict):
            for inner in item.values():
                if isinstance(inner, dict):
                    inner.pop("title", None)
                _relax(inner)
        elif key not in ("enum", "const", "required", "default"):
            _relax(item)
