"""How far a run is: a bar on a terminal, a line now and then in a log, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

LINE_EVERY_SECONDS = 5.0


class Reporter(Protocol):
    """What an evaluation tells while it runs. Work is counted in forward passes of one image."""

    def __enter__(self) -> Self:
        """Begin to report."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal clean, whatever happened."""

    def expect(self, name: str, work: float) -> None:
        """Say how much work a cell is."""

    def stage(self, text: str) -> None:
        """Say what is going on now."""

    def advance(self, name: str, work: float, images: int) -> None:
        """Say that so much of a cell's work, on so many images, is done and stored."""

    def finish(self, name: str, line: str) -> None:
        """Say how a cell ended; what was left of its work falls away."""


class Meter:
    """Work done and to do, rate, and time left; loading and training do not count as work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """A meter that has seen nothing yet."""
        self.clock = clock
        self.left: dict[str, float] = {}
        self.done = 0.0
        self.images = 0
        self.seconds = 0.0
        self.text = ""
        self.since = clock()

    @property
    def total(self) -> float:
        """Work done and to do."""
        return self.done + sum(self.left.values())

    def stage(self, text: str) -> None:
        """What is going on from now on."""
        self.text = text
        self.since = self.clock()

    def advance(self, name: str, work: float, images: int) -> None:
        """Work that was done since the stage began."""
        now = self.clock()
        self.seconds += now - self.since
        self.since = now
        self.left[name] = max(self.left.get(name, 0.0) - work, 0.0)
        self.done += work
        self.images += images

    def seconds_left(self) -> float | None:
        """Time for the rest at the mean rate so far; None before anything is done."""
        return self.seconds / self.done * sum(self.left.values()) if self.done > 0 else None

    def describe(self) -> str:
        """`120 images/s, 1:05 left`, as far as it is known."""
        left = self.seconds_left()
        if left is None:
            return ""
        rate = self.images / max(self.seconds, 1e-9)
        return f"{rate:,.0f} images/s, {left // 60:.0f}:{left % 60:02.0f} left"


class Silent:
    """Reports nothing."""

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def expect(self, name: str, work: float) -> None:
        """Nothing is shown."""

    def stage(self, text: str) -> None:
        """Nothing is shown."""

    def advance(self, name: str, work: float, images: int) -> None:
        """Nothing is shown."""

    def finish(self, name: str, line: str) -> None:
        """Nothing is shown."""


class Metered(Silent):
    """Keeps the meter, and shows it when it moves."""

    def __init__(self, meter: Meter | None = None) -> None:
        """With a meter of its own where none is given."""
        self.meter = meter or Meter()

    def expect(self, name: str, work: float) -> None:
        """More work."""
        self.meter.left[name] = work

    def stage(self, text: str) -> None:
        """What is going on now."""
        self.meter.stage(text)
        self._show()

    def advance(self, name: str, work: float, images: int) -> None:
        """Work that was done."""
        self.meter.advance(name, work, images)
        self._show()

    def _show(self) -> None:
        """Nothing is shown."""


class Lines(Metered):
    """Plain lines for logs: one a finished cell, and one every few seconds."""

    def __init__(
        self, stream: IO[str], every: float = LINE_EVERY_SECONDS, meter: Meter | None = None
    ) -> None:
        """Lines to `stream`, at most one in `every` seconds beside those that stay."""
        super().__init__(meter)
        self.stream = stream
        self.every = every
        self.last = float("-inf")

    def finish(self, name: str, line: str) -> None:
        """A line that is always printed."""
        self.meter.left.pop(name, None)
        print(line, file=self.stream, flush=True)

    def _show(self) -> None:
        now = self.meter.clock()
        if now - self.last < self.every:
            return
        self.last = now
        share = f"{self.meter.done / self.meter.total:4.0%} " if self.meter.total > 0 else ""
        line = f"{share}{self.meter.text} {self.meter.describe()}".rstrip()
        print(line, file=self.stream, flush=True)


class Bar(Metered):
    """A bar with rate and time left; finished cells scroll by above it."""

    def __init__(self, console: Console, meter: Meter | None = None) -> None:
        """A bar on a terminal."""
        super().__init__(meter)
        self.bar = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self.task = self.bar.add_task("", total=None, rate="")

    def __enter__(self) -> Self:
        """Show the bar."""
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away and give the cursor back."""
        self.bar.update(self.task, visible=False)
        self.bar.stop()

    def finish(self, name: str, line: str) -> None:
        """A line above the bar."""
        self.meter.left.pop(name, None)
        self._show()
        self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        self.bar.update(
            self.task,
            description=self.meter.text,
            completed=self.meter.done,
            total=self.meter.total or None,
            rate=self.meter.describe(),
        )


def reporter(*, quiet: bool = False, stream: IO[str] | None = None) -> Reporter:
    """A bar where `stream` (standard error) is a terminal, plain lines elsewhere, nothing when quiet."""
    stream = stream or sys.stderr
    if quiet:
        return Silent()
    return Bar(Console(file=stream)) if stream.isatty() else Lines(stream)
