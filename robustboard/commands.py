"""What each command does: reads content, calls the parts, prints. Heavy parts are imported where used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from robustboard import console, environment
from robustboard.benchmarks import catalog as benchmark_catalog
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import CellError, ContentError, LockError, Problem, UnknownNameError, UserError
from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.registry.entries import DatasetEntry
from robustboard.registry.folders import read_folder
from robustboard.registry.lock import Lock, Lockable, add_line, key_of, read_lock
from robustboard.workspace import Workspace

if TYPE_CHECKING:
    from robustboard.leaderboard.board import Board
    from robustboard.leaderboard.entries import BoardEntry
    from robustboard.leaderboard.fits import FitEntry
    from robustboard.runners.keys import Cell
    from robustboard.runners.profiles import RunProfile
from robustboard.runners.record import Result


@dataclass(frozen=True, slots=True)
class Content:
    """The checked entries of a workspace."""

    workspace: Workspace
    catalog: Catalog
    benchmarks: Mapping[str, BenchmarkEntry]
    lock: Lock

    def boards(self) -> Mapping[str, BoardEntry]:
        """All boards, references checked."""
        from robustboard.leaderboard.entries import load_boards  # noqa: PLC0415 - most commands need none

        return load_boards(self.workspace, self.catalog, self.benchmarks)

    def fits(self) -> Mapping[str, FitEntry]:
        """Published lines of accuracy under a shift, references checked."""
        from robustboard.leaderboard.fits import load_fits  # noqa: PLC0415 - most commands need none
        from robustboard.registry.reported import load_reported  # noqa: PLC0415 - most commands need none

        return load_fits(self.workspace, self.catalog, load_reported(self.workspace))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which cells, and how."""

    models: Sequence[str]
    benchmarks: Sequence[str]
    datasets: Sequence[str]
    profile: str
    allow_plugins: bool = False


def load(workspace: Workspace) -> Content:
    """Read registry, benchmarks and lock. Raises ContentError with all problems of all files."""
    catalog = load_catalog(workspace)
    benchmarks = benchmark_catalog.load_benchmarks(workspace, catalog)
    return Content(workspace, catalog, benchmarks, read_lock(workspace))


def check(workspace: Workspace, *, as_json: bool) -> int:
    """Print every problem of every content file; 0 when there is none, else 2."""
    from robustboard.leaderboard.answers import survey_answers  # noqa: PLC0415 - only here
    from robustboard.leaderboard.entries import BoardEntry, load_boards  # noqa: PLC0415 - only here
    from robustboard.leaderboard.fits import FitEntry  # noqa: PLC0415 - only here
    from robustboard.leaderboard.trust import survey_invalidations  # noqa: PLC0415 - only here
    from robustboard.registry.check import check as check_registry  # noqa: PLC0415 - only here
    from robustboard.registry.reported import load_reported  # noqa: PLC0415 - only here
    from robustboard.registry.testsets import load_test_sets  # noqa: PLC0415 - only here
    from robustboard.runners.profiles import RunProfile  # noqa: PLC0415 - only here

    problems: set[Problem] = {
        *check_registry(workspace),
        *benchmark_catalog.check(workspace),
        *read_folder(workspace, workspace.profiles, lambda _: RunProfile).problems,
        *read_folder(workspace, workspace.boards, lambda _: BoardEntry).problems,
        *read_folder(workspace, workspace.fits, lambda _: FitEntry).problems,
        *survey_invalidations(workspace).problems,
        *survey_answers(workspace).problems,
    }
    try:
        reported = load_reported(workspace)
        if not problems:
            content = load(workspace)
            load_boards(workspace, content.catalog, content.benchmarks, reported)
            load_test_sets(workspace, content.catalog)
    except ContentError as error:
        problems.update(error.problems)
    if as_json:
        console.out_json([asdict(problem) for problem in sorted(problems)])
    for problem in () if as_json else sorted(problems):
        console.say(str(problem))
    if problems:
        return ContentError.exit_code
    console.say(
        f"{len(content.catalog.models)} models, {len(content.catalog.datasets)} datasets,"
        f" {len(content.benchmarks)} benchmarks, {len(content.boards())} boards: no problem"
    )
    return 0


UNLOCKED = ("trained-here", "classes-of")
"""Kinds of source that have no lock line: weights made here, and views of other datasets."""


def _chosen(content: Content, names: Sequence[str]) -> list[Lockable]:
    every: list[Lockable] = [
        *content.catalog.models.values(),
        *content.catalog.datasets.values(),
        *content.catalog.generators.values(),
    ]
    entries = {key_of(entry): entry for entry in every if entry.source and entry.source.kind not in UNLOCKED}
    without = {key_of(entry) for entry in every} - entries.keys()
    for name in names:
        if name in without:
            raise UserError(f"{name} needs no lock line: nothing of it is fetched")
        if name not in entries:
            raise UnknownNameError("entry to lock", name, entries)
    return [entries[name] for name in names] or [e for key, e in entries.items() if key not in content.lock]


