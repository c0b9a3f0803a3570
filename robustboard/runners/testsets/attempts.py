"""Attempts at images of a set: which source is tried when, with which seed, and what came of it.

All of it follows from the recipe, the source images and the entries: never from the machine, from how
often the build was killed, or from how many images are perturbed at once.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from robustboard import durable, jsons
from robustboard.errors import StoreError
from robustboard.fields import Index, Line, Number
from robustboard.registry.testsets import TestSetEntry
from robustboard.runners.progress import Reporter
from robustboard.runners.samples import Samples
from robustboard.runners.testsets import judging
from robustboard.runners.testsets.judging import Judged, Producer, judge_batch
from robustboard.runners.testsets.manifest import ClassCount, Part, Reason, seed_of
from robustboard.runners.testsets.shards import Row
from robustboard.yamls import Frozen

PART = 32
"""Tries computed and stored together; part of what makes the bytes, so never changed by hand."""

HOPELESS: frozenset[Reason] = frozenset({"oracle wrong on source"})
"""Reasons that another seed cannot mend."""


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What a recipe's names stand for."""

    recipe: TestSetEntry
    samples: Samples
    source: Part
    classes: Mapping[str, str]
    """Class key → display name, in the order of labels."""
    producer: Producer
    software: Mapping[str, str]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Source first."""
        return (self.source, *self.producer.parts)

    @property
    def work_sha256(self) -> str:
        """Digest of all that decides what an attempt gives."""
        identity = {
            "recipe": self.recipe.recipe_sha256,
            "source": self.samples.fingerprint,
            "parts": [part.sha256 for part in self.parts],
            "rules": judging.RULES,
            "part": PART,
        }
        return jsons.digest("robustboard.testset-work/1", identity)


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt to come."""

    place: int
    """Of the source image among the samples."""
    source_id: str
    label: int
    attempt: int


class Outcome(Frozen):
    """One attempt made, as it is stored until the set is whole."""

    source_id: Line
    attempt: Index
    reason: Reason | None
    image: str | None
    """8-bit values in C order, base64; of an image of the set."""
    status: str
    steps: Index
    distance: Number
    confidence: Number
    margin: Number


class Outcomes(Frozen):
    """A stored part."""

    work_sha256: Line
    outcomes: tuple[Outcome, ...]


