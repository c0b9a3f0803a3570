"""The card and the Croissant file say what the specification and the Hub ask for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustboard.runners.testsets.build import build
from robustboard.runners.testsets.card import card
from robustboard.runners.testsets.croissant import CONTEXT, croissant
from robustboard.runners.testsets.manifest import CROISSANT, Manifest
from tests.runners.testsets.sets import KEYS, material


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sets")
    build(material(per_class=2, shard_rows=15), place / "set", place / "work")
    return place / "set"


@pytest.fixture
def about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / CROISSANT).read_bytes())
    return found


def test_croissant_has_all_that_the_specification_requires(about: dict[str, Any]) -> None:
    """Croissant 1.0: dataset, distribution, record sets and fields each with their required properties."""
    assert about["@type"] == "sc:Dataset"
    assert about["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    required = {"@context", "name", "description", "license", "url", "creator", "datePublished", "version"}
    assert required <= set(about)
    for shard in about["distribution"][:-1]:
        assert shard["@type"] == "cr:FileObject"
        assert {"@id", "name", "contentUrl", "contentSize", "encodingFormat", "sha256"} <= set(shard)
    files = about["distribution"][-1]
    assert (files["@type"], files["includes"]) == ("cr:FileSet", "data/test-*.parquet")
    names = {record["@id"]: record for record in about["recordSet"]}
    assert [each["classes/key"] for each in names["classes"]["data"]] == list(KEYS)
    for field in names["images"]["field"]:
        assert {"@type", "@id", "name", "description", "dataType", "source"} <= set(field)
        assert field["source"]["extract"]["column"] == field["name"]


def test_croissant_names_each_shard_with_its_hash(folder: Path, about: dict[str, Any]) -> None:
    import hashlib

    shards = [each for each in about["distribution"] if each["@type"] == "cr:FileObject"]
    assert len(shards) == 2
    for shard in shards:
        data = (folder / shard["contentUrl"]).read_bytes()
        assert shard["sha256"] == hashlib.sha256(data).hexdigest()
        assert shard["contentSize"] == f"{len(data)} B"


def test_croissant_passes_the_validator_of_its_makers(folder: Path, tmp_path: Path) -> None:
    """Where mlcroissant is installed: no error, and records are read through the description."""
    validator = pytest.importorskip("mlcroissant")
    place = shutil.copytree(folder, tmp_path / "set")
    found = validator.Dataset(str(place / CROISSANT))
    assert not found.metadata.ctx.issues.errors
    records = list(found.records("images"))
    assert len(records) == 20
    assert records[0]["images/image"].size == (8, 8)


def test_the_context_reserves_what_fields_use(about: dict[str, Any]) -> None:
    """JSON-LD without a term for a key would silently drop it."""
    used = {key for record in about["recordSet"] for field in record["field"] for key in field}
    plain = {"@type", "@id", "name", "description"}
    assert used - plain <= set(CONTEXT)


def front(manifest: Manifest) -> dict[str, Any]:
    text = card(manifest).decode()
    found: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return found


def changed(folder: Path, **changes: Any) -> Manifest:
    from robustboard.runners.testsets.manifest import MANIFEST, read_manifest

    manifest = read_manifest(folder / MANIFEST, MANIFEST)
    return manifest.model_copy(update={"recipe": manifest.recipe.model_copy(update=changes)})


def test_front_matter_is_what_the_hub_reads(folder: Path) -> None:
    found = front(changed(folder))
    assert found["license"] == "cc-by-4.0"
    assert found["size_categories"] == ["n<1K"]
    assert found["task_categories"] == ["image-classification"]
    assert found["configs"] == [
        {"config_name": "default", "data_files": [{"split": "test", "path": "data/test-*.parquet"}]}
    ]


@pytest.mark.parametrize(
    "hostile",
    ['x"\nlicense: mit\n---\n', "# <script>alert(1)</script>", "![x](http://x.org/y.png)", "`a`|b|"],
)
def test_words_of_an_entry_stay_words(folder: Path, hostile: str) -> None:
    """Names and summaries never become keys of the front matter, markup or other columns."""
    manifest = changed(folder, name=hostile, summary=hostile, license="My <own> terms")
    found = front(manifest)
    body = card(manifest).decode().split("---\n", 2)[2].replace("\\<", "")
    assert found["pretty_name"] == f"{hostile} 1.0.0"
    assert (found["license"], found["license_name"]) == ("other", "my-own-terms")
    for sign in ("<script", "![x]", "\n# <", "`a`|"):
        assert sign not in body
    assert json.loads(croissant(manifest))["alternateName"] == hostile
