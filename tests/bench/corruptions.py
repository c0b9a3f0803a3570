"""Corruptions of this project beside those of other libraries: same images, same draws, one process.

Run from the project's root with the interpreter of .venv-peers: `python -m tests.bench.corruptions`. Exit
status: 0; 1 when an image differs from the authors' code by more than 1 of 255, or glass_blur at all; 2 when
something is missing.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.corruptions import frosting
from robustboard.benchmarks.corruptions.parameters import PARAMETERS, SEVERITIES
from robustboard.benchmarks.corruptions.table import CORRUPTIONS, apply
from robustboard.benchmarks.seeds import sample_generator
from tests.bench import corruption_peers as peers
from tests.bench.corruption_peers import Peer, Pixels
from tests.bench.report import _processor as processor
from tests.bench.report import _table as table
from tests.bench.timing import pairs, settle

PAGE = Path("docs") / "bench-corruptions.md"
SIDE = 224
EXACT = "glass_blur"
TARGET, AIM = 2.0, 5.0
"""Ratio to the fastest peer over the 15 corruptions: wanted, hoped for."""
PHOTOS = ("astronaut", "coffee", "chelsea", "rocket")
"""Of scikit-image; the first ones are taken."""

INTRODUCTION = """\
Measured on {day} by `make bench-corruptions`: {count} photographs of {side} by {side} pixels, severities 1 to
5, medians of {rounds} round(s) in which ours and each peer take turns in one process with one thread; each
round turns the order around. Times are CPU milliseconds an image and severity, mean of the five severities.
Ours seeds a generator for every image, as the runner does. One call of each before the clock starts fills the
caches: numba compiles a loop at its first call ever and keeps it on disk (`cache=True`), so that neither
compiling nor loading is in the times. Largest differences are those from the authors' own package on the same
images with the same random draws, handed to its functions in place of numpy.random; frost uses the original
pictures there.
"""


@dataclass(slots=True)
class Row:
    """What was measured of one corruption."""

    name: str
    ours: dict[str, list[float]] = field(default_factory=dict)
    """Peer → CPU ms of ours in the pairs with it."""
    theirs: dict[str, list[float]] = field(default_factory=dict)
    differences: dict[str, int] = field(default_factory=dict)
    """Peer → largest difference for the same draws, in units of 1/255."""
    equal: dict[str, float] = field(default_factory=dict)
    """Peer → share of values that are equal."""

    def own(self) -> float:
        """Median ms of all runs of ours."""
        return median(value for values in self.ours.values() for value in values)

    def ratio(self, peer: str) -> float:
        """How many times as long the peer takes."""
        return median(self.theirs[peer]) / median(self.ours[peer])

    def complaint(self) -> str | None:
        """What is wrong with our image."""
        found = self.differences[peers.REFERENCE]
        allowed = 0 if self.name == EXACT else 1
        if found <= allowed:
            return None
        return f"{self.name}: differs by {found} of 255 from {peers.REFERENCE}, {allowed} allowed"


def photographs(count: int) -> list[Pixels]:
    """Middle squares of photographs, 224 by 224."""
    from skimage import data

    found = []
    for name in PHOTOS[:count]:
        image = np.asarray(getattr(data, name)())[..., :3]
        side = min(image.shape[:2])
        top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
        square = image[top : top + side, left : left + side]
        resized = cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        found.append(np.ascontiguousarray(resized, dtype=np.uint8))
    return found


def generator(name: str, number: int, severity: int) -> np.random.Generator:
    """As the runner makes it."""
    return sample_generator("0" * 64, str(number), f"{name} {severity}")


def ours(name: str, images: Sequence[Pixels]) -> None:
    """All severities of one corruption."""
    for severity in SEVERITIES:
        for number, image in enumerate(images):
            apply(name, image, severity, generator(name, number, severity))


def theirs(peer: Peer, name: str, images: Sequence[Pixels]) -> None:
    """The same by a peer."""
    for severity in SEVERITIES:
        for image in images:
            peer.corrupt(name, image, severity)


def clock(work: Callable[[], None], count: int) -> float:
    """CPU ms of one image and severity."""
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1000 / (count * len(SEVERITIES))


def compare(row: Row, found: Sequence[Peer], images: Sequence[Pixels]) -> None:
    """Ours and each peer's on the same draws."""
    pictures = frosting.read(peers.textures(), "imagenet")
    for peer in found:
        gaps = []
        for severity in SEVERITIES:
            _, reach, passes = PARAMETERS["imagenet"]["glass_blur"][severity - 1]
            steps = int(passes) * (SIDE - 2 * int(reach)) ** 2
            for number, image in enumerate(images):
                own = apply(
                    row.name, image, severity, generator(row.name, number, severity), textures=pictures
                )
                with peer.drawing(generator(row.name, number, severity), steps):
                    other = peer.corrupt(row.name, image, severity)
                gaps.append(np.abs(own.astype(np.int64) - other))
        values: npt.NDArray[np.int64] = np.stack(gaps)
        row.differences[peer.name] = int(values.max())
        row.equal[peer.name] = float((values == 0).mean())


def measure(name: str, found: Sequence[Peer], images: Sequence[Pixels], rounds: int) -> Row:
    """One corruption: differences, then times in turns."""
    row = Row(name)
    compare(row, found, images[:2])
    ours(name, images[:1])
    for number, forward in pairs(len(found), rounds):
        peer = found[number]
        for own in (True, False) if forward else (False, True):
            if own:
                value = clock(lambda: ours(name, images), len(images))
                row.ours.setdefault(peer.name, []).append(value)
            else:
                value = clock(lambda peer=peer: theirs(peer, name, images), len(images))  # type: ignore[misc]
                row.theirs.setdefault(peer.name, []).append(value)
    return row


