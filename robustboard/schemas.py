"""`python -m robustboard.schemas`: write registry/schema/*.json, which editors complete entries from."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pydantic import BaseModel

from robustboard import workspace
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.leaderboard.entries import BoardEntry
from robustboard.leaderboard.fits import FitEntry
from robustboard.registry.schema import ENTRIES, export
from robustboard.runners.profiles import RunProfile

KINDS: Mapping[str, type[BaseModel]] = {
    **ENTRIES,
    "benchmark": BenchmarkEntry,
    "board": BoardEntry,
    "fit": FitEntry,
    "run-profile": RunProfile,
}
"""Name of the schema → type of every kind of file that people write."""


def main() -> int:
    """Write the schemas that differ, and say which."""
    for name in export(workspace.find(), KINDS):
        sys.stdout.write(f"wrote registry/schema/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
