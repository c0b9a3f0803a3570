"""Who has checked a result, how far, and when: small files beside the results. No torch here.

    leaderboard/verifications/<model>/<benchmark>--<dataset>.json

A check counts for the very predictions that it was made of. A result that nobody has checked stands as
reported and is never ranked. Checks come from stored runs alone: there is no other way to make one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from robustboard import durable, gits, jsons
from robustboard.errors import StoreError
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result, RunRecord, ShardRecord
from robustboard.runners.store import StoredRun
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen

Tier = Literal["reported", "smoke", "recomputed", "verified", "adaptive"]
"""reported: somebody says so. smoke: a few images were measured here. recomputed: a second program counted
the predictions again. verified: this project ran it, all of it or an audit sample. adaptive: verified, and
attacked by an attack made for the model."""
TIERS: tuple[Tier, ...] = get_args(Tier)
How = Literal["smoke-run", "recomputation", "run", "audit", "adaptive-attack"]
WAYS: Mapping[How, Tier] = {
    "smoke-run": "smoke",
    "recomputation": "recomputed",
    "run": "verified",
    "audit": "verified",
    "adaptive-attack": "adaptive",
}
"""What was done → the tier that it gives."""
RANKED: frozenset[Tier] = frozenset({"recomputed", "verified", "adaptive"})
BY = "ROBUSTBOARD_BY"
"""Variable that names who runs robustboard, for the record."""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(min_length=1, max_length=300)]


class Check(Frozen):
    """What somebody did with one stored run. Nothing here has a default: a tier is always earned."""

    tier: Literal["smoke", "recomputed", "verified", "adaptive"]
    how: How
    who: Text
    day: date
    """UTC."""
    key_digest: Digest
    """The run."""
    predictions: Digest
    """Of the list of its shards, as the result has them."""
    record_sha256: Digest
    """Of the run's record: plan, shards and counts."""
    evidence: dict[str, str | int]
    """What was seen, in a few words and numbers."""

    @model_validator(mode="after")
    def _check(self) -> Check:
        if WAYS[self.how] != self.tier:
            raise ValueError(f"expected tier {WAYS[self.how]} for {self.how}, got {self.tier}")
        return self


class CellChecks(Frozen):
    """All checks of one cell, oldest first."""

    format: Literal["robustboard.verifications/1"] = "robustboard.verifications/1"
    model: str
    benchmark: str
    dataset: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a result may be believed."""

    tier: Tier
    checks: tuple[Check, ...] = ()
    """Those of these very predictions, oldest first."""
    invalid: str | None = None
    """Why the result is wrong, where somebody has found it to be."""

    @property
    def ranked(self) -> bool:
        """Whether the result may rank a model."""
        return self.invalid is None and self.tier in RANKED


def predictions_digest(shards: Sequence[ShardRecord]) -> str:
    """Digest of the stored predictions that a result or record names."""
    return jsons.digest("robustboard.predictions/1", [shard.model_dump(mode="json") for shard in shards])


def record_digest(record: RunRecord) -> str:
    """Digest of a run's record."""
    return jsons.digest("robustboard.record/1", record.model_dump(mode="json"))


def check_of(run: StoredRun, how: How, *, who: str, day: date, evidence: Mapping[str, str | int]) -> Check:
    """What was done with a stored run, bound to its predictions."""
    return Check.model_validate(
        {
            "tier": WAYS[how],
            "how": how,
            "who": who,
            "day": day,
            "key_digest": run.record.plan.key_digest,
            "predictions": predictions_digest(run.record.shards),
            "record_sha256": record_digest(run.record),
            "evidence": dict(evidence),
        }
    )


def today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


@cache
def who(folder: Path) -> str:
    """Who runs this: the variable ROBUSTBOARD_BY, else the name that Git has for the folder, else unnamed."""
    named = os.environ.get(BY, "").strip()
    if named:
        return named[:300]
    return (gits.user(folder) or "unnamed")[:300]


def _cell(run: StoredRun) -> Cell:
    key = run.record.plan.key
    return Cell(key.model, key.benchmark, key.dataset)


def _path(root: Path, cell: Cell) -> Path:
    return root / f"{cell.name}.json"


