"""How cells end: ok, skipped or failed for a stated reason, never silently."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Literal

from robustboard.environment import redact
from robustboard.errors import (
    CellError,
    DiskFullError,
    FailureKind,
    RobustboardError,
    StoreError,
)
from robustboard.runners.failures import clear_failure, write_failure
from robustboard.runners.keys import Cell
from robustboard.runners.progress import Reporter
from robustboard.workspace import Workspace

logger = logging.getLogger(__name__)

INTERRUPTED = 130
MEASURED = ("ok", "skipped")
STATES: dict[FailureKind, Literal["withheld", "pending"]] = {"gated": "withheld", "unavailable": "pending"}
"""How a cell ends that could not be measured for no fault of its own; for other reasons it failed."""
MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one cell ended."""

    state: Literal["ok", "skipped", "withheld", "pending", "failed"]
    """skipped: finished before, nothing was measured. withheld: its data or weights are gated, and nobody
    accepted their terms. pending: the Hub could not be reached, so the same command may yet measure it."""
    reason: str
    kind: FailureKind | None = None
    """Only of cells without a measurement."""


class Summary:
    """How all cells of a run ended; collects outcomes while the run goes on."""

    def __init__(
        self, cells: tuple[Cell, ...], workspace: Workspace, reporter: Reporter, *, debug: bool = False
    ) -> None:
        """No cell has ended yet."""
        self.cells = cells
        self.outcomes: dict[Cell, Outcome] = {}
        self.interrupted = False
        self.disk_full: DiskFullError | None = None
        self._workspace = workspace
        self._reporter = reporter
        self._debug = debug

    def add(self, cell: Cell, outcome: Outcome) -> None:
        """Note how a cell ended, and tell it."""
        self.outcomes[cell] = outcome
        if outcome.state in MEASURED:
            clear_failure(self._workspace, cell)
        said = f"{outcome.kind}; the summary says why" if outcome.kind else outcome.reason
        self._reporter.finish(cell.name, f"{outcome.state} {cell.name}: {said}")

    @contextmanager
    def catching(self, cells: Iterable[Cell]) -> Iterator[None]:
        """Let what goes wrong inside fail those of the cells that have not ended, and go on after them."""
        cells = tuple(cells)
        try:
            yield
        except DiskFullError as error:
            self._fail(cells, "disk-full", error)
            raise
        except CellError as error:
            self._fail(cells, error.kind, error.reason)
        except StoreError as error:
            self._fail(cells, "store", error)
        except RobustboardError as error:
            self._fail(cells, "load", error)
        except MemoryError:
            self._fail(cells, "out-of-memory", "this machine has not enough memory for it")
        except Exception as error:  # noqa: BLE001 - code of models, loaders and libraries may raise anything
            lines = str(error).strip().splitlines()
            self._fail(cells, "load", f"{type(error).__name__}: {lines[0] if lines else 'no message'}")

    def _fail(self, cells: tuple[Cell, ...], kind: FailureKind, reason: object) -> None:
        if self._debug:
            sys.stderr.write(redact(traceback.format_exc()))
        text = redact(" ".join(str(reason).split()))[:MAX_REASON]
        for cell in cells:
            if cell not in self.outcomes:
                self.add(cell, Outcome(STATES.get(kind, "failed"), text, kind))
                if kind != "disk-full":
                    self._keep(cell, kind, text)

    def _keep(self, cell: Cell, kind: FailureKind, text: str) -> None:
        try:
            write_failure(self._workspace, cell, kind, text)
        except StoreError as error:
            # Where nothing can be written the summary still tells it, and the other cells are still tried.
            logger.warning("the failure of %s is not kept: %s", cell.name, error)

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """End the run, without an error, at Ctrl-C and at a full disk; what is stored stays."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        except DiskFullError as error:
            self.disk_full = error

    @property
    def exit_code(self) -> int:
        """0 when every cell is there or withheld, else 1; 3 when the disk is full, 130 after Ctrl-C."""
        if self.interrupted:
            return INTERRUPTED
        if self.disk_full is not None:
            return self.disk_full.exit_code
        return 0 if all(self.succeeded(cell) or self._is_withheld(cell) for cell in self.cells) else 1

    def _is_withheld(self, cell: Cell) -> bool:
        return cell in self.outcomes and self.outcomes[cell].state == "withheld"

    def succeeded(self, cell: Cell) -> bool:
        """Whether a cell is measured, now or before."""
        return cell in self.outcomes and self.outcomes[cell].state in MEASURED

    def text(self) -> str:
        """`2 ok, 1 skipped (already done), 1 failed`, after a line for each failure."""
        counts = Counter(outcome.state for outcome in self.outcomes.values())
        found = [
            f"{outcome.state} {cell.name}: {outcome.kind}: {outcome.reason}"
            for cell, outcome in self.outcomes.items()
            if outcome.state not in MEASURED
        ]
        total = f"{counts['ok']} ok, {counts['skipped']} skipped (already done), {counts['failed']} failed"
        if counts["withheld"]:
            total += f", {counts['withheld']} withheld (terms were not accepted)"
        if counts["pending"]:
            total += f", {counts['pending']} pending (the Hub was out of reach; run the same command again)"
        rest = len(self.cells) - len(self.outcomes)
        if rest:
            why = "interrupted" if self.interrupted else "the disk is full"
            total += f", {rest} not started ({why}; the same command goes on from here)"
        return "\n".join([*found, total])


@contextmanager
def time_limit(seconds: int | None) -> Iterator[None]:
    """Raise CellError (timeout) inside the block once it has taken so long.

    By an alarm signal, so only in the main thread, and only once Python gets to run: a hang inside
    a native library is not ended.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise CellError("timeout", f"not finished within {seconds} seconds; stored shards are kept")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
