"""Class names from a dataset's card, for Parquet files that do not hold them themselves."""

from __future__ import annotations

from robustboard import yamls
from robustboard.errors import ContentError

FENCE = b"---"
LIMITS = yamls.Limits(bytes=2**20, nodes=200_000, depth=12)


def card_classes(data: bytes, column: str, config: str | None) -> tuple[str, ...] | None:
    """Names of the classes 0, 1, ... of a label column, as a README.md declares them.

    Its front matter is read by the reader of our own entries: no tags, aliases or code. None where it
    says nothing, or nothing that can be understood.
    """
    lines = data.split(b"\n")
    if lines[0].strip() != FENCE or FENCE not in (line.strip() for line in lines[1:]):
        return None
    end = next(number for number, line in enumerate(lines[1:], 1) if line.strip() == FENCE)
    try:
        found = yamls.plain(yamls.parse(b"\n".join(lines[1:end]), "README.md", LIMITS))
    except ContentError:
        return None
    declared = found.get("dataset_info") if isinstance(found, dict) else None
    each = declared if isinstance(declared, tuple) else (declared,)
    for info in each:
        if isinstance(info, dict) and (len(each) == 1 or info.get("config_name") == config):
            return _names(info.get("features"), column)
    return None


def _names(features: object, column: str) -> tuple[str, ...] | None:
    for feature in features if isinstance(features, tuple) else ():
        if not isinstance(feature, dict) or feature.get("name") != column:
            continue
        kind = feature.get("dtype")
        label = kind.get("class_label") if isinstance(kind, dict) else None
        names = label.get("names") if isinstance(label, dict) else None
        if not isinstance(names, dict):
            return None
        numbers = [str(number) for number in range(len(names))]
        ordered = [names.get(number) for number in numbers]
        return tuple(map(str, ordered)) if all(isinstance(name, str) for name in ordered) else None
    return None
