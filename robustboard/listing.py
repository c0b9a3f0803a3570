"""What `robustboard list` prints: the entries of one kind, and how firmly each is pinned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robustboard import console
from robustboard.commands import Content
from robustboard.errors import UnknownNameError
from robustboard.registry.companions import ClassesOf
from robustboard.registry.entries import UNRESOLVED, DatasetEntry, HubData, HubWeights, ModelEntry
from robustboard.registry.labels import ClassGroups, ClassSubset, LabelSpace
from robustboard.registry.lock import Lock, key_of

Line = dict[str, str]


def _pin(entry: ModelEntry | DatasetEntry, lock: Lock) -> str:
    """How firmly an entry's bytes are pinned, in a word or two."""
    source = entry.source
    if source.kind == "trained-here":
        return "trained here"
    if isinstance(source, ClassesOf):
        return f"as {source.dataset}"
    locked = lock.get(key_of(entry))
    if locked is not None:
        return (locked.commit or locked.version or "files")[:12]
    if isinstance(source, HubWeights | HubData):
        return "unresolved" if source.revision == UNRESOLVED else f"not locked ({source.revision[:12]})"
    return "not locked"


def _models(content: Content) -> list[Line]:
    return [
        {"id": m.id, "name": m.name, "labels": m.label_space, "loader": m.loader, "source": m.source.kind}
        | {"pin": _pin(m, content.lock), "license": m.license}
        for m in content.catalog.models.values()
    ]


def _datasets(content: Content) -> list[Line]:
    return [
        {"id": d.id, "name": d.name, "labels": d.label_space, "images": str(d.size), "role": d.role}
        | {"source": d.source.kind, "pin": _pin(d, content.lock), "license": d.license}
        for d in content.catalog.datasets.values()
    ]


def _benchmarks(content: Content) -> list[Line]:
    return [{"id": b.id, "name": b.name, "kind": b.procedure.kind} for b in content.benchmarks.values()]


def _labels(content: Content) -> list[Line]:
    catalog = content.catalog
    return [
        *(_space(s, "") for s in catalog.label_spaces.values()),
        *(_space(s, f" of {s.subset_of}") for s in catalog.class_subsets.values()),
        *(_space(s, f" groups of {s.grouping_of}") for s in catalog.class_groups.values()),
    ]


def _space(space: LabelSpace | ClassSubset | ClassGroups, of: str) -> Line:
    return {"id": space.id, "name": space.name, "classes": f"{len(space.classes)}{of}"}


def _oracles(content: Content) -> list[Line]:
    return [
        {"id": o.id, "name": o.name, "labels": o.label_space, "kind": o.judge.kind}
        | {"judges": " ".join(each.dataset for each in o.competence), "license": o.license}
        for o in content.catalog.oracles.values()
    ]


def _generators(content: Content) -> list[Line]:
    return [
        {"id": g.id, "name": g.name, "kind": g.method.kind}
        | {"source": g.source.kind if g.source is not None else "none", "license": g.license}
        for g in content.catalog.generators.values()
    ]


def _boards(content: Content) -> list[Line]:
    return [{"id": b.id, "name": b.name, "labels": b.label_space} for b in content.boards().values()]


def _fits(content: Content) -> list[Line]:
    return [
        {"id": f.id, "name": f.name, "origin": f.origin, "shifted": f.shifted or "", "clean": f.clean or ""}
        for f in content.fits().values()
    ]


def _profiles(content: Content) -> list[Line]:
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here

    names = sorted(path.stem for path in content.workspace.profiles.glob("*.yaml"))
    found = [load_profile(content.workspace, name) for name in names]
    return [{"id": p.id, "device": p.device, "summary": p.summary} for p in found]


def _reported(content: Content) -> list[Line]:
    from robustboard.registry.reported import load_reported  # noqa: PLC0415 - only here

    tables = load_reported(content.workspace)
    return [{"id": name, "name": t.source.name, "numbers": str(len(t.scores))} for name, t in tables.items()]


LISTINGS: Mapping[str, Callable[[Content], list[Line]]] = {
    "models": _models,
    "datasets": _datasets,
    "benchmarks": _benchmarks,
    "labels": _labels,
    "oracles": _oracles,
    "generators": _generators,
    "boards": _boards,
    "fits": _fits,
    "profiles": _profiles,
    "reported": _reported,
}
"""Kind → its lines."""


def show_list(content: Content, kind: str, *, as_json: bool) -> None:
    """Print the entries of one kind. Raises UnknownNameError for a kind that there is not."""
    if kind not in LISTINGS:
        raise UnknownNameError("kind of entry", kind, LISTINGS)
    rows = LISTINGS[kind](content)
    if as_json:
        console.out_json(rows)
    elif rows:
        console.out_table(list(rows[0]), (list(row.values()) for row in rows), title=f"{len(rows)} {kind}")
    else:
        console.say(f"no {kind} in {content.workspace.registry.parent}")
