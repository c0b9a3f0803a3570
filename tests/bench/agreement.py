"""Do our attacks find what others find? AutoAttack and PGD on 200 images of two Fashion-MNIST networks.

Run from the project's root with the interpreter of .venv-peers: `python -m tests.bench.agreement`. Exit
status: 0; 1 when images stand with ours that a peer breaks, beyond 1 %, or when our robust accuracy is
above a peer's (for PGD by more than half a point); 2 when something is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import torch

from robustboard import workspace as places
from robustboard.errors import RobustboardError
from tests.bench import material, ours, peers, report
from tests.bench.task import Contender, Task, standing

PAGE = Path("docs") / "bench-agreement.md"
EPS = Fraction(1, 10)
IMAGES = 200
ROWS = 64
PGD_STEPS = 40
AUTOATTACK_STEPS = 100
MISSED = 0.01
"""Share of images that a peer may break and ours not."""
PGD_MARGIN = 0.005


@dataclass(frozen=True, slots=True)
class Line:
    """One peer beside ours on one network."""

    network: str
    attack: str
    peer: str
    ours_stand: int
    peer_stand: int
    missed: int
    """Images that the peer breaks and ours does not."""
    images: int

    @property
    def complaint(self) -> str | None:
        """What is wrong; None where nothing is."""
        margin = PGD_MARGIN * self.images if self.attack == "PGD" else 0
        if self.missed <= MISSED * self.images and self.ours_stand <= self.peer_stand + margin:
            return None
        return f"{self.network}, {self.attack}: {self.missed} images stand with ours and fall to {self.peer}"


def compare(attack: str, own: Contender, others: Sequence[Contender], network: str, task: Task) -> list[Line]:
    """Ours once, and each peer that does equal work once."""
    say(f"{network}: {attack} by {own.name}")
    mine = standing(task, own.run(task, ROWS))
    lines = []
    for other in others:
        if not other.equal_work:
            continue
        say(f"{network}: {attack} by {other.name}")
        theirs = standing(task, other.run(task, ROWS))
        missed = int((mine & ~theirs).sum())
        counts = int(mine.sum()), int(theirs.sum())
        lines.append(Line(network, attack, other.name, *counts, missed, len(task.labels)))
    return lines


def say(text: str) -> None:
    """Tell the person who waits."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def markdown(lines: Sequence[Line], queries: int) -> str:
    """The table with what was done."""
    rows = "\n".join(
        f"| {line.network} | {line.attack} | {line.peer} | {line.ours_stand} | {line.peer_stand} |"
        f" {line.missed} | {line.images} |"
        for line in lines
    )
    facts = report.machine()
    day, images = f"{datetime.now(UTC):%Y-%m-%d}", lines[0].images
    return f"""# Do our attacks find what others find?

Written by `make bench-agreement` on {day}. Linf, budget {EPS}, {images} test images of Fashion-MNIST
spread over the classes; PGD with {PGD_STEPS} steps without a random start, AutoAttack with
{AUTOATTACK_STEPS} iterations and {queries:,} queries of Square for both sides. Each side draws its own
random numbers.

| network | attack | peer | stand with ours | stand with the peer | fall to the peer alone | images |
|---|---|---|---|---|---|---|
{rows}

{facts["processor"]}; {facts["software"]}.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="bench-agreement", description=str(__doc__).splitlines()[0])
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--queries", type=int, default=5000, help="of Square (default 5,000, the standard)")
    parser.add_argument("--quick", action="store_true", help="small networks, few steps, nothing written")
    chosen = parser.parse_args(argv)
    if peers.missing():
        sys.stderr.write("run `make bench-attacks`, which makes the environment of the peers\n")
        return 2
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    try:
        stuff = material.load(places.find(), quick=chosen.quick, progress=say)
    except RobustboardError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    lines = []
    steps = (4, 4) if chosen.quick else (PGD_STEPS, AUTOATTACK_STEPS)
    for role, network in stuff.networks.items():
        task = stuff.task(role, images=chosen.images, eps=EPS, steps=steps[0], queries=chosen.queries)
        lines += compare("PGD", ours.PGD, peers.PGD, network.name, task)
        task = replace(task, steps=steps[1])
        lines += compare("AutoAttack", ours.AUTOATTACK, peers.AUTOATTACK, network.name, task)
    text = markdown(lines, chosen.queries)
    sys.stdout.write(text)
    if not chosen.quick:
        PAGE.write_text(text, encoding="utf-8")
    complaints = [line.complaint for line in lines if line.complaint is not None]
    sys.stderr.writelines(f"{complaint}\n" for complaint in complaints)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
