"""Results of a pull request, held against the entries, their predictions and each other.

Nothing in a result file is taken on trust. A number counts when the stored predictions give it twice: by the
program that writes results, and by queries that share no code with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robustboard import jsons
from robustboard.benchmarks.conditions import headline
from robustboard.benchmarks.entries import BenchmarkEntry, Scope
from robustboard.errors import StoreError, echo
from robustboard.registry.catalog import Catalog
from robustboard.runners.keys import Cell, Keys
from robustboard.runners.per_image import per_image, shared_conditions
from robustboard.runners.record import Result
from robustboard.runners.recount import recount
from robustboard.runners.score import NOT_IN_ENTRIES, read_result, result_of
from robustboard.runners.store import Store, StoredRun, shard_name
from robustboard.runners.verifications import predictions_digest
from robustboard.workspace import Workspace

PLACE = re.compile(r"[a-z0-9][a-z0-9._-]{1,63}/[a-z0-9][a-z0-9._-]{1,63}--[a-z0-9][a-z0-9._-]{1,63}\.json")
WHERE = "MODEL/BENCHMARK--DATASET.json"


@dataclass(slots=True)
class Submission:
    """The result files of a working tree, beside those that were there before."""

    workspace: Workspace
    catalog: Catalog
    benchmarks: Mapping[str, BenchmarkEntry]
    stores: Sequence[Store]
    before: Mapping[str, bytes] | None = None
    """Path below leaderboard/results → bytes, at the commit that the pull request starts from; with it only
    what is new or changed has to have its predictions at hand."""
    outcomes_before: Mapping[str, bytes] | None = None
    """The same of leaderboard/outcomes."""
    keys: Keys = field(init=False)
    faults: list[str] = field(default_factory=list)
    results: dict[Cell, Result] = field(default_factory=dict)
    """Readable results, changed or not."""
    changed: set[Cell] = field(default_factory=set)
    """Of these, the new and changed ones."""

    def __post_init__(self) -> None:
        """Nothing is read yet."""
        self.keys = Keys(self.catalog, self.benchmarks)

    @property
    def root(self) -> Path:
        """Where result files lie."""
        return self.workspace.committed_results

    def check(self) -> list[str]:
        """Every fault, one line each, with file and field; sorted by file."""
        changed = [path for path in self._paths() if self._read(path)]
        self.changed = {Cell(*_parts(self._below(path))) for path in changed}
        for name in sorted(set(self.before or ()) - {self._below(path) for path in self._files()}):
            self._fault(
                name, "", "expected the file to stay: a wrong result is invalidated, never taken away"
            )
        for path in changed:
            self._check(path)
        self._outcomes()
        self._between()
        return sorted(set(self.faults))

    def _fault(self, name: str, place: str, message: str) -> None:
        shown = name.encode("unicode_escape").decode("ascii")
        self.faults.append(
            ": ".join(filter(None, (f"leaderboard/results/{shown}", place or "(whole file)", message)))
        )

    def _below(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob("*") if path.is_symlink() or not path.is_dir())

    def _paths(self) -> Iterator[Path]:
        """Files that may be results, the others told."""
        seen: dict[str, str] = {}
        for path in self._files():
            name = self._below(path)
            twin = seen.setdefault(name.casefold(), name)
            if path.is_symlink() or not path.is_file():
                self._fault(name, "", "expected a regular file, got a link or something else")
            elif not PLACE.fullmatch(name):
                self._fault(name, "", f"expected files named {WHERE}, got {echo(name)}")
            elif twin != name:
                self._fault(name, "", f"expected names that differ in more than case, got the twin of {twin}")
            else:
                yield path

    def _read(self, path: Path) -> bool:
        """Whether a file is new or changed, and readable."""
        name = self._below(path)
        try:
            result = read_result(path, f"leaderboard/results/{name}")
        except StoreError as error:
            self.faults.append(str(error))
            return False
        self.results[Cell(result.key.model, result.key.benchmark, result.key.dataset)] = result
        return self.before is None or self.before.get(name) != path.read_bytes()

    def _check(self, path: Path) -> None:
        name = self._below(path)
        result = self.results[Cell(*_parts(name))]
        setting = self._known(name, result)
        if setting is None:
            return
        for each in self.keys.changed(result.key, NOT_IN_ENTRIES):
            self._fault(name, f"key.{each}", "expected that of the entries as they are, got another")
        if result.key.precision != "float32":
            self._fault(name, "key.precision", f"expected float32, got {result.key.precision}")
        images = self.keys.images(Cell(*_parts(name)))
        for each, wanted, found in (
            ("images", images, result.images),
            ("evaluated", images, result.evaluated),
            ("skipped", 0, result.skipped),
            ("headline", headline(self._benchmark(result).procedure, setting), result.headline),
        ):
            if wanted != found:
                self._fault(name, each, f"expected {wanted}, got {echo(str(found))}")
        if result.key.subset is not None:
            self._fault(name, "key.subset", "expected a run of every image, got a sample")
        self._shards(name, result)
        self._predictions(name, result, setting)

    def _known(self, name: str, result: Result) -> Scope | None:
        """The setting of a result's protocol; None, and told, where an entry is not there."""
        key = result.key
        for each, value, known in (
            ("key.model", key.model, self.catalog.models),
            ("key.dataset", key.dataset, self.catalog.datasets),
            ("key.benchmark", key.benchmark, self.benchmarks),
        ):
            if value not in known:
                self._fault(name, each, f"expected a registered one, got {echo(value)}")
                return None
        setting = self._benchmark(result).setting_for(self.catalog.dataset(key.dataset))
        if setting is None:
            self._fault(name, "key.benchmark", f"expected a protocol for {key.dataset}, got {key.benchmark}")
        return setting

    def _benchmark(self, result: Result) -> BenchmarkEntry:
        return self.benchmarks[result.key.benchmark]

    def _shards(self, name: str, result: Result) -> None:
        step = result.key.shard_size
        count = -(-result.evaluated // step)
        if len(result.shards) != count:
            self._fault(name, "shards", f"expected {count} of {step} images, got {len(result.shards)}")
        for place, shard in enumerate(result.shards):
            if shard.name != f"{shard_name(place)}.parquet":
                self._fault(
                    name, f"shards.{place}.name", f"expected {shard_name(place)}, got {echo(shard.name)}"
                )

    def _predictions(self, name: str, result: Result, setting: Scope) -> None:
        """Hold a result against its stored predictions, both ways."""
        try:
            found = next(
                ((store, run) for store in self.stores if (run := store.read(result.key_digest)) is not None),
                None,
            )
            if found is None:
                lacking = f"expected the predictions of run {result.key_digest[:12]} here, found none"
                self._fault(name, "shards", f"{lacking}: publish them, and fetch them with predictions pull")
                return
            store, run = found
            for place, (stated, stored) in enumerate(zip(result.shards, run.record.shards, strict=False)):
                if stated != stored:
                    self._fault(name, f"shards.{place}", "expected the stored predictions, got others")
            if result.shards != run.record.shards:
                return
            if self._first(name, result, run, setting):
                for fault in recount(store, result).faults:
                    self._fault(name, *fault.split(": ", 1))
        except StoreError as error:
            self._fault(name, "shards", str(error))

    def _first(self, name: str, result: Result, run: StoredRun, setting: Scope) -> bool:
        """Whether the result is what the program that writes results makes of the predictions."""
        try:
            wanted = result_of(run, self._benchmark(result), setting)
        except StoreError as error:
            self._fault(name, "scores", str(error))
            return False
        found = list(_differences(wanted.model_dump(mode="json"), result.model_dump(mode="json")))
        for place, expected, got in found:
            self._fault(name, place, f"expected {expected} as the predictions give, got {got}")
        return not found

    def _outcomes(self) -> None:
        """Bits an image that are not those of the predictions: pairs of models are compared by them."""
        root = self.workspace.committed_outcomes
        for path in sorted(each for each in root.rglob("*") if each.is_symlink() or not each.is_dir()):
            name = path.relative_to(root).as_posix()
            shown = f"leaderboard/outcomes/{name.encode('unicode_escape').decode('ascii')}"
            known = (self.outcomes_before or {}).get(name)
            if path.is_symlink() or not PLACE.fullmatch(name):
                self.faults.append(f"{shown}: (whole file): expected files named {WHERE}, got another")
            elif self.outcomes_before is None or known != path.read_bytes():
                fault = self._bits(Cell(*_parts(name)), path.read_bytes())
                if fault is not None:
                    self.faults.append(f"{shown}: {fault}")

    def _bits(self, cell: Cell, data: bytes) -> str | None:
        """What is wrong with the bits of one result."""
        result = self.results.get(cell)
        if (
            result is None
            or cell.benchmark not in self.benchmarks
            or cell.dataset not in self.catalog.datasets
        ):
            return "key_digest: expected a result beside it, found none"
        run = self._quiet(result)
        setting = self._benchmark(result).setting_for(self.catalog.dataset(cell.dataset))
        if run is None or setting is None:
            return f"right: expected the predictions of run {result.key_digest[:12]} here, found none"
        conditions = shared_conditions(self._benchmark(result), setting)
        wanted = jsons.seal(per_image(result.key, run.predictions, conditions))
        return None if data == wanted else "right: expected the bits that the predictions give, got others"

    def _between(self) -> None:
        """Faults that show between results: one run under two names, other labels on the same images.

        Told of the later one: what was there before is not at fault.
        """
        ordered = sorted(self.results.items(), key=lambda item: (item[0] in self.changed, item[0]))
        owners: dict[str, list[Cell]] = defaultdict(list)
        for cell, result in ordered:
            if result.shards:
                owners[predictions_digest(result.shards)].append(cell)
            owners[result.key_digest].append(cell)
        for cells in owners.values():
            for cell in cells[1:]:
                other = f"{cells[0].name}.json"
                self._fault(
                    f"{cell.name}.json", "shards", f"expected predictions of its own, got those of {other}"
                )
        samples: dict[str, dict[str, Cell]] = defaultdict(dict)
        for cell, result in ordered:
            run = self._quiet(result)
            if run is not None:
                samples[result.key.data_fingerprint].setdefault(run.record.plan.samples_digest, cell)
        for several in samples.values():
            first, *others = several.values()
            for cell in others:
                told = f"expected the ids and labels of {first.name}, on the same images, got others"
                self._fault(f"{cell.name}.json", "shards", told)

    def _quiet(self, result: Result) -> StoredRun | None:
        for store in self.stores:
            try:
                run = store.read(result.key_digest)
            except StoreError:
                return None
            if run is not None:
                return replace(run)
        return None


def _parts(name: str) -> tuple[str, str, str]:
    model, _, rest = name.removesuffix(".json").partition("/")
    benchmark, _, dataset = rest.partition("--")
    return model, benchmark, dataset


def _differences(wanted: Any, found: Any, place: str = "") -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - JSON
    """(field, expected, found) where two JSON values differ, as deep as they are alike in shape."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        for key in wanted:
            yield from _differences(wanted[key], found[key], f"{place}.{key}" if place else key)
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(one, other, f"{place}.{number}" if place else str(number))
    elif wanted != found:
        yield place, _shown(wanted), _shown(found)


def _shown(value: object) -> str:
    return f"{len(value)} items" if isinstance(value, dict | list) else echo(str(value))
