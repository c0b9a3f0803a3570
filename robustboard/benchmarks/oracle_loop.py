"""Images moved uphill on a model's loss while an oracle still sees their class (Zhang et al. 2023, FMR).

Everything runs in batches. What becomes of an image does not depend on the images around it: each stops
on its own, has its own random numbers, and passes are filled up to whole multiples of 16 rows, which makes
the result of a row the same in every company.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard.benchmarks.attacks.losses import cross_entropy
from robustboard.benchmarks.attacks.model import GRAIN, Model
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError

Status = Literal["accepted", "reconstruction-only", "rejected-at-0", "source-rejected"]
"""accepted: at least one step was taken. reconstruction-only: the oracle let the reconstruction pass, and no
step. rejected-at-0: the generator alone already changed what the oracle sees; the original is kept.
source-rejected: the oracle does not see the label in the original either, so it judges nothing."""
Rule = Literal["adam", "sign", "sgd"]
NO_VERDICT = -1
BETA1, BETA2, TINY = 0.9, 0.999, 1e-8
"""Of Adam (Kingma & Ba 2015, algorithm 1)."""


@dataclass(frozen=True, slots=True)
class OracleAnswer:
    """What an oracle says of n images."""

    predicted: npt.NDArray[np.int64]
    """(n,) classes of the label space; -1 where it gives no verdict."""
    confidence: npt.NDArray[np.float32]
    """(n,) softmax share of the class, or of an ensemble's members the share that voted for it; 0 without
    a verdict."""
    margin: npt.NDArray[np.float32]
    """(n,) that share less the next one."""


class Judge(Protocol):
    """Says which class an image shows."""

    def judge(self, images: Tensor) -> OracleAnswer:
        """Answers for (n, c, h, w) float32 images in [0, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """Images that a generator starts from."""

    images: Tensor
    """(n, c, h, w) float32 in [0, 1]."""
    labels: Tensor
    """(n,) int64 classes of the label space."""
    draws: Draws
    """Where each image's random numbers come from."""
    columns: Tensor | None = None
    """(n,) labels as columns of the model's outputs; the labels themselves when None."""

    def select(self, rows: Tensor) -> Origin:
        """The images at these positions; a position may stand more than once."""
        ids = self.draws.sample_ids
        chosen = tuple(ids[row] for row in rows.tolist())
        columns = None if self.columns is None else self.columns[rows]
        return Origin(self.images[rows], self.labels[rows], replace(self.draws, sample_ids=chosen), columns)

    @property
    def aims(self) -> Tensor:
        """(n,) columns of the model's outputs that are right."""
        return self.labels if self.columns is None else self.columns


class Generator(Protocol):
    """Makes images from latents; rows never influence each other."""

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow from images to latents; else it is a Proposer and the loop searches."""
        ...

    @property
    def image_range(self) -> tuple[float, float]:
        """Pixel range of the network inside; `encode` and `decode` convert from and to [0, 1]."""
        ...

    def encode(self, origin: Origin) -> Tensor:
        """(n, ...) float32 latents of the images."""
        ...

    def decode(self, latents: Tensor, origin: Origin) -> Tensor:
        """(n, c, h, w) images of latents that belong to these originals; may overshoot [0, 1] a little."""
        ...


@runtime_checkable
class Proposer(Protocol):
    """A generator that makes random proposals instead of following gradients."""

    def propose(self, latents: Tensor, origin: Origin, step: int) -> Tensor:
        """Latents (n, ...) near the given ones; `step` counts from 1."""
        ...


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The loop's parameters."""

    budget: int
    """Most steps an image."""
    step_size: float
    update_rule: Rule = "adam"
    mask: Tensor | None = None
    """Of a latent's shape, 1 where it may move and 0 elsewhere; everything may when None."""
    rows: int = 64
    """Images a pass, rounded down to a multiple of 16."""


@dataclass(frozen=True, slots=True)
class Perturbed:
    """What the loop made of n images."""

    images: Tensor
    """(n, c, h, w) float32 in [0, 1]: the last accepted ones; originals where the status says rejected."""
    status: list[Status]
    steps: npt.NDArray[np.int64]
    """(n,) the last step that the oracle accepted; 0 without one."""
    distances: npt.NDArray[np.float32]
    """(n,) L2 from the original, in units of [0, 1]."""
    linf: npt.NDArray[np.float32]
    """(n,) largest change of a pixel."""
    latents: Tensor
    """(n, ...) the latents of `images`, for sparse masks."""


def perturb(
    model: Model, judge: Judge, generator: Generator, origin: Origin, settings: LoopSettings
) -> Perturbed:
    """Run the loop on every image, each until its oracle objects or its budget is spent.

    Raises CellError for
    images or latents of a wrong shape or with numbers that are not finite.
    """
    with torch.inference_mode(mode=False), torch.no_grad():
        loop = _Loop(model, judge, generator, origin, settings)
        loop.begin()
        for step in range(1, settings.budget + 1):
            if not loop.active.numel():
                break
            loop.climb(step)
        return loop.result()


def reconstruct(generator: Generator, origin: Origin, rows: int) -> Tensor:
    """What the loop starts from: images (n, c, h, w) in [0, 1], encoded and decoded without a step.

    `rows` and errors are those of `perturb`.
    """
    found = []
    latents = encoded(generator, origin, rows)
    with torch.inference_mode(mode=False), torch.no_grad():
        for chosen, part in _parts(origin, torch.arange(len(origin.images)), rows):
            images = _same_shape(generator.decode(latents[_filled(chosen)], part), part.images)
            found.append(_finite(images, "generated pixels")[: len(chosen)].clamp(0, 1))
    return torch.cat(found)


def encoded(generator: Generator, origin: Origin, rows: int) -> Tensor:
    """Latents (n, ...) of images, the ones that the loop starts from; `rows` and errors as in `perturb`."""
    with torch.inference_mode(mode=False), torch.no_grad():
        found = [
            _finite(generator.encode(part), "latents")[: len(chosen)]
            for chosen, part in _parts(origin, torch.arange(len(origin.images)), rows)
        ]
    return torch.cat(found)


class _Loop:
    """The state of all images of one call."""

    def __init__(
        self, model: Model, judge: Judge, generator: Generator, origin: Origin, settings: LoopSettings
    ) -> None:
        self.model, self.judge, self.generator = model, judge, generator
        self.origin, self.settings = origin, settings
        count = len(origin.images)
        self.best = origin.images.clone()
        self.steps = torch.zeros(count, dtype=torch.int64)
        self.status: list[Status] = ["source-rejected"] * count
        self.latents = torch.empty(0)
        self.kept = torch.empty(0)
        self.first = torch.empty(0)
        self.second = torch.empty(0)
        self.gradients = torch.empty(0)
        self.losses = torch.empty(0)
        self.active = torch.arange(count)

    def begin(self) -> None:
        """Judge the originals, then their reconstructions, and take the first gradient."""
        images, labels = self.origin.images, self.origin.labels
        self.active = self.active[_agrees(self.judge, images, labels)]
        for row in self.active.tolist():
            self.status[row] = "rejected-at-0"
        self.latents = encoded(self.generator, self.origin, self.settings.rows)
        self.kept = self.latents.clone()
        self.first, self.second, self.gradients = (torch.zeros_like(self.latents) for _ in range(3))
        self.losses = self.latents.new_full((len(images),), -torch.inf)
        self._look(0)

    def climb(self, step: int) -> None:
        """One step of the images that still go on."""
        if self.generator.differentiable:
            self._update(step)
        self._look(step)

    def _update(self, step: int) -> None:
        """Move the latents of the active images along their gradients, by the rule."""
        rows, rule, size = self.active, self.settings.update_rule, self.settings.step_size
        slope = self.gradients[rows]
        if self.settings.mask is not None:
            slope = slope * self.settings.mask.to(slope)
        if rule == "sgd":
            moved = size * slope
        elif rule == "sign":
            moved = size * slope.sign()
        else:
            self.first[rows] = BETA1 * self.first[rows] + (1 - BETA1) * slope
            self.second[rows] = BETA2 * self.second[rows] + (1 - BETA2) * slope.square()
            mean = self.first[rows] / (1 - BETA1**step)
            spread = (self.second[rows] / (1 - BETA2**step)).sqrt()
            moved = size * mean / (spread + TINY)
        self.latents[rows] = self.latents[rows] + moved

    def _look(self, step: int) -> None:
        """Decode the active images, keep those that the oracle accepts, and prepare their next step."""
        going = []
        for rows, part in _parts(self.origin, self.active, self.settings.rows):
            if self.generator.differentiable or step == 0:
                going.append(self._judge_and_differentiate(step, rows, part))
            else:
                going.append(self._try(step, rows, part))
        self.active = torch.cat(going) if going else self.active[:0]

    def _judge_and_differentiate(self, step: int, rows: Tensor, part: Origin) -> Tensor:
        """One batch: the rows that go on, their images kept and their gradients taken."""
        last = step == self.settings.budget
        wants_gradient = self.generator.differentiable and not last
        latents = self.latents[_filled(rows)].clone().requires_grad_(wants_gradient)
        with torch.set_grad_enabled(wants_gradient):
            images = self.generator.decode(latents, part)
        found = _finite(_same_shape(images.detach(), part.images), "generated pixels")[: len(rows)]
        candidates = found.clamp(0, 1)
        labels = self.origin.labels[rows]
        good = _agrees(self.judge, candidates, labels)
        accepted = rows[good]
        self._keep(step, accepted, candidates[good])
        if last or not len(accepted):
            return accepted
        if not wants_gradient:
            self.losses[accepted] = self._loss(candidates[good], accepted)
            return accepted
        _, slopes = self.model.gradients(found[good], self.origin.aims[accepted], cross_entropy)
        backwards = torch.zeros_like(images)
        backwards[torch.nonzero(good).squeeze(1)] = slopes
        (gradient,) = torch.autograd.grad(images, latents, backwards)
        self.gradients[accepted] = _finite(gradient[: len(rows)][good], "gradients of latents")
        return accepted

    def _try(self, step: int, rows: Tensor, part: Origin) -> Tensor:
        """One batch of proposals: one that raises the loss is shown to the oracle, others are passed over."""
        if not isinstance(self.generator, Proposer):
            raise TypeError("expected a generator that follows gradients or makes proposals")
        proposed = self.generator.propose(self.latents[_filled(rows)], part, step)
        images = self.generator.decode(proposed, part)
        found = _finite(_same_shape(images, part.images), "generated pixels")[: len(rows)].clamp(0, 1)
        labels = self.origin.labels[rows]
        losses = self._loss(found, rows)
        higher = (losses > self.losses[rows]).cpu()
        if not bool(higher.any()):
            return rows
        good = torch.zeros_like(higher)
        good[higher] = _agrees(self.judge, found[higher], labels[higher])
        taken = rows[good]
        self.latents[taken] = proposed[: len(rows)][good]
        self.losses[taken] = losses[good]
        self._keep(step, taken, found[good])
        return rows[good | ~higher]

    def _keep(self, step: int, rows: Tensor, images: Tensor) -> None:
        self.best[rows] = images
        self.kept[rows] = self.latents[rows]
        self.steps[rows] = step
        for row in rows.tolist():
            self.status[row] = "accepted" if step else "reconstruction-only"

    def _loss(self, images: Tensor, rows: Tensor) -> Tensor:
        return cross_entropy(self.model.logits(images), self.origin.aims[rows])

    def result(self) -> Perturbed:
        moved = (self.best - self.origin.images).flatten(1)
        return Perturbed(
            images=self.best,
            status=self.status,
            steps=self.steps.numpy(),
            distances=moved.norm(dim=1).float().cpu().numpy(),
            linf=moved.abs().amax(dim=1).float().cpu().numpy(),
            latents=self.kept,
        )


def _parts(origin: Origin, rows: Tensor, most: int) -> Iterator[tuple[Tensor, Origin]]:
    """Rows in batches of `most`, each with its originals filled up to a multiple of 16."""
    step = max(GRAIN, most - most % GRAIN)
    for start in range(0, len(rows), step):
        chosen = rows[start : start + step]
        yield chosen, origin.select(_filled(chosen))


def _filled(rows: Tensor) -> Tensor:
    """Positions filled up to a multiple of 16 with the last one."""
    missing = -len(rows) % GRAIN
    return torch.cat([rows, rows[-1:].expand(missing)]) if missing else rows


def _agrees(judge: Judge, images: Tensor, labels: Tensor) -> Tensor:
    """(n,) whether the oracle sees the label."""
    if not len(images):
        return torch.zeros(0, dtype=torch.bool)
    return torch.from_numpy(judge.judge(images).predicted) == labels.cpu()


def _finite(values: Tensor, what: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise CellError("non-finite", f"the generator's {what} hold NaN or infinity")
    return values


def _same_shape(images: Tensor, originals: Tensor) -> Tensor:
    if images.shape != originals.shape:
        wanted, got = tuple(originals.shape), tuple(images.shape)
        raise CellError("load", f"expected generated images of shape {wanted}, got {got}")
    return images
