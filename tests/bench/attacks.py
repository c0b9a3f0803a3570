"""Attacks of this project beside those of other libraries: same networks, same images, one process.

Run from the project's root with the interpreter of .venv-peers: `python -m tests.bench.attacks`. Exit status:
0; 1 when our robust accuracy stands more than half a point above the strongest peer's; 2 when something is
missing.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch

from robustboard import workspace as places
from robustboard.errors import RobustboardError
from tests.bench import cases, material, ours, peers, report
from tests.bench.cases import CASES, Case
from tests.bench.task import predicted
from tests.bench.timing import BATCHES, choose_rows, cost, fight, peak, settle

PAGE = Path("docs") / "bench-attacks.md"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-attacks", description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke test: tiny sizes, nothing written")
    parser.add_argument("--rounds", type=int, default=None, help="at least 3 (default), 1 with --quick")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of one operation (default 1)")
    parser.add_argument(
        "--plain-peers", action="store_true", help="peers get the network in PyTorch's own memory layout"
    )
    parser.add_argument("--only", nargs="+", choices=[case.id for case in CASES], help="these cases alone")
    parser.add_argument("--write", type=Path, help=f"where the table goes (default {PAGE}, all cases)")
    chosen = parser.parse_args(argv)
    if chosen.rounds is None:
        chosen.rounds = 1 if chosen.quick else 3
    if chosen.rounds < (1 if chosen.quick else 3):
        parser.error(f"--rounds: expected at least 3, got {chosen.rounds}")
    if chosen.threads < 1:
        parser.error(f"--threads: expected at least 1, got {chosen.threads}")
    if chosen.write is None and not chosen.quick and not chosen.only:
        chosen.write = PAGE
    return chosen


def say(text: str) -> None:
    """Tell the person who waits."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


SIDES = {"pgd": (ours.PGD, peers.PGD), "autoattack": (ours.AUTOATTACK, peers.AUTOATTACK)}
"""Attack → ours and the peers."""


def budgets(stuff: material.Material, wanted: Sequence[Case]) -> dict[cases.Aim, Fraction]:
    """The budget of each aim, found with PGD-20 on the images of the largest case."""
    found = {}
    for aim in dict.fromkeys(case.aim for case in wanted):
        say(f"budget at which {aim}")
        largest = max(case.images for case in wanted)
        task = stuff.task(cases.ROLES[aim], images=largest, eps=cases.BUDGETS[aim][0], steps=20)
        found[aim] = cases.choose_budget(aim, task)
    return found


def measure(
    case: Case, stuff: material.Material, eps: Fraction, chosen: argparse.Namespace
) -> report.Outcome:
    """One case, from its images to its duels."""
    own, others = SIDES[case.attack]
    role = cases.ROLES[case.aim]
    task = stuff.task(role, images=case.images, eps=eps, steps=case.steps, queries=case.queries)
    network = stuff.networks[role]
    theirs = replace(task, classifier=network.plain()) if chosen.plain_peers else task
    task = replace(task, classifier=network.folded)
    sizes = BATCHES[:1] if chosen.quick else BATCHES
    rows = {}
    for one in (own, *others):
        say(f"{case.id}: batch size of {one.name}")
        rows[one.name] = choose_rows(one, task if one is own else theirs, sizes)
    duels = fight(
        own,
        others,
        (task, theirs),
        rows=rows,
        rounds=chosen.rounds,
        progress=lambda text: say(f"{case.id}: {text}"),
    )
    return report.Outcome(
        case=case,
        task=task,
        network=network.name,
        ours=own,
        rows=rows,
        clean=report.share(predicted(task, task.images) == task.labels),
        cost=cost(task),
        duels=duels,
    )


def notes(outcomes: Sequence[report.Outcome], chosen: argparse.Namespace) -> list[str]:
    """What a reader must know beside the numbers."""
    layout = "in PyTorch's own memory layout" if chosen.plain_peers else "laid out as the runner does"
    lines = [f"Network of the peers: the same weights, {layout}; ours is prepared as for a run"]
    if chosen.quick:
        lines.append("A smoke test: sizes are far too small for times to mean anything")
    stand_ins = sorted({outcome.network for outcome in outcomes} - set(material.MODELS.values()))
    if stand_ins:
        lines.append(f"Small networks stand in for those of the registry: {', '.join(stand_ins)}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    chosen = arguments(argv)
    lacking = peers.missing()
    if lacking:
        sys.stderr.writelines(f"peer {line}\n" for line in lacking)
        sys.stderr.write("run `make bench-attacks`, which makes the environment of the peers\n")
        return 2
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(chosen.threads)
    try:
        facts = report.machine()
        stuff = material.load(places.find(), quick=chosen.quick, progress=say)
    except RobustboardError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    say("peak of the machine")
    top = peak(0.1 if chosen.quick else 2.0)
    wanted = [cases.quick(case) if chosen.quick else case for case in CASES]
    wanted = [case for case in wanted if not chosen.only or case.id in chosen.only]
    settle()
    eps = budgets(stuff, wanted)
    outcomes = [measure(case, stuff, eps[case.aim], chosen) for case in wanted]
    complaints = [line for outcome in outcomes if (line := outcome.complaint()) is not None]
    remarks = [*notes(outcomes, chosen), *complaints]
    text = report.markdown(outcomes, peak=top, facts=facts, rounds=chosen.rounds, notes=remarks)
    sys.stdout.write(text)
    if chosen.write is not None:
        chosen.write.parent.mkdir(parents=True, exist_ok=True)
        chosen.write.write_text(text, encoding="utf-8")
    sys.stderr.writelines(f"{line}\n" for line in complaints)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