def lock(content: Content, names: Sequence[str]) -> int:
    """Resolve entries and write their lock lines; 1 when some could not be resolved."""
    from robustboard.registry.resolve import Resolver  # noqa: PLC0415 - only here
    from robustboard.runners import hub  # noqa: PLC0415 - imports huggingface_hub
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich
    from robustboard.runners.sources.places import find_data  # noqa: PLC0415 - only here

    say_endpoint()
    failed = 0
    for entry in _chosen(content, names):
        gated = isinstance(entry, DatasetEntry) and entry.gated
        try:
            with reporter(quiet=not sys.stderr.isatty()) as shown:
                ask = partial(
                    hub.resolve, token=gated, progress=lambda stage, done: shown.stage(f"{stage} {done:.0%}")
                )
                found = Resolver(lambda path: find_data(path, content.workspace), ask).resolve(entry)
        except (LockError, CellError) as error:
            console.say(f"failed: {error}")
            failed += 1
            continue
        add_line(content.workspace, key_of(entry), found)
        console.say(f"locked {key_of(entry)}")
    return 1 if failed else 0


def say_endpoint() -> None:
    """Say which Hub is asked where HF_ENDPOINT names another one than the usual."""
    unusual = environment.unusual_endpoint()
    if unusual is not None:
        console.say(f"HF_ENDPOINT is set: the Hub is {unusual}")


def cells_of(content: Content, wanted: Wanted) -> list[Cell]:
    """The cells of the named entries. Raises UnknownNameError or UserError for names that fit nothing."""
    from robustboard.runners.plan import wanted_cells  # noqa: PLC0415 - light, but not for check and list

    return wanted_cells(
        content.catalog,
        content.benchmarks,
        model_ids=wanted.models,
        benchmark_ids=wanted.benchmarks,
        dataset_ids=wanted.datasets,
    )


def show_plan(content: Content, wanted: Wanted, *, as_json: bool) -> None:
    """Print what a run would do with each cell."""
    from robustboard.runners.plan import plan  # noqa: PLC0415 - only here
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here

    found = plan(
        cells_of(content, wanted),
        workspace=content.workspace,
        catalog=content.catalog,
        benchmarks=content.benchmarks,
        lock=content.lock,
        profile=load_profile(content.workspace, wanted.profile),
        allow_plugins=wanted.allow_plugins,
    )
    rows = [(p.cell.model, p.cell.benchmark, p.cell.dataset, p.state, p.reason) for p in found.cells]
    headings = ("model", "benchmark", "dataset", "state", "reason")
    if as_json:
        console.out_json([dict(zip(headings, row, strict=True)) for row in rows])
        return
    console.out_table(headings, rows)
    console.say(
        ", ".join(f"{count} {state}" for state, count in sorted(found.counts().items())) or "no cells"
    )


def run(
    content: Content, wanted: Wanted, *, batch_size: int | None, skip_damaged: bool, quiet: bool, debug: bool
) -> int:
    """Measure what is not finished; the exit code of the summary."""
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - only here

    if not (wanted.models or wanted.benchmarks or wanted.datasets):
        raise UserError(
            "expected at least one of --model, --benchmark, --dataset;"
            " `robustboard plan` shows all cells, `robustboard demo` runs the embedded ones"
        )
    cells = cells_of(content, wanted)
    profile = load_profile(content.workspace, wanted.profile)
    if batch_size is not None:
        profile = profile.model_copy(update={"batch_size": batch_size})
    return measure(content, cells, profile, wanted, skip_damaged=skip_damaged, quiet=quiet, debug=debug)


def measure(
    content: Content,
    cells: Iterable[Cell],
    profile: RunProfile,
    wanted: Wanted,
    *,
    skip_damaged: bool = False,
    quiet: bool = False,
    debug: bool = False,
    use_committed: bool = True,
) -> int:
    """Measure cells and say how it went; the exit code of the summary."""
    # Threads of PyTorch that wait asleep: waiting awake costs up to ten times the time where other
    # programs want the same cores, and nothing elsewhere. Read once, when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from robustboard.runners.evaluate import Session, run_cells  # noqa: PLC0415 - imports torch
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich

    say_endpoint()
    session = Session(
        workspace=content.workspace,
        catalog=content.catalog,
        benchmarks=content.benchmarks,
        lock=content.lock,
        profile=profile,
        reporter=reporter(quiet=quiet),
        allow_plugins=wanted.allow_plugins,
        skip_damaged=skip_damaged,
        use_committed=use_committed,
        debug=debug,
    )
    summary = run_cells(cells, session)
    console.say(summary.text())
    return summary.exit_code


def score(content: Content) -> int:
    """Rebuild all result files from stored predictions; 1 when a run could not be rebuilt."""
    from robustboard.runners.score import score as rebuild  # noqa: PLC0415 - only here

    found = rebuild(content.workspace, content.catalog, content.benchmarks)
    for item in found:
        if item.path is None:
            console.say(f"not rebuilt: {item.name}: {item.reason}")
    written = [item for item in found if item.path is not None]
    changed = sum(item.changed for item in written)
    console.say(f"{len(written)} results rebuilt, {changed} of them changed")
    return 1 if len(written) < len(found) else 0


