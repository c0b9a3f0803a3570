"""What `robustboard list` prints: the entries of one kind, and how firmly each is pinned."""

from __future__ import annotations

from robustboard import console
from robustboard.commands import Content
from robustboard.errors import UnknownNameError
from robustboard.registry.catalog import Catalog
from robustboard.registry.companions import ClassesOf
from robustboard.registry.entries import UNRESOLVED, DatasetEntry, HubData, HubWeights, ModelEntry
from robustboard.registry.lock import Lock, key_of


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


def _judging(catalog: Catalog, kind: str) -> list[dict[str, str]]:
    """Oracles with the datasets that they may judge, or generators with where their weights come from."""
    if kind == "oracles":
        return [
            {"id": o.id, "name": o.name, "labels": o.label_space, "kind": o.judge.kind}
            | {"judges": " ".join(each.dataset for each in o.competence), "license": o.license}
            for o in catalog.oracles.values()
        ]
    return [
        {"id": g.id, "name": g.name, "kind": g.method.kind}
        | {"source": g.source.kind if g.source is not None else "none", "license": g.license}
        for g in catalog.generators.values()
    ]


def _listing(content: Content, kind: str) -> list[dict[str, str]]:
    catalog = content.catalog
    if kind == "models":
        return [
            {"id": m.id, "name": m.name, "labels": m.label_space, "loader": m.loader, "source": m.source.kind}
            | {"pin": _pin(m, content.lock), "license": m.license}
            for m in catalog.models.values()
        ]
    if kind == "datasets":
        return [
            {"id": d.id, "name": d.name, "labels": d.label_space, "images": str(d.size), "role": d.role}
            | {"source": d.source.kind, "pin": _pin(d, content.lock), "license": d.license}
            for d in catalog.datasets.values()
        ]
    if kind == "benchmarks":
        return [{"id": b.id, "name": b.name, "kind": b.procedure.kind} for b in content.benchmarks.values()]
    if kind == "labels":
        spaces = [
            {"id": s.id, "name": s.name, "classes": str(len(s.classes))}
            for s in catalog.label_spaces.values()
        ]
        subsets = [
            {"id": s.id, "name": s.name, "classes": f"{len(s.classes)} of {s.subset_of}"}
            for s in catalog.class_subsets.values()
        ]
        groups = [
            {"id": s.id, "name": s.name, "classes": f"{len(s.classes)} groups of {s.grouping_of}"}
            for s in catalog.class_groups.values()
        ]
        return spaces + subsets + groups
    if kind in ("oracles", "generators"):
        return _judging(catalog, kind)
    if kind == "boards":
        return [{"id": b.id, "name": b.name, "labels": b.label_space} for b in content.boards().values()]
    if kind == "fits":
        return [
            {
                "id": f.id,
                "name": f.name,
                "origin": f.origin,
                "shifted": f.shifted or "",
                "clean": f.clean or "",
            }
            for f in content.fits().values()
        ]
    if kind == "profiles":
        from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here

        names = sorted(path.stem for path in content.workspace.profiles.glob("*.yaml"))
        found = [load_profile(content.workspace, name) for name in names]
        return [{"id": p.id, "device": p.device, "summary": p.summary} for p in found]
    if kind == "reported":
        from robustboard.registry.reported import load_reported  # noqa: PLC0415 - only here

        tables = load_reported(content.workspace)
        return [
            {"id": name, "name": t.source.name, "numbers": str(len(t.scores))} for name, t in tables.items()
        ]
    kinds = (
        "models",
        "datasets",
        "benchmarks",
        "labels",
        "oracles",
        "generators",
        "boards",
        "fits",
        "profiles",
    )
    raise UnknownNameError("kind of entry", kind, (*kinds, "reported"))


def show_list(content: Content, kind: str, *, as_json: bool) -> None:
    """Print the entries of one kind."""
    rows = _listing(content, kind)
    if as_json:
        console.out_json(rows)
    elif rows:
        console.out_table(list(rows[0]), (list(row.values()) for row in rows), title=f"{len(rows)} {kind}")
    else:
        console.say(f"no {kind} in {content.workspace.registry.parent}")
