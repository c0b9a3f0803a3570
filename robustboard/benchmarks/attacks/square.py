"""Square: random search by squares, without gradients.

Andriushchenko et al. 2020, "Square Attack: a query-efficient black-box adversarial attack via random
search", sections 3.1 to 3.4, with the schedule of supplement B.1 at 10,000 iterations.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from robustboard.benchmarks.attacks.budget import project
from robustboard.benchmarks.attacks.interface import AttackParameters, Attempt
from robustboard.benchmarks.attacks.losses import margin
from robustboard.benchmarks.attacks.model import GRAIN, Model
from robustboard.benchmarks.attacks.pace import Pace
from robustboard.benchmarks.attacks.targets import first_of_each
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm

FIRST_SHARE = 0.8
"""Share of the pixels in the first squares (p_init of the standard AutoAttack)."""
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Iterations after which that share is halved."""
BLOCK = 100
"""Iterations whose random numbers are drawn at once; part of what the numbers are."""
MOST_BATCHES = 2
"""Batches that proposals of all images together fill at most in one look ahead."""
GRID = 5
"""Bumps a side at the start of the l2 attack."""


def share(iteration: int) -> float:
    """Share of the pixels in the squares of an iteration, counted from 0."""
    return FIRST_SHARE * math.ldexp(1.0, -sum(iteration > mark for mark in HALVED_AFTER))


@cache
def side(iteration: int, height: int, width: int) -> int:
    """Side of the squares of an iteration, in pixels."""
    wanted = round(math.sqrt(share(iteration) * height * width))
    return min(max(wanted, 1), height, width)


def bump(size: int) -> npt.NDArray[np.float64]:
    """The l2 attack's pattern on a square: one half rises, the other falls, at length 1.

    Each half is a sum of concentric rectangles, the k-th from the outside weighted 1 / (n + 1 - k)^2
    with n the half's longer side halved (equations 2 and 3 of the paper).
    """

    def half(rows: int, columns: int) -> npt.NDArray[np.float64]:
        rings = max(rows, columns) // 2 + 1
        depth = np.minimum.outer(
            np.minimum(np.arange(rows), np.arange(rows)[::-1]),
            np.minimum(np.arange(columns), np.arange(columns)[::-1]),
        )
        weights = np.cumsum([1 / (rings - ring) ** 2 for ring in range(rings)])
        return weights[depth]

    pattern = np.zeros((size, size))
    middle = size // 2
    if middle:
        pattern[:middle] = half(middle, size)
    pattern[middle:] = -half(size - middle, size)
    return pattern / np.linalg.norm(pattern)


