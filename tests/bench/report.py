"""From measurements to a verdict and a Markdown table."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from tests.bench import peers
from tests.bench.cases import Case
from tests.bench.task import Contender, Task
from tests.bench.timing import Cost, Duel, Measurement, Peak

MARGIN = 0.005
"""How far our robust accuracy may stand above the strongest peer's."""


INTRODUCTION = """\
Measured on {day} by `make bench-attacks`; medians of {rounds} round(s), in which ours and each peer take
turns on the same frozen weights and images, in one process; each round turns the order around. Times of
ours include the clean predictions, the checks of budget and range and the judgement of the attacked images;
those of the peers are the bare call, and their images are moved into the budget and judged after the clock
stopped. PGD has no random start. Every contender has the batch size that a short probe found fastest. A
ratio is that of the fastest peer that does the same work to ours in the same pairs. Operations are those of
the passes through the network: their ratio is what leaving early saves, the rest is speed.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that was measured of one case."""

    case: Case
    task: Task
    network: str
    ours: Contender
    rows: dict[str, int]
    """Contender → images a batch."""
    clean: float
    """Share of images right before the attack."""
    cost: Cost
    duels: list[Duel]

    @property
    def own(self) -> list[Measurement]:
        """All runs of ours."""
        return [one for duel in self.duels for one in duel.ours]

    @property
    def robust(self) -> float:
        """Our robust accuracy, the largest of all runs."""
        return max(share(one.stands) for one in self.own)

    @property
    def strongest(self) -> float:
        """The lowest robust accuracy of a peer in any run."""
        return min(share(one.stands) for duel in self.duels for one in duel.theirs)

    @property
    def fastest(self) -> Duel:
        """The duel with the peer of equal work that took least CPU time against ours."""
        return min((duel for duel in self.duels if duel.peer.equal_work), key=lambda duel: duel.ratio(cpu))

    def operations(self, runs: Sequence[Measurement]) -> float:
        """Of the network passes of the run with the median CPU time."""
        return self.cost.of(typical(runs).work)

    def share_of_peak(self, runs: Sequence[Measurement], peak: Peak) -> float:
        """Operations of the network passes in one CPU second, as a share of the machine's best."""
        return self.operations(runs) / typical(runs).cpu / (peak.best * 1e9)

    def complaint(self) -> str | None:
        """What is wrong with our robust accuracy."""
        if self.robust <= self.strongest + MARGIN:
            return None
        return (
            f"{self.case.id}: robust accuracy {percent(self.robust)} is more than"
            f" {100 * MARGIN:.1f} points above the strongest peer's {percent(self.strongest)}"
        )


def cpu(one: Measurement) -> float:
    """CPU seconds."""
    return one.cpu


def wall(one: Measurement) -> float:
    """Wall seconds."""
    return one.wall


def typical(runs: Sequence[Measurement]) -> Measurement:
    """The run with the median CPU time, the lower one of two."""
    return sorted(runs, key=cpu)[(len(runs) - 1) // 2]


def share(stands: Tensor) -> float:
    """Of True."""
    return float(stands.double().mean())


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.1f} %"


