"""A sample of a stored run measured again, and compared row by row with what is stored.

Forged predictions that agree with each other pass every check of files and counts: only a new measurement
finds them. Of a run in which a share f of the images is forged, a sample of n finds one with probability
1 - (1 - f)^n: 95 % for half a percent and 600 images.

Another machine may decide a near tie otherwise. Such a row is excused where the new measurement itself saw
the two classes within TIE of each other, and no more than MOST_TIES of all rows are.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard.benchmarks.conditions import TEMPERATURE
from robustboard.benchmarks.entries import CLEAN, WorstCase
from robustboard.errors import StoreError, UserError
from robustboard.runners.evaluate import predictions_of
from robustboard.runners.flags import is_random
from robustboard.runners.jobs import Job
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import Outputs, PredictionTable
from robustboard.runners.record import RunKey, Subset
from robustboard.runners.samples import choose_subset
from robustboard.runners.session import Session
from robustboard.runners.store import StoredRun, samples_digest

IMAGES = 600
TIE = 0.01
"""Difference of two softmax shares below which another machine may order them otherwise. Float32 on two
devices differs by about 1e-4; bfloat16 flips a few images in a thousand, whose shares lie this close."""
DRIFT = 0.01
"""Change of a confidence, or of what calibration and detection use, that another machine explains."""
MOST_TIES = 0.01
"""Share of the rows that may be excused; beyond it somebody chose the images."""
CHUNK = 250
SHOWN = 20
ONCE_MORE = 50
"""Images looked at a second time, for ties; more differing ones need no excuse any more."""


@dataclass(frozen=True, slots=True)
class Different:
    """A stored value that a new measurement does not give."""

    sample_id: str
    condition: str
    column: str
    stored: str
    found: str

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.condition}: {self.sample_id}: {self.column}: stored {self.stored}, measured {self.found}"
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """What a new measurement of a sample showed."""

    cell: Cell
    images: int
    of: int
    seed: int
    rows: int
    differing: tuple[Different, ...]
    """Not explained by a near tie."""
    near_ties: int
    """Rows with another class that is explained by one."""

    @property
    def passed(self) -> bool:
        """Whether the stored run is what this machine measures."""
        return not self.differing and self.near_ties <= max(1, int(MOST_TIES * self.rows))

    @property
    def enough(self) -> bool:
        """Whether so many images were looked at that equal rows say something of the others."""
        return self.images >= min(IMAGES, self.of)

    @property
    def evidence(self) -> dict[str, str | int]:
        """For the record."""
        return {
            "images": self.images,
            "of": self.of,
            "seed": self.seed,
            "rows": self.rows,
            "near_ties": self.near_ties,
        }


def random_seed() -> int:
    """A seed that nobody could have known when the run was made."""
    return secrets.randbelow(2**31)


def audit(session: Session, run: StoredRun, *, images: int = IMAGES, seed: int) -> Audit:
    """Measure a seeded sample of a stored run's images again.

    The sample is spread over the classes. Draws of noise and attacks are those of the stored run, which its
    key fixes. Raises UserError where weights, data or protocol are no longer those of the run, or where the
    model answers otherwise each time; StoreError for ids or labels that are not the dataset's; CellError as
    a run does.
    """
    plan = run.record.plan
    cell = Cell(plan.key.model, plan.key.benchmark, plan.key.dataset)
    _need_certain(cell, run)
    model = session.model(cell.model)
    job = session.job(cell, model, session.samples(cell.dataset, model.entry.input))
    _need_same(cell, plan.key, job.key)
    if samples_digest(job.samples.ids, job.samples.labels) != plan.samples_digest:
        raise StoreError(f"{cell.name}: samples: the stored ids or labels are not those of the dataset")
    rows = choose_subset(job.samples.labels, Subset(count=min(images, plan.evaluated), seed=seed))
    job = replace(job, key=plan.key)
    chosen = _only(job, rows)
    differing: list[Different] = []
    total = 0
    for start in range(0, len(rows), CHUNK):
        part = range(start, min(start + CHUNK, len(rows)))
        fresh = _measured(chosen, part, session)
        session.reporter.advance(cell.name, len(part), len(part))
        total += fresh.table.num_rows
        differing += compare(run.predictions, fresh)
    ties = _ties(differing, job, session)
    left = [each for each in differing if each.column == "label" or not _excused(each, ties)]
    return Audit(cell, len(rows), plan.evaluated, seed, total, tuple(left), len(ties))


def _excused(each: Different, ties: frozenset[tuple[str, str]]) -> bool:
    """Whether a row is a near tie, or follows from a clean one, on which every attack of the image rests."""
    return (each.sample_id, each.condition) in ties or (each.sample_id, CLEAN) in ties


def _need_certain(cell: Cell, run: StoredRun) -> None:
    if run.facts.checks is not None and is_random(run.facts.checks):
        raise UserError(f"{cell.name}: the model's answers change from pass to pass: nothing to compare")
    if run.record.plan.key.subset is not None:
        raise UserError(f"{cell.name}: a partial run is never ranked, so there is nothing to audit")


def _need_same(cell: Cell, stored: RunKey, now: RunKey) -> None:
    """Raise UserError unless a run of today would be of the same model, data and protocol."""
    names = [name for name in RunKey.model_fields if name not in ("software", "parts", "subset")]
    other = [name for name in names if getattr(stored, name) != getattr(now, name)]
    other += [name for name, part in now.parts.items() if "/" in name and stored.parts.get(name) != part]
    if other:
        raise UserError(f"{cell.name}: the stored run is of another {', '.join(other)} than that of today")


def _only(job: Job, rows: Sequence[int]) -> Job:
    """The job of some of its samples, with its key."""
    return replace(job, samples=job.samples.select(rows), rows=[job.rows[row] for row in rows])


def _measured(job: Job, part: range, session: Session) -> PredictionTable:
    images = None if isinstance(job.benchmark.procedure, WorstCase) else job.samples.pixels(part)
    return predictions_of(part, images, job, session, session.profile.batch_size)


def compare(stored: PredictionTable, fresh: PredictionTable) -> list[Different]:
    """Every value of the fresh rows that the stored table has otherwise, beyond DRIFT for real numbers.

    Distances are not compared: several perturbations of other sizes break an image.
    """
    found: list[Different] = []
    for condition in fresh.conditions():
        new, old = fresh.only(condition), stored.only(condition)
        places = {str(name): place for place, name in enumerate(old.column("sample_id"))}
        ids = [str(name) for name in new.column("sample_id")]
        missing = [name for name in ids if name not in places]
        found += [Different(name, condition, "sample_id", "no row", "one") for name in missing]
        if missing:
            continue
        rows = np.array([places[name] for name in ids], np.intp)
        for column in ("label", "predicted", "status"):
            then, now = old.column(column)[rows], new.column(column)
            for place in np.flatnonzero(then != now):
                found.append(Different(ids[place], condition, column, str(then[place]), str(now[place])))
        for column in ("confidence", *Outputs.NAMES):
            for place in _drifted(_numbers(old, column)[rows], _numbers(new, column)):
                then, now = _numbers(old, column)[rows][place], _numbers(new, column)[place]
                found.append(Different(ids[place], condition, column, f"{then:.4g}", f"{now:.4g}"))
    return found


def _numbers(table: PredictionTable, column: str) -> npt.NDArray[np.float64]:
    """A column of numbers, NaN where there is none."""
    return np.asarray(table.table.column(column).to_numpy(zero_copy_only=False), np.float64)


def _drifted(old: npt.NDArray[np.float64], new: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Places where two columns differ by more than DRIFT of the larger, or of 1."""
    scale = np.maximum(np.maximum(np.abs(old), np.abs(new)), 1.0)
    both = np.isnan(old) & np.isnan(new)
    close = np.abs(old - new) <= DRIFT * scale
    return np.flatnonzero(~(both | close))


