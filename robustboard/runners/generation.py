"""Predictions on images generated against a model, and what the oracles say of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard import jsons
from robustboard.benchmarks.attacks.losses import cross_entropy
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.entries import CLEAN, Generated, GeneratedSetting
from robustboard.benchmarks.generated import oracle_name, pair_name, reconstruction_name, verdict_name
from robustboard.benchmarks.oracle_loop import (
    NO_VERDICT,
    Generator,
    LoopSettings,
    OracleAnswer,
    Origin,
    Perturbed,
    perturb,
    reconstruct,
)
from robustboard.benchmarks.seeds import Draws
from robustboard.runners.generated_images import LEVELS
from robustboard.runners.inputs import Pixels, positions_of, valid_pixels
from robustboard.runners.oracles import Oracle
from robustboard.runners.predictions import PredictionTable, SampleStatus
from robustboard.runners.record import RunKey

KeepImages = Callable[[str, npt.NDArray[np.uint8]], None]
"""Takes (pair, 8-bit images (n, c, h, w)) of each pair of generator and oracle."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The generators and oracles of one setting, loaded."""

    generators: Mapping[str, Generator]
    oracles: Mapping[str, Oracle]
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    """Sparse generator → what of its latents may move."""


@dataclass(frozen=True, slots=True)
class _Shard:
    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    model: Model
    columns: npt.NDArray[np.int64] | None

    def seen(self, condition: str, images: Tensor, distance: npt.NDArray[np.float32]) -> PredictionTable:
        """The model's answers."""
        logits = self.model.logits(images).double()
        predicted = logits.argmax(1).cpu().numpy()
        return PredictionTable.of(
            sample_id=self.ids,
            condition=condition,
            label=self.labels,
            predicted=predicted if self.columns is None else self.columns[predicted],
            confidence=torch.softmax(logits, dim=1).amax(1).cpu().numpy(),
            distance=distance,
            status=["ok"] * len(self.ids),
        )

    def told(
        self, condition: str, answer: OracleAnswer, distance: npt.NDArray[np.float32]
    ) -> PredictionTable:
        """An oracle's answers, with their margin over the next class as group."""
        status: list[SampleStatus] = [
            "no-verdict" if each == NO_VERDICT else "ok" for each in answer.predicted
        ]
        return PredictionTable.of(
            sample_id=self.ids,
            condition=condition,
            label=self.labels,
            predicted=answer.predicted,
            confidence=answer.confidence,
            distance=distance,
            status=status,
            group=[f"{each:.6f}" for each in answer.margin.tolist()],
        )


def generation_seed(key: RunKey) -> str:
    """What noise is seeded by: data, protocol and seed, but no model, so that all models get the same."""
    return jsons.digest("robustboard.generation/1", [key.dataset_digest, key.protocol_digest, key.seed])


