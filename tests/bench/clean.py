"""Clean evaluation of this project beside timm's own loop: same weights, same files, one process.

Run from the project's root with the interpreter of .venv: `python -m tests.bench.clean`. Exit status: 0; 1
when another number of images is right than timm counts; 2 when something is missing.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from robustboard.errors import RobustboardError
from tests.bench import clean_material
from tests.bench.clean_loops import (
    TIMM_BATCH,
    Contender,
    Run,
    forget_all,
    forget_results,
    forward,
    ours,
    run,
    timm_loop,
    whole_cell,
)
from tests.bench.clean_material import Setting
from tests.bench.timing import Peak, peak, settle

PAGE = Path("docs") / "bench-clean.md"
TARGET = 2.0
"""Times as fast as timm's loop with its own defaults, the better number of workers."""
SMALL_BATCHES = (16, 64)
"""Tried for timm's loop and for ours, so that both also stand here with the batch size that suits them."""

INTRODUCTION = """\
Measured on {day} by `make bench-clean`; medians of {rounds} round(s) in which all contenders take turns in
one process, on the same weights and files; each round turns the order around. Ours goes from opening the
files to the predictions with what the runner uses: hashes of all files, decoded images kept as bytes, the
folded network, checks of pixels and logits; *cold* with no decoded image kept, *warm* with all of them. The
*whole cell* adds what `robustboard run` does besides: a look at the model for sanity flags, the store with
its flushes, scores and their intervals; it takes the batch of the profile, as so few images are worth no
probe. timm's is the loop of its validate.py on its own dataset, loader and meters, with its own default batch
of {batch} and with smaller ones, from opening the files to the accuracy; worker processes count. The numbers
of right images must be equal. A ratio is of CPU seconds to ours, warm. Share of peak is of the operations of
one pass through the network.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of one setting."""

    setting: Setting
    operations: float
    """Of one image in one pass, in floating-point operations."""
    runs: dict[str, list[Run]]
    peers: tuple[str, ...]
    standard: tuple[str, ...]
    """Peers with timm's own batch size."""

    def cpu(self, name: str) -> float:
        """Median CPU seconds."""
        return median(each.cpu for each in self.runs[name])

    def wall(self, name: str) -> float:
        """Median wall seconds."""
        return median(each.wall for each in self.runs[name])

    def share(self, name: str, best: Peak) -> float:
        """Operations of one pass in a CPU second, as a share of the machine's best."""
        return self.operations * self.setting.images / self.cpu(name) / (best.best * 1e9)

    @property
    def ratio(self) -> float:
        """The faster peer with timm's own batch size to ours, warm."""
        return min(self.cpu(name) for name in self.standard) / self.cpu(WARM)

    @property
    def right(self) -> set[int]:
        """Numbers of right images of all runs; one number where all agree."""
        return {each.right for runs in self.runs.values() for each in runs}


COLD, WARM, WHOLE = "ours, cold", "ours, warm", "ours, whole cell, warm"
ALONE = "our network alone"


def contenders(setting: Setting, *, quick: bool) -> list[Contender]:
    """Ours, timm's loops, and the network alone."""
    batch = setting.batch
    peers = [(TIMM_BATCH, 0), (TIMM_BATCH, 2), *((size, 0) for size in SMALL_BATCHES)]
    sizes = [] if quick else [size for size in SMALL_BATCHES if size != batch]
    return [
        Contender(COLD, ours(batch), before=forget_all),
        Contender(WARM, ours(batch)),
        Contender(WHOLE, whole_cell, before=forget_results),
        *(Contender(f"{WARM}, batch {size}", ours(size)) for size in sizes),
        *(
            Contender(f"timm, batch {size}, {workers} workers", timm_loop(size, workers), peer=True)
            for size, workers in (peers[:1] if quick else peers)
        ),
        *(forward(size) for size in [batch, *sizes]),
    ]


def operations(setting: Setting) -> float:
    """Floating-point operations of one image in one pass."""
    counter = FlopCounterMode(display=False)
    size = setting.spec.size
    with counter, torch.no_grad():
        setting.plain(torch.zeros(1, 3, size, size))
    return float(counter.get_total_flops())


