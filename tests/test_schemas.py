from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from robustboard import schemas, workspace
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.labels import ClassSubset, LabelSpace
from robustboard.registry.schema import export, schema
from robustboard.registry.schema import schemas as render

ROOT = Path(schemas.__file__).resolve().parents[1]


def test_committed_schemas_are_those_of_the_types() -> None:
    """When this fails, run `make schemas` and commit what it writes."""
    folder = ROOT / "registry" / "schema"
    wanted = render(schemas.KINDS)
    assert {path.name for path in folder.iterdir()} == set(wanted)
    stale = [name for name, data in wanted.items() if (folder / name).read_bytes() != data]
    assert stale == [], "run: make schemas"


@pytest.mark.parametrize("name", sorted(schemas.KINDS))
def test_schemas_are_valid_schemas(name: str) -> None:
    found = schema(name, schemas.KINDS[name])
    jsonschema.Draft202012Validator.check_schema(found)
    assert "id" not in found["properties"]


def test_export_writes_only_what_differs(tmp_path: Path) -> None:
    place = workspace.Workspace(tmp_path, tmp_path)
    assert export(place, {"model": ModelEntry, "dataset": DatasetEntry}) == ["dataset.json", "model.json"]
    assert export(place, {"model": ModelEntry, "dataset": DatasetEntry}) == []
    (tmp_path / "registry/schema/model.json").write_text("{}")
    assert export(place, {"model": ModelEntry, "dataset": DatasetEntry}) == ["model.json"]


def test_fields_are_described_by_the_text_below_them() -> None:
    found = schema("model", ModelEntry)
    assert found["properties"]["loader"]["description"].startswith("timm, open_clip, or plugin:NAME")
    inner = found["$defs"]["InputSpec"]["properties"]["crop"]
    assert inner["description"] == (
        "Share of the shorter side kept by the centre crop; 7/8 means resize 256, crop 224."
    )
    attack = schema("benchmark", BenchmarkEntry)["$defs"]["AttackSetting"]["properties"]
    assert "Exact fractions" in attack["budgets"]["description"], "fields of a base class are described too"


# What an editor's YAML reader (YAML 1.2) makes of lines that robustboard reads as text.
SOUND: dict[str, Any] = {
    "name": 2024,
    "source": {"kind": "hub", "repo": "timm/x", "revision": "0" * 40},
    "loader": "timm",
    "architecture": {"name": "x", "arguments": {"a": 1, "b": True, "c": [1, 2], "d": 0.5, "e": "word"}},
    "label_space": "digits",
    "input": {"size": 28, "crop": 0.875, "normalization": "outside", "mean": [0, 0.5, 1], "std": [1, 1, 1]},
    "training": {"datasets": ["MNIST", 42], "overlap": {"mnist": "no"}},
    "license": "MIT",
    "added": "2026-01-31",
}


def test_an_editor_accepts_what_the_reader_accepts() -> None:
    jsonschema.validate(SOUND, schema("model", ModelEntry))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lisence": "MIT"}, "'lisence' was unexpected"),
        ({"input": {"size": "big", "normalization": "inside"}}, "'big' is not of type 'integer'"),
        ({"input": {"size": 0, "normalization": "inside"}}, "0 is less than the minimum of 1"),
        ({"label_space": "Digits"}, "'Digits' does not match"),
        ({"paper": "http://x.org"}, "does not match"),
        ({"paper": None}, "None is not of type"),
        ({"id": "net"}, "'id' was unexpected"),
        ({"training": {"datasets": []}}, "[] should be non-empty"),
    ],
)
def test_an_editor_marks_what_the_reader_refuses(change: dict[str, Any], said: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as caught:
        jsonschema.validate({**SOUND, **change}, schema("model", ModelEntry))
    assert said in caught.value.message


@pytest.mark.parametrize("kind", [ModelEntry, DatasetEntry, LabelSpace, ClassSubset, BenchmarkEntry])
def test_no_schema_allows_null_or_loses_a_field(kind: Any) -> None:
    found = schema("x", kind)
    assert set(found["properties"]) == set(kind.model_fields) - {"id"}
    assert '"null"' not in json.dumps(found)