def machine() -> dict[str, str]:
    """Kind of machine, its load now, and versions; no host name, path or user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    libraries = {"torch": metadata.version("torch"), **peers.versions()}
    return {
        "processor": f"{_processor()}, {cores} cores, {memory:.0f} GiB of memory, no GPU used",
        "load": f"{os.getloadavg()[0]:.1f} runnable processes a minute before the first run",
        "threads": f"{torch.get_num_threads()} of one operation, for all contenders",
        "software": ", ".join(
            [f"{platform.system()}, Python {platform.python_version()}"]
            + [f"{name} {version}" for name, version in libraries.items()]
        ),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def markdown(
    outcomes: Sequence[Outcome], *, peak: Peak, facts: dict[str, str], rounds: int, notes: Sequence[str]
) -> str:
    """The whole report."""
    lines = [
        "# Attacks beside their peers",
        "",
        INTRODUCTION.format(day=datetime.now(UTC).date().isoformat(), rounds=rounds),
        *(f"- {name.capitalize()}: {text}" for name, text in facts.items()),
        f"- Peak: {peak.product:.0f} GFLOP a CPU second in products, {peak.convolution:.0f} in convolutions",
        *(f"- {note}" for note in notes),
        "",
        *_summary(outcomes, peak),
    ]
    for outcome in outcomes:
        lines += ["", *_details(outcome, peak)]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["| " + " | ".join(row) + " |" for row in cells]


def _summary(outcomes: Sequence[Outcome], peak: Peak) -> list[str]:
    head = (
        "case",
        "fastest peer",
        "ratio of CPU time",
        "ratio of wall time",
        "ratio of operations",
        "target",
        "images that survive ours",
        "the strongest peer",
        "share of peak",
    )
    rows = []
    for outcome in outcomes:
        fastest, target = outcome.fastest, outcome.case.target
        ratio = fastest.ratio(cpu)
        rows.append(
            [
                outcome.case.id,
                fastest.peer.name,
                f"{ratio:.2f}",
                f"{fastest.ratio(wall):.2f}",
                f"{outcome.operations(fastest.theirs) / outcome.operations(outcome.own):.2f}",
                "none" if target is None else f"{target:g}, {'met' if ratio >= target else 'missed'}",
                percent(outcome.robust),
                percent(outcome.strongest),
                percent(outcome.share_of_peak(outcome.own, peak)),
            ]
        )
    return _table(head, rows)


def _details(outcome: Outcome, peak: Peak) -> list[str]:
    case, task = outcome.case, outcome.task
    queries = f", {task.queries} queries of Square" if case.attack == "autoattack" else ""
    about = (
        f"{outcome.network}, {len(task.labels)} images of Fashion-MNIST, {percent(outcome.clean)} right"
        f" before the attack; Linf {task.eps}, {task.steps} iterations{queries}. Wanted: {case.aim}."
    )
    head = (
        "contender",
        "batch",
        "CPU s (least to most)",
        "wall s",
        "CPU ratio",
        "robust accuracy",
        "passes an image",
        "gradients an image",
        "share of peak",
        "broken here, standing with ours",
    )
    own = outcome.own[-1]
    rows = [_row(outcome.ours, outcome, outcome.own, peak=peak, ratio="1", standing=own.stands)]
    for duel in outcome.duels:
        ratio = f"{duel.ratio(cpu):.2f}" if duel.peer.equal_work else f"({duel.ratio(cpu):.2f})"
        rows.append(_row(duel.peer, outcome, duel.theirs, peak=peak, ratio=ratio, standing=own.stands))
    contenders = [outcome.ours, *(duel.peer for duel in outcome.duels)]
    return [
        f"## {case.id}",
        "",
        about,
        "",
        *_table(head, rows),
        "",
        "; ".join(f"{one.name}: {one.note}" for one in contenders if one.note) + ".",
    ]


def _row(
    contender: Contender,
    outcome: Outcome,
    runs: Sequence[Measurement],
    *,
    peak: Peak,
    ratio: str,
    standing: Tensor,
) -> list[str]:
    def spread(clock: Callable[[Measurement], float]) -> str:
        return f"{min(map(clock, runs)):.3g} to {max(map(clock, runs)):.3g}"

    last, count = runs[-1], len(outcome.task.labels)
    return [
        contender.name,
        str(outcome.rows[contender.name]),
        f"{median(map(cpu, runs)):.3g} ({spread(cpu)})",
        f"{median(map(wall, runs)):.3g}",
        ratio,
        percent(share(last.stands)),
        f"{last.work.forward / count:.1f}",
        f"{last.work.gradient / count:.1f}",
        percent(outcome.share_of_peak(runs, peak)),
        str(int((standing & ~last.stands).sum())),
    ]
