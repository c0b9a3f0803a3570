"""Attacked images written to a file without loss, and judged again from that file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from robustboard import __version__, durable
from robustboard.benchmarks.entries import (
    CLEAN,
    Attack,
    Cascade,
    Clean,
    External,
    ImagesSetting,
    Ladder,
    Scope,
)
from robustboard.errors import StoreError, UserError, echo
from robustboard.registry.entries import FilePin
from robustboard.runners import sanity
from robustboard.runners.eight_bit import to_eight_bits
from robustboard.runners.external import SHOWN, Attacked, originals_digest, read_set
from robustboard.runners.flags import is_random
from robustboard.runners.imagesets.image_set import Asked, Encoding, Manifest, Values
from robustboard.runners.imagesets.npz import npz_bytes
from robustboard.runners.imagesets.parquet import parquet_bytes
from robustboard.runners.jobs import Job
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.procedures import Keep, measure
from robustboard.runners.session import Session

Floats = npt.NDArray[np.float32]
SUFFIXES: dict[str, tuple[Encoding, ...]] = {".npz": ("float32", "8-bit"), ".parquet": ("8-bit",)}
"""Ending of the file → encodings it can hold, the usual one first."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and what it is worth."""

    attacked: Attacked
    """As read back from the file."""
    manifest: Manifest
    held_pixels: int
    """Pixels whose nearest 8-bit value would have left the budget, so that another was taken."""
    held_images: int
    """Images with such pixels."""


def encoding_for(path: Path, wanted: Encoding | None) -> Encoding:
    """How a file of this name holds pixels. Raises UserError where it cannot do so as wanted."""
    known = SUFFIXES.get(path.suffix)
    if known is None:
        raise UserError(f"{path}: expected a file name that ends in {' or '.join(SUFFIXES)}")
    if wanted is not None and wanted not in known:
        raise UserError(f"{path}: PNG images in Parquet hold 8 bits a pixel; name a .npz file for {wanted}")
    return wanted or known[0]


def export_images(
    session: Session, cell: Cell, path: Path, encoding: Encoding, *, budget: Fraction | None = None
) -> Exported:
    """Attack as a run of the cell does, write the attacked images, read them back and judge them again.

    The same key gives the same random draws, so these are the images that the run judges. Images wrong
    from the start are not attacked and not written. The file is there whole or not at all; it
    first says that nobody has judged it, and once that is done what came out.

    Args:
        session: Where and how.
        cell: A benchmark that attacks; its setting for the dataset has the budget.
        path: A new file, .npz or .parquet.
        encoding: As `encoding_for` allows for such a file.
        budget: One of the protocol's; the headline's when absent.

    Raises:
        UserError: a benchmark that does not attack, a budget it does not have, a file that exists, pixels
            without an 8-bit value inside the budget.
        CellError: as a run does.
    """
    encoding = encoding_for(path, encoding)
    if path.exists():
        raise UserError(f"{path}: expected the name of a new file, got one that exists")
    procedure, setting = session.benchmarks[cell.benchmark].procedure, session.setting(cell)
    if not isinstance(procedure, Attack | Cascade) or not isinstance(setting, Ladder):
        raise UserError(
            f"expected a benchmark that attacks, got {cell.benchmark}, which is of kind {procedure.kind}"
        )
    chosen = _one_budget(cell, setting, budget)
    model = session.model(cell.model)
    job = session.job(cell, model, session.samples(cell.dataset, model.entry.input))
    return _Export(session, job, procedure, chosen, path).run(encoding)


def _one_budget(cell: Cell, setting: Ladder, budget: Fraction | None) -> Ladder:
    """The setting with that budget, or the headline's, alone."""
    wanted = setting.headline if budget is None else budget
    if wanted not in setting.budgets:
        known = ", ".join(map(str, setting.budgets))
        raise UserError(f"expected a budget of {cell.benchmark} on {cell.dataset} ({known}), got {wanted}")
    return setting.model_copy(update={"budgets": (wanted,), "headline": wanted})


