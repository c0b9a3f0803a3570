"""Settings of protocols whose images are generated against the evaluated model (FMR, Zhang et al. 2023)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field, model_validator

from robustboard.fields import Count, EntryId, Positive, Share, refuse
from robustboard.yamls import Frozen


class GeneratorUse(Frozen):
    """A generator with the size of its steps, which depends on what its latents are."""

    generator: EntryId
    step_size: Positive = Fraction(1, 1000)
    """How far one step moves: Adam's and sign's in each coordinate, plain gradient's times the gradient."""


class GenerationRules(Frozen):
    """The loop, the same for every dataset: steps uphill on the model's loss while an oracle agrees."""

    budget: Count = 50
    """Most steps an image."""
    update_rule: Literal["adam", "sign", "sgd"] = "adam"
    start: Share | None = None
    """Begin from an FGSM image of this Linf budget; from the image itself when absent."""


class Pairing(Frozen):
    """Which generators and oracles meet on a dataset: each generator with each oracle."""

    generators: tuple[GeneratorUse, ...] = Field(min_length=1)
    """The first is the headline's."""
    oracles: tuple[EntryId, ...] = Field(min_length=1)
    """The first is the headline's."""

    @model_validator(mode="after")
    def _check_pairing(self) -> Pairing:
        for field, found in (
            ("generators", [use.generator for use in self.generators]),
            ("oracles", list(self.oracles)),
        ):
            if len(set(found)) != len(found):
                raise refuse("each one once", field=field, got=" ".join(found))
        return self

    @property
    def pairs(self) -> tuple[tuple[GeneratorUse, str], ...]:
        """Every generator with every oracle, the headline's first."""
        return tuple((use, oracle) for use in self.generators for oracle in self.oracles)


def pair_name(generator: str, oracle: str) -> str:
    """Condition of images that a generator made and an oracle accepted."""
    return f"{generator} by {oracle}"


def oracle_name(oracle: str) -> str:
    """Condition of an oracle's own answers on the images as they are."""
    return f"oracle {oracle}"


def reconstruction_name(generator: str) -> str:
    """Condition of what a generator makes of the images as they are, encoded and decoded without a step."""
    return f"reconstruction by {generator}"


def verdict_name(pair: str) -> str:
    """Condition of the oracle's answers on generated images, once they are 8-bit files."""
    return f"verdict of {pair}"
