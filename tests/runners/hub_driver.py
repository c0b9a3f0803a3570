"""Asks robustboard's Hub module in a process of its own, since HF_* variables are read once, at import.

Reads one JSON question a line, (function, arguments), and answers each with one JSON line:
{"value": ...} or {"error": its class, "kind": ..., "text": ...}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robustboard.errors import CellError, RobustboardError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import HubData, HubWeights, LockedFile
from robustboard.registry.lock import read_lock, write_lock
from robustboard.registry.resolve import Resolver
from robustboard.runners import hub, identity
from robustboard.runners.sources.places import find_data
from robustboard.workspace import find


def resolve(kind: str, source: dict[str, Any]) -> Any:
    source = {**source, "files": tuple(source.get("files", ()))}
    if kind == "model":
        return hub.resolve("model", HubWeights.model_validate(source)).model_dump(mode="json")
    return hub.resolve("dataset", HubData.model_validate(source)).model_dump(mode="json")


def fetch(repo: str, commit: str, files: list[dict[str, Any]]) -> dict[str, str]:
    wanted = [LockedFile.model_validate(file) for file in files]
    return {name: str(path) for name, path in hub.fetch(repo, wanted, commit=commit).items()}


def cache(folder: str) -> None:
    """Use another cache of the client from now on."""
    from huggingface_hub import constants

    constants.HF_HUB_CACHE = folder
    hub.client.forget_failures()


def lock(root: str, name: str) -> None:
    """What `robustboard lock model/NAME` does."""
    workspace = find(Path(root))
    entry = load_catalog(workspace).model(name)
    resolver = Resolver(lambda path: find_data(path, workspace), hub.resolve)
    write_lock(workspace, read_lock(workspace).replace({f"model/{name}": resolver.resolve(entry)}))


def locate(root: str, name: str) -> dict[str, str]:
    """Weights of a model as a run finds them."""
    from robustboard.runners.weights import locate_weights

    workspace = find(Path(root))
    entry = load_catalog(workspace).model(name)
    found = locate_weights(entry, workspace=workspace, lock=read_lock(workspace), train=False)
    assert found is not None
    assert found.sha256 == identity.weights_identity(entry, workspace=workspace, lock=read_lock(workspace))
    return {"path": str(found.path), "sha256": found.sha256}


def logits(root: str, name: str) -> list[list[float]]:
    """Logits of a grey ramp."""
    import torch

    from robustboard.runners.loaders import load_classifier
    from robustboard.runners.weights import locate_weights

    workspace = find(Path(root))
    catalog = load_catalog(workspace)
    entry = catalog.model(name)
    weights = locate_weights(entry, workspace=workspace, lock=read_lock(workspace), train=False)
    assert weights is not None
    classifier = load_classifier(entry, catalog.label_space(entry.label_space), weights)
    side, channels = entry.input.size, entry.input.channels
    ramp = torch.linspace(0, 1, channels * side * side).reshape(1, channels, side, side)
    with torch.no_grad():
        found: list[list[float]] = classifier(ramp).tolist()
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "resolve": resolve,
    "fetch": fetch,
    "cache": cache,
    "lock": lock,
    "locate": locate,
    "logits": logits,
}


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        function, arguments = json.loads(line)
        try:
            answer = {"value": FUNCTIONS[function](*arguments)}
        except RobustboardError as error:
            kind = error.kind if isinstance(error, CellError) else None
            answer = {"error": type(error).__name__, "kind": kind, "text": str(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