def measure_generated(
    procedure: Generated,
    setting: GeneratedSetting,
    cast: Cast,
    *,
    classifier: torch.nn.Module,
    classes: tuple[int, ...] | None,
    images: Pixels,
    labels: npt.NDArray[np.int64],
    ids: Sequence[str],
    key: RunKey,
    batch_size: int,
    device: str,
    keep: KeepImages | None = None,
) -> PredictionTable:
    """One shard: the loop for each pair, then model and oracle on its images as 8-bit files hold them.

    Rows: `clean` and `oracle ORACLE` on the images as they are; `reconstruction by GENERATOR` with the
    model's answers on what the generator alone makes of them, and the L2 distance; for each pair
    `GENERATOR by ORACLE` with the model's answers, how the loop ended as status, the L2 distance and the
    steps as group; and `verdict of ...` with the oracle's answers and the largest change of a pixel. An
    oracle's rows have its margin as group. Arguments as those of `procedures.measure`. Raises CellError as
    `oracle_loop.perturb` does.
    """
    classifier.eval()
    autocast = key.precision == "bfloat16"
    model = Model(classifier, batch_size=batch_size, classes=classes, device=device, autocast=autocast)
    shard = _Shard(tuple(ids), labels, model, None if classes is None else np.array(classes, np.int64))
    still = np.zeros(len(ids), np.float32)
    with torch.inference_mode(mode=False), torch.no_grad():
        originals = torch.from_numpy(valid_pixels(images)).to(model.device)
        positions = torch.from_numpy(positions_of(labels, classes)).to(model.device)
        tables = [shard.seen(CLEAN, originals, still)]
        tables += [
            shard.told(oracle_name(name), cast.oracles[name].judge(originals), still)
            for name in setting.oracles
        ]
        start = _start(model, originals, positions, procedure)
        targets = torch.from_numpy(labels).to(model.device)
        draws = {
            use.generator: Draws(generation_seed(key), tuple(ids), f"generated by {use.generator}")
            for use in setting.generators
        }
        for name, drawn in draws.items():
            origin = Origin(originals, targets, drawn, positions)
            rebuilt = reconstruct(cast.generators[name], origin, batch_size)
            tables.append(_rebuilt(shard, reconstruction_name(name), rebuilt, originals))
        for use, oracle in setting.pairs:
            loop = LoopSettings(
                budget=procedure.budget,
                step_size=float(use.step_size),
                update_rule=procedure.update_rule,
                mask=cast.masks.get(use.generator),
                rows=batch_size,
            )
            origin = Origin(start, targets, draws[use.generator], positions)
            made = perturb(model, cast.oracles[oracle], cast.generators[use.generator], origin, loop)
            name = pair_name(use.generator, oracle)
            tables += _pair(shard, name, made, originals, (cast.oracles[oracle], keep))
    return PredictionTable.concat(tables)


def _rebuilt(shard: _Shard, condition: str, rebuilt: Tensor, originals: Tensor) -> PredictionTable:
    """The model's answers on reconstructions as 8-bit files hold them."""
    images = _as_stored(rebuilt, originals)
    return shard.seen(condition, images, _distances(images, originals))


def _as_stored(made: Tensor, originals: Tensor) -> Tensor:
    """Images (n, c, h, w) on the 8-bit grid, on the device of the originals."""
    return torch.from_numpy(eight_bit(made).astype(np.float32) / LEVELS).to(originals)


def _distances(images: Tensor, originals: Tensor) -> npt.NDArray[np.float32]:
    """(n,) L2 distances."""
    return np.asarray((images - originals).flatten(1).norm(dim=1).cpu().numpy(), np.float32)


def _pair(
    shard: _Shard,
    pair: str,
    made: Perturbed,
    originals: Tensor,
    takers: tuple[Oracle, KeepImages | None],
) -> list[PredictionTable]:
    """Rows of one pair, of the images on the 8-bit grid, which the oracle judges and someone may keep."""
    oracle, keep = takers
    if keep is not None:
        keep(pair, eight_bit(made.images))
    images = _as_stored(made.images, originals)
    seen = shard.seen(pair, images, _distances(images, originals))
    steps = [str(each) for each in made.steps.tolist()]
    seen = replace_columns(seen, list(made.status), steps)
    largest = (images - originals).flatten(1).abs().amax(dim=1).float().cpu().numpy()
    return [seen, shard.told(verdict_name(pair), oracle.judge(images), largest)]


def replace_columns(table: PredictionTable, status: Sequence[str], group: Sequence[str]) -> PredictionTable:
    """The table of one condition with another status and group for each row."""
    rows = table.table
    for name, values in (("status", status), ("group", group)):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(name), [list(values)])
    return replace(table, table=rows)


def eight_bit(images: Tensor) -> npt.NDArray[np.uint8]:
    """(n, c, h, w) images in [0, 1] as the nearest of 256 levels, ties to even: what a PNG file holds."""
    return np.asarray(np.rint(images.cpu().numpy().astype(np.float64) * LEVELS), np.uint8)


def array_bytes(values: npt.NDArray[np.uint8]) -> bytes:
    """An array as a .npy file."""
    sink = io.BytesIO()
    np.save(sink, values, allow_pickle=False)
    return sink.getvalue()


def _start(model: Model, images: Tensor, positions: Tensor, procedure: Generated) -> Tensor:
    """Where the loop begins: the images, or one FGSM step from them."""
    if procedure.start is None:
        return images
    _, slopes = model.gradients(images, positions, cross_entropy)
    return (images + float(procedure.start) * slopes.sign()).clamp(0, 1)
