"""The commands `robustboard testset`: generated test sets, built, checked, fetched and published."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console
from robustboard.errors import CellError, StoreError, UserError, echo

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.registry.testsets import TestSetEntry
    from robustboard.runners.testsets.build import Built
    from robustboard.runners.testsets.manifest import Manifest, Part

app = typer.Typer(
    help="Build, check, fetch and publish generated test sets; each version is fixed for ever.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Reference = Annotated[
    str, typer.Argument(metavar="NAME[@VERSION]", help="The newest version when none is named.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
INCOMPLETE = 1
SHOWN = 20
"""Damages that `verify` prints."""


@app.command("list")
def list_(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the registered versions, and which of them lie here.

    Example: robustboard testset list
    """
    content: Content = context.obj.content()
    rows = [
        {
            "set": entry.reference,
            "source": entry.dataset,
            "generator": entry.generator,
            "oracle": entry.oracle,
            "model": entry.model or "",
            "wanted": f"{entry.per_class} a class",
            "content": (entry.content_sha256 or "not stated")[:16],
            "here": _state(content, entry),
        }
        for entry in _entries(content).values()
    ]
    if as_json:
        console.out_json(rows)
    elif rows:
        console.out_table(list(rows[0]), (list(row.values()) for row in rows), title=f"{len(rows)} test sets")
    else:
        console.say(f"no test sets in {content.workspace.registry.parent}")


