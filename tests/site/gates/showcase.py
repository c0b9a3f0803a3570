"""A made-up site in which every state of a row, a cell and a column occurs; nothing here is a measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.board import build_board
from robustboard.leaderboard.cells import Measured
from robustboard.leaderboard.entries import BoardEntry
from robustboard.registry.reported import Reported
from robustboard.runners.failures import Failure
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result, Subset
from robustboard.site.render import SiteInput
from tests.leaderboard.made_up import World, made, score

FAMILIES = ("resnet18", "vit_tiny_patch16_224", "densenet121", "mobilenetv3_small_100")
MODELS = 24
CORRUPTIONS = ["gaussian_noise", "shot_noise", "fog"]
COLUMNS: tuple[Mapping[str, object], ...] = (
    {"id": "clean", "title": "Clean", "group": "Natural", "benchmark": "clean-v1", "dataset": "squares"},
    {"id": "pgd", "title": "PGD 1/10", "group": "Attack", "benchmark": "pgd-v1", "dataset": "squares"},
    {
        "id": "pgd-area",
        "title": "PGD, all budgets",
        "group": "Attack",
        "benchmark": "pgd-v1",
        "dataset": "squares",
        "score": "area_under_curve@linf",
        "folded": "true",
    },
    {
        "id": "noise",
        "title": "Gaussian 1/10",
        "group": "Random noise",
        "benchmark": "noise-v1",
        "dataset": "squares",
        "score": "noise_accuracy@gaussian 1/10",
    },
    {
        "id": "drop",
        "title": "Drop",
        "group": "Random noise",
        "benchmark": "noise-v1",
        "dataset": "squares",
        "score": "noise_accuracy@gaussian 1/10",
        "derive": "drop",
        "folded": "true",
    },
)


def showcase(reported: Mapping[str, Reported] | None = None) -> SiteInput:
    """Ranked, incomplete, partial, outdated, undefined, failed and unmeasured models of one board."""
    world = World()
    procedure = {
        "kind": "corruption",
        "variant": "cifar",
        "images": "in-memory",
        "corruptions": CORRUPTIONS,
        "severities": ["1", "3", "5"],
        "settings": [{"label_spaces": ["shapes"]}],
    }
    values = {"id": "corruptions-v1", "name": "Corruptions", "summary": "Made up.", "source": "made up"}
    entry = made(BenchmarkEntry, {**values, "added": "2026-01-31", "procedure": procedure})
    world.benchmarks["corruptions-v1"] = entry
    results = list(_results(world))
    cells = {Cell(r.key.model, r.key.benchmark, r.key.dataset): r for r in results}
    failures = {
        Cell("net-23", "noise-v1", "squares"): Failure(
            model="net-23",
            benchmark="noise-v1",
            dataset="squares",
            kind="load",
            reason="made up",
        )
    }
    measured = Measured.of(cells, world.catalog, world.benchmarks, failures)
    board = {
        "id": "squares",
        "name": "Squares",
        "summary": "Squares in two classes, made up.",
        "label_space": "shapes",
        "datasets": ["squares"],
        "columns": list(COLUMNS),
        "order": "pgd",
        "reported": [{"source": name} for name in reported or {}],
    }
    boards = {
        "squares": build_board(BoardEntry.model_validate_json(json.dumps(board)), world.catalog, measured)
    }
    return SiteInput(world.catalog, world.benchmarks, boards, measured, reported or {}, "0.0.0")


def _results(world: World) -> Iterator[Result]:
    for number in range(MODELS):
        name = f"net-{number:02}"
        more: dict[str, Any] = {"architecture": {"name": FAMILIES[number % 4]}}
        more["training"] = {"datasets": ["squares-train"] if number % 3 else ["squares-train", "web"]}
        if number % 2:
            more["adversarial_training"] = {"norm": "linf", "eps": "1/10"}
        world.add_model(name, **more)
        parameters = 40_000 * (number + 1) ** 2
        clean, robust = 580 - 6 * number, 120 + (37 * number) % 400
        options: dict[str, Any] = {}
        if number == 20:
            options["subset"] = Subset(count=100, seed=0)
            clean, robust = 90, 40
        if number == 21:
            options["model_digest"] = "0" * 64
        if number == 22:
            options["undefined"] = ["clean_accuracy"]
        falling = [min(clean, robust + 60), robust, robust // 2, robust // 4]
        for benchmark in ("clean-v1", "pgd-v1", "noise-v1"):
            if number == 23 and benchmark == "noise-v1":
                continue
            result = world.result(name, benchmark, correct=clean, falling=falling, **options)
            facts = result.facts.model_copy(
                update={"parameters": parameters, "macs": 3 * parameters, "seconds": 5.0 + number}
            )
            yield result.model_copy(update={"facts": facts})
        if number < 3:
            yield _corrupted(world, name, 500 - 40 * number)
    world.add_model("unmeasured")
    long = world.add_model("long")
    name = "A network with a name that is a good deal longer than the column of names is wide"
    world.models["long"] = long.model_copy(update={"name": name})
    yield world.result("long", correct=444)


def _corrupted(world: World, name: str, correct: int) -> Result:
    counts = {
        f"corruption_accuracy@{corruption} {severity}": correct - 60 * place - 20 * severity
        for place, corruption in enumerate(CORRUPTIONS)
        for severity in (1, 3, 5)
    }
    means = {
        f"corruption_accuracy@{corruption}": correct - 60 * place
        for place, corruption in enumerate(CORRUPTIONS)
    }
    result = world.result(name, "corruptions-v1", correct=correct)
    scores = tuple(
        score(text, 600, hits)
        for text, hits in (counts | means | {"mean_corruption_accuracy@all": 300}).items()
    )
    return result.model_copy(update={"scores": (*result.scores, *scores)})
