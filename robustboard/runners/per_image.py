"""Right or wrong, image by image, beside each result: what pairs of models are compared by. No torch here.

    leaderboard/outcomes/<model>/<benchmark>--<dataset>.json

A bit an image and condition, eight to a byte: 6 KB for 50,000 images. Images stand in the order of their
ids; files with equal `samples` are of the same images in the same order.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from robustboard import durable, jsons
from robustboard.benchmarks.conditions import perturbations
from robustboard.benchmarks.entries import (
    CLEAN,
    BenchmarkEntry,
    Clean,
    CueConflict,
    Generated,
    OutOfDistribution,
    Scope,
)
from robustboard.benchmarks.metrics import area_weights
from robustboard.errors import StoreError
from robustboard.runners.columns import Columns, columns_of
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import Natural, Result, RunKey
from robustboard.runners.store import StoredRun
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen

B = TypeVar("B", np.bool_, np.uint8)
Flags = npt.NDArray[np.bool_]
Packed = npt.NDArray[np.uint8]
"""(..., n / 8) bits, eight images to a byte."""
Right = Mapping[str, Flags]
"""Condition → (n,) whether the predicted class is the label, images in the order of ids."""
COUNTED = ("clean_accuracy", "robust_accuracy", "noise_accuracy_worst")
"""Metrics that are right or wrong for each image, whatever the condition."""


class PerImage(Frozen):
    """Whether each image was right under each condition of one run."""

    format: Literal["robustboard.per-image/1"] = "robustboard.per-image/1"
    key_digest: str
    """The run whose predictions these are."""
    images: Natural
    samples: str
    """Digest of the ids, in order."""
    right: dict[str, str]
    """Condition → base64 of the bits, the first image in the highest bit of the first byte."""

    def packed(self, name: str = "per-image outcomes") -> dict[str, Packed]:
        """The bits, eight to a byte, the last byte filled up with 0. Raises StoreError as `flags` does."""
        return {condition: _bytes(text, self.images, name) for condition, text in self.right.items()}

    def flags(self, name: str = "per-image outcomes") -> dict[str, Flags]:
        """The bits unpacked. Raises StoreError, by `name`, when they are not as many as the images."""
        return {condition: unpack(text, self.images, name) for condition, text in self.right.items()}


def pack(flags: Flags) -> str:
    """Base64 of the bits of (n,) flags."""
    return base64.b64encode(np.packbits(flags).tobytes()).decode("ascii")


def unpack(text: str, count: int, name: str) -> Flags:
    """The (count,) flags that `pack` wrote. Raises StoreError for anything else."""
    return np.unpackbits(_bytes(text, count, name), count=count).astype(np.bool_)


def _bytes(text: str, count: int, name: str) -> Packed:
    try:
        data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    except (ValueError, binascii.Error) as error:
        raise StoreError(f"{name}: right: expected base64, got something else") from error
    beyond = -count % 8
    if data.size != (count + 7) // 8 or (beyond and data[-1] & ((1 << beyond) - 1)):
        raise StoreError(f"{name}: right: expected {count} bits")
    return data


def count_right(packed: Packed) -> npt.NDArray[np.int64]:
    """Right images along the last axis of packed bits."""
    return np.asarray(np.bitwise_count(packed).sum(axis=-1, dtype=np.int64))


def shared_conditions(benchmark: BenchmarkEntry, setting: Scope) -> list[str]:
    """Conditions whose shares are over all images; none where images of no class are told apart."""
    procedure = benchmark.procedure
    if isinstance(procedure, OutOfDistribution):
        return []
    if isinstance(procedure, Clean | CueConflict | Generated):
        return [CLEAN]
    return [CLEAN, *(step.name for step in perturbations(procedure, setting))]


def per_image(key: RunKey, table: PredictionTable, conditions: list[str]) -> PerImage:
    """Bits of the measured images under these conditions, which the table has to hold.

    Raises StoreError when they are not over the same images.
    """
    columns = columns_of(table, table.conditions())
    ids = [str(sample) for sample in columns.values("sample_id", table.conditions()[0])]
    return PerImage(
        key_digest=key.digest,
        images=len(ids),
        samples=jsons.digest("robustboard.samples/1", ids),
        right={condition: pack(_flags(columns, condition)) for condition in conditions},
    )


def _flags(columns: Columns, condition: str) -> Flags:
    return np.asarray(columns.right[condition], np.bool_)


def write_per_image(workspace: Workspace, run: StoredRun, benchmark: BenchmarkEntry, setting: Scope) -> None:
    """Write the bits of a whole run beside its result, unless they are there; nothing for partial runs."""
    plan, conditions = run.record.plan, shared_conditions(benchmark, setting)
    if plan.key.subset is not None or plan.evaluated != plan.images or not conditions:
        return
    cell = Cell(plan.key.model, plan.key.benchmark, plan.key.dataset)
    path = workspace.outcomes / f"{cell.name}.json"
    data = jsons.seal(per_image(plan.key, run.predictions, conditions))
    if not path.exists() or path.read_bytes() != data:
        durable.write(path, data)


def read_per_image(path: Path, name: str | None = None) -> PerImage:
    """One file, as it was sealed. Raises StoreError that names it."""
    shown = name or path.as_posix()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{shown}: cannot read: {error.strerror or error}") from error
    return jsons.unseal(data, PerImage, shown)


def counted(right: Mapping[str, npt.NDArray[B]], metric: str, condition: str) -> npt.NDArray[B] | None:
    """Whether an image counts for a score, flags or packed bits; None for scores that are no count of images.

    clean_accuracy: right on the clean image. robust_accuracy: right on the clean and on the attacked image.
    noise_accuracy_worst: right under every draw. corruption_accuracy: right at one severity.
    """
    if metric == "clean_accuracy":
        return right.get(CLEAN)
    if metric == "robust_accuracy" and CLEAN in right and condition in right:
        return np.bitwise_and(right[CLEAN], right[condition])
    if metric == "noise_accuracy_worst":
        draws = _draws(right, condition)
        return np.bitwise_and.reduce(draws) if draws else None
    return right.get(condition) if metric == "corruption_accuracy" else None


def _draws(right: Mapping[str, npt.NDArray[B]], group: str) -> list[npt.NDArray[B]]:
    return [bits for name, bits in right.items() if name.startswith(f"{group} draw ")]


def planes(right: Right, metric: str, condition: str) -> tuple[list[Flags], list[float]] | None:
    """Bits and weights that add up to what each image gives to a score; None where there is no such sum.

    A count has one plane of weight 1. A mean over k equal parts has the binary digits of the number of
    right ones, in units of 1/k. The area under a curve has a part a budget, or a budget and draw.
    """
    flags = counted(right, metric, condition)
    if flags is not None:
        return [flags], [1.0]
    if metric == "noise_accuracy":
        return _digits(_draws(right, condition), 1.0)
    if metric == "corruption_accuracy":
        return _digits([f for name, f in right.items() if name.rpartition(" ")[0] == condition], 1.0)
    return _area(right, condition) if metric == "area_under_curve" else None


def _digits(parts: list[Flags], weight: float) -> tuple[list[Flags], list[float]] | None:
    """Binary digits of how many parts are right."""
    if not parts:
        return None
    count = np.sum(parts, axis=0, dtype=np.int64)
    width = len(parts).bit_length()
    bits = [np.asarray((count >> digit) & 1, np.bool_) for digit in range(width)]
    return bits, [weight * 2**digit / len(parts) for digit in range(width)]


def _area(right: Right, kind: str) -> tuple[list[Flags], list[float]] | None:
    budgets: dict[Fraction, list[Flags]] = {}
    for name, flags in right.items():
        found, _, rest = name.partition(" ")
        if found == kind and rest:
            drawn = " draw " in rest
            kept = flags if drawn or CLEAN not in right else np.asarray(flags & right[CLEAN], np.bool_)
            budgets.setdefault(Fraction(rest.partition(" draw ")[0]), []).append(kept)
    if len(budgets) < 2:  # noqa: PLR2004 - an area needs two budgets
        return None
    rising = sorted(budgets)
    bits: list[Flags] = []
    weights: list[float] = []
    for budget, weight in zip(rising, area_weights([float(each) for each in rising]), strict=True):
        found_bits, found_weights = _digits(budgets[budget], float(weight)) or ([], [])
        bits += found_bits
        weights += found_weights
    return bits, weights


def shares(right: Right, metric: str, condition: str) -> npt.NDArray[np.float64] | None:
    """(n,) what each image gives to a score, from 0 to 1; the mean is the score. None where there is none."""
    found = planes(right, metric, condition)
    if found is None:
        return None
    bits, weights = found
    return np.asarray(sum(w * b for w, b in zip(weights, bits, strict=True)), np.float64)


def check_against(outcomes: PerImage, result: Result, name: str) -> None:
    """Raise StoreError when the bits do not add up to the counts of the result they belong to."""
    right = outcomes.packed(name)
    if outcomes.key_digest != result.key_digest or outcomes.images != result.evaluated:
        raise StoreError(f"{name}: key_digest: the outcomes of another run")
    for score in result.scores:
        bits = counted(right, score.metric, score.condition) if score.metric in COUNTED else None
        if bits is not None and score.correct is not None and int(count_right(bits)) != score.correct:
            said = f"{score.metric}@{score.condition}: expected {score.correct} right as in the result"
            raise StoreError(f"{name}: right: {said}, got {int(count_right(bits))}")
