"""Every YAML file of the repository is a test case of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from robustboard import schemas, workspace, yamls
from robustboard.benchmarks import catalog as benchmarks
from robustboard.errors import ContentError
from robustboard.registry.check import check

ROOT = Path(schemas.__file__).resolve().parents[1]
FOLDERS = {
    "registry/models": "model",
    "registry/datasets": "dataset",
    "registry/labels": "label-space",
    "registry/oracles": "oracle",
    "registry/generators": "generator",
    "registry/testsets": "test-set",
    "benchmarks": "benchmark",
    "leaderboard/boards": "board",
    "leaderboard/fits": "fit",
    "runners": "run-profile",
}
"""Folder → schema of the files in it; class subsets and groups are told apart by their content."""
HINTED = ("registry/", "benchmarks/")
"""Folders whose files tell editors where their schema lies."""
FILES = sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).glob("*.yaml"))


def kind_of(name: str) -> str:
    kind = FOLDERS[name.rsplit("/", 1)[0]]
    text = (ROOT / name).read_text()
    if kind != "label-space":
        return kind
    marks = {"subset_of": "class-subset", "grouping_of": "class-groups"}
    return next((found for mark, found in marks.items() if f"\n{mark}:" in text), kind)


class Editor(yaml.SafeLoader):
    """Reads scalars as YAML 1.2 does, and so as editors do: no dates, no yes and no."""


Editor.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if not tag.endswith((":timestamp", ":bool"))]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Editor.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])


def as_json(value: Any) -> Any:
    """Keys as text, as in JSON."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def test_there_are_files_of_every_kind() -> None:
    assert {kind_of(name) for name in FILES} == set(schemas.KINDS)


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_sound(name: str) -> None:
    kind = schemas.KINDS[kind_of(name)]
    limits = yamls.TABLE if name.startswith("registry/labels") else yamls.ENTRY
    try:
        yamls.read(ROOT / name, kind, name, limits, with_id="id" in kind.model_fields)
    except ContentError as error:
        pytest.fail(str(error))


@pytest.mark.parametrize("name", FILES)
def test_an_editor_finds_no_fault_in_the_file(name: str) -> None:
    found = json.loads((ROOT / "registry/schema" / f"{kind_of(name)}.json").read_text())
    value = yaml.load((ROOT / name).read_text(), Loader=Editor)
    faults = [fault.message for fault in jsonschema.Draft202012Validator(found).iter_errors(as_json(value))]
    assert faults == []


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(HINTED)])
def test_the_file_tells_editors_where_its_schema_lies(name: str) -> None:
    first = (ROOT / name).read_text().splitlines()[0]
    up = "../schema" if name.startswith("registry/") else "../registry/schema"
    assert first == f"# yaml-language-server: $schema={up}/{kind_of(name)}.json"
    assert (ROOT / name).parent.joinpath(up, f"{kind_of(name)}.json").resolve().is_file()


@pytest.mark.parametrize("name", FILES)
def test_the_file_ends_with_one_line_feed_and_has_no_trailing_blanks(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_the_registry_and_the_protocols_have_no_problem() -> None:
    place = workspace.Workspace(ROOT, ROOT)
    assert [str(problem) for problem in (*check(place), *benchmarks.check(place))] == []


def test_every_protocol_here_is_released() -> None:
    """Results are committed for them: from now on a change is a new version."""
    listed = (ROOT / "benchmarks/released.sha256").read_text()
    missing = [path.name for path in (ROOT / "benchmarks").glob("*.yaml") if path.name not in listed]
    assert missing == [], "when the protocol is ready, add its line: sha256sum NAME.yaml >> released.sha256"


def test_the_worked_example_is_a_sound_entry_and_the_one_that_is_registered() -> None:
    text = (ROOT / "registry/README.md").read_text()
    example, groups = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    kind = schemas.KINDS["model"]
    name = "registry/README.md"
    yamls.build(yamls.parse(groups.encode(), name), schemas.KINDS["class-groups"], name, "objectnet")
    shown = yamls.build(yamls.parse(example.encode(), name), kind, name, "resnet50.a1_in1k")
    path = ROOT / "registry/models/resnet50.a1_in1k.yaml"
    registered = yamls.read(path, kind, path.name)
    longer = {"bibtex", "training"}
    assert shown.model_dump(exclude=longer) == registered.model_dump(exclude=longer)
