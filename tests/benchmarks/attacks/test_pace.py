"""How far a search looks ahead."""

from __future__ import annotations

import pytest

from robustboard.benchmarks.attacks.pace import HOLD, TRIAL, Pace


def settled(success: float, fixed: float, each: float, passes: int = 3000) -> int:
    """The depth held in the end, of searches where a pass takes fixed + each * depth seconds."""
    pace, seen = Pace(), list[int]()
    for _ in range(passes):
        depth = pace.depth
        seen.append(depth)
        used = (1 - (1 - success) ** depth) / success  # until the first success
        pace.note(used, fixed + each * depth)
    return max(set(seen[passes // 2 :]), key=seen[passes // 2 :].count)


@pytest.mark.parametrize(
    ("success", "fixed", "each"),
    [(0.02, 5.0, 0.1), (0.02, 0.5, 1.0), (0.5, 5.0, 0.1), (0.5, 0.0, 1.0), (0.001, 100.0, 0.1)],
)
def test_the_fastest_depth_is_found(success: float, fixed: float, each: float) -> None:
    """Of the powers of two, worked out from the mean number of tries until the first success."""
    speeds = {
        depth: (1 - (1 - success) ** depth) / success / (fixed + each * depth)
        for depth in (2**power for power in range(14))
    }
    best = max(speeds, key=speeds.__getitem__)
    assert speeds[settled(success, fixed, each)] >= 0.999 * speeds[best]


def test_a_slow_first_pass_of_a_size_does_not_count() -> None:
    pace, met = Pace(), set[int]()
    for _ in range(20 * (HOLD + 3 * TRIAL)):
        slow = 0 if pace.depth in met else 1000
        met.add(pace.depth)
        pace.note(pace.depth, 1 + slow)  # no success ever: the deeper the better
    assert pace.depth > 1000


def test_time_that_does_not_pass_is_no_error() -> None:
    pace = Pace(4)
    for _ in range(100):
        pace.note(1, 0.0)
    assert pace.depth >= 1
