"""Clocks, alternating pairs, batch sizes, and what the machine can do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tests.bench.task import Contender, Task, standing

BATCHES = (16, 32, 64, 128, 256)
"""Batch sizes tried for every contender."""


@dataclass(slots=True)
class Work:
    """Images that went through a network, counted there, whoever sent them."""

    forward: int = 0
    gradient: int = 0
    """Of those, the ones whose output could be differentiated."""


@contextmanager
def counting(network: nn.Module) -> Iterator[Work]:
    """Count the work of a network inside the block."""
    work = Work()

    def note(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        work.forward += len(output)
        work.gradient += len(output) if output.requires_grad else 0

    handle = network.register_forward_hook(note)
    try:
        yield work
    finally:
        handle.remove()


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one contender."""

    cpu: float
    """Seconds of all threads of this process."""
    wall: float
    work: Work
    stands: Tensor
    """(n,) bool: which images are right before and after."""


def settle() -> None:
    """Let the garbage collector pass over all that is loaded by now: scanning it took long and at random."""
    gc.collect()
    gc.freeze()


def run(contender: Contender, task: Task, rows: int) -> Measurement:
    """Time one run; peers' images are judged after the clock stopped."""
    gc.collect()
    with counting(task.classifier) as work:
        wall, cpu = time.perf_counter(), time.process_time()
        found = contender.run(task, rows)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measurement(cpu, wall, work, standing(task, found))


def choose_rows(contender: Contender, task: Task, sizes: Sequence[int] = BATCHES) -> int:
    """The batch size at which a brief form of the task takes least CPU time, best of two tries.

    Sizes beyond the number of images are tried once, as all images at once, unless a contender sends
    several rows an image. Warms up, too.
    """
    brief, count = task.brief(), len(task.labels)
    tried = list(dict.fromkeys(size if contender.many_rows else min(size, count) for size in sizes))
    if len(tried) == 1:
        run(contender, brief, tried[0])
        return tried[0]
    seconds = dict.fromkeys(tried, float("inf"))
    for order in (tried, tried[::-1]):
        for rows in order:
            seconds[rows] = min(seconds[rows], run(contender, brief, rows).cpu)
    return min(tried, key=seconds.__getitem__)


@dataclass(slots=True)
class Duel:
    """Ours against one peer: as many runs of each, in turns."""

    peer: Contender
    ours: list[Measurement] = field(default_factory=list)
    theirs: list[Measurement] = field(default_factory=list)

    def ratio(self, clock: Callable[[Measurement], float]) -> float:
        """Median time of the peer divided by the median of ours in the same pairs."""
        return median(map(clock, self.theirs)) / median(map(clock, self.ours))


def pairs(peers: int, rounds: int) -> Iterator[tuple[int, bool]]:
    """(peer, whether ours goes first) of every pair; each round turns the order of the last around."""
    for number in range(rounds):
        forward = number % 2 == 0
        for peer in range(peers) if forward else reversed(range(peers)):
            yield peer, forward


def fight(
    ours: Contender,
    peers: Sequence[Contender],
    tasks: tuple[Task, Task],
    *,
    rows: dict[str, int],
    rounds: int,
    progress: Callable[[str], None],
) -> list[Duel]:
    """Run ours against each peer in alternating pairs; the first task is ours, the second the peers'."""
    duels = [Duel(peer) for peer in peers]
    for number, forward in pairs(len(peers), rounds):
        duel = duels[number]
        progress(f"against {duel.peer.name}")
        for own in (True, False) if forward else (False, True):
            contender = ours if own else duel.peer
            (duel.ours if own else duel.theirs).append(
                run(contender, tasks[0 if own else 1], rows[contender.name])
            )
    return duels


@dataclass(frozen=True, slots=True)
class Cost:
    """Floating-point operations of one image, convolutions and matrix products alone."""

    forward: float
    gradient: float
    """Beyond those of the forward pass."""

    def of(self, work: Work) -> float:
        """Of some work."""
        return self.forward * work.forward + self.gradient * work.gradient


def cost(task: Task) -> Cost:
    """What one image costs the task's network."""
    rows = min(16, len(task.labels))
    counts = []
    for wanted in (False, True):
        counter = FlopCounterMode(display=False)
        batch = task.images[:rows].clone().requires_grad_(wanted)
        with counter, torch.set_grad_enabled(wanted):
            total = task.classifier(batch).sum()
            if wanted:
                torch.autograd.backward(total)
        counts.append(counter.get_total_flops() / rows)
    return Cost(counts[0], counts[1] - counts[0])


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that this machine does in one CPU second, in 1e9 float32 operations."""

    product: float
    """A matrix product of size 1024."""
    convolution: float
    """3 by 3, 256 channels in and out, channels last."""

    @property
    def best(self) -> float:
        """The larger one."""
        return max(self.product, self.convolution)


def peak(seconds: float) -> Peak:
    """Measure the peak, best of several tries in about so many seconds each."""
    size, channels, side, batch = 1024, 256, 28, 4
    left, right = torch.rand(size, size), torch.rand(size, size)
    layout = torch.channels_last
    images = torch.rand(batch, channels, side, side).contiguous(memory_format=layout)
    kernels = torch.rand(channels, channels, 3, 3).contiguous(memory_format=layout)
    inner = (side - 2) ** 2
    with torch.no_grad():
        return Peak(
            _rate(lambda: left @ right, 2 * size**3, seconds),
            _rate(
                lambda: torch.conv2d(images, kernels), 2 * batch * inner * 9 * channels * channels, seconds
            ),
        )


def _rate(work: Callable[[], Tensor], operations: float, seconds: float) -> float:
    work()
    best, until = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < until or best == 0:
        cpu = time.process_time()
        for _ in range(4):
            work()
        best = max(best, 4 * operations / (time.process_time() - cpu) / 1e9)
    return best