def verify(content: Content, *, as_json: bool) -> int:
    """Check the store and the results against each other; 1 when something is damaged."""
    from robustboard.runners.verify import verify as verify_store  # noqa: PLC0415 - only here

    report = verify_store(content.workspace, content.catalog, content.benchmarks)
    if as_json:
        console.out_json({"runs": report.runs, "results": report.results, "damages": list(report.damages)})
    else:
        for line in report.damages:
            console.say(line)
        console.say(f"{report.runs} runs and {report.results} results checked, {len(report.damages)} damaged")
    return 1 if report.damages else 0


def _measured(content: Content, folders: Sequence[Path]) -> tuple[dict[Cell, Result], dict[str, Board]]:
    from robustboard.leaderboard.board import build_board  # noqa: PLC0415 - imports pandas
    from robustboard.leaderboard.cells import Measured  # noqa: PLC0415 - only here
    from robustboard.leaderboard.outcomes import read_outcomes  # noqa: PLC0415 - only here
    from robustboard.leaderboard.results import read_results  # noqa: PLC0415 - only here
    from robustboard.leaderboard.trust import standings  # noqa: PLC0415 - only here
    from robustboard.runners.failures import read_failures  # noqa: PLC0415 - only here

    results, failures = read_results(folders), read_failures(content.workspace)
    outcomes = read_outcomes([folder.parent / "outcomes" for folder in folders], results)
    trust = standings(content.workspace, results, folders)
    measured = Measured.of(results, content.catalog, content.benchmarks, failures, outcomes, trust=trust)
    fits = content.fits()
    boards = {
        name: build_board(entry, content.catalog, measured, fits) for name, entry in content.boards().items()
    }
    return results, boards


def show_board(content: Content, name: str | None, *, as_json: bool) -> None:
    """Print one board, or all that have rows."""
    place = content.workspace
    _, boards = _measured(content, [place.committed_results, place.results])
    if name is not None and name not in boards:
        raise UnknownNameError("board", name, boards)
    chosen = [boards[name]] if name is not None else [b for b in boards.values() if b.rows]
    if as_json:
        console.out_json([board.as_data() for board in chosen])
        return
    for board in chosen:
        console.out_table(board.text_headings(), board.text_rows(), title=board.entry.name)
        for row in board.rows:
            for each in row.flagged.worst:
                console.say(f"flagged {row.model}: {each.flag.name}: {each.flag.reason}")
        if board.waiting:
            console.say(f"not measured yet: {', '.join(board.waiting)}")
    if not chosen:
        console.say("no board has results yet; run: robustboard demo")


def build_site(content: Content, to: Path | None, *, address: str | None = None) -> Path:
    """Write the site of all results of the workspace; the folder that it lies in."""
    place, folder = content.workspace, to or content.workspace.site_output
    write_site(content, folder, [place.committed_results, place.results], address)
    return folder


def serve_site(folder: Path, port: int) -> None:
    """Serve a built site to this machine alone until Ctrl-C."""
    from robustboard.site.serve import HOST, server  # noqa: PLC0415 - only here

    with server(folder, port) as running:
        console.say(f"http://{HOST}:{running.server_port}/index.html (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            running.serve_forever()


def write_site(content: Content, to: Path, folders: Sequence[Path], address: str | None = None) -> None:
    """Write the site of the results in the folders, later ones overriding, and say where it is."""
    from robustboard.site.build import build  # noqa: PLC0415 - imports jinja and pandas

    built = build(
        content.workspace, content.catalog, content.benchmarks, results=folders, output=to, address=address
    )
    console.say(f"{built.pages} pages, {built.written} written")
    console.out(str((to / "index.html").resolve()))


def show_comparison(
    content: Content, first: str, second: str, *, every_score: bool, bootstrap: bool, as_json: bool
) -> None:
    """Print how two models differ, cell by cell."""
    from robustboard.leaderboard.compare import compare  # noqa: PLC0415 - imports scipy
    from robustboard.leaderboard.outcomes import workspace_outcomes  # noqa: PLC0415 - only here
    from robustboard.leaderboard.results import workspace_results  # noqa: PLC0415 - only here
    from robustboard.leaderboard.trust import standings  # noqa: PLC0415 - only here

    for name in (first, second):
        content.catalog.model(name)
    results = workspace_results(content.workspace)
    outcomes = workspace_outcomes(content.workspace, results)
    trust = standings(content.workspace, results)
    wrong = {cell: each.invalid for cell, each in trust.items() if each.invalid is not None}
    found = compare(
        first, second, results, outcomes, every_score=every_score, bootstrap=bootstrap, wrong=wrong
    )
    if as_json:
        console.out_json(found.as_data())
        return
    console.out_table(found.text_headings(), found.text_rows(), title=f"{first} against {second}")
