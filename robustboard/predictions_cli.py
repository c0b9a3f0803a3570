"""The commands `robustboard predictions`: per-image answers, published on the Hub and fetched from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console
from robustboard.errors import CellError, StoreError, UserError, echo

if TYPE_CHECKING:
    from robustboard.commands import Content

app = typer.Typer(
    help="Publish stored predictions, fetch those of others, export results to model repositories.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Repo = Annotated[str, typer.Option(metavar="ORG/NAME", help="Hub dataset.")]


@app.command()
def publish(
    context: typer.Context,
    *,
    repo: Repo,
    tag: Annotated[str, typer.Option(help="Of this version, such as 2026.1; a tag never moves.")],
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="Only these models; repeat for more.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write to the Hub; without it nothing is sent.")] = False,
) -> None:
    """Show what would be published; with --yes make one commit and a tag, with the token in HF_TOKEN.

    One Parquet file a protocol and dataset, and a manifest with the key, plan and hashes of every run.

    Example: robustboard predictions publish --repo org/predictions --tag 2026.1
    """
    from robustboard.leaderboard.results import workspace_results  # noqa: PLC0415 - only here
    from robustboard.runners import published, publishing  # noqa: PLC0415 - imports the Hub's client
    from robustboard.runners.hub import endpoint  # noqa: PLC0415 - as above
    from robustboard.runners.store import Store  # noqa: PLC0415 - imports pyarrow

    content: Content = context.obj.content()
    name = _repo(repo)
    for each in model or []:
        content.catalog.model(each)
    results = {
        cell: result
        for cell, result in workspace_results(content.workspace).items()
        if not model or cell.model in model
    }
    folder = content.workspace.runs / "publishing" / _tag(tag)
    planned = published.compact(Store(content.workspace.runs), results, folder)
    console.out_table(
        ("file", "bytes", "SHA-256"),
        [(file.path, str(file.size), file.sha256) for file in planned.manifest.files],
    )
    if planned.missing:
        console.say(f"left out, as their predictions are not here: {len(planned.missing)} results")
    runs = len(planned.manifest.runs)
    console.say(f"{runs} runs → {endpoint()}/datasets/{name}, one commit, tag {tag}")
    if not yes:
        console.say("nothing was sent; add --yes to publish")
        return
    commit, state = publishing.publish(planned.package(name, tag))
    console.say(f"predictions of {runs} runs: {state} at {commit}, tag {tag}")
    path = _note(content, name, tag, commit)
    console.say(f"next: put {content.workspace.show(path)} into the pull request, beside the results")


@app.command()
def pull(
    context: typer.Context,
    repo: Annotated[
        str | None, typer.Argument(metavar="ORG/NAME", help="Those of leaderboard/predictions when absent.")
    ] = None,
    *,
    revision: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="40 hex digits; the newest commit when absent.")
    ] = None,
) -> None:
    """Fetch published predictions into runs/published; every shard must have the bytes that its run recorded.

    Examples:
      robustboard predictions pull

      robustboard predictions pull org/predictions

    A repository that cannot be fetched is told, and the others are fetched; then the exit code is 2.
    """
    from robustboard.leaderboard.answers import load_answers  # noqa: PLC0415 - only here
    from robustboard.runners import published  # noqa: PLC0415 - imports the Hub's client

    content: Content = context.obj.content()
    wanted: list[tuple[str, str | None]] = [(_repo(repo), revision)] if repo else []
    if repo is None:
        wanted += [(each.repo, each.revision) for each in load_answers(content.workspace).values()]
    absent: list[str] = []
    for name, commit in wanted:
        try:
            found = published.pull(content.workspace, name, commit=published.find_commit(name, commit))
        except (CellError, StoreError) as error:
            # One that was deleted or damaged since must not keep the others from being checked.
            absent.append(f"{name}: {error.reason if isinstance(error, CellError) else error}")
            continue
        told = f"{found.runs} runs of {name} at {found.commit}, {found.new} of them new"
        console.say(f"{told}; next: robustboard recompute")
    if not wanted:
        console.say("nothing to fetch: no file in leaderboard/predictions names a repository")
    for line in absent[:-1]:
        console.say(line)
    if absent:
        raise UserError(absent[-1])


@app.command()
def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model id, of a model from the Hub.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for .eval_results/.")],
    site: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the published board, to cite.")
    ] = None,
) -> None:
    """Write a model's results as .eval_results files, for a pull request to its repository on the Hub.

    Only results on datasets that lie on the Hub have a place there, and only those that may rank: whole,
    current, checked and not invalidated. Nothing is sent.

    Example: robustboard predictions export resnet50.a1_in1k --to out
    """
    from robustboard import durable  # noqa: PLC0415 - not paid by --help
    from robustboard.leaderboard.cells import Measured  # noqa: PLC0415 - only here
    from robustboard.leaderboard.results import workspace_results  # noqa: PLC0415 - only here
    from robustboard.leaderboard.trust import standings  # noqa: PLC0415 - only here
    from robustboard.runners import eval_results  # noqa: PLC0415 - only here

    content: Content = context.obj.content()
    results = workspace_results(content.workspace)
    trust = standings(content.workspace, results)
    measured = Measured.of(results, content.catalog, content.benchmarks, trust=trust)
    good = {cell: result for cell, result in results.items() if measured.view(cell).status == "ok"}
    found = eval_results.items_of(good, content.catalog, model, site=site)
    if not found:
        raise UserError(f"{model} has no whole, current and checked result on a dataset of the Hub")
    for name, items in sorted(found.items()):
        path = to / eval_results.FOLDER.rstrip("/") / name
        durable.write(path, eval_results.yaml_bytes(items))
        console.out(str(path))


def _note(content: Content, repo: str, tag: str, commit: str) -> Path:
    """Write down where predictions were published, for those who check the results."""
    from robustboard import durable  # noqa: PLC0415 - not paid by --help
    from robustboard.registry.drafts import draft, new_id  # noqa: PLC0415 - as above
    from robustboard.runners import verifications  # noqa: PLC0415 - imports pyarrow

    place = content.workspace.content / "leaderboard" / "predictions"
    path = place / f"{new_id(repo.replace('/', '-') + '-' + tag)}.yaml"
    by, day = verifications.who(content.workspace.content), verifications.today().isoformat()
    values = {"repo": repo, "revision": commit, "by": by, "added": day}
    durable.write(path, draft(None, values))
    return path


def _repo(text: str) -> str:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - not paid by --help

    from robustboard.fields import RepoId  # noqa: PLC0415 - as above

    try:
        found: str = TypeAdapter(RepoId).validate_python(text)
    except ValidationError as error:
        raise UserError(f"--repo: {error.errors(include_url=False)[0]['msg']}, got {echo(text)}") from error
    return found


def _tag(text: str) -> str:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - not paid by --help

    from robustboard.fields import Word  # noqa: PLC0415 - as above

    try:
        found: str = TypeAdapter(Word).validate_python(text)
    except ValidationError as error:
        raise UserError(f"--tag: {error.errors(include_url=False)[0]['msg']}, got {echo(text)}") from error
    return found
