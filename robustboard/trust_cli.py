"""The commands that earn or take away trust in a result: recompute, audit, invalidate."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console, durable
from robustboard.errors import CellError, RobustboardError, StoreError, UserError, echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robustboard.commands import Content
    from robustboard.runners.keys import Cell
    from robustboard.runners.record import Result
    from robustboard.runners.remeasuring import Audit
    from robustboard.runners.session import Session
    from robustboard.runners.store import Store, StoredRun
    from robustboard.workspace import Workspace

CELL = "MODEL/BENCHMARK/DATASET"
FAILED = 1
SHOWN = 20
Cells = Annotated[list[str] | None, typer.Argument(metavar=CELL, help="Results; all when absent.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def recompute(
    context: typer.Context,
    cells: Cells = None,
    *,
    note: Annotated[
        bool, typer.Option("--note/--dry", help="Put what was recomputed beside the results.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Count every integer of results again from stored predictions, by SQL in DuckDB; they must be equal.

    A result whose predictions are not here is told and left out; the exit code is 1 only for a difference.

    Example: robustboard recompute digits-resnet/pgd-v1/digits
    """
    from robustboard.runners import verifications  # noqa: PLC0415 - imports pyarrow
    from robustboard.runners.recount import Recount, recount  # noqa: PLC0415 - as above

    content: Content = context.obj.content()
    rows: list[dict[str, str | int]] = []
    missing: list[str] = []
    faults: list[str] = []
    for cell, result in _results(content, cells or []):
        try:
            found = _stored(content, result)
        except StoreError as error:
            faults.append(str(error))
            continue
        if found is None:
            missing.append(cell.name)
            continue
        store, run = found
        counted: Recount = recount(store, result)
        faults += [f"{cell.name}.json: {fault}" for fault in counted.faults]
        faults += [f"{cell.name}.json: scores: no query counts {name}" for name in counted.unknown]
        rows.append({"result": cell.name, "rows": counted.rows, "integers": counted.compared})
        if counted.sound and note:
            evidence: dict[str, str | int] = {"integers": counted.compared, "by": "DuckDB"}
            check = verifications.check_of(
                run,
                "recomputation",
                who=verifications.who(content.workspace.content),
                day=verifications.today(),
                evidence=evidence,
            )
            verifications.note(content.workspace, run, check)
    if as_json:
        console.out_json({"recomputed": rows, "missing": missing, "faults": faults})
    else:
        for line in faults[:SHOWN]:
            console.say(line)
        total = sum(int(row["integers"]) for row in rows)
        told = f"; no predictions here of {len(missing)} others" if missing else ""
        console.say(f"{len(rows)} results, {total} integers counted again, {len(faults)} differ{told}")
    raise typer.Exit(FAILED if faults else 0)