@dataclass(slots=True)
class _Seen:
    """Near ties that a network showed: the class, its share, and the classes close behind."""

    classes: npt.NDArray[np.int64] | None
    ties: list[tuple[int, float, frozenset[int]]] = field(default_factory=list)

    def note(self, _module: torch.nn.Module, _inputs: Any, output: Any) -> None:  # noqa: ANN401 - a hook's
        """Look at one pass without gradients."""
        if not isinstance(output, Tensor) or output.requires_grad:
            return
        logits = output.float() if self.classes is None else output.float()[:, torch.from_numpy(self.classes)]
        shares = torch.softmax(logits.double(), dim=1)
        top, best = shares.max(1)
        close = shares >= (top - TIE).unsqueeze(1)
        for row in torch.nonzero(close.sum(1) > 1).flatten().tolist():
            near = torch.nonzero(close[row]).flatten().tolist()
            self.ties.append((self._name(int(best[row])), float(top[row]), frozenset(map(self._name, near))))

    def _name(self, column: int) -> int:
        return column if self.classes is None else int(self.classes[column])

    def excuses(self, now: int, share: float | None, then: int) -> bool:
        """Whether class `now`, with this share, was nearly tied with class `then`."""
        return any(
            best == now and then in near and (share is None or abs(share - top) <= 1e-5)  # noqa: PLR2004
            for best, top, near in self.ties
        )


@contextmanager
def _watched(network: torch.nn.Module, seen: _Seen) -> Iterator[None]:
    handle = network.register_forward_hook(seen.note)
    try:
        yield
    finally:
        handle.remove()


def _ties(differing: Sequence[Different], job: Job, session: Session) -> frozenset[tuple[str, str]]:
    """(sample id, condition) of rows whose other class is a near tie: their images are measured once more."""
    ids = list(dict.fromkeys(each.sample_id for each in differing if each.column == "predicted"))
    if not ids or len(ids) > ONCE_MORE:
        return frozenset()
    places = {name: row for row, name in enumerate(job.samples.ids)}
    excused = set()
    for name in ids:
        classes = None if job.classes is None else np.array(job.classes, np.int64)
        seen = _Seen(classes)
        one = _only(job, [places[name]])
        with _watched(one.network, seen):
            fresh = _measured(one, range(1), session)
        shares = _shares(fresh)
        for each in differing:
            if each.sample_id == name and each.column == "predicted":
                share = shares.get(each.condition)
                if seen.excuses(int(each.found), share, int(each.stored)):
                    excused.add((name, each.condition))
    return frozenset(excused)


def _shares(table: PredictionTable) -> Mapping[str, float | None]:
    """Condition → confidence of a table of one image; None where it is scaled by a temperature."""
    return {
        str(condition): None if str(condition).startswith(TEMPERATURE) else float(share)
        for condition, share in zip(table.column("condition"), table.column("confidence"), strict=True)
    }
