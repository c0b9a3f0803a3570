"""The commands `robustboard new`: first versions of entries, with all that can be known filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from robustboard import console
from robustboard.errors import CellError, UserError, echo
from robustboard.external_cli import fraction

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.registry.drafts import Value
    from robustboard.workspace import Workspace

T = TypeVar("T")
app = typer.Typer(
    help="Write the first version of an entry from what the Hub says; unknown values are marked TODO.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Repo = Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository on the Hub.")]
Id = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Of the entry; from the name when absent.")
]


@app.command()
def model(context: typer.Context, repo: Repo, *, id_: Id = None) -> None:
    """Write registry/models/ID.yaml: commit, architecture, preprocessing, classes, training data, licence.

    Reads only small text files of the repository. An entry that is there already is never touched.

    Example: robustboard new model timm/resnet18.a1_in1k
    """
    from robustboard.registry import model_drafts  # noqa: PLC0415 - not paid by --help
    from robustboard.runners.cards import read_model  # noqa: PLC0415 - imports the Hub's client

    content: Content = context.obj.content()
    found = _asked(lambda: read_model(_repo(repo)))
    catalog = content.catalog
    tested = {d.id: d.label_space for d in catalog.datasets.values() if d.role == "test"}
    values = model_drafts.model_values(found, catalog.label_spaces, tested, _today())
    name = _id(id_ or model_drafts.model_id(found))
    _write(content.workspace, content.workspace.registry / "models", name, "model", values)
    problem = model_drafts.weights_problem(found)
    if problem is not None:
        console.say(f"it cannot be run as it is: {problem}")
    _next(f"robustboard check; robustboard lock model/{name}; robustboard run -m {name} --smoke")


@app.command()
def dataset(context: typer.Context, repo: Repo, *, id_: Id = None) -> None:
    """Write registry/datasets/ID.yaml: commit, split, columns, classes, number of images, licence.

    Example: robustboard new dataset uoft-cs/cifar10 --id cifar10-hub
    """
    from robustboard.registry.drafts import new_id  # noqa: PLC0415 - not paid by --help
    from robustboard.registry.set_drafts import dataset_values  # noqa: PLC0415 - as above
    from robustboard.runners.cards import read_dataset  # noqa: PLC0415 - imports the Hub's client

    content: Content = context.obj.content()
    listing, card = _asked(lambda: read_dataset(_repo(repo)))
    values = dataset_values(repo, listing.commit, card, _today(), content.catalog.label_spaces)
    name = _id(id_ or new_id(repo))
    _write(content.workspace, content.workspace.registry / "datasets", name, "dataset", values)
    _next(f"robustboard check; robustboard lock dataset/{name}; robustboard run -d {name} --smoke")


@app.command()
def benchmark(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Without a version: the next free one is added.")],
    *,
    kind: Annotated[str, typer.Option(help="clean, noise, attack or corruption.")] = "attack",
) -> None:
    """Write benchmarks/NAME-vN.yaml, a protocol of one kind with blanks for its numbers.

    Example: robustboard new benchmark pgd-many-steps --kind attack
    """
    from robustboard.registry.set_drafts import benchmark_values  # noqa: PLC0415 - not paid by --help

    content: Content = context.obj.content()
    versioned = _version(content, name)
    values = benchmark_values(name, kind, _today())
    _write(content.workspace, content.workspace.benchmarks, versioned, "benchmark", values)
    _next(f"robustboard check; robustboard run -b {versioned} --smoke")


@app.command()
def external(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Attacked images below benchmarks/, or in a data folder.")],
    *,
    dataset_: Annotated[str, typer.Option("--dataset", "-d", help="Dataset that the originals are of.")],
    norm: Annotated[str, typer.Option(help="linf or l2.")],
    budget: Annotated[str, typer.Option(help="Such as 8/255, of the [0, 1] pixel range.")],
    name: Annotated[str | None, typer.Option(help="Of the protocol; from the file's when absent.")] = None,
) -> None:
    """Write benchmarks/NAME-vN.yaml for a file of attacked images, with its SHA-256.

    Example: robustboard new external benchmarks/external/mine.npz -d digits --norm linf --budget 1/10
    """
    from robustboard.registry.drafts import new_id  # noqa: PLC0415 - not paid by --help
    from robustboard.registry.resolve import digest_file  # noqa: PLC0415 - as above
    from robustboard.registry.set_drafts import external_values  # noqa: PLC0415 - as above

    content: Content = context.obj.content()
    content.catalog.dataset(dataset_)
    if norm not in ("linf", "l2"):
        raise UserError(f"--norm: expected linf or l2, got {echo(norm)}")
    fraction(budget)
    if not file.is_file():
        raise UserError(f"{file}: expected a file of attacked images, found none")
    inside = file.resolve().is_relative_to(content.workspace.benchmarks.resolve())
    path = (
        file.resolve().relative_to(content.workspace.benchmarks.resolve()).as_posix() if inside else file.name
    )
    versioned = _version(content, name or f"external-{new_id(file.stem)}")
    _, sha256 = digest_file(file)
    values = external_values(file.stem, path, sha256, _today(), dataset=dataset_, norm=norm, budget=budget)
    _write(content.workspace, content.workspace.benchmarks, versioned, "benchmark", values)
    told = f"robustboard external check {file} -d {dataset_} --norm {norm} --budget {budget}"
    if not inside:
        told = (
            f"put {file.name} into benchmarks/external/ and say so under path, or into a data folder; {told}"
        )
    _next(f"{told}; robustboard check; robustboard run -b {versioned}")


@app.command()
def reported(context: typer.Context, repo: Repo, *, id_: Id = None) -> None:
    """Import a model repository's .eval_results files as reported numbers: shown, never ranked.

    Example: robustboard new reported org/model
    """
    from robustboard import durable  # noqa: PLC0415 - not paid by --help
    from robustboard.registry.drafts import need_free, new_id  # noqa: PLC0415 - as above
    from robustboard.registry.reported import canonical  # noqa: PLC0415 - as above
    from robustboard.runners import cards, eval_results  # noqa: PLC0415 - imports the Hub's client

    content: Content = context.obj.content()
    listing = _asked(lambda: cards.listing(_repo(repo), kind="model"))
    names = [n for n in listing.files if n.startswith(eval_results.FOLDER) and n.endswith(".yaml")]
    texts = _asked(lambda: {n: cards.read_text(repo, n, listing, "model") or b"" for n in names})
    scores = eval_results.reported_scores(repo, texts)
    card = cards.front_matter(_asked(lambda: cards.read_text(repo, cards.CARD, listing, "model")) or b"")
    name = _id(id_ or new_id(repo.replace("/", "-")))
    folder = content.workspace.registry / "reported"
    values = eval_results.source_values(repo, listing.commit, card.get("license"), name, _today())
    need_free(content.workspace, folder, name)
    table = folder / f"{name}.csv"
    # The numbers first: an entry without them would stand in the way of a second try.
    if not durable.publish(table, canonical(scores)):
        raise UserError(f"{content.workspace.show(table)} is there already: nothing was written")
    _write(content.workspace, folder, name, None, values)
    console.say(f"{len(scores)} numbers from {len(texts)} files")
    _next("robustboard check")


def _today() -> date:
    return datetime.now(UTC).date()


def _repo(text: str) -> str:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - not paid by --help

    from robustboard.fields import RepoId  # noqa: PLC0415 - as above

    try:
        found: str = TypeAdapter(RepoId).validate_python(text)
    except ValidationError as error:
        raise UserError(f"{error.errors(include_url=False)[0]['msg']}, got {echo(text)}") from error
    return found


def _id(text: str) -> str:
    from robustboard.fields import ID_RULE, is_entry_id  # noqa: PLC0415 - not paid by --help

    if not is_entry_id(text):
        raise UserError(f"--id: expected {ID_RULE}, got {echo(text)}")
    return text


def _version(content: Content, name: str) -> str:
    """The first version of a protocol's name that no file has."""
    stem = _id(name)
    number = 1
    while (content.workspace.benchmarks / f"{stem}-v{number}.yaml").exists():
        number += 1
    return _id(f"{stem}-v{number}")


def _asked(question: Callable[[], T]) -> T:
    """An answer of the Hub. Raises UserError where there is none: it is the command line's name."""
    try:
        return question()
    except CellError as error:
        raise UserError(error.reason) from error


def _write(
    workspace: Workspace, folder: Path, name: str, kind: str | None, values: Mapping[str, Value]
) -> None:
    """Write the entry and say where it is, and how many blanks are left."""
    from robustboard.registry import drafts  # noqa: PLC0415 - not paid by --help

    data = drafts.draft(kind, values)
    path = drafts.place(workspace, folder, name, data)
    left = drafts.blanks(data)
    console.out(workspace.show(path))
    console.say(f"{left} values marked TODO are for you to fill in" if left else "every value is filled in")


def _next(commands: str) -> None:
    console.say(f"next: {commands}")
