"""The table of predictions: one row an image and condition. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from robustboard.errors import StoreError

SampleStatus = Literal[
    "ok",
    "already-wrong",
    "no-gradient",
    "skipped",
    "outside",
    "accepted",
    "reconstruction-only",
    "rejected-at-0",
    "source-rejected",
    "no-verdict",
]
STATUSES: tuple[SampleStatus, ...] = get_args(SampleStatus)
"""ok: predicted on this condition's image. already-wrong: wrong on the clean image, so never attacked,
and counted wrong. no-gradient: predicted on this condition's image, but the model gave the attack
gradients of exactly zero only, so that the prediction says nothing about robustness. skipped: the
image could not be read and the run was told to go on. outside: the image shows none of the classes
(out of distribution); its label is -1 and no prediction is right. accepted, reconstruction-only,
rejected-at-0 and source-rejected: how the loop of a generated image ended. no-verdict: an ensemble of
oracles did not agree, so that predicted is -1."""

OUTSIDE = -1
"""Label of images out of distribution."""

SCHEMA = pa.schema(
    [
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("condition", pa.string(), nullable=False),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("predicted", pa.int32(), nullable=False),
        pa.field("confidence", pa.float32(), nullable=False),
        pa.field("distance", pa.float32(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("attack", pa.string(), nullable=False),
        pa.field("label_log_share", pa.float32()),
        pa.field("square_sum", pa.float32()),
        pa.field("entropy", pa.float32()),
        pa.field("max_logit", pa.float32()),
        pa.field("energy", pa.float32()),
        pa.field("group", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What detection and calibration need of the logits of n images: five columns of (n,) float32.

    All are of the logits cut to the dataset's classes.
    """

    label_log_share: npt.NDArray[Any]
    """Natural logarithm of the softmax share of the label; 0 where the image is of no class."""
    square_sum: npt.NDArray[Any]
    """Sum of the squared softmax shares."""
    entropy: npt.NDArray[Any]
    """Of the softmax shares, in nats."""
    max_logit: npt.NDArray[Any]
    energy: npt.NDArray[Any]
    """log(sum of exp of the logits); the energy score of the literature is minus this."""

    NAMES: ClassVar[tuple[str, ...]] = ("label_log_share", "square_sum", "entropy", "max_logit", "energy")


@dataclass(frozen=True, slots=True)
class PredictionTable:
    """One row an image and condition, checked on construction.

    Columns: sample_id; condition (`clean`, `linf 8/255`, `uniform 1/10 draw 0`); label and
    predicted, class indices from 0 (predicted is -1 only where status is skipped or no-verdict);
    confidence, the softmax share of the predicted class in [0, 1]; distance, the size of the
    perturbation in the protocol's norm, in [0, 1] pixel units; status, see STATUSES; attack, the name of
    the attack that broke the image, empty where none did; then the columns of Outputs, null where the
    protocol does not ask for them; group, what the dataset says of the image beside its label (a region, a
    texture), null where it says nothing; of generated images the number of accepted steps.
    """

    table: pa.Table

    def __post_init__(self) -> None:
        """Raise StoreError when columns, ranges or (sample, condition) pairs are not as promised."""
        if self.table.schema.names != SCHEMA.names or not self.table.schema.equals(SCHEMA):
            raise StoreError(f"predictions: expected columns {SCHEMA.names}, got {self.table.schema.names}")
        self._check_numbers()
        self._check_rows()

    def _check_numbers(self) -> None:
        for name in ("confidence", "distance"):
            if not np.isfinite(self.column(name)).all():
                raise StoreError(f"predictions: {name} holds a number that is not finite")
        if not ((self.column("confidence") >= 0) & (self.column("confidence") <= 1)).all():
            raise StoreError("predictions: confidence holds a number outside [0, 1]")
        if (self.column("distance") < 0).any():
            raise StoreError("predictions: distance holds a negative number")
        for name in Outputs.NAMES:
            if not np.isfinite(self.table.column(name).drop_null().to_numpy()).all():
                raise StoreError(f"predictions: {name} holds a number that is not finite")

    def _check_rows(self) -> None:
        statuses = set(self.table.column("status").unique().to_pylist())
        if not statuses <= set(STATUSES):
            raise StoreError(f"predictions: expected status among {STATUSES}, got {sorted(statuses)}")
        label, predicted = self.column("label"), self.column("predicted")
        skipped = np.isin(self.column("status"), ("skipped", "no-verdict"))
        outside = self.column("status") == "outside"
        if (label[~outside] < 0).any() or (predicted[~skipped] < 0).any():
            raise StoreError("predictions: a label or predicted class is negative")
        if (label[outside] != OUTSIDE).any():
            raise StoreError(f"predictions: expected label {OUTSIDE} where status is outside")
        names = ["sample_id", "condition"]
        pairs = self.table.select(names).group_by(names, use_threads=False)
        if pairs.aggregate([]).num_rows != self.table.num_rows:
            raise StoreError("predictions: a sample stands twice in one condition")

    @classmethod
    def of(
        cls,
        *,
        sample_id: Sequence[str],
        condition: str,
        label: npt.NDArray[Any],
        predicted: npt.NDArray[Any],
        confidence: npt.NDArray[Any],
        distance: npt.NDArray[Any],
        status: Sequence[str],
        attack: Sequence[str] | None = None,
        outputs: Outputs | None = None,
        group: Sequence[str] | None = None,
    ) -> PredictionTable:
        """The table of one condition from equally long columns; no attack broke any image if not given."""
        count = len(sample_id)
        columns = [
            pa.array(list(sample_id), pa.string()),
            pa.array([condition] * count, pa.string()),
            pa.array(np.asarray(label, np.int32)),
            pa.array(np.asarray(predicted, np.int32)),
            pa.array(np.asarray(confidence, np.float32)),
            pa.array(np.asarray(distance, np.float32)),
            pa.array(list(status), pa.string()),
            pa.array([""] * count if attack is None else list(attack), pa.string()),
            *(
                pa.nulls(count, pa.float32())
                if outputs is None
                else pa.array(np.asarray(getattr(outputs, name), np.float32))
                for name in Outputs.NAMES
            ),
            pa.nulls(count, pa.string()) if group is None else pa.array(list(group), pa.string()),
        ]
        return cls(pa.Table.from_arrays(columns, schema=SCHEMA))

    @classmethod
    def concat(cls, tables: Sequence[PredictionTable]) -> PredictionTable:
        """Rows of several tables, one after another."""
        return cls(pa.concat_tables([t.table for t in tables]).combine_chunks())

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column as a NumPy array (text columns as objects)."""
        return np.asarray(self.table.column(name).to_numpy(zero_copy_only=False))

    def conditions(self) -> list[str]:
        """Conditions in order of first appearance."""
        return list(dict.fromkeys(self.table.column("condition").to_pylist()))

    def only(self, condition: str) -> PredictionTable:
        """Rows of one condition, in stored order."""
        mask = pc.equal(self.table.column("condition"), condition)
        return PredictionTable(self.table.filter(mask))
