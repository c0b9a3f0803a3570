"""The commands that look at a pull request: which paths it touches, its results, and what it changes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console
from robustboard.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robustboard.commands import Content
    from robustboard.leaderboard.board import Board
    from robustboard.runners.keys import Cell
    from robustboard.runners.record import Result
    from robustboard.workspace import Workspace

REFUSED = 2
RESULTS, OUTCOMES = "leaderboard/results", "leaderboard/outcomes"
Base = Annotated[str, typer.Argument(metavar="BASE", help="Branch or commit that the branch starts from.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def check(
    context: typer.Context,
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask the Hub: commits, files, classes, splits, columns.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(metavar="REF", help="With --online, only entries changed since REF.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry, protocol, board, lock line and reported number.

    One line a fault, `file:line: field: expected ..., got ...`; exit code 2 when there is one.

    Examples:
      robustboard check

      robustboard check --online --since origin/main
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    code = commands.check(context.obj.find(), as_json=as_json)
    if online and code == 0:
        code = _check_online(context.obj.content(), since)
    raise typer.Exit(code)


def guard(
    context: typer.Context,
    base: Base,
    *,
    head: Annotated[str, typer.Option(help="Branch or commit to look at.")] = "HEAD",
    models: Annotated[bool, typer.Option("--models", help="Print the ids of new or changed models.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that a branch only adds or changes regular files of content, by Git's objects; nothing is run.

    Code, workflows, links, sub-modules, deletions, case twins and large files are refused, one line each.

    Example: robustboard guard origin/main
    """
    from robustboard.registry.guard import entries  # noqa: PLC0415 - not paid by --help
    from robustboard.registry.guard import guard as look  # noqa: PLC0415 - as above

    workspace: Workspace = context.obj.find()
    found, faults = look(workspace.content, base, head)
    if as_json:
        console.out_json({"changed": [c.path for c in found], "faults": faults, "entries": entries(found)})
    for line in () if as_json else faults:
        console.say(line)
    if models and not faults:
        for name in entries(found)["models"]:
            console.out(name)
    if not faults:
        console.say(f"{len(found)} files, all of them content that a contributor may add")
    raise typer.Exit(REFUSED if faults else 0)