@dataclass(frozen=True, slots=True)
class _Export:
    """One export on its way."""

    session: Session
    job: Job
    procedure: Attack | Cascade
    setting: Ladder
    """With one budget."""
    path: Path

    @property
    def condition(self) -> str:
        return f"{self.procedure.norm} {self.setting.headline}"

    def run(self, encoding: Encoding) -> Exported:
        samples, cell = self.job.samples, self.job.cell
        count = len(samples.ids)
        Asked(count, samples.shape, "").values(count, np.dtype(np.float32).itemsize, "attacked images")
        kept: dict[str, Floats] = {}

        def keep(condition: str, ids: Sequence[str], images: Floats) -> None:
            if condition == self.condition:
                kept.update(zip(ids, images, strict=True))

        in_memory = self._robust(self._measure(self.procedure, self.setting, keep=keep))
        if not kept:
            raise UserError(f"{cell.name}: no image was right before the attack, so none was attacked")
        ids = tuple(each for each in samples.ids if each in kept)
        values, held = self._encoded(np.stack([kept.pop(each) for each in ids]), ids, encoding)
        manifest = Manifest(
            made_with=f"robustboard {__version__}",
            model=cell.model,
            benchmark=cell.benchmark,
            dataset=cell.dataset,
            condition=self.condition,
            norm=self.procedure.norm,
            budget=self.setting.headline,
            key_digest=self.job.key.digest,
            encoding=encoding,
            originals_sha256=originals_digest(samples, ids),
            evaluated=count,
            robust_in_memory=in_memory,
        )
        first = self._put(ids, values, manifest)
        manifest = manifest.model_copy(update={"robust_from_file": self._from_file(first)})
        last = self._put(ids, values, manifest)
        if last.images.manifest != manifest or not np.array_equal(last.images.values, first.images.values):
            raise StoreError(f"{self.path}: the file read back is not the one that was written")
        return Exported(last, manifest, int(held.sum()), int(np.count_nonzero(held)))

    def _measure(
        self,
        procedure: Attack | Cascade | External,
        setting: Ladder,
        *,
        attacked: Attacked | None = None,
        keep: Keep | None = None,
    ) -> PredictionTable:
        """Predictions on all samples, part by part, as a run makes them."""
        job, session = self.job, self.session
        count, step = len(job.samples.ids), job.key.shard_size
        tables = []
        for start in range(0, count, step):
            part = range(start, min(start + step, count))
            ids = job.samples.ids[part.start : part.stop]
            images, labels = job.samples.pixels(part), job.samples.labels[part.start : part.stop].copy()
            session.reporter.stage(f"{job.cell.name}: {self.condition}, images {start} to {part.stop - 1}")
            tables.append(
                measure(
                    procedure,
                    setting,
                    classifier=job.network,
                    classes=job.classes,
                    images=images,
                    labels=labels,
                    ids=ids,
                    key=job.key,
                    batch_size=self._batch_size(images, labels, ids),
                    device=str(session.device),
                    attacked=attacked.of(ids) if attacked is not None else None,
                    keep=keep,
                )
            )
        return PredictionTable.concat(tables)

    def _batch_size(self, images: Floats, labels: npt.NDArray[np.int64], ids: Sequence[str]) -> int:
        """As in a run: a randomised model's draws depend on the rows of a pass, so those are fixed."""
        scope = Scope(datasets=(self.job.cell.dataset,))
        checks = sanity.look(
            Clean(kind="clean", settings=(scope,)),
            scope,
            classifier=self.job.network,
            classes=self.job.classes,
            images=images,
            labels=labels,
            ids=ids,
            key=self.job.key,
            device=str(self.session.device),
        )
        return sanity.ROWS if is_random(checks) else self.session.profile.batch_size

    def _encoded(
        self, images: Floats, ids: Sequence[str], encoding: Encoding
    ) -> tuple[Values, npt.NDArray[np.int64]]:
        """The pixels as the file will hold them, and how many of each image were held in the budget."""
        if encoding == "float32":
            return images, np.zeros(len(ids), np.int64)
        places = {each: place for place, each in enumerate(self.job.samples.ids)}
        originals = self.job.samples.pixels([places[each] for each in ids])
        rounded = to_eight_bits(images, originals, self.procedure.norm, float(self.setting.headline))
        lost = np.flatnonzero(rounded.lost)
        if lost.size:
            named = ", ".join(echo(ids[row]) for row in lost[:SHOWN])
            raise UserError(
                f"{int(rounded.lost.sum())} pixels of {lost.size} images have no 8-bit value within"
                f" {self.condition} of the original ({named}{', ...' * (lost.size > SHOWN)}): write float32"
            )
        return rounded.values, rounded.held

    def _put(self, ids: tuple[str, ...], values: Values, manifest: Manifest) -> Attacked:
        """Write the file, whole or not at all, and read it back as a stranger's."""
        if self.path.suffix == ".npz":
            data = npz_bytes(ids, values, manifest)
        else:
            data = parquet_bytes(ids, values.astype(np.uint8), manifest)
        durable.write(self.path, data)
        dataset = self.session.catalog.dataset(self.job.cell.dataset)
        return read_set(
            self.path,
            self.path.name,
            self.job.everything,
            dataset,
            norm=manifest.norm,
            budget=manifest.budget,
        )

    def _from_file(self, attacked: Attacked) -> int:
        """Images that are right as they are and as the file holds them."""
        setting = ImagesSetting(
            datasets=(self.job.cell.dataset,),
            budgets=self.setting.budgets,
            headline=self.setting.headline,
            file=FilePin(path="export", sha256=attacked.sha256),
        )
        procedure = External(kind="external", norm=self.procedure.norm, made_by="export", settings=(setting,))
        return self._robust(self._measure(procedure, setting, attacked=attacked))

    def _robust(self, table: PredictionTable) -> int:
        """Images that are right as they are and attacked."""
        clean, moved = (
            rows.column("predicted") == rows.column("label")
            for rows in (table.only(CLEAN), table.only(self.condition))
        )
        return int(np.count_nonzero(clean & moved))