def audit(
    context: typer.Context,
    cells: Annotated[list[str], typer.Argument(metavar=CELL, help="Results whose predictions are here.")],
    *,
    n: Annotated[int, typer.Option("--n", min=1, help="Images to measure again.")] = 600,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the sample; a fresh one when absent.")] = None,
    adaptive: Annotated[
        str | None,
        typer.Option(metavar="BENCHMARK", help="External set made by an attack for this very model."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Run profile, a file under runners/.")] = "cpu",
    allow_plugins: Annotated[
        bool, typer.Option("--allow-plugins", help="Load third-party loaders (entry points run code).")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a random sample of a stored run's images again; equal rows earn the tier *verified*.

    A class may differ only where two classes are nearly tied. 600 images find a forgery of half a percent
    with 95 % probability; fewer are compared, and earn nothing. Exit code 1 when a row differs.

    Examples:
      robustboard audit digits-resnet/clean-v1/digits

      robustboard audit digits-resnet/pgd-v1/digits --adaptive external-digits-pgd-v1
    """
    content: Content = context.obj.content()
    stored = [(cell, result, _here(content, cell, result)) for cell, result in _results(content, cells)]
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in a run; read when torch is imported
    from robustboard.runners.remeasuring import audit as measure_again  # noqa: PLC0415 - imports torch
    from robustboard.runners.remeasuring import random_seed  # noqa: PLC0415 - as above

    session = _session(content, profile, allow_plugins=allow_plugins, quiet=quiet)
    found: list[Audit] = []
    for cell, result, run in stored:
        against = None if adaptive is None else _adaptive(content, cell, result, adaptive)
        session.reporter.expect(cell.name, min(n, result.evaluated))
        try:
            with session.reporter:
                chosen = random_seed() if seed is None else seed
                one = measure_again(session, run, images=n, seed=chosen)
        except CellError as error:
            raise UserError(f"{cell.name}: {error.reason}") from error
        found.append(one)
        if one.passed and one.enough:
            _note(content.workspace, run, one, against)
    _show(found, as_json=as_json)
    raise typer.Exit(0 if all(one.passed for one in found) else FAILED)


def invalidate(
    context: typer.Context,
    cell: Annotated[str, typer.Argument(metavar=CELL, help="The result that is wrong.")],
    *,
    reason: Annotated[str, typer.Option(help="What is wrong with it, for readers.")],
    link: Annotated[str | None, typer.Option(help="https:// address where it was found out.")] = None,
) -> None:
    """Write an entry that takes a result out of the ranks; it stays on the model's page with the reason.

    Example: robustboard invalidate digits-resnet/pgd-v1/digits --reason "measured with another crop"
    """
    from robustboard.leaderboard import trust  # noqa: PLC0415 - not paid by --help
    from robustboard.registry.drafts import Value, draft, new_id, place  # noqa: PLC0415 - as above
    from robustboard.runners import verifications  # noqa: PLC0415 - imports pyarrow

    content: Content = context.obj.content()
    ((found, result),) = _results(content, [cell])
    values: dict[str, Value] = {
        "model": found.model,
        "benchmark": found.benchmark,
        "dataset": found.dataset,
        "key": result.key_digest,
        "reason": reason,
        "by": verifications.who(content.workspace.content),
        "day": verifications.today().isoformat(),
    }
    if link is not None:
        values["link"] = link
    name = new_id(f"{found.model}-{found.benchmark}-{found.dataset}"[:55] + f"-{result.key_digest[:8]}")
    path = place(content.workspace, trust.folder(content.workspace), name, draft(None, values))
    try:
        trust.load_invalidations(content.workspace)
    except RobustboardError:
        durable.remove(path)  # a reason or link that no entry may hold
        raise
    console.out(content.workspace.show(path))
    console.say(f"{found.name} is no longer ranked; next: robustboard check, and a line in CHANGELOG.md")


def _session(content: Content, profile: str, *, allow_plugins: bool, quiet: bool) -> Session:
    """What a new measurement is given: every image, whatever sample the profile asks for."""
    from robustboard.runners.evaluate import Session  # noqa: PLC0415 - imports torch
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - as above
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich

    return Session(
        workspace=content.workspace,
        catalog=content.catalog,
        benchmarks=content.benchmarks,
        lock=content.lock,
        profile=load_profile(content.workspace, profile).model_copy(update={"subset": None}),
        reporter=reporter(quiet=quiet),
        allow_plugins=allow_plugins,
    )


def _results(content: Content, names: Sequence[str]) -> list[tuple[Cell, Result]]:
    """The named results, all when none is named. Raises UserError for one that is not there."""
    from robustboard.leaderboard.results import workspace_results  # noqa: PLC0415 - only here
    from robustboard.runners.keys import Cell  # noqa: PLC0415 - only here

    results = workspace_results(content.workspace)
    chosen = []
    for name in names:
        parts = name.split("/")
        if len(parts) != len(Cell._fields):
            raise UserError(f"expected {CELL}, got {echo(name)}")
        cell = Cell(*parts)
        content.catalog.model(cell.model)
        if cell not in results:
            raise UserError(f"{cell.name} has no result: run it first")
        chosen.append((cell, results[cell]))
    return chosen or list(results.items())


def _stored(content: Content, result: Result) -> tuple[Store, StoredRun] | None:
    """The run of a result: measured here, or fetched with `predictions pull`; None where it is nowhere.

    Raises StoreError where all that lies under its key are other predictions than the result's.
    """
    from robustboard.runners.published import stores  # noqa: PLC0415 - imports pyarrow

    others = []
    for store in stores(content.workspace):
        run = store.read(result.key_digest)
        if run is not None and run.record.shards == result.shards:
            return store, run
        if run is not None:
            others.append(store.name(store.folder(result.key_digest)))
    if others:
        raise StoreError(f"{others[0]}: shards: other predictions than the result's")
    return None


def _here(content: Content, cell: Cell, result: Result) -> StoredRun:
    found = _stored(content, result)
    if found is None:
        raise UserError(
            f"{cell.name}: its predictions are not here: measure it with `robustboard run`,"
            " or fetch them with `robustboard predictions pull`"
        )
    return found[1]


def _adaptive(content: Content, cell: Cell, result: Result, benchmark: str) -> str:
    """The run of an external set for this model, at the norm and budget of the audited headline."""
    from robustboard.benchmarks.entries import External  # noqa: PLC0415 - only here
    from robustboard.errors import UnknownNameError  # noqa: PLC0415 - only here
    from robustboard.leaderboard.results import workspace_results  # noqa: PLC0415 - only here
    from robustboard.leaderboard.trust import standings  # noqa: PLC0415 - only here

    if benchmark not in content.benchmarks:
        raise UnknownNameError("benchmark", benchmark, content.benchmarks)
    procedure = content.benchmarks[benchmark].procedure
    if not isinstance(procedure, External) or cell.model not in procedure.models:
        raise UserError(f"{benchmark} is no external set that names {cell.model} among its models")
    other = workspace_results(content.workspace).get(cell._replace(benchmark=benchmark))
    if other is None or not other.complete:
        raise UserError(f"{benchmark} was not measured on {cell.model} and {cell.dataset}: run it first")
    trust = standings(content.workspace, {cell._replace(benchmark=benchmark): other})
    if not all(each.ranked for each in trust.values()):
        raise UserError(f"{benchmark} on {cell.model} is unchecked or invalidated: run it, or audit it first")
    if other.headline != result.headline:
        raise UserError(f"{benchmark} is about {other.headline}, the result about {result.headline}")
    return other.key_digest


def _note(workspace: Workspace, run: StoredRun, one: Audit, against: str | None) -> None:
    from robustboard.runners import verifications  # noqa: PLC0415 - imports pyarrow

    who, day = verifications.who(workspace.content), verifications.today()
    check = verifications.check_of(run, "audit", who=who, day=day, evidence=one.evidence)
    verifications.note(workspace, run, check)
    if against is not None:
        evidence: dict[str, str | int] = {"attack": against}
        check = verifications.check_of(run, "adaptive-attack", who=who, day=day, evidence=evidence)
        verifications.note(workspace, run, check)


def _verdict(one: Audit) -> str:
    if not one.passed:
        return "NOT what this machine measures"
    return "verified" if one.enough else "equal, on too few images to verify it"


def _show(found: Sequence[Audit], *, as_json: bool) -> None:
    if as_json:
        console.out_json(
            [
                {
                    "cell": one.cell.name,
                    "passed": one.passed,
                    "verified": one.passed and one.enough,
                    **one.evidence,
                    "differing": [str(each) for each in one.differing[:SHOWN]],
                }
                for one in found
            ]
        )
        return
    console.out_table(
        ("result", "images", "of", "rows", "seed", "near ties", "differing", "verdict"),
        [
            (
                one.cell.name,
                str(one.images),
                str(one.of),
                str(one.rows),
                str(one.seed),
                str(one.near_ties),
                str(len(one.differing)),
                _verdict(one),
            )
            for one in found
        ],
    )
    for one in found:
        for each in one.differing[:SHOWN]:
            console.say(f"{one.cell.name}: {each}")
