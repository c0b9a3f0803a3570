"""How this project trains weights on the spot."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from robustboard.fields import Count, EntryId, Index, NotNegative, Positive, Share
from robustboard.yamls import Frozen


class StandardTraining(Frozen):
    """Cross-entropy on clean images: AdamW, one-cycle learning rate, seeded order and initialisation."""

    method: Literal["standard"]
    dataset: EntryId
    images: Count | None = None
    """Train on the first so many images; all when absent."""
    epochs: Count
    batch_size: Count
    learning_rate: Positive
    weight_decay: NotNegative = Fraction(0)
    shift: Index = 0
    """Random shifts by up to so many pixels, filled with the border's value."""


class FgsmTraining(Frozen):
    """FGSM adversarial training with a random start (Wong et al. 2020, "Fast is better than free")."""

    method: Literal["fgsm-adversarial"]
    dataset: EntryId
    images: Count | None = None
    epochs: Count
    batch_size: Count
    learning_rate: Positive
    weight_decay: NotNegative = Fraction(0)
    shift: Index = 0
    eps: Share
    """Linf budget, an exact fraction of the [0, 1] pixel range."""
    relative_step: Positive
    """Step size as a fraction of eps (1.25 in the paper)."""


Recipe = Annotated[StandardTraining | FgsmTraining, Field(discriminator="method")]
