"""The main path: from entries to stored predictions and result files.

`run_cells` makes cells exist: one that is finished is skipped, one that was begun goes on from its
last stored shard, one that fails does not stop the others. To run the same cells again, at the
same time or after a crash, is always right: it only ever adds what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from robustboard.benchmarks.conditions import conditions
from robustboard.benchmarks.corruptions.parameters import FROST
from robustboard.benchmarks.entries import (
    Attack,
    Cascade,
    Corruption,
    External,
    Generated,
    GeneratedSetting,
    WorstCase,
)
from robustboard.runners import facts, sanity
from robustboard.runners.device import forget_peak_memory
from robustboard.runners.external import IN_MEMORY
from robustboard.runners.flags import flagged, is_random
from robustboard.runners.generation import measure_generated
from robustboard.runners.grouping import Grouped
from robustboard.runners.inputs import Pixels
from robustboard.runners.jobs import Job
from robustboard.runners.keys import Cell
from robustboard.runners.outcomes import Outcome, Summary, time_limit
from robustboard.runners.per_image import write_per_image
from robustboard.runners.plan import by_model_and_dataset, passes
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.procedures import measure
from robustboard.runners.record import Checks
from robustboard.runners.score import headline, name_of, result_of, write_result
from robustboard.runners.session import Session
from robustboard.runners.sharing import shared_in
from robustboard.runners.store import OpenRun, run_plan
from robustboard.runners.verifications import note_run
from robustboard.runners.worst_case import worst_case

__all__ = ["Session", "measure_cell", "predictions_of", "run_cells"]


def run_cells(cells: Iterable[Cell], session: Session) -> Summary:
    """Make cells exist, loading each model, and each dataset for it, once.

    What goes wrong with a cell is in the summary. Raises UserError when the profile's device is
    not there.
    """
    summary = Summary(tuple(dict.fromkeys(cells)), session.workspace, session.reporter, debug=session.debug)
    limit = session.profile.time_limit_seconds
    session.reporter.stage(f"using {session.device}")
    with session.reporter, summary.until_stopped():
        for cell in summary.cells:
            session.reporter.expect(cell.name, session.work(cell))
        for model_id, datasets in by_model_and_dataset(summary.cells):
            with summary.catching(cell for _, group in datasets for cell in group):
                model = session.model(model_id)
                for dataset_id, group in datasets:
                    with summary.catching(group):
                        samples = session.samples(dataset_id, model.entry.input)
                        for cell in group:
                            with summary.catching([cell]), time_limit(limit):
                                summary.add(cell, measure_cell(session.job(cell, model, samples), session))
    return summary


def measure_cell(job: Job, session: Session) -> Outcome:
    """One cell: nothing to do where its key is finished, else measure missing shards and commit.

    The result file is written either way, so a run that was killed just before is mended. Raises
    CellError, StoreError or DiskFullError; shards stored until then stay and count next time.
    """
    digest, samples = job.key.digest, job.samples
    if session.is_committed(job):
        return Outcome("skipped", f"its result is there already, key {digest[:12]}")
    plan = run_plan(
        job.key,
        ids=samples.ids,
        labels=samples.labels,
        conditions=conditions(job.benchmark.procedure, job.setting),
        images=job.images,
        skipped=job.skipped,
    )
    if not session.store.is_finished(digest):
        job.need_corrupted()
        job.need_competent()
    if not session.store.is_finished(digest) and job.attacked is not None:
        session.reporter.stage(f"{job.cell.name}: {len(job.attacked.places)} images of {job.attacked.name}")
    with session.store.open(plan, samples.ids, samples.labels) as run:
        todo = list(run.missing)
        for index in todo:
            measure_shard(index, run, job, session)
        stored = run.finished or run.commit()
    result = result_of(stored, job.benchmark, job.setting)
    session.store.set_current(name_of(result), job.key)
    write_result(session.workspace, result)
    write_per_image(session.workspace, stored, job.benchmark, job.setting)
    note_run(session.workspace, stored)
    part = "" if result.complete else f" of {result.images}, so partial and never ranked"
    told = f"{headline(result)} on {result.evaluated} images{part}{flagged(result.flags)}, key {digest[:12]}"
    return Outcome("ok", told) if todo else Outcome("skipped", f"measured already: {told}")


def measure_shard(index: int, run: OpenRun, job: Job, session: Session) -> None:
    """Measure one range of samples under every condition, and store it."""
    part, samples, model = run.plan.shards[index], job.samples, job.model
    session.reporter.stage(f"{job.cell.name}: shard {index + 1} of {len(run.plan.shards)}")
    classifier = model.classifier
    forget_peak_memory(session.device)
    started = time.perf_counter()
    images = None if isinstance(job.benchmark.procedure, WorstCase) else samples.pixels(part)
    following = next((each for each in run.missing if each > index), None)
    if images is not None and following is not None:
        samples.prepare(run.plan.shards[following])
    checks = None if images is None else _look(part, images, job, session)
    # A randomised model's draws depend on the rows of a pass: the same number whatever the profile says.
    batch_size = sanity.ROWS if checks is not None and is_random(checks) else _batch_size(job)
    table = predictions_of(part, images, job, session, batch_size)
    circumstances = facts.shard_facts(
        seconds=time.perf_counter() - started,
        batch_size=batch_size,
        device=session.device,
        parameters=model.parameters,
        macs=model.macs(samples.shape),
        preparation=samples.facts
        | {f"network {name}": fact for name, fact in classifier.facts.items()}
        | (job.network.facts() if isinstance(job.network, Grouped) else {})
        | _judged(job)
        | shared_in(job.model.entry, job.setting, session.catalog),
        checks=checks,
    )
    run.put(index, table, circumstances)
    session.reporter.advance(job.cell.name, len(part) * passes(job.benchmark, job.setting), len(part))


def _batch_size(job: Job) -> int:
    work = len(job.samples.ids) * passes(job.benchmark, job.setting)
    return job.model.batch_size(job.samples.shape, work)


def _look(part: range, images: Pixels, job: Job, session: Session) -> Checks:
    """What the first images of a shard show of the model, for sanity flags."""
    first = part[: sanity.ROWS]
    return sanity.look(
        job.benchmark.procedure,
        job.setting,
        classifier=job.network,
        classes=job.classes,
        images=images[: sanity.ROWS],
        labels=job.samples.labels[first.start : first.stop].copy(),
        ids=job.samples.ids[first.start : first.stop],
        key=job.key,
        device=str(session.device),
    )


def _judged(job: Job) -> dict[str, str]:
    """Which images predictions are of, for the record: as made here in memory, or as a file holds them."""
    procedure = job.benchmark.procedure
    if isinstance(procedure, External) and job.attacked is not None:
        return job.attacked.facts(procedure.made_by)
    if isinstance(procedure, Corruption) and procedure.images == "in-memory":
        frost = f"; frost: {FROST}, not the authors' pictures" if "frost" in procedure.corruptions else ""
        return {"corruptions": f"made in memory from 8-bit pixels{frost}"}
    return {"encoding": IN_MEMORY} if isinstance(procedure, Attack | Cascade) else {}


def predictions_of(
    part: range, images: Pixels | None, job: Job, session: Session, batch_size: int
) -> PredictionTable:
    """The predictions of one shard: joined from finished runs for a worst case, else measured."""
    samples, procedure = job.samples, job.benchmark.procedure
    ids = samples.ids[part.start : part.stop]
    if isinstance(procedure, WorstCase):
        return worst_case(procedure, job.setting, job.parts, ids)
    if (
        isinstance(procedure, Generated)
        and isinstance(job.setting, GeneratedSetting)
        and job.cast is not None
    ):
        return measure_generated(
            procedure,
            job.setting,
            job.cast,
            classifier=job.network,
            classes=job.classes,
            images=samples.pixels(part) if images is None else images,
            labels=samples.labels[part.start : part.stop].copy(),
            ids=ids,
            key=job.key,
            batch_size=batch_size,
            device=str(session.device),
            keep=lambda pair, stored: session.keep_generated(job.key.digest, pair, part, stored),
        )
    return measure(
        procedure,
        job.setting,
        classifier=job.network,
        classes=job.classes,
        images=samples.pixels(part) if images is None else images,
        labels=samples.labels[part.start : part.stop].copy(),
        ids=ids,
        key=job.key,
        batch_size=batch_size,
        device=str(session.device),
        attacked=job.attacked.of(ids) if job.attacked is not None else None,
        groups=samples.groups[part.start : part.stop] if samples.groups is not None else None,
        corrupted=job.corrupted(part),
    )