def check_results(
    context: typer.Context,
    *,
    base: Annotated[
        str | None, typer.Option(metavar="REF", help="Check only what differs from the commit in common.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold result files against entries, protocols and stored predictions; each fault names file and field.

    Predictions of others come from `robustboard predictions pull`.

    Example: robustboard check-results --base origin/main
    """
    from robustboard.leaderboard.submitted import Submission  # noqa: PLC0415 - imports pyarrow
    from robustboard.runners.published import stores  # noqa: PLC0415 - as above

    content: Content = context.obj.content()
    before = None if base is None else _before(content.workspace, base)
    submission = Submission(
        content.workspace,
        content.catalog,
        content.benchmarks,
        stores(content.workspace),
        before.results if before else None,
        before.outcomes if before else None,
    )
    faults = submission.check()
    if as_json:
        console.out_json({"results": len(submission.results), "faults": faults})
    for line in () if as_json else faults:
        console.say(line)
    if not faults:
        told = "" if before is None else f", {len(submission.changed)} of them new or changed"
        console.say(f"{len(submission.results)} results{told}: no problem")
    raise typer.Exit(REFUSED if faults else 0)


def compare_branch(
    context: typer.Context,
    base: Base,
    *,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Also write report.md and report.json there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a branch adds, changes, takes away and moves on boards, against the commit in common.

    New results stand beside the best other model under the same protocol on the same images.

    Example: robustboard compare-branch origin/main --to report
    """
    from robustboard import durable, gits, jsons  # noqa: PLC0415 - not paid by --help
    from robustboard.leaderboard import changes  # noqa: PLC0415 - imports pandas
    from robustboard.leaderboard.results import read_results  # noqa: PLC0415 - as above

    content: Content = context.obj.content()
    workspace = content.workspace
    then = _before(workspace, base)
    before, after = changes.read_before(then.results), read_results([workspace.committed_results])
    report = changes.Report(
        base=then.commit,
        entries=changes.entry_changes(gits.changes(workspace.content, then.commit, "HEAD")),
        results=changes.result_changes(before, after),
        moves=changes.moves(_boards(content, before), _boards(content, after)),
        smoke=_smoke(workspace),
        faults=_faults(content, then),
    )
    if to is not None:
        durable.write(to / "report.md", report.markdown().encode("utf-8"))
        durable.write(to / "report.json", jsons.canonical(report.as_data()))
    if as_json:
        console.out_json(report.as_data())
    else:
        console.out(report.markdown())


@dataclass(frozen=True, slots=True)
class _Before:
    """The commit in common, and what lay there below two folders: path → bytes."""

    commit: str
    results: dict[str, bytes]
    outcomes: dict[str, bytes]


def _before(workspace: Workspace, base: str) -> _Before:
    from robustboard import gits  # noqa: PLC0415 - not paid by --help

    if not gits.is_checkout(workspace.content):
        raise UserError(f"{workspace.content}: expected the top of a Git checkout, found none")
    old = gits.merge_base(workspace.content, base, "HEAD")
    found = []
    for folder in (RESULTS, OUTCOMES):
        files = gits.files(workspace.content, old, f"{folder}/")
        found.append({path.removeprefix(f"{folder}/"): data for path, data in files.items()})
    return _Before(old, *found)


def _boards(content: Content, results: Mapping[Cell, Result]) -> dict[str, Board]:
    """Boards of some results, by the entries of today."""
    from robustboard.leaderboard.board import build_board  # noqa: PLC0415 - imports pandas
    from robustboard.leaderboard.cells import Measured  # noqa: PLC0415 - as above
    from robustboard.leaderboard.trust import standings  # noqa: PLC0415 - as above

    known = {
        cell: result
        for cell, result in results.items()
        if cell.model in content.catalog.models
        and cell.dataset in content.catalog.datasets
        and cell.benchmark in content.benchmarks
    }
    trust = standings(content.workspace, known)
    measured = Measured.of(known, content.catalog, content.benchmarks, trust=trust)
    fits = content.fits()
    return {
        name: build_board(entry, content.catalog, measured, fits) for name, entry in content.boards().items()
    }


def _smoke(workspace: Workspace) -> tuple[tuple[str, str], ...]:
    from robustboard.runners.score import headline, name_of, read_result  # noqa: PLC0415 - only here

    found = [read_result(path) for path in sorted((workspace.runs / "partial").glob("*/*.json"))]
    return tuple((name_of(result), headline(result)) for result in found)


def _faults(content: Content, then: _Before) -> tuple[str, ...]:
    from robustboard.leaderboard.submitted import Submission  # noqa: PLC0415 - imports pyarrow
    from robustboard.runners.published import stores  # noqa: PLC0415 - as above

    where, before = content.workspace, (then.results, then.outcomes)
    submission = Submission(where, content.catalog, content.benchmarks, stores(where), *before)
    return tuple(submission.check())


def _check_online(content: Content, since: str | None) -> int:
    """Ask the Hub about entries, all or those changed since a commit; 2 when something is not as they say."""
    from robustboard import gits  # noqa: PLC0415 - not paid by --help
    from robustboard.commands import say_endpoint  # noqa: PLC0415 - as above
    from robustboard.registry.catalog import survey  # noqa: PLC0415 - as above
    from robustboard.registry.guard import entries  # noqa: PLC0415 - as above
    from robustboard.runners.online import check_online as ask  # noqa: PLC0415 - imports the Hub's client
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich

    folder, only = content.workspace.content, None
    if since is not None:
        changed = entries(gits.changes(folder, gits.merge_base(folder, since, "HEAD"), "HEAD"))
        only = {f"{kind.removesuffix('s')}/{name}" for kind, names in changed.items() for name in names}
    say_endpoint()
    with reporter(quiet=not sys.stderr.isatty()) as shown:
        found = ask(survey(content.workspace), content.catalog, content.lock, only=only, say=shown.stage)
    for problem in found.problems:
        console.say(str(problem))
    for line in found.withheld:
        console.say(f"withheld: {line}")
    console.say(f"{found.asked} entries compared with the Hub, {len(found.problems)} problems")
    return REFUSED if found.problems else 0