def committed(workspace: Workspace) -> Path:
    """Checks that came with the content."""
    return workspace.content / "leaderboard" / "verifications"


def written(workspace: Workspace) -> Path:
    """Where new checks go."""
    return workspace.output / "leaderboard" / "verifications"


def smoked(workspace: Workspace) -> Path:
    """Where checks of partial runs go, which are not committed."""
    return workspace.runs / "verifications"


def note(workspace: Workspace, run: StoredRun, check: Check) -> Path:
    """Put a check beside the others of its cell; one of the same kind and predictions gives way to it."""
    cell = _cell(run)
    root = smoked(workspace) if check.tier == "smoke" else written(workspace)
    path = _path(root, cell)
    before = _read(path, workspace.show(path)).checks if path.exists() else ()
    kept = [each for each in before if (each.how, each.predictions) != (check.how, check.predictions)]
    _write(path, cell, [*kept, check])
    return path


def note_run(workspace: Workspace, run: StoredRun) -> None:
    """Note that this workspace ran a cell: the whole of it verifies, a part of it is a smoke run.

    One that is noted already stays as it is, so that to rebuild results changes nothing.
    """
    plan = run.record.plan
    whole = plan.key.subset is None and plan.skipped == 0 and plan.evaluated == plan.images
    how: How = "run" if whole else "smoke-run"
    digest = predictions_digest(run.record.shards)
    for root in (committed(workspace), written(workspace), smoked(workspace)):
        path = _path(root, _cell(run))
        if path.exists() and any(
            (each.how, each.predictions) == (how, digest) for each in _read(path, workspace.show(path)).checks
        ):
            return
    day = date.fromisoformat(run.facts.finished_at[:10])
    evidence: dict[str, str | int] = {"images": plan.evaluated, "of": plan.images, "device": run.facts.device}
    note(workspace, run, check_of(run, how, who=who(workspace.content), day=day, evidence=evidence))


def _write(path: Path, cell: Cell, checks: Iterable[Check]) -> None:
    ordered = sorted(checks, key=lambda each: (each.day, TIERS.index(each.tier), each.how, each.predictions))
    found = CellChecks(
        model=cell.model, benchmark=cell.benchmark, dataset=cell.dataset, checks=tuple(ordered)
    )
    data = jsons.seal(found)
    if not path.exists() or path.read_bytes() != data:
        durable.write(path, data)


def _read(path: Path, name: str) -> CellChecks:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{name}: cannot read: {error.strerror or error}") from error
    return jsons.unseal(data, CellChecks, name)


def usual(workspace: Workspace) -> tuple[Path, ...]:
    """Where checks lie: those that came with the content, new ones, and those of partial runs."""
    return committed(workspace), written(workspace), smoked(workspace)


def read_checks(workspace: Workspace, roots: Sequence[Path] | None = None) -> dict[Cell, tuple[Check, ...]]:
    """Every check under the folders, oldest first; by default those that came with the content and new ones.

    Raises StoreError for a damaged file, and for one that lies where another cell's belongs.
    """
    found: dict[Cell, list[Check]] = {}
    for root in dict.fromkeys(usual(workspace) if roots is None else roots):
        for path in sorted(root.glob("*/*.json")):
            name = workspace.show(path)
            read = _read(path, name)
            cell = Cell(read.model, read.benchmark, read.dataset)
            if path != _path(root, cell):
                raise StoreError(f"{name}: model: the content belongs to {cell.name}.json")
            known = found.setdefault(cell, [])
            known.extend(each for each in read.checks if each not in known)
    return {cell: tuple(sorted(checks, key=lambda each: each.day)) for cell, checks in sorted(found.items())}


def standing_of(result: Result, checks: Sequence[Check], invalid: str | None = None) -> Standing:
    """How far a result may be believed, by the checks of its cell."""
    digest = predictions_digest(result.shards)
    own = tuple(c for c in checks if (c.key_digest, c.predictions) == (result.key_digest, digest))
    reached = {each.tier for each in own}
    tier = next((each for each in reversed(TIERS) if each in reached), TIERS[0])
    return Standing(tier, own, invalid)
