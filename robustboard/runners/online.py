"""What the Hub says of entries: is the commit there, are files, classes, split and columns as they say?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from robustboard.errors import CellError, LockError, Problem, echo
from robustboard.registry.catalog import Catalog, Survey
from robustboard.registry.entries import UNRESOLVED, DatasetEntry, HubData, HubWeights, ModelEntry
from robustboard.registry.folders import Found
from robustboard.registry.lock import Lock, contradictions, key_of
from robustboard.registry.model_drafts import Repository, classes_of, weights_problem
from robustboard.registry.set_drafts import columns_of, splits_of
from robustboard.runners import cards, hub


@dataclass(frozen=True, slots=True)
class Online:
    """What asking the Hub gave."""

    asked: int
    problems: tuple[Problem, ...]
    withheld: tuple[str, ...]
    """Entries behind terms that must be accepted, which nobody can check here."""


def check_online(
    seen: Survey,
    catalog: Catalog,
    lock: Lock,
    *,
    only: Collection[str] | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Online:
    """Ask the Hub about every model and dataset that comes from there, or about those named `model/ID`.

    `say` is told each entry before it is asked about. Small files alone are fetched, no weights.
    """
    problems: list[Problem] = []
    withheld: list[str] = []
    asked = 0
    every: list[Found[ModelEntry] | Found[DatasetEntry]] = [*seen.models.entries.values()]
    every += seen.datasets.entries.values()
    for found in every:
        entry = found.entry
        key = key_of(entry)
        if not isinstance(entry.source, HubWeights | HubData) or (only is not None and key not in only):
            continue
        asked += 1
        say(key)
        try:
            problems += _entry(found, catalog, lock)
        except CellError as error:
            if error.kind == "gated":
                withheld.append(f"{key}: {error.reason}")
            else:
                problems.append(
                    found.problem(("source", "repo"), f"expected it on the Hub, got {error.reason}")
                )
        except LockError as error:
            problems.append(found.problem(("source", "repo"), f"expected other files, got {error}"))
    return Online(asked, tuple(sorted(problems)), tuple(withheld))


def _entry(found: Found[ModelEntry] | Found[DatasetEntry], catalog: Catalog, lock: Lock) -> Iterator[Problem]:
    entry, source = found.entry, found.entry.source
    if not isinstance(source, HubWeights | HubData):
        return
    if source.revision == UNRESOLVED:
        told = (
            f"expected a commit, got the word unresolved: run robustboard lock {key_of(entry)}, and name it"
        )
        yield found.problem(("source", "revision"), told)
        return
    kind: hub.Kind = "dataset" if isinstance(entry, DatasetEntry) else "model"
    now = hub.resolve(kind, source)
    for _, message in contradictions(entry, now):
        yield found.problem(("source", "files"), message)
    locked = lock.get(key_of(entry))
    if locked is None:
        told = f"expected a line in registry/lock.yaml, got none: run robustboard lock {key_of(entry)}"
        yield found.problem(("source",), told)
    elif (locked.commit, set(locked.files)) != (now.commit, set(now.files)):
        yield found.problem(("source",), "expected the files of registry/lock.yaml, got others from the Hub")
    if isinstance(entry, ModelEntry):
        yield from _model(found, entry, cards.read_model(source.repo, source.revision), catalog)
    elif isinstance(source, HubData):
        yield from _dataset(found, entry, source, cards.read_dataset(source.repo, source.revision)[1])


def _model(found: Found[Any], entry: ModelEntry, there: Repository, catalog: Catalog) -> Iterator[Problem]:
    count = len(catalog.label_space(entry.label_space).classes)
    classes = classes_of(there)
    if classes is not None and classes != count:
        told = f"expected a label space of {classes} classes, as the repository says, got {count}"
        yield found.problem(("label_space",), told)
    unsafe = weights_problem(there)
    if unsafe is not None:
        yield found.problem(("source", "repo"), unsafe)


def _dataset(
    found: Found[Any], entry: DatasetEntry, source: HubData, card: dict[str, Any]
) -> Iterator[Problem]:
    """Split, columns and size, as far as the card tells them."""
    splits, columns = splits_of(card, source.config), columns_of(card, source.config)
    if splits and source.split not in splits:
        told = f"expected one of {', '.join(map(echo, splits))}, got {echo(source.split)}"
        yield found.problem(("source", "split"), told)
    size = splits.get(source.split)
    if size is not None and size != entry.size:
        yield found.problem(("size",), f"expected {size}, as the card says, got {entry.size}")
    named = {"image_column": source.image_column, "label_column": source.label_column}
    for field, name in (
        named | ({"group_column": source.group_column} if source.group_column else {})
    ).items():
        if columns and name not in columns:
            told = f"expected one of {', '.join(map(echo, columns))}, got {echo(name)}"
            yield found.problem(("source", field), told)
