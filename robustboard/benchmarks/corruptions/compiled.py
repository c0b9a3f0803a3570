"""Loops compiled to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(loop: Loop) -> Loop:
    """The function compiled by numba at its first call, and kept on disk for later processes.

    Without fast-math, so that the operations, their order and so the results are those written. Where no
    folder can be written, it is compiled anew in each process.
    """
    try:
        fast = numba.njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # numba found no folder to cache in
        fast = numba.njit(nogil=True)(loop)
    return cast("Loop", fast)
