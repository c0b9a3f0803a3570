"""The Croissant description of a generated set (MLCommons Croissant 1.0), written from its manifest."""

from __future__ import annotations

from typing import Any

from robustboard import jsons
from robustboard.runners.testsets.manifest import DATA, MANIFEST, SPLIT, Manifest

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification prints."""

TYPES = {
    "label": "sc:Integer",
    "attempt": "sc:Integer",
    "seed": "sc:Integer",
    "steps": "sc:Integer",
    "distance": "sc:Float",
    "oracle_confidence": "sc:Float",
    "oracle_margin": "sc:Float",
    "image": "sc:ImageObject",
}
"""Column → type; text where absent."""

PARQUET = "application/x-parquet"
URLS = {
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "mit": "https://opensource.org/license/mit",
    "cc by 4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc by-sa 4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
}
"""Licence as entries write it, in lower case → its text."""


def croissant(manifest: Manifest) -> bytes:
    """croissant.json: canonical JSON-LD of the set, its files with their hashes, and its columns."""
    recipe = manifest.recipe
    about: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": recipe.set,
        "alternateName": recipe.name,
        "description": recipe.summary,
        "version": recipe.version,
        "license": URLS.get(recipe.license.lower(), recipe.license),
        "datePublished": recipe.added.isoformat(),
        "url": recipe.homepage or f"https://huggingface.co/datasets?search={recipe.set}",
        "isLiveDataset": False,
        "keywords": ["robustness", "image classification", "generated"],
        "creator": {"@type": "sc:Organization", "name": "robustboard"},
        "rai:dataCollection": (
            f"Made from images of {recipe.dataset} by the generator {recipe.generator}, kept where the oracle"
            f" {recipe.oracle} gives the stored image the label of its source; see {MANIFEST}."
        ),
        "rai:dataBiases": (
            "Images that the oracle judges otherwise are missing, and its own mistakes are not seen."
        ),
        "distribution": _distribution(manifest),
        "recordSet": [_classes(manifest), _records(manifest)],
    }
    if recipe.citation:
        about["citeAs"] = recipe.citation
    return jsons.canonical(about)


def _distribution(manifest: Manifest) -> list[dict[str, Any]]:
    files = [
        {
            "@type": "cr:FileObject",
            "@id": shard.path,
            "name": shard.path,
            "contentUrl": shard.path,
            "contentSize": f"{shard.size} B",
            "encodingFormat": PARQUET,
            "sha256": shard.sha256,
        }
        for shard in manifest.shards
    ]
    every = {
        "@type": "cr:FileSet",
        "@id": "shards",
        "name": "shards",
        "encodingFormat": PARQUET,
        "includes": f"{DATA}/{SPLIT}-*.parquet",
    }
    return [*files, every]


def _classes(manifest: Manifest) -> dict[str, Any]:
    """What the numbers of the column `label` mean."""
    return {
        "@type": "cr:RecordSet",
        "@id": "classes",
        "name": "classes",
        "key": {"@id": "classes/index"},
        "data": [
            {"classes/index": index, "classes/key": each.key, "classes/name": each.name}
            for index, each in enumerate(manifest.classes)
        ],
        "field": [
            {"@type": "cr:Field", "@id": f"classes/{name}", "name": name, "dataType": kind}
            for name, kind in (("index", "sc:Integer"), ("key", "sc:Text"), ("name", "sc:Text"))
        ],
    }


def _records(manifest: Manifest) -> dict[str, Any]:
    fields = []
    for column, told in manifest.columns.items():
        extract: dict[str, Any] = {"fileSet": {"@id": "shards"}, "extract": {"column": column}}
        if column == "image":
            extract["transform"] = {"jsonPath": "bytes"}
        field: dict[str, Any] = {
            "@type": "cr:Field",
            "@id": f"images/{column}",
            "name": column,
            "description": told,
            "dataType": TYPES.get(column, "sc:Text"),
            "source": extract,
        }
        if column == "label":
            field["references"] = {"field": {"@id": "classes/index"}}
        fields.append(field)
    return {
        "@type": "cr:RecordSet",
        "@id": "images",
        "name": "images",
        "description": f"The split {SPLIT}: one image a record.",
        "key": {"@id": "images/id"},
        "field": fields,
    }