@dataclass(eq=False)
class Attempts:
    """Attempts made so far, in the order of waves."""

    material: Material
    place: Path
    reporter: Reporter
    kept: dict[int, tuple[Try, Outcome]] = field(default_factory=dict)
    """Place of the source image → its image."""
    attempted: Counter[int] = field(default_factory=Counter)
    rejected: dict[int, Counter[Reason]] = field(default_factory=dict)
    hopeless: set[int] = field(default_factory=set)

    def run(self) -> None:
        """Make attempts until each class is full or has nothing left to try."""
        recipe = self.material.recipe
        name = recipe.reference
        self.reporter.expect(name, recipe.per_class * len(self.material.classes))
        self.reporter.stage(f"{name}: generating")
        for wave in self._waves():
            for start in range(0, len(wave), PART):
                part = wave[start : start + PART]
                for each, outcome in zip(part, self._outcomes(part), strict=True):
                    self._note(each, outcome)
                tried = sum(self.attempted.values())
                self.reporter.stage(f"{name}: {len(self.kept)} images of {tried} attempts")
        self.reporter.finish(
            name, f"{name}: {len(self.kept)} images of {sum(self.attempted.values())} attempts"
        )

    def _waves(self) -> Iterator[list[Try]]:
        """The next tries of all classes: of each as many as it still lacks, all of one round."""
        labels = range(len(self.material.classes))
        # Of each class: the round it is in, and the places that are still to be tried in this round.
        state = [(0, self._queue(label)) for label in labels]
        while True:
            wave: list[Try] = []
            full = Counter(each.label for each, _ in self.kept.values())
            for label in labels:
                attempt, queue = state[label]
                if not queue and attempt + 1 < self.material.recipe.attempts:
                    attempt, queue = attempt + 1, self._queue(label)
                lacking = self.material.recipe.per_class - full[label]
                chosen, state[label] = queue[:lacking], (attempt, queue[lacking:])
                ids = self.material.samples.ids
                wave += [Try(place, ids[place], label, attempt) for place in chosen]
            if not wave:
                return
            yield wave

    def _queue(self, label: int) -> list[int]:
        """Source images of a class that may still give one, in an order that the recipe alone decides."""
        samples, recipe = self.material.samples, self.material.recipe.recipe_sha256
        given = {*self.kept, *self.hopeless}
        places = [int(place) for place in np.flatnonzero(samples.labels == label) if place not in given]

        def draw(place: int) -> bytes:
            text = f"robustboard.testset-order/1 {recipe} {samples.ids[place]}"
            return hashlib.sha256(text.encode("utf-8")).digest()

        return sorted(places, key=draw)

    def _note(self, each: Try, outcome: Outcome) -> None:
        self.attempted[each.label] += 1
        if outcome.reason is None:
            self.kept[each.place] = (each, outcome)
            self.reporter.advance(self.material.recipe.reference, 1, 1)
        else:
            self.rejected.setdefault(each.label, Counter())[outcome.reason] += 1
            if outcome.reason in HOPELESS:
                self.hopeless.add(each.place)

    def _outcomes(self, part: Sequence[Try]) -> tuple[Outcome, ...]:
        """What these tries give: read back where they were made already, else made and stored."""
        work = self.material.work_sha256
        digest = jsons.digest("robustboard.testset-part-of/1", [[t.source_id, t.attempt] for t in part])
        path = self.place / f"{digest[:32]}.json"
        wanted = [(each.source_id, each.attempt) for each in part]
        if path.exists():
            try:
                found = jsons.unseal(path.read_bytes(), Outcomes, path.name)
                same = [(each.source_id, each.attempt) for each in found.outcomes] == wanted
                if same and found.work_sha256 == work:
                    return found.outcomes
            except StoreError:
                pass  # damaged: made again, which gives the same
        outcomes = tuple(_stored(each, made) for each, made in zip(part, self._make(part), strict=True))
        durable.write(path, jsons.seal(Outcomes(work_sha256=work, outcomes=outcomes)))
        return outcomes

    def _make(self, part: Sequence[Try]) -> list[Judged]:
        recipe, samples = self.material.recipe, self.material.samples
        places = [each.place for each in part]
        return judge_batch(
            self.material.producer,
            samples.pixels(places),
            samples.labels[places].copy(),
            [seed_of(recipe, each.source_id, each.attempt) for each in part],
            recipe.clipped_at_most,
        )

    def rows(self) -> list[Row]:
        """Images of the set in the order of their sources."""
        names = list(self.material.classes.values())
        shape = self.material.samples.shape
        found = []
        for place in sorted(self.kept):
            each, outcome = self.kept[place]
            values = np.frombuffer(base64.b64decode(outcome.image or ""), np.uint8)
            found.append(
                Row(
                    source_id=each.source_id,
                    attempt=each.attempt,
                    seed=seed_of(self.material.recipe, each.source_id, each.attempt),
                    label=each.label,
                    class_name=names[each.label],
                    pixels=values.reshape(shape),
                    status=outcome.status,
                    steps=outcome.steps,
                    distance=outcome.distance,
                    oracle_confidence=outcome.confidence,
                    oracle_margin=outcome.margin,
                )
            )
        return found

    def counts(self) -> tuple[ClassCount, ...]:
        """What became of each class, in the order of labels."""
        kept = Counter(each.label for each, _ in self.kept.values())
        return tuple(
            ClassCount(
                key=key,
                name=name,
                wanted=self.material.recipe.per_class,
                kept=kept[label],
                attempted=self.attempted[label],
                rejected=dict(sorted(self.rejected.get(label, Counter()).items())),
            )
            for label, (key, name) in enumerate(self.material.classes.items())
        )


def _stored(each: Try, made: Judged) -> Outcome:
    image: npt.NDArray[np.uint8] | None = made.pixels
    return Outcome(
        source_id=each.source_id,
        attempt=each.attempt,
        reason=made.reason,
        image=base64.b64encode(np.ascontiguousarray(image).tobytes()).decode("ascii")
        if image is not None
        else None,
        status=made.status,
        steps=made.steps,
        distance=made.distance,
        confidence=made.confidence,
        margin=made.margin,
    )
