"""What the entries of a board's models say of their training data, counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustboard.registry.entries import ModelEntry


@dataclass(frozen=True, slots=True)
class Contamination:
    """Models by whether the test images of one dataset, or their sources, were in their training."""

    yes: int
    no: int
    unknown: int
    """Those that say so, and those that say nothing."""
    sourced: int
    """Answers of yes or no that name where they are known from."""

    def as_data(self) -> dict[str, Any]:
        """As JSON values."""
        return {"yes": self.yes, "no": self.no, "unknown": self.unknown, "sourced": self.sourced}


def contamination(datasets: Sequence[str], models: Iterable[ModelEntry]) -> Mapping[str, Contamination]:
    """Dataset → how many of the models answer what."""
    entries = list(models)
    found = {}
    for name in datasets:
        answers = [entry.training.overlap.get(name, "unknown") for entry in entries]
        sourced = sum(
            answer != "unknown" and name in entry.training.sources
            for entry, answer in zip(entries, answers, strict=True)
        )
        yes, no, unknown = (answers.count(each) for each in ("yes", "no", "unknown"))
        found[name] = Contamination(yes, no, unknown, sourced)
    return found