@app.command()
def build(
    context: typer.Context,
    reference: Reference,
    *,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Instead of runs/testsets/NAME/VERSION.")
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Rebuild what this manifest.json says, and compare."),
    ] = None,
    any_content: Annotated[
        bool,
        typer.Option("--any-content", help="Also where other images come out than were released."),
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Images perturbed at once.")] = 32,
    allow_plugins: Annotated[
        bool, typer.Option("--allow-plugins", help="Load third-party loaders (entry points run code).")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Generate a set on the CPU: source images, generator, oracle and seeds as its recipe says.

    Killed or stopped, it goes on when run again and ends with the same bytes. A set in which a class
    lacks images goes to a folder VERSION-incomplete, and the exit code is 1.

    Examples:
      robustboard testset build digits-oracle@1.0.0

      robustboard testset build digits-oracle --from manifest.json --to again
    """
    from robustboard.runners.testsets.manifest import read_manifest  # noqa: PLC0415 - imports pyarrow

    content: Content = context.obj.content()
    entry = _entry(content, reference)
    expected: Manifest | None = None
    if manifest is not None:
        if to is None:
            raise UserError("expected --to DIR beside --from: a rebuilt set goes to a folder of its own")
        expected = read_manifest(manifest, str(manifest))
        if expected.reference != entry.reference:
            raise UserError(f"{manifest} is of {expected.reference}, not of {entry.reference}")
        entry = expected.recipe
    if any_content:
        entry = entry.model_copy(update={"content_sha256": None})
    folder = to or _folder(content, entry)
    built = _build(
        content, entry, folder, expected, batch_size=batch_size, allow_plugins=allow_plugins, quiet=quiet
    )
    found = built.manifest
    _show_classes(found)
    console.out(str(built.folder))
    console.say(f"{entry.reference}: {built.state}, {found.rows} images, content {found.content_sha256}")
    if expected is not None:
        _compare(expected, found)
    if built.state == "incomplete":
        lacking = ", ".join(found.lacking)
        console.say(f"{entry.reference}: incomplete, so not to be published; too few images of {lacking}")
        raise typer.Exit(INCOMPLETE)


def _build(
    content: Content,
    entry: TestSetEntry,
    folder: Path,
    expected: Manifest | None,
    *,
    batch_size: int,
    allow_plugins: bool,
    quiet: bool,
) -> Built:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in a run; read when torch is imported
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich
    from robustboard.runners.testsets.build import build as build_set  # noqa: PLC0415 - imports pyarrow
    from robustboard.runners.testsets.producing import material_of  # noqa: PLC0415 - imports torch

    try:
        with reporter(quiet=quiet) as shown:
            material = material_of(
                content, entry, batch_size=batch_size, allow_plugins=allow_plugins, reporter=shown
            )
        if expected is not None:
            _need_same_parts(expected, material.parts)
        return build_set(material, folder, _work(content), reporter(quiet=quiet))
    except CellError as error:
        raise UserError(f"{entry.reference}: {error.reason}") from error


@app.command()
def verify(
    context: typer.Context,
    reference: Reference,
    *,
    at: Annotated[
        Path | None, typer.Option("--at", metavar="DIR", help="Instead of runs/testsets/NAME/VERSION.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every byte and row of a set: hashes, ids, labels, seeds, pictures, counts.

    Example: robustboard testset verify digits-oracle@1.0.0
    """
    from robustboard.runners.testsets.verify import verify as verify_set  # noqa: PLC0415 - imports pyarrow

    content: Content = context.obj.content()
    entry = _entry(content, reference)
    folder = at or _folder(content, entry)
    _need_set(entry, folder)
    report = verify_set(folder)
    damages = list(report.damages)
    if report.manifest is not None:
        damages += _other_than_registered(report.manifest, entry)
        if not report.manifest.complete:
            damages.append(f"incomplete: too few images of {', '.join(report.manifest.lacking)}")
    if as_json:
        console.out_json({"files": report.files, "rows": report.rows, "damages": damages})
    else:
        for line in damages[:SHOWN]:
            console.say(line)
        console.say(f"{report.files} files and {report.rows} images checked, {len(damages)} damages")
    raise typer.Exit(1 if damages else 0)


@app.command()
def pull(
    context: typer.Context,
    reference: Reference,
    *,
    repo: Annotated[
        str | None, typer.Option(metavar="ORG/NAME", help="Hub dataset; the recipe's when absent.")
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Commit of 40 hex digits; the version's tag if absent."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Instead of runs/testsets/NAME/VERSION.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fetch a published set from the Hub and verify it; stopped, it goes on when run again.

    Example: robustboard testset pull digits-oracle@1.0.0 --repo org/digits-oracle
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - not paid by --help

    from robustboard.commands import say_endpoint  # noqa: PLC0415 - as above
    from robustboard.fields import Commit  # noqa: PLC0415 - as above
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - imports rich
    from robustboard.runners.testsets.pull import pull as pull_set  # noqa: PLC0415 - imports the Hub's client

    content: Content = context.obj.content()
    entry = _entry(content, reference)
    name = _repository(entry, repo)
    if revision is not None:
        try:
            TypeAdapter(Commit).validate_python(revision)
        except ValidationError:
            raise UserError(
                f"--revision: expected a commit hash of 40 hex digits, got {echo(revision)}"
            ) from None
    folder = to or _folder(content, entry)
    say_endpoint()
    try:
        found = pull_set(entry, name, revision, folder, reporter(quiet=quiet))
    except CellError as error:
        raise UserError(f"{entry.reference}: {error.reason}") from error
    console.out(str(folder))
    console.say(
        f"{entry.reference}: {found.manifest.rows} images of {name} at {found.commit}, {found.fetched} files"
        f" fetched, content {found.manifest.content_sha256}"
    )


@app.command()
def publish(
    context: typer.Context,
    reference: Reference,
    *,
    repo: Annotated[
        str | None, typer.Option(metavar="ORG/NAME", help="Hub dataset; the recipe's when absent.")
    ] = None,
    at: Annotated[
        Path | None, typer.Option("--at", metavar="DIR", help="Instead of runs/testsets/NAME/VERSION.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write to the Hub; without it nothing is sent.")] = False,
) -> None:
    """Show what would be published; with --yes make one commit and a tag, with the token in HF_TOKEN.

    A damaged or incomplete set is refused. Published content is never rewritten, a tag never moved.

    Example: robustboard testset publish digits-oracle@1.0.0 --repo org/digits-oracle
    """
    from robustboard.runners import hub  # noqa: PLC0415 - imports the Hub's client
    from robustboard.runners.testsets import publish as publishing  # noqa: PLC0415 - as above

    content: Content = context.obj.content()
    entry = _entry(content, reference)
    name = _repository(entry, repo)
    folder = at or _folder(content, entry)
    _need_set(entry, folder)
    planned = publishing.plan_publication(folder, name)
    other = _other_than_registered(planned.manifest, entry)
    if other:
        raise StoreError(f"{folder}: {other[0]}")
    rows = [(file.path, str(file.size), file.sha256) for file in planned.listed]
    console.out_table(("file", "bytes", "SHA-256"), rows)
    console.say(f"{entry.reference} → {hub.endpoint()}/datasets/{name}, one commit, tag {planned.tag}")
    if not yes:
        console.say("nothing was sent; add --yes to publish")
        return
    try:
        commit, state = publishing.publish(planned)
    except CellError as error:
        raise UserError(error.reason) from error
    console.say(f"{entry.reference}: {state} at {commit}, tag {planned.tag}")


def _entries(content: Content) -> dict[str, TestSetEntry]:
    from robustboard.registry.testsets import load_test_sets  # noqa: PLC0415 - not paid by --help

    return dict(load_test_sets(content.workspace, content.catalog))


def _entry(content: Content, reference: str) -> TestSetEntry:
    from robustboard.registry.testsets import find_test_set  # noqa: PLC0415 - not paid by --help

    return find_test_set(_entries(content), reference)


def _folder(content: Content, entry: TestSetEntry) -> Path:
    return content.workspace.runs / "testsets" / entry.set / entry.version


def _work(content: Content) -> Path:
    return content.workspace.runs / "testsets" / ".work"


def _need_set(entry: TestSetEntry, folder: Path) -> None:
    """Raise UserError where there is no such folder; an incomplete set beside it is named."""
    beside = folder.with_name(f"{folder.name}-incomplete")
    if folder.is_dir():
        return
    hint = f"; an incomplete one lies in {beside}" if beside.is_dir() else ""
    raise UserError(f"{entry.reference} is not here ({folder}): build it or pull it{hint}")


def _state(content: Content, entry: TestSetEntry) -> str:
    """Whether a version lies in the output folder, without a look at its bytes."""
    folder = _folder(content, entry)
    if (folder / "manifest.json").exists():
        return "yes"
    return "incomplete" if folder.with_name(f"{folder.name}-incomplete").is_dir() else "no"


def _repository(entry: TestSetEntry, named: str | None) -> str:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - not paid by --help

    from robustboard.fields import RepoId  # noqa: PLC0415 - as above

    name = named or entry.hub
    if name is None:
        raise UserError(f"{entry.reference} names no Hub dataset: add --repo ORG/NAME")
    try:
        found: str = TypeAdapter(RepoId).validate_python(name)
    except ValidationError as error:
        raise UserError(f"--repo: {error.errors(include_url=False)[0]['msg']}, got {echo(name)}") from error
    return found


def _other_than_registered(manifest: Manifest, entry: TestSetEntry) -> list[str]:
    """What a sound set has that its recipe in the registry does not say."""
    if manifest.reference != entry.reference:
        return [f"manifest.json: recipe: expected {entry.reference}, got {echo(manifest.reference)}"]
    found = []
    if manifest.recipe_sha256 != entry.recipe_sha256:
        found.append(f"manifest.json: recipe: expected that of {entry.id} in the registry, got another")
    if entry.content_sha256 not in (None, manifest.content_sha256):
        found.append(
            f"manifest.json: content_sha256: expected {entry.content_sha256} as released, got"
            f" {manifest.content_sha256}"
        )
    return found


def _show_classes(manifest: Manifest) -> None:
    rows = [
        (
            each.key,
            f"{each.kept} of {each.wanted}",
            str(each.attempted),
            ", ".join(f"{count} {reason}" for reason, count in each.rejected.items()) or "none",
        )
        for each in manifest.classes
    ]
    console.out_table(("class", "kept", "attempts", "rejected"), rows, title=manifest.reference)


def _need_same_parts(expected: Manifest, parts: Sequence[Part]) -> None:
    """Raise UserError for an entry that is no longer what a set was made with."""
    mine = {part.role: part.sha256 for part in parts}
    for part in expected.parts:
        if mine.get(part.role) != part.sha256:
            raise UserError(
                f"{expected.reference}: {part.role} {part.id} is not what the set was made with: its entry,"
                " weights or data have changed"
            )


def _compare(expected: Manifest, found: Manifest) -> None:
    """Say whether a rebuilt set is that of the manifest. Raises StoreError where it is not."""
    different = [
        was.path for was, now in zip(expected.shards, found.shards, strict=False) if was.sha256 != now.sha256
    ]
    if expected.content_sha256 != found.content_sha256:
        raise StoreError(
            f"{expected.reference}: expected content {expected.content_sha256}, got {found.content_sha256}"
        )
    if different or len(expected.shards) != len(found.shards):
        console.say(
            f"the same ids, labels, seeds and pixels, in other bytes ({', '.join(different) or 'shards'}):"
            " other versions of the libraries that pack them"
        )
        return
    console.say("the same hashes as in the manifest")
