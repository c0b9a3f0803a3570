"""How far a search with rare successes should look ahead: found by trying, without a say in results."""

from __future__ import annotations

from collections.abc import Generator

TRIAL = 5
"""Passes with each depth that is compared."""
HOLD = 60
"""Passes with the best of them before depths are compared again."""


class Pace:
    """Chooses how many proposals of each image go through the network in one pass.

    Proposals after the first success are wasted, but a pass of few rows takes nearly as long as one
    of more: which depth is fastest depends on network, machine, images left and share of successes.
    Now and then half and double the depth are compared with it, by proposals used up a second.
    """

    def __init__(self, first: int = 1) -> None:
        """Begin with a depth."""
        self._plan = self._compare(max(1, first))
        self.depth = next(self._plan)
        """To use in the next pass."""

    def note(self, used: float, seconds: float) -> None:
        """Take in the last pass: proposals used up, of all images together, and its time."""
        self.depth = self._plan.send((used, seconds))

    @staticmethod
    def _compare(depth: int) -> Generator[int, tuple[float, float], None]:
        while True:
            speeds: dict[int, float] = {}
            for tried in sorted({max(1, depth // 2), depth, 2 * depth}):
                total, least = 0.0, float("inf")
                for _ in range(TRIAL):
                    used, seconds = yield tried
                    # The least time: first passes of a size are slow, and other programs disturb.
                    total, least = total + used, min(least, seconds)
                speeds[tried] = total / max(least, 1e-9)
            depth = max(speeds, key=speeds.__getitem__)
            for _ in range(HOLD):
                yield depth
