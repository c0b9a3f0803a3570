"""What a run is and what it yields: RunKey, Score, Result. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard import jsons
from robustboard.yamls import Frozen

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]

CODE_VERSION = 2
"""Raised by hand when the evaluation code changes in a way that can move a number."""


class Subset(Frozen):
    """A seeded sample of a dataset, spread over its classes; a partial run is never ranked."""

    count: Positive
    seed: Natural


class RunKey(Frozen):
    """Everything that may change a number; equal keys, equal predictions.

    Batch size, workers, shard order, threads and the clock are not in it.
    """

    format: Literal["robustboard.run/1"] = "robustboard.run/1"
    code: int
    model: str
    model_digest: str
    """Of the entry's source, loader, architecture, label space, input spec and prompts."""
    weights_sha256: str
    """Of the weights as loaded: the file, or the list of files."""
    dataset: str
    dataset_digest: str
    """Of the entry's source, columns, label map, class subset, native size and channels."""
    data_fingerprint: str
    """Of ids, labels and image bytes as read."""
    labels_digest: str
    """Of the label space and the class subset."""
    benchmark: str
    protocol_digest: str
    seed: int
    precision: Literal["float32", "bfloat16"]
    shard_size: int
    subset: Subset | None = None
    software: dict[str, str]
    """Library → major.minor version, for those whose code computes the outputs or corrupts the images."""
    parts: dict[str, str] = Field(default_factory=dict)
    """Benchmark → digest of its run key, for the runs that a worst case is joined from; `dataset/ID` → digest
    of the files, for stored images that are read beside the dataset's own; `oracle/ID` and `generator/ID`
    → identity, for generated images."""

    @property
    def digest(self) -> str:
        """64 hex digits that name the run."""
        return jsons.digest("robustboard.run/1", self.model_dump(mode="json"))


class Score(Frozen):
    """One number with all that is needed to believe it.

    `value`, `low` and `high` are in `unit`; all three are None exactly when `status` is undefined, and
    then `reason` says why. `low` and `high` bound the 95 % interval. `correct` is the integer count
    behind a share, None for scores that are no share. A `difference` is one of two shares. `ends-95` runs
    from the mean of several intervals' lower ends to that of their upper ends.
    """

    metric: str
    condition: str
    value: float | None
    low: float | None
    high: float | None
    n: Natural
    correct: Natural | None = None
    unit: Literal["share", "count", "ratio", "difference", "percent"] = "share"
    direction: Literal["higher", "lower", "none"] = "higher"
    interval: Literal["wilson-95", "normal-95", "newcombe-95", "bootstrap-95", "ends-95", "none"] = (
        "wilson-95"
    )
    status: Literal["ok", "undefined"] = "ok"
    reason: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Score:
        defined = self.status == "ok"
        if (self.value is not None) != defined or (self.reason is None) != defined:
            raise ValueError("expected a value when status is ok, and null with a reason when undefined")
        if (self.low is None) != (self.high is None) or (self.low is not None and not defined):
            raise ValueError("expected both ends of the interval or neither, and neither when undefined")
        if self.value is None:
            return self
        if self.unit == "share" and not 0 <= self.value <= 1:
            raise ValueError(f"expected a share from 0 to 1, got {self.value}")
        if self.unit == "difference" and not -1 <= self.value <= 1:
            raise ValueError(f"expected a difference of shares from -1 to 1, got {self.value}")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"expected low <= value <= high, got {self.low}, {self.value}, {self.high}")
        if self.correct is not None and self.correct > self.n:
            raise ValueError(f"expected at most n = {self.n} correct, got {self.correct}")
        if self.correct is not None and (self.n == 0 or self.value != self.correct / self.n):
            raise ValueError(f"expected the share {self.correct} of {self.n}, got {self.value}")
        return self


class Checks(Frozen):
    """What a look at the model showed beside its predictions: evidence for sanity flags.

    Taken on the first images of a shard; of a run, the worst of its shards. A check that the
    procedure does not call for is None.
    """

    images: Natural
    """Images looked at."""
    spread: float
    """Largest difference of a logit between two passes over the same images."""
    flips: Natural = 0
    """Images whose predicted class differs between the two passes."""
    softmax: bool
    """Whether every output row is a probability distribution: not negative, sum 1."""
    inner_gradients: bool
    """Whether the forward pass itself asks for gradients (optimisation inside the model)."""
    classes: Natural
    """Outputs that compete: the label space, or the dataset's subset of it."""
    unbounded: Natural | None = None
    """Images that survive the protocol's attack with the whole pixel range as budget."""
    attacked: Natural = 0
    """Images that this attack met: those classified right."""

    @classmethod
    def worst(cls, parts: Sequence[Checks]) -> Checks | None:
        """What all parts of a run showed together: counts are summed, of the rest the worst; None of none."""
        if not parts:
            return None
        unbounded = [part.unbounded for part in parts if part.unbounded is not None]
        return cls(
            images=sum(part.images for part in parts),
            spread=max(part.spread for part in parts),
            flips=sum(part.flips for part in parts),
            softmax=any(part.softmax for part in parts),
            inner_gradients=any(part.inner_gradients for part in parts),
            classes=min(part.classes for part in parts),
            unbounded=sum(unbounded) if unbounded else None,
            attacked=sum(part.attacked for part in parts),
        )