def measure(setting: Setting, rounds: int, *, quick: bool) -> Outcome:
    """All contenders in turns, after one run each that does not count."""
    rivals = contenders(setting, quick=quick)
    for rival in rivals:
        tell(f"{setting.id}: warming up {rival.name}")
        run(rival, setting)
    settle()
    found: dict[str, list[Run]] = {rival.name: [] for rival in rivals}
    for number in range(rounds):
        # Cold stays before warm, which reads what it left.
        order = rivals if number % 2 == 0 else [*rivals[2:][::-1], *rivals[:2]]
        for rival in order:
            tell(f"{setting.id}: round {number + 1}, {rival.name}")
            found[rival.name].append(run(rival, setting))
    peers = tuple(rival.name for rival in rivals if rival.peer)
    standard = tuple(name for name in peers if f"batch {TIMM_BATCH}," in name)
    return Outcome(setting, operations(setting), found, peers, standard)


def tell(text: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(f"{text}\n")


def table(outcome: Outcome, best: Peak) -> list[str]:
    """One setting as a Markdown section."""
    setting, count = outcome.setting, outcome.setting.images
    (right,) = outcome.right
    forwards = outcome.cpu(WARM) / outcome.cpu(f"{ALONE}, batch {setting.batch}")
    met = "met" if outcome.ratio >= TARGET else "missed"
    about = (
        f"{right} of {count} images right in every run, with every contender. Batch size of ours, as the"
        f" runner's probe chose it: {setting.batch}. Ours, warm, is **{outcome.ratio:.2f}** times as fast as"
        f" timm's loop with its own batch size (target {TARGET:g}: {met}), and takes {forwards:.2f} times the"
        " time of the network alone."
    )
    lines = [
        f"## {setting.about}",
        "",
        about,
        "",
        "| contender | CPU s (least to most) | CPU ms an image | wall s | ratio to ours | share of peak |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, runs in outcome.runs.items():
        spent = [each.cpu for each in runs]
        lines.append(
            f"| {name} | {outcome.cpu(name):.2f} ({min(spent):.2f} to {max(spent):.2f})"
            f" | {1000 * outcome.cpu(name) / count:.2f} | {outcome.wall(name):.2f}"
            f" | {outcome.cpu(name) / outcome.cpu(WARM):.2f} | {100 * outcome.share(name, best):.0f} % |"
        )
    return lines


def report(outcomes: Sequence[Outcome], best: Peak, rounds: int, load: float) -> str:
    """The whole page."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "timm", "pillow", "numpy"))
    threads = torch.get_num_threads()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, no GPU used"
    lines = [
        "# Clean evaluation beside timm's loop",
        "",
        INTRODUCTION.format(day=datetime.now(UTC).date().isoformat(), rounds=rounds, batch=TIMM_BATCH),
        f"- Machine: {machine}; {load:.1f} runnable processes a minute before the first run",
        f"- Software: Python {platform.python_version()}, {versions}; {threads} thread(s) of one operation",
        f"- Peak: {best.product:.0f} GFLOP a CPU second in products, {best.convolution:.0f} in convolutions",
    ]
    for outcome in outcomes:
        lines += ["", *table(outcome, best)]
    return "\n".join(lines) + "\n"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-clean", description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test: few images, one round, nothing written"
    )
    parser.add_argument("--rounds", type=int, default=None, help="default 3, 1 with --quick")
    parser.add_argument("--only", choices=("small", "photos"), help="one setting alone")
    parser.add_argument("--write", type=Path, nargs="?", const=PAGE, help=f"write the page (default {PAGE})")
    chosen = parser.parse_args(argv)
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 3)
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    chosen = arguments(argv)
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    for name in ("ROBUSTBOARD_CACHE", "ROBUSTBOARD_CACHE_GB", "ROBUSTBOARD_OUTPUT"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        try:
            settings = clean_material.load(Path(folder), only=chosen.only, quick=chosen.quick, progress=tell)
        except (RobustboardError, ModuleNotFoundError) as error:
            tell(str(error))
            return 2
        best = peak(0.2 if chosen.quick else 1.0)
        outcomes = [measure(each, chosen.rounds, quick=chosen.quick) for each in settings]
    for outcome in outcomes:
        if len(outcome.right) != 1:
            counts = {name: sorted({each.right for each in runs}) for name, runs in outcome.runs.items()}
            tell(f"{outcome.setting.id}: different numbers of right images: {counts}")
            return 1
    page = report(outcomes, best, chosen.rounds, load)
    sys.stdout.write(page)
    if chosen.write and not chosen.quick:
        chosen.write.parent.mkdir(parents=True, exist_ok=True)
        chosen.write.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