@dataclass(slots=True)
class _Standing:
    """Images not yet misclassified; every field has one entry an image."""

    rows: Tensor
    images: Tensor
    labels: Tensor
    current: Tensor
    loss: Tensor
    generators: npt.NDArray[np.object_]
    at: Tensor
    """Iterations done."""
    numbers: Tensor
    """(n, 2 * BLOCK, k) uniform numbers for the iterations of the current block and the next."""

    def keep(self, mask: Tensor) -> _Standing:
        """Only the images at True."""
        chosen = mask.cpu().numpy()
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return _Standing(
            **{
                name: value[chosen] if isinstance(value, np.ndarray) else value[mask]
                for name, value in values.items()
            }
        )

    def advance(self, iterations: Tensor) -> None:
        """Count (n,) iterations, at most BLOCK, and draw the next block where one is done."""
        before, self.at = self.at // BLOCK, self.at + iterations
        for row in torch.nonzero(self.at // BLOCK > before).squeeze(1).tolist():
            fresh = _drawn(self.generators[row], self.numbers.shape[2]).to(self.numbers.device)
            self.numbers[row] = torch.cat([self.numbers[row, BLOCK:], fresh])


def _drawn(generator: np.random.Generator, count: int) -> Tensor:
    """(BLOCK, count) uniform numbers."""
    return torch.from_numpy(generator.random((BLOCK, count)))


def _window(numbers: Tensor, size: int, shape: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """Top rows (n, size), left columns (n, size) and mask (n, 1, h, w) of squares, from (n, 2) numbers."""
    height, width = shape[-2:]
    top = (numbers[:, 0] * (height - size + 1)).long()
    left = (numbers[:, 1] * (width - size + 1)).long()
    span = torch.arange(size, device=numbers.device)
    rows, columns = top.unsqueeze(1) + span, left.unsqueeze(1) + span
    in_rows = (torch.arange(height, device=numbers.device) - top.unsqueeze(1)) // size == 0
    in_columns = (torch.arange(width, device=numbers.device) - left.unsqueeze(1)) // size == 0
    return rows, columns, (in_rows.unsqueeze(2) & in_columns.unsqueeze(1)).unsqueeze(1)


def _signs(numbers: Tensor) -> Tensor:
    return torch.where(numbers < 1 / 2, -1.0, 1.0).float()


def _propose_linf(images: Tensor, current: Tensor, numbers: Tensor, size: int, eps: float) -> Tensor:
    """A square set to the image plus or minus eps, one sign a channel (section 3.3)."""
    _, _, mask = _window(numbers[:, :2], size, images.shape)
    signs = _signs(numbers[:, 2:])[:, :, None, None]
    return torch.where(mask, images + eps * signs, current)


def _propose_l2(images: Tensor, current: Tensor, numbers: Tensor, size: int, eps: float) -> Tensor:
    """The length of a second square, and what is unused, given to a bump on a first (algorithm 3)."""
    delta = current - images
    count, channels = delta.shape[:2]
    rows, columns, first = _window(numbers[:, :2], size, delta.shape)
    _, _, second = _window(numbers[:, 2:4], size, delta.shape)
    signs = _signs(numbers[:, 5:])[:, :, None, None]
    pattern = torch.from_numpy(bump(size)).to(delta)
    turned = (numbers[:, 4] < 1 / 2).view(-1, 1, 1, 1)
    pattern = torch.where(turned, pattern, pattern.T)
    place = (
        torch.arange(count, device=delta.device)[:, None, None, None],
        torch.arange(channels, device=delta.device)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    )
    old = delta[place]
    old_length = old.double().square().sum((2, 3), keepdim=True).sqrt().to(delta.dtype)
    fresh = signs * pattern + old / torch.where(old_length > 0, old_length, 1.0)
    fresh_length = fresh.double().square().sum((2, 3), keepdim=True).sqrt().to(delta.dtype)
    squares = delta.double().square()
    unused = (eps**2 - squares.sum((1, 2, 3), keepdim=True)).clamp_min(0) / channels
    budget = ((squares * (first | second)).sum((2, 3), keepdim=True) + unused).sqrt().to(delta.dtype)
    moved = torch.where(second, 0.0, delta)
    moved[place] = fresh / torch.where(fresh_length > 0, fresh_length, 1.0) * budget
    return images + moved


def _start(images: Tensor, generators: list[np.random.Generator], parameters: AttackParameters) -> Tensor:
    """Linf: vertical stripes of plus or minus eps. L2: a grid of bumps, scaled to eps."""
    channels, height, width = images.shape[1:]
    offsets = np.zeros(images.shape, np.float32)
    size = max(min(height, width) // GRID, 1)
    pattern = bump(size)
    for row, generator in enumerate(generators):
        if parameters.norm == "linf":
            signs = np.where(generator.random((channels, 1, width)) < 1 / 2, -1.0, 1.0)
            offsets[row] = parameters.eps * signs
            continue
        for top in range(0, height - size + 1, size):
            for left in range(0, width - size + 1, size):
                signs = np.where(generator.random((channels, 1, 1)) < 1 / 2, -1.0, 1.0)
                turned = pattern if generator.random() < 1 / 2 else pattern.T
                offsets[row, :, top : top + size, left : left + size] = signs * turned
        offsets[row] *= parameters.eps / np.linalg.norm(offsets[row].astype(np.float64))
    return images + torch.from_numpy(offsets).to(images.device)


def square(
    model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
) -> Attempt:
    """Keep each random square that raises the margin loss, for at most `queries` tries a restart.

    An image leaves as soon as it is misclassified. The attack uses no gradient: nothing is blind.
    Several tries may share a pass through the network, and void ones pass again: the answer is that
    of one try after the other. Models that do not answer the same twice get one try a pass.
    """
    found = images.clone()
    left = torch.arange(len(images), device=images.device)
    for restart in range(parameters.restarts):
        if not len(left):
            break
        generators = draws.generators(f"square restart {restart}", left.tolist())
        points, broken = _search(model, images[left], labels[left], parameters, generators)
        found[left] = points
        left = left[~broken]
    return Attempt(found, torch.zeros(len(images), dtype=torch.bool, device=images.device))


def _proposals(standing: _Standing, owners: Tensor, iterations: Tensor, norm: Norm, eps: float) -> Tensor:
    """(m, c, h, w) what each owner's image would be tried with at an iteration, from where it is now."""
    images, current = standing.images[owners], standing.current[owners]
    block = standing.at[owners] // BLOCK * BLOCK
    numbers = standing.numbers[owners, iterations - block]
    propose = _propose_linf if norm == "linf" else _propose_l2
    height, width = images.shape[2:]
    proposals = torch.empty_like(current)
    sizes = np.array([side(iteration, height, width) for iteration in iterations.tolist()])
    for size in np.unique(sizes).tolist():
        part = torch.from_numpy(np.flatnonzero(sizes == size)).to(images.device)
        proposals[part] = propose(images[part], current[part], numbers[part], size, eps)
    return project(proposals, images, norm, eps)


def _look_ahead(
    model: Model, standing: _Standing, depth: int, parameters: AttackParameters, *, skip: bool
) -> tuple[Tensor, Tensor]:
    """Try the next `depth` proposals of each image in one pass, and take the first that is a success.

    All are made from the image's current point, as if those before had failed: what comes after the
    first success is void and will be made anew. So the search is the same at every depth. Proposals
    that change no pixel fail without a pass where `skip` is set.

    Returns:
        (n,) whether the image is now misclassified, and (n,) how many iterations were used up.
    """
    last = parameters.queries - 1
    ahead = standing.at.unsqueeze(1) + torch.arange(depth, device=standing.at.device)
    owners, offsets = torch.nonzero(ahead < last, as_tuple=True)
    proposals = _proposals(standing, owners, ahead[owners, offsets], parameters.norm, parameters.eps)
    changed = (proposals != standing.current[owners]).flatten(1).any(1) | (not skip)
    used = (last - standing.at).clamp_max(depth)
    fooled = torch.zeros_like(standing.at, dtype=torch.bool)
    if not bool(changed.any()):
        return fooled, used
    owners, offsets, proposals = owners[changed], offsets[changed], proposals[changed]
    logits = model.logits(proposals)
    loss = margin(logits, standing.labels[owners])
    wrong = logits.argmax(1) != standing.labels[owners]
    hits = torch.nonzero((loss > standing.loss[owners]) | wrong).squeeze(1)
    hits = hits[first_of_each(owners[hits])]
    lucky = owners[hits]
    standing.current[lucky] = proposals[hits]
    standing.loss[lucky] = torch.maximum(loss[hits], standing.loss[lucky])
    fooled[lucky], used[lucky] = wrong[hits], offsets[hits] + 1
    return fooled, used


def _search(
    model: Model,
    images: Tensor,
    labels: Tensor,
    parameters: AttackParameters,
    generators: list[np.random.Generator],
) -> tuple[Tensor, Tensor]:
    """Points of highest loss, and whether they are misclassified, after one random search."""
    norm, device = parameters.norm, images.device
    found = project(_start(images, generators, parameters), images, norm, parameters.eps)
    logits = model.logits(found)
    # A random model answers each try anew, and its draws may depend on the rows of a pass.
    steady = torch.equal(model.logits(found[:GRAIN]), logits[:GRAIN])
    broken = logits.argmax(1) != labels
    count = images.shape[1] + (2 if norm == "linf" else 5)
    left = torch.nonzero(~broken).squeeze(1)
    standing = _Standing(
        rows=left,
        images=images[left],
        labels=labels[left],
        current=found[left],
        loss=margin(logits, labels)[left],
        generators=np.array([generators[row] for row in left.tolist()], dtype=object),
        at=torch.zeros_like(left),
        numbers=torch.zeros(len(left), 2 * BLOCK, count, dtype=torch.float64, device=device),
    )
    for row, generator in enumerate(standing.generators):
        standing.numbers[row] = torch.cat([_drawn(generator, count), _drawn(generator, count)])
    standing = standing.keep(standing.at < parameters.queries - 1)
    pace = Pace(GRAIN // max(1, len(left)))
    while len(standing.rows):
        started = time.perf_counter()
        most = max(1, min(BLOCK, MOST_BATCHES * model.rows // len(standing.rows))) if steady else 1
        fooled, used = _look_ahead(model, standing, min(pace.depth, most), parameters, skip=steady)
        standing.advance(used)
        pace.note(int(used.sum()), time.perf_counter() - started)
        leaving = fooled | (standing.at >= parameters.queries - 1)
        if bool(leaving.any()):
            rows = standing.rows[leaving]
            found[rows], broken[rows] = standing.current[leaving], fooled[leaving]
            standing = standing.keep(~leaving)
    return found, broken
