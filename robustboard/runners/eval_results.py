"""The Hub's `.eval_results/*.yaml`: results of this board as such files, and such files as reported numbers.

The format is a list of items: `dataset` (`id`, `task_id`, `revision`), `value`, `date`, `source` (`url`,
`name`, `user`, `org`) and `notes` (https://huggingface.co/docs/hub/eval-results). No torch here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from robustboard import nodes
from robustboard.errors import ContentError, Problem, UserError, echo
from robustboard.fields import MAX_LINE
from robustboard.registry.catalog import Catalog
from robustboard.registry.drafts import Value, or_blank
from robustboard.registry.entries import HubData, HubWeights
from robustboard.registry.licenses import spdx
from robustboard.registry.reported import order
from robustboard.registry.scores import ReportedScore
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result

FOLDER = ".eval_results/"
MAX_BYTES = 256 * 1024
LIMITS = nodes.Limits(bytes=MAX_BYTES, nodes=20_000)
METRIC = "value"
"""Of an imported number: the format names none."""
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")


def items_of(
    results: Mapping[Cell, Result], catalog: Catalog, model: str, *, site: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """File name → items, of every whole result of a model on a dataset that lies on the Hub.

    One file a benchmark and dataset, its headline alone; shares as fractions, as in the result files.
    `task_id` is the benchmark, `notes` names score, images and run. `site` is the address of a site of this
    board, to cite the model's page. Raises UserError for a model that lies nowhere on the Hub.
    """
    entry = catalog.model(model)
    found: dict[str, list[dict[str, Any]]] = {}
    for cell, result in results.items():
        source = catalog.dataset(cell.dataset).source
        if cell.model != model or not result.complete or not isinstance(source, HubData):
            continue
        score = next(s for s in result.scores if f"{s.metric}@{s.condition}" == result.headline)
        if score.value is None:
            continue
        dataset = {"id": source.repo, "task_id": cell.benchmark}
        if re.fullmatch(r"[0-9a-f]{40}", source.revision):
            dataset["revision"] = source.revision
        item: dict[str, Any] = {"dataset": dataset, "value": score.value, "date": result.facts.finished_at}
        if site is not None:
            item["source"] = {"url": f"{site.rstrip('/')}/m/{model}.html", "name": "robustboard"}
        item["notes"] = f"{result.headline}, n = {score.n}, {score.unit}, run {result.key_digest}"
        found[f"{cell.benchmark}--{cell.dataset}.yaml"] = [item]
    if not isinstance(entry.source, HubWeights):
        raise UserError(f"{model} does not come from a Hub repository: its results have no place there")
    return found


def yaml_bytes(items: Iterable[Mapping[str, Any]]) -> bytes:
    """A file of the format: block style, texts in double quotes."""
    return ("\n".join(line for item in items for line in _block(item)) + "\n").encode("utf-8")


def _block(item: Mapping[str, Any]) -> Iterator[str]:
    mark = "- "
    for key, value in item.items():
        if isinstance(value, Mapping):
            yield f"{mark}{key}:"
            for inner, text in value.items():
                yield f"    {inner}: {json.dumps(text, ensure_ascii=False)}"
        else:
            yield f"{mark}{key}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        mark = "  "


def read_items(data: bytes, name: str) -> list[dict[str, nodes.Value]]:
    """The items of one file. Raises ContentError with file and line for anything that is no such list."""
    # The reader wants a mapping at the top: the list becomes the value of one key, a line further down.
    try:
        root = nodes.parse(b"items:\n" + data, name, LIMITS)
    except ContentError as error:
        raise ContentError([_higher(each) for each in error.problems]) from error
    _, listed = root.items["items"]
    if not isinstance(listed, nodes.Sequence) or len(root.items) > 1:
        raise ContentError([Problem(name, 1, "", "expected a list of results, got something else")])
    found = []
    for item in listed.items:
        if not isinstance(item, nodes.Mapping):
            raise ContentError([Problem(name, item.line - 1, "", "expected a mapping, got something else")])
        value = nodes.plain(item)
        if not isinstance(value, dict):
            raise TypeError(f"expected a mapping, got {type(value).__name__}")
        found.append(value)
    return found


def _higher(problem: Problem) -> Problem:
    field = problem.field.removeprefix("items").removeprefix(".")
    return Problem(problem.file, max(problem.line - 1, 1), field, problem.message)


def reported_scores(repo: str, files: Mapping[str, bytes]) -> tuple[ReportedScore, ...]:
    """Numbers of a repository's files, sorted; a number that stands twice counts once.

    The unit is `dimensionless`: the format states none. Raises ContentError for a file that is not of the
    format, UserError where there is no number at all.
    """
    found: dict[tuple[str, str, str, str], ReportedScore] = {}
    for name, data in sorted(files.items()):
        for number, item in enumerate(read_items(data, name)):
            score = _score(repo, name, number, item)
            found.setdefault(order(score), score)
    if not found:
        raise UserError(f"{repo} has no results in {FOLDER}")
    return tuple(found[key] for key in sorted(found))


def _score(repo: str, name: str, number: int, item: Mapping[str, nodes.Value]) -> ReportedScore:
    dataset, text = item.get("dataset"), item.get("value")
    if not isinstance(dataset, dict) or not isinstance(dataset.get("id"), str):
        raise ContentError([Problem(name, 1, f"{number}.dataset.id", "expected a dataset id, got none")])
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ContentError(
            [Problem(name, 1, f"{number}.value", f"expected a decimal number, got {echo(text)}")]
        )
    task = dataset.get("task_id")
    notes = item.get("notes")
    words = [str(dataset["id"]), *([f"task {task}"] if isinstance(task, str) else [])]
    words += [notes] if isinstance(notes, str) else []
    return ReportedScore(
        model=repo,
        dataset=", ".join(words)[:MAX_LINE].strip(),
        metric=METRIC,
        value=float(text),
        unit="dimensionless",
        table=name.rsplit("/", 1)[-1].removesuffix(".yaml") or None,
    )


def source_values(repo: str, commit: str, license_: object, entry: str, today: date) -> dict[str, Value]:
    """The fields of the source file beside an imported table."""
    known = spdx(license_) if isinstance(license_, str) else None
    return {
        "name": or_blank(f"Results of {repo}"[:80], "a name"),
        "summary": f"What {repo} states of itself in {FOLDER} at one commit. The format has no units.",
        "homepage": f"https://huggingface.co/{repo}",
        "commit": commit,
        "day": today.isoformat(),
        "license": known or "unknown",
        "imported_from": f"{entry}.csv",
        "arrange": "rows",
        "suspicions": ["Nobody but the repository's owner has checked these numbers."],
    }