FlagName = Literal[
    "non-deterministic",
    "softmax-output",
    "inner-gradients",
    "few-classes",
    "zero-gradients",
    "not-falling",
    "single-step-stronger",
    "black-box-stronger",
    "unbounded-survivors",
    "oracle-shares-weights",
    "oracle-shares-data",
]


class SanityFlag(Frozen):
    """A sign that a robust accuracy is not to be believed; the row is ranked by its worst known number."""

    name: FlagName
    condition: str | None
    """Where it was seen; None for the model as such."""
    value: float
    """What was measured: a share, a difference of accuracies, or of logits."""
    limit: float
    """Values beyond it raise the flag."""
    reason: str
    """One sentence for readers, with the numbers."""


class Facts(Frozen):
    """Circumstances of a run that do not belong in its key; they differ from run to run."""

    seconds: float
    """Wall time of evaluation, summed over shards, without loading."""
    peak_memory_bytes: int
    batch_size: int
    threads: int
    device: str
    parameters: int
    macs: int | None
    """Multiply-accumulates of one image's forward pass; None where they could not be counted."""
    environment: dict[str, str]
    checks: Checks | None = None
    """Evidence for sanity flags."""
    preparation: dict[str, str] = Field(default_factory=dict)
    """What was done to the images between file and network, in words."""
    finished_at: str
    """UTC, ISO 8601, to the second; provenance only."""


class ShardRecord(Frozen):
    """One stored shard: rows of a contiguous range of samples."""

    name: str
    rows: Natural
    sha256: str


class ConditionCount(Frozen):
    """Rows of one condition, and those whose predicted class is the label."""

    condition: str
    total: Natural
    correct: Natural


class RunPlan(Frozen):
    """What a run will hold, fixed before its first row; equal for everyone with the same key."""

    format: Literal["robustboard.plan/1"] = "robustboard.plan/1"
    key: RunKey
    key_digest: str
    images: Natural
    """Images in the dataset."""
    skipped: Natural
    """Images that could not be read and that the run was told to leave out."""
    evaluated: Positive
    """Images to measure."""
    samples_digest: str
    """Of the sample ids to measure and their labels, in order."""
    conditions: tuple[str, ...]

    @property
    def shards(self) -> tuple[range, ...]:
        """Which samples each shard holds: contiguous ranges of the key's shard size."""
        step = self.key.shard_size
        return tuple(range(i, min(i + step, self.evaluated)) for i in range(0, self.evaluated, step))


class RunRecord(Frozen):
    """The last file of a run; once it is there, the run is finished. Equal keys, equal bytes."""

    format: Literal["robustboard.record/1"] = "robustboard.record/1"
    plan: RunPlan
    shards: tuple[ShardRecord, ...]
    counts: tuple[ConditionCount, ...]


class Result(Frozen):
    """The summary of one cell, rebuilt byte for byte from predictions and facts."""

    format: Literal["robustboard.result/1"] = "robustboard.result/1"
    key: RunKey
    key_digest: str
    status: Literal["verified"]
    """A run record stands behind it: only one can yield a Result. Who has checked it since is told by
    leaderboard/verifications, and a result that nobody has checked is not ranked."""
    images: int
    """Images in the dataset entry."""
    evaluated: int
    """Images measured here; fewer than `images` for a partial run."""
    skipped: int
    headline: str
    """Metric and condition that stand for the cell on boards: `robust_accuracy@linf 8/255`."""
    scores: tuple[Score, ...]
    flags: tuple[SanityFlag, ...] = ()
    """Signs that these numbers overstate robustness, in a fixed order."""
    shards: tuple[ShardRecord, ...]
    facts: Facts

    @property
    def complete(self) -> bool:
        """Whether every image of the dataset was measured."""
        return self.key.subset is None and self.skipped == 0 and self.evaluated == self.images
