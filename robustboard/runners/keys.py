"""Cells of the leaderboard, and the keys of their runs. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from robustboard import jsons
from robustboard.benchmarks.entries import (
    BenchmarkEntry,
    Corruption,
    DetectionSetting,
    External,
    GeneratedSetting,
    Ladder,
    Scope,
    WorstCase,
)
from robustboard.errors import UserError
from robustboard.registry.catalog import Catalog
from robustboard.registry.generators import SparseLatents
from robustboard.runners import identity
from robustboard.runners.record import CODE_VERSION, RunKey, Subset

CONTENT = "dataset/"
"""What names of stored images begin with among the parts of a key."""


class Cell(NamedTuple):
    """One square of the leaderboard: three ids."""

    model: str
    benchmark: str
    dataset: str

    @property
    def name(self) -> str:
        """`model/benchmark--dataset`, also the path of its files."""
        return f"{self.model}/{self.benchmark}--{self.dataset}"


def result_name(cell: Cell, *, subset: Subset | None, evaluated: int, images: int) -> str:
    """The cell's name; a partial run's also says how many images of how many, and the seed."""
    if subset is None and evaluated == images:
        return cell.name
    seed = f"-seed-{subset.seed}" if subset is not None else ""
    return f"{cell.name}--{evaluated}-of-{images}{seed}"


def protocol_digest(benchmark: BenchmarkEntry, setting: Scope) -> str:
    """Digest of a protocol as it applies to one dataset: the procedure with that one setting.

    Settings for other datasets do not count, so a protocol that learns about a new dataset keeps
    its results.
    """
    procedure = benchmark.procedure.model_dump(mode="json", exclude={"settings"})
    own = setting.model_dump(mode="json", exclude={"datasets", "label_spaces"})
    return jsons.digest("robustboard.protocol/1", {"procedure": procedure, "setting": own})


class Keys:
    """Run keys from the entries of one catalogue; each digest is computed once."""

    def __init__(self, catalog: Catalog, benchmarks: Mapping[str, BenchmarkEntry]) -> None:
        """Keys for cells of these entries."""
        self.catalog = catalog
        self.benchmarks = benchmarks
        self._model = cache(self._model_parts)
        self._dataset = cache(self._dataset_parts)
        self._protocol = cache(self._protocol_digest)

    def _model_parts(self, name: str) -> tuple[str, dict[str, str]]:
        entry = self.catalog.model(name)
        return identity.model_digest(entry), identity.software(entry)

    def _dataset_parts(self, name: str) -> tuple[str, str]:
        entry = self.catalog.dataset(name)
        space, chosen = self.catalog.label_space(entry.label_space), self.catalog.chosen(entry)
        labels = identity.labels_digest(space, chosen)
        return identity.dataset_digest(entry, self.catalog.viewed(entry)), labels

    def _protocol_digest(self, benchmark: str, dataset: str) -> str:
        setting = self.benchmarks[benchmark].setting_for(self.catalog.dataset(dataset))
        if setting is None:
            raise UserError(f"benchmark {benchmark} has no setting for dataset {dataset}")
        found = protocol_digest(self.benchmarks[benchmark], setting)
        if isinstance(setting, GeneratedSetting):
            return jsons.digest("robustboard.generated/2", [found, *self._cast(setting)])
        if setting.companion is None:
            return found
        companion, labels = self._dataset(setting.companion)
        return jsons.digest("robustboard.companion/1", [found, companion, labels])

    def _cast(self, setting: GeneratedSetting) -> Iterator[object]:
        """What the entries of generators and oracles say that shapes images and verdicts."""
        for use in setting.generators:
            yield from self._generator(use.generator)
        for name in setting.oracles:
            yield from self._oracle(name)

    def _generator(self, name: str) -> Iterator[object]:
        method = self.catalog.generator(name).method
        yield method.model_dump(mode="json")
        if isinstance(method, SparseLatents):
            yield from self._generator(method.generator)
            yield self._model(method.mask.model)[0]
            yield from self._oracle(method.mask.oracle)

    def _oracle(self, name: str) -> Iterator[object]:
        for part in self.catalog.oracle_parts(name):
            yield part.judge.model_dump(mode="json")

    def images(self, cell: Cell) -> int:
        """Images that a cell measures: those of its dataset, and those out of distribution beside them."""
        dataset = self.catalog.dataset(cell.dataset)
        setting = self.benchmarks[cell.benchmark].setting_for(dataset)
        if not isinstance(setting, DetectionSetting):
            return dataset.size
        return dataset.size + self.catalog.dataset(setting.out_of_distribution).size

    def parts(self, cell: Cell) -> tuple[Cell, ...]:
        """The cells whose predictions a worst case is joined from; none for other procedures.

        Those that the protocol names and that cover the dataset, in its order, then every external
        set for this model that has one of the worst case's budgets.
        """
        procedure = self.benchmarks[cell.benchmark].procedure
        dataset = self.catalog.dataset(cell.dataset)
        setting = self.benchmarks[cell.benchmark].setting_for(dataset)
        if not isinstance(procedure, WorstCase) or not isinstance(setting, Ladder):
            return ()
        chosen = [name for name in procedure.of if self.benchmarks[name].setting_for(dataset)]
        for name, benchmark in self.benchmarks.items():
            other, own = benchmark.procedure, benchmark.setting_for(dataset)
            if (
                isinstance(other, External)
                and isinstance(own, Ladder)
                and other.norm == procedure.norm
                and set(own.budgets) & set(setting.budgets)
                and benchmark.wants(cell.model)
                and name not in chosen
            ):
                chosen.append(name)
        return tuple(cell._replace(benchmark=name) for name in chosen)

    def key(
        self,
        cell: Cell,
        *,
        weights_sha256: str,
        data_fingerprint: str,
        precision: str,
        subset: Subset | None,
        software: Mapping[str, str] | None = None,
        components: Mapping[str, str] | None = None,
    ) -> RunKey:
        """The key of a cell, once its weights and the images as read are known.

        `components` are identities of generators and oracles, and digests of stored images beside the
        dataset's: `oracle/ID`, `generator/ID`, `dataset/ID` → 64 hex digits. `software`
        stands for the libraries of this machine where a key of another one is compared. Raises UserError
        for a benchmark that does not cover the dataset.
        """
        model_digest, own_software = self._model(cell.model)
        parts = {
            part.benchmark: self.key(
                part,
                weights_sha256=weights_sha256,
                data_fingerprint=data_fingerprint,
                precision=precision,
                subset=subset,
                software=software,
            ).digest
            for part in self.parts(cell)
        }
        dataset_digest, labels_digest = self._dataset(cell.dataset)
        benchmark = self.benchmarks[cell.benchmark]
        if isinstance(benchmark.procedure, Corruption) and benchmark.procedure.images == "in-memory":
            own_software = {**own_software, **identity.corrupting_software()}
        return RunKey.model_validate(
            {
                "code": CODE_VERSION,
                "model": cell.model,
                "model_digest": model_digest,
                "weights_sha256": weights_sha256,
                "dataset": cell.dataset,
                "dataset_digest": dataset_digest,
                "data_fingerprint": data_fingerprint,
                "labels_digest": labels_digest,
                "benchmark": cell.benchmark,
                "protocol_digest": self._protocol(cell.benchmark, cell.dataset),
                "seed": benchmark.seed,
                "precision": precision,
                "shard_size": benchmark.shard_size,
                "subset": subset,
                "software": dict(own_software if software is None else software),
                "parts": parts | dict(components or {}),
            }
        )

    def changed(self, key: RunKey, ignore: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Fields of a stored key that the entries and libraries of today give another value.

        Weights, data, components, precision and subset are taken from the key, as entries do not tell them.
        """
        now = self.key(
            Cell(key.model, key.benchmark, key.dataset),
            weights_sha256=key.weights_sha256,
            data_fingerprint=key.data_fingerprint,
            precision=key.precision,
            subset=key.subset,
            software=key.software if "software" in ignore else None,
            components={name: part for name, part in key.parts.items() if "/" in name},
        )
        names = [name for name in RunKey.model_fields if name not in ignore]
        return tuple(name for name in names if getattr(now, name) != getattr(key, name))