def total(rows: Sequence[Row], peer: str | None) -> float:
    """Sum of the medians over the 15 corruptions, in ms of one image at one severity."""
    counted = [row for row in rows if not CORRUPTIONS[row.name].extra]
    return sum(row.own() if peer is None else median(row.theirs[peer]) for row in counted)


def verdict(own: float, sums: dict[str, float]) -> list[str]:
    """How long a whole suite takes, and whether that meets the targets; nothing without any of the 15."""
    if own == 0:
        return []
    fastest = min(sums, key=sums.__getitem__)
    ratio = sums[fastest] / own
    judged = "met" if ratio >= AIM else "the former met" if ratio >= TARGET else "missed"
    count = len(SEVERITIES)
    times = f"{count * own:.0f} ms; {fastest}, the fastest peer, {count * sums[fastest]:.0f} ms"
    return [
        f"- The corruptions of mCE below at all {count} severities of one image: {times}",
        f"- Ratio to the fastest peer: {ratio:.1f} (wanted {TARGET:g}, hoped for {AIM:g}: {judged})",
    ]


def markdown(rows: Sequence[Row], *, facts: dict[str, str], count: int, rounds: int) -> str:
    """The whole report."""
    names = list(rows[0].theirs)
    head = [
        "corruption",
        "ours, ms",
        *(f"{name}, ms (ratio)" for name in names),
        "largest difference",
        "equal",
    ]
    body = []
    for row in rows:
        cells = [f"{median(row.theirs[name]):.2f} ({row.ratio(name):.1f})" for name in names]
        extra = " (extra)" if CORRUPTIONS[row.name].extra else ""
        largest, equal = row.differences[peers.REFERENCE], row.equal[peers.REFERENCE]
        body.append([row.name + extra, f"{row.own():.2f}", *cells, str(largest), f"{100 * equal:.2f} %"])
    own = total(rows, None)
    sums = {name: total(rows, name) for name in names}
    if own > 0:
        cells = [f"{value:.1f} ({value / own:.1f})" for value in sums.values()]
        body.append(["the 15, sum", f"{own:.1f}", *cells, "", ""])
    day = datetime.now(UTC).date().isoformat()
    return "\n".join(
        [
            "# Corruptions beside their peers",
            "",
            INTRODUCTION.format(day=day, count=count, side=SIDE, rounds=rounds),
            *(f"- {name.capitalize()}: {text}" for name, text in facts.items()),
            *verdict(own, sums),
            "",
            *table(head, body),
            "",
            "## Where the other peers depart from the authors' code",
            "",
            "Largest difference to ours for the same draws.",
            "",
            *table(["corruption", "peer", "largest difference", "equal", "why"], departures(rows)),
            "",
        ]
    )


def departures(rows: Sequence[Row]) -> list[list[str]]:
    """A table row for each difference beyond 1."""
    return [
        [row.name, peer, str(gap), f"{100 * row.equal[peer]:.1f} %", peers.OTHER[peer].get(row.name, "?")]
        for row in rows
        for peer, gap in row.differences.items()
        if gap > 1 and peer != peers.REFERENCE
    ]


def machine() -> dict[str, str]:
    """Kind of machine, its load now, and versions."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    own = ("numpy", "scipy", "numba", "opencv-python-headless", "pillow", "scikit-image")
    libraries = {name: metadata.version(name) for name in own} | peers.versions()
    return {
        "processor": f"{processor()}, {cores} cores, no GPU used",
        "load": f"{os.getloadavg()[0]:.1f} runnable processes a minute before the first run",
        "software": ", ".join(
            [f"{platform.system()}, Python {platform.python_version()}"]
            + [f"{name} {version}" for name, version in libraries.items()]
        ),
    }


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-corruptions", description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="at least 3 (default); 1 with --quick")
    parser.add_argument("--images", type=int, default=len(PHOTOS), choices=range(1, len(PHOTOS) + 1))
    parser.add_argument("--only", nargs="+", choices=list(CORRUPTIONS), help="these corruptions alone")
    parser.add_argument("--quick", action="store_true", help="a smoke test: one image, one round")
    parser.add_argument("--write", type=Path, help=f"where the table goes (default {PAGE}, all corruptions)")
    chosen = parser.parse_args(argv)
    if chosen.quick:
        chosen.rounds, chosen.images = 1, 1
    elif chosen.rounds < 3:
        parser.error(f"--rounds: expected at least 3, got {chosen.rounds}")
    if chosen.write is None and not chosen.quick and not chosen.only:
        chosen.write = PAGE
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    chosen = arguments(argv)
    lacking = peers.missing()
    if lacking:
        sys.stderr.writelines(f"peer {line}\n" for line in lacking)
        sys.stderr.write("run `make bench-corruptions`, which makes the environment of the peers\n")
        return 2
    warnings.simplefilter("ignore")  # the peers use what is deprecated
    cv2.setNumThreads(1)
    facts, images, found = machine(), photographs(chosen.images), peers.load()
    settle()
    rows = []
    for name in chosen.only or CORRUPTIONS:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name}\n")
        rows.append(measure(name, found, images, chosen.rounds))
    text = markdown(rows, facts=facts, count=len(images), rounds=chosen.rounds)
    sys.stdout.write(text)
    if chosen.write is not None:
        chosen.write.parent.mkdir(parents=True, exist_ok=True)
        chosen.write.write_text(text, encoding="utf-8")
    complaints = [line for row in rows if (line := row.complaint()) is not None]
    sys.stderr.writelines(f"{line}\n" for line in complaints)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
