"""Numbers as people read them on pages; shares become percent as in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from robustboard.leaderboard.cells import IN_PERCENT, percent_text, points_text
from robustboard.runners.record import Score

NBSP = "\u00a0"
EN_DASH = "\u2013"
MINUS = "\u2212"
PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
MINUTE = 60


def points(difference: float, digits: int = 1, *, signed: bool = False) -> str:
    """`+5.6 pp` for 0.056, in percentage points; a plus only where signed."""
    return points_text(difference, digits, signed=signed).replace("-", MINUS).replace(" ", NBSP)


def value(score: Score, digits: int = 1) -> str:
    """A score's value: percent for shares, points for differences, plain otherwise; or `undefined`."""
    if score.value is None:
        return "undefined"
    if score.unit == "share":
        return percent_text(score.value, digits)
    if score.unit == "difference":
        return points(score.value, digits, signed=score.direction == "higher")
    if score.unit == "percent":
        return f"{score.value:.{digits}f}"
    return f"{score.value:.{digits + 2}f}" if score.unit == "ratio" else f"{score.value:,.0f}"


def bounds(score: Score, digits: int = 2) -> str:
    """`75.72 to 76.48`, or a word where there is no interval."""
    if score.low is None or score.high is None:
        return "none"
    scale = 100 if score.unit in IN_PERCENT else 1
    ends = (f"{end * scale:.{digits}f}".replace("-", MINUS) for end in (score.low, score.high))
    return " to ".join(ends)


def whole(number: int) -> str:
    """`10,000`."""
    return f"{number:,}"


def short(number: int) -> str:
    """`1.2 M` for 1,234,567, with three digits at most."""
    for size, prefix in PREFIXES:
        if number >= size:
            scaled = number / size
            digits = 2 if scaled < 10 else 1 if scaled < 100 else 0  # noqa: PLR2004 - three digits in all
            return f"{scaled:.{digits}f}{NBSP}{prefix}"
    return str(number)


def millions(number: int) -> str:
    """`0.3` for 300,000, as it stands in addresses."""
    return f"{number / 10**6:g}"


def duration(seconds: float) -> str:
    """`12.5 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < MINUTE:
        return f"{seconds:.1f}{NBSP}s"
    minutes, rest = divmod(round(seconds), MINUTE)
    if minutes < MINUTE:
        return f"{minutes}{NBSP}min {rest}{NBSP}s"
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours}{NBSP}h {minutes:02}{NBSP}min"


def ranks(found: tuple[int, int] | None) -> str:
    """`1`, or two ranks with an en dash between; nothing for a row without rank."""
    if found is None:
        return ""
    best, worst = found
    return str(best) if best == worst else f"{best}{EN_DASH}{worst}"


def fraction(number: Fraction) -> str:
    """`8/255`, `1`."""
    return str(number)


def plural(number: int, word: str, words: str | None = None) -> str:
    """`1 model`, `2 models`."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """`A, B and C`; beyond `most`, `A, B and 12 others`."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} others"]
    if len(shown) < 2:  # noqa: PLR2004 - one name needs no "and"
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
