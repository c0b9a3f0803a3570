"""First versions of datasets, protocols and handed-in sets: what is known, and blanks for the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from robustboard.errors import UserError, echo
from robustboard.registry.drafts import Blank, Value, or_blank
from robustboard.registry.labels import LabelSpace
from robustboard.registry.licenses import spdx

ONE = Blank("a fraction such as 8/255 of the [0, 1] pixel range")
BUDGETS: dict[str, Value] = {"budgets": [ONE], "headline": ONE}
NAMED: dict[str, Value] = {"datasets": [Blank("ids of datasets")]}
PROCEDURES: Mapping[str, Mapping[str, Value]] = {
    "clean": {"kind": "clean", "settings": [NAMED]},
    "noise": {
        "kind": "noise",
        "distributions": ["uniform", "gaussian"],
        "draws": 3,
        "settings": [{**NAMED, **BUDGETS}],
    },
    "attack": {
        "kind": "attack",
        "attack": Blank("fgsm or pgd"),
        "norm": Blank("linf or l2"),
        "random_start": Blank("true or false"),
        "settings": [
            {
                **NAMED,
                **BUDGETS,
                "steps": Blank("steps, 1 for fgsm"),
                "relative_step": Blank("step size as a fraction of the budget, 1 for fgsm"),
            }
        ],
    },
    "corruption": {
        "kind": "corruption",
        "variant": Blank("imagenet or cifar"),
        "images": Blank("in-memory or stored"),
        "corruptions": [Blank("names such as gaussian_noise")],
        "settings": [NAMED],
    },
}
"""Kind of procedure → the first version of it."""


def dataset_values(repo: str, commit: str, card: Mapping[str, Any], today: date, spaces: Spaces) -> Values:
    """The fields of a dataset entry, as far as a card's front matter tells them."""
    info = _info(card)
    features = [each for each in _list(info.get("features")) if isinstance(each, dict)]
    image = [each.get("name") for each in features if each.get("dtype") == "image"]
    labels = [
        each for each in features if isinstance(each.get("dtype"), dict) and "class_label" in each["dtype"]
    ]
    split, size = _split(card)
    source: dict[str, Value] = {"kind": "hub", "repo": repo, "revision": commit}
    config = _word(info.get("config_name"))
    if config is not None and config != "default":
        source["config"] = config
    source["split"] = split or Blank("name of the split that is measured")
    source["image_column"] = _only([_word(each) for each in image]) or Blank("column of images")
    source["label_column"] = _only([_word(each.get("name")) for each in labels]) or Blank("column of labels")
    return {
        "name": or_blank(card.get("pretty_name") or repo.rsplit("/", 1)[-1][:80], "a name for boards"),
        "role": "test",
        "source": source,
        "label_space": _space(labels, spaces) or Blank("a file of registry/labels, without .yaml"),
        "size": size or Blank("number of images in the split"),
        "license": or_blank(
            _license(card.get("license")), "SPDX id of the licence of the images, or unknown"
        ),
        "display_allowed": Blank("true only where a licence covers the images themselves"),
        "citation": Blank("BibTeX or words"),
        "added": today.isoformat(),
    }


Spaces = Mapping[str, LabelSpace]
Values = dict[str, Value]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _info(card: Mapping[str, Any], config: str | None = None) -> Mapping[str, Any]:
    """What `dataset_info` says of a configuration, of the only one where none is named; else nothing."""
    found = card.get("dataset_info")
    if isinstance(found, list):
        named = [each for each in found if isinstance(each, dict)]
        if config is not None:
            named = [each for each in named if each.get("config_name") == config]
        found = named[0] if len(named) == 1 else None
    return found if isinstance(found, dict) else {}


def splits_of(card: Mapping[str, Any], config: str | None = None) -> dict[str, int | None]:
    """Split → number of examples, as far as a card tells them."""
    splits = [each for each in _list(_info(card, config).get("splits")) if isinstance(each, dict)]
    found: dict[str, int | None] = {}
    for each in splits:
        count = str(each.get("num_examples"))
        if isinstance(each.get("name"), str):
            found[each["name"]] = int(count) if re.fullmatch(r"[1-9][0-9]{0,8}", count) else None
    return found


def columns_of(card: Mapping[str, Any], config: str | None = None) -> list[str]:
    """Names of the columns, as far as a card tells them."""
    features = [each for each in _list(_info(card, config).get("features")) if isinstance(each, dict)]
    return [each["name"] for each in features if isinstance(each.get("name"), str)]


def _split(card: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """The test split, or validation where there is no test, and its number of images."""
    splits = splits_of(card)
    name = next((each for each in ("test", "validation") if each in splits), None)
    return name, splits[name] if name is not None else None


def _only(found: Sequence[str | None]) -> str | None:
    return found[0] if len(found) == 1 else None


def _word(value: object) -> str | None:
    good = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", value)
    return value if good and isinstance(value, str) else None


def _space(labels: Sequence[Mapping[str, Any]], spaces: Spaces) -> str | None:
    """The label space whose classes have these very names, in this order."""
    if len(labels) != 1 or not isinstance(classes := labels[0]["dtype"]["class_label"], dict):
        return None
    names = classes.get("names")
    listed = list(names.values()) if isinstance(names, dict) else _list(names)
    told = [str(each).casefold().replace("_", " ") for each in listed]
    fits = [
        key
        for key, space in spaces.items()
        if told
        in (
            [name.casefold().replace("_", " ") for name in space.classes.values()],
            [name.casefold().replace("_", " ") for name in space.classes],
        )
    ]
    return _only(fits)


def _license(value: object) -> str | None:
    named = value[0] if isinstance(value, list) and len(value) == 1 else value
    return spdx(named) if isinstance(named, str) else None


def benchmark_values(name: str, kind: str, today: date) -> Values:
    """The fields of a protocol of one kind. Raises UserError for a kind that there is no draft of."""
    if kind not in PROCEDURES:
        raise UserError(f"--kind: expected one of {', '.join(PROCEDURES)}, got {echo(kind)}")
    return {
        "name": name,
        "summary": Blank("what it measures, and in which way it differs from others"),
        "procedure": PROCEDURES[kind],
        "source": Blank("paper and section, or who made it up"),
        "added": today.isoformat(),
    }


def external_values(
    name: str, path: str, sha256: str, today: date, *, dataset: str, norm: str, budget: str
) -> Values:
    """The fields of the protocol of a handed-in file of attacked images."""
    return {
        "name": name,
        "summary": Blank("which attack made the images, for which model"),
        "procedure": {
            "kind": "external",
            "norm": norm,
            "made_by": Blank("who made them, and with what"),
            "models": [Blank("ids of the models that it is for; without the line it is for all")],
            "settings": [
                {
                    "datasets": [dataset],
                    "budgets": [budget],
                    "headline": budget,
                    "file": {"path": path, "sha256": sha256},
                }
            ],
        },
        "source": Blank("paper or page"),
        "added": today.isoformat(),
    }
