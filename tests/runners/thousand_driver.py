"""Measures the reader on the thousand classes, rightly and with each classic mistake: `driver.py ROOT`.

A process of its own, since the Hub's client reads its environment when it is imported. Prints one JSON
object: name of the case → score of the clean accuracy and images, or the reason why there is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.errors import CellError
from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.registry.labels import ClassGroups
from robustboard.registry.lock import read_lock
from robustboard.runners import session as sessions
from robustboard.runners.classifier import Classifier
from robustboard.runners.evaluate import Session, measure_cell
from robustboard.runners.keys import Cell
from robustboard.runners.profiles import RunProfile
from robustboard.runners.score import read_result
from robustboard.runners.weights import Weights
from robustboard.workspace import Workspace
from tests.runners.thousand import Reader

PROFILE = RunProfile(id="cpu", summary="A test.", device="cpu", batch_size=64, threads=1)


def mistakes(catalog: Catalog) -> dict[str, tuple[str, Catalog]]:
    """Name of the case → dataset and the catalogue that holds the mistake."""
    found = {name: (name, catalog) for name in catalog.datasets}

    def add(case: str, dataset: str, changed: Catalog) -> None:
        found[f"{dataset}, {case}"] = (dataset, changed)

    numbers = range(1000)
    ranks = {name: rank for rank, name in enumerate(sorted(map(str, numbers)))}
    add("folder order", "imagenet-v2", with_entry(catalog, "imagenet-v2", label_map=ranks))
    shifted = {str(n): (n + 1) % 1000 for n in numbers}
    add("off by one", "imagenet-1k", with_entry(catalog, "imagenet-1k", label_map=shifted))
    for name in ("imagenet-a", "imagenet-r"):
        add("unmasked", name, with_entry(catalog, name, class_subset=None))
    add("labels as indices", "imagenet-a", with_entry(catalog, "imagenet-a", label_map={}))
    add("mask of another set", "imagenet-a", with_entry(catalog, "imagenet-a", class_subset="imagenet-r"))
    add("border kept", "objectnet", with_entry(catalog, "objectnet", border=0))
    objectnet = catalog.class_groups["objectnet"]
    first = {name: keys[:1] for name, keys in objectnet.classes.items()}
    add("one index only", "objectnet", with_groups(catalog, objectnet.model_copy(update={"classes": first})))
    sixteen = catalog.class_groups["sixteen-class-imagenet"]
    loudest = sixteen.model_copy(update={"aggregation": "max-logit"})
    add("maximum for mean", "cue-conflict", with_groups(catalog, loudest))
    return found


def with_entry(catalog: Catalog, name: str, **changes: Any) -> Catalog:
    entry = catalog.dataset(name).model_copy(update=changes)
    return replace(catalog, datasets={**catalog.datasets, name: entry})


def with_groups(catalog: Catalog, groups: ClassGroups) -> Catalog:
    return replace(catalog, class_groups={**catalog.class_groups, groups.id: groups})


def main(root: Path) -> None:
    vars(sessions)["locate_weights"] = lambda *_, **__: Weights(root, "1" * 64)
    vars(sessions)["load_classifier"] = lambda entry, *_, **__: Classifier(Reader(), entry.input, 1000)
    workspace = Workspace(root, root)
    catalog = load_catalog(workspace)
    answers: dict[str, Mapping[str, Any]] = {}
    for case, (dataset, changed) in mistakes(catalog).items():
        session = Session(
            workspace=workspace,
            catalog=changed,
            benchmarks=load_benchmarks(workspace, catalog),
            lock=read_lock(workspace),
            profile=PROFILE,
        )
        cell = Cell("reader", "clean-v1", dataset)
        try:
            model = session.model("reader")
            samples = session.samples(dataset, model.entry.input)
            job = session.job(cell, model, samples)
            measure_cell(job, session)
        except CellError as error:
            answers[case] = {"reason": str(error)}
            continue
        result = read_result(workspace.results / f"{cell.name}.json")
        score = result.scores[0]
        answers[case] = {
            "score": score.value,
            "n": score.n,
            "metric": score.metric,
            "key": result.key_digest,
            "facts": result.facts.preparation,
            "groups": sorted(set(samples.groups or ())),
        }
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
