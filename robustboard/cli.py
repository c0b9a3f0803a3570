"""The command `robustboard`. Each command imports what it needs when it runs, so that --help is quick."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import (
    __version__,
    audit_sheet_cli,
    branch_cli,
    console,
    environment,
    examples,
    external_cli,
    howmany_cli,
    new_cli,
    predictions_cli,
    release_cli,
    testset_cli,
    trust_cli,
)
from robustboard.errors import RobustboardError

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.workspace import Workspace

INTERRUPTED = 130
DEFAULT_PROFILE = "cpu"
STOPPED = "interrupted; run the same command again to go on"
DISK_FULL = 3
UNREADABLE = 2

app = typer.Typer(
    help="Measure the robustness of image classifiers and publish a static leaderboard.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(audit_sheet_cli.app, name="audit-sheet")
app.add_typer(external_cli.app, name="external")
app.command()(howmany_cli.howmany)
app.command()(release_cli.release)
app.command()(release_cli.changes)
app.add_typer(new_cli.app, name="new")
app.add_typer(predictions_cli.app, name="predictions")
app.add_typer(testset_cli.app, name="testset")
app.command()(branch_cli.check)
app.command()(branch_cli.check_results)
app.command()(branch_cli.compare_branch)
app.command()(branch_cli.guard)
app.command()(trust_cli.audit)
app.command()(trust_cli.invalidate)
app.command()(trust_cli.recompute)


@dataclass(frozen=True, slots=True)
class Options:
    """What the options before the command say."""

    workspace: Path | None
    output: Path | None
    debug: bool

    def find(self) -> Workspace:
        """The workspace these options name."""
        from robustboard import workspace  # noqa: PLC0415 - not paid by --help

        return workspace.find(self.workspace, output=self.output)

    def content(self) -> Content:
        """All entries, protocols and boards of the workspace, checked."""
        from robustboard import commands  # noqa: PLC0415 - not paid by --help

        return commands.load(self.find())


Models = Annotated[list[str] | None, typer.Option("--model", "-m", help="Model id; repeat for more.")]
Benchmarks = Annotated[
    list[str] | None, typer.Option("--benchmark", "-b", help="Benchmark id; repeat for more.")
]
Datasets = Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Dataset id; repeat for more.")]
Profile = Annotated[str | None, typer.Option(help="Run profile, a file under runners/; cpu when absent.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Plugins = Annotated[
    bool, typer.Option("--allow-plugins", help="Load third-party loaders (entry points run code).")
]


def _version(wanted: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if wanted:
        console.out(f"robustboard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder with registry/, benchmarks/ and so on.", metavar="DIR")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for runs, results and pages, if not the workspace.", metavar="DIR"),
    ] = None,
    debug: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--debug", help="Show the traceback behind an error.")
    ] = False,
    version: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Measure the robustness of image classifiers and publish a static leaderboard."""
    del version  # the callback has answered it
    environment.refuse_unsafe_environment()
    context.obj = Options(workspace, output, debug)


@app.command()
def demo(context: typer.Context, *, quiet: Annotated[bool, typer.Option("--quiet")] = False) -> None:
    """Train and measure four small digit classifiers, also on images made against them; write the site.

    Needs no GPU, token or network; about three minutes on two cores. Works in runs/demo.

    Example: robustboard demo
    """
    from robustboard import demo as embedded  # noqa: PLC0415 - not paid by --help

    raise typer.Exit(embedded.demo(context.obj.content(), quiet=quiet))


@app.command()
def analyse(
    context: typer.Context,
    benchmark: Annotated[
        str, typer.Option("--benchmark", "-b", help="Benchmark id, one that generates images.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Dataset id.")],
    *,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="Also show every model the images made against the others.")
    ] = False,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Also seek the training image nearest to each generated one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare stored runs on generated images: rankings, oracles, bias, what the generator alone costs.

    Example: robustboard analyse -b fmr-v1 -d digits --transfer --neighbours
    """
    from robustboard import analyse_cli  # noqa: PLC0415 - not paid by --help

    analyse_cli.analyse(
        context.obj.content(),
        benchmark,
        dataset,
        with_transfer=transfer,
        with_neighbours=neighbours,
        as_json=as_json,
    )


@app.command("list")
def list_(
    context: typer.Context,
    kind: Annotated[
        str, typer.Argument(help="models, datasets, oracles, generators or another kind of entry.")
    ] = "models",
    *,
    as_json: AsJson = False,
) -> None:
    """List what is registered.

    Example: robustboard list benchmarks --json
    """
    from robustboard import listing  # noqa: PLC0415 - not paid by --help

    listing.show_list(context.obj.content(), kind, as_json=as_json)


@app.command()
def lock(
    context: typer.Context,
    entries: Annotated[
        list[str] | None, typer.Argument(help="model/ID or dataset/ID; all without a line when absent.")
    ] = None,
) -> None:
    """Record commit, size and SHA-256 of every file behind entries in registry/lock.yaml.

    Hub entries need network. Lines of other entries stay as they are.

    Example: robustboard lock model/resnet50.a1_in1k dataset/cifar10
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    raise typer.Exit(commands.lock(context.obj.content(), entries or []))


@app.command()
def plan(
    context: typer.Context,
    model: Models = None,
    benchmark: Benchmarks = None,
    dataset: Datasets = None,
    profile: Profile = None,
    *,
    allow_plugins: Plugins = False,
    as_json: AsJson = False,
) -> None:
    """Show which cells a run would measure, skip, or cannot run, without loading anything.

    Example: robustboard plan -m digits-resnet -b pgd-v1
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    wanted = commands.Wanted(
        model or [], benchmark or [], dataset or [], profile or DEFAULT_PROFILE, allow_plugins
    )
    commands.show_plan(context.obj.content(), wanted, as_json=as_json)


@app.command()
def run(
    context: typer.Context,
    model: Models = None,
    benchmark: Benchmarks = None,
    dataset: Datasets = None,
    profile: Profile = None,
    *,
    smoke: Annotated[bool, typer.Option("--smoke", help="Short for --profile smoke.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Instead of the profile's.")] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Go on past images that cannot be read; marked partial.")
    ] = False,
    allow_plugins: Plugins = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, only the summary.")] = False,
) -> None:
    """Measure cells (model, benchmark, dataset) that have no finished run yet.

    Killed or stopped, it goes on from the last finished shard when run again. A cell that fails does
    not stop the others; the exit code is then 1.

    Examples:
      robustboard run -m fashion-std -m fashion-adv -b clean-v1 -b pgd-v1

      robustboard run -m digits-resnet --smoke
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    if smoke and profile not in (None, "smoke"):
        raise typer.BadParameter(f"expected --smoke or --profile {profile}, got both")
    name = "smoke" if smoke else profile or DEFAULT_PROFILE
    wanted = commands.Wanted(model or [], benchmark or [], dataset or [], name, allow_plugins)
    code = commands.run(
        context.obj.content(),
        wanted,
        batch_size=batch_size,
        skip_damaged=skip_damaged,
        quiet=quiet,
        debug=context.obj.debug,
    )
    raise typer.Exit(code)


@app.command()
def score(context: typer.Context) -> None:
    """Rebuild every result from stored predictions, byte for byte.

    Example: robustboard score
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    raise typer.Exit(commands.score(context.obj.content()))


@app.command()
def verify(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Recompute hashes and counts of all stored runs and compare results with them.

    Example: robustboard verify
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    raise typer.Exit(commands.verify(context.obj.content(), as_json=as_json))


@app.command()
def board(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Board id; all boards when absent.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a board in the terminal: ranks as ranges, 95 % intervals.

    Example: robustboard board digits
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    commands.show_board(context.obj.content(), name, as_json=as_json)


@app.command()
def site(
    context: typer.Context,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Instead of site/_build.")] = None,
    *,
    address: Annotated[
        str | None, typer.Option(help="https:// address where it will stand, for feed, badges and sitemap.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Then serve it to this machine alone.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="For --serve; 0 takes a free one.")] = 8000,
) -> None:
    """Write the static site; open index.html from disk or put the folder on any web server.

    Examples:
      robustboard site

      robustboard site --serve
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    folder = commands.build_site(context.obj.content(), to, address=address)
    if serve:
        commands.serve_site(folder, port)


@app.command()
def compare(
    context: typer.Context,
    first: Annotated[str, typer.Argument(help="Model id.")],
    second: Annotated[str, typer.Argument(help="Model id.")],
    *,
    every_score: Annotated[
        bool, typer.Option("--every-score", help="All scores, not headlines only.")
    ] = False,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Intervals of differences from images drawn again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two models cell by cell: paired test where outcomes of images are at hand, else intervals.

    p-values are adjusted for the number of scores compared (Holm).

    Example: robustboard compare fashion-std fashion-adv
    """
    from robustboard import commands  # noqa: PLC0415 - not paid by --help

    commands.show_comparison(
        context.obj.content(),
        first,
        second,
        every_score=every_score,
        bootstrap=bootstrap,
        as_json=as_json,
    )


def main() -> None:
    """Entry point: expected errors are one readable message on stderr with their exit code."""
    debug = "--debug" in sys.argv[1:]
    console.spell_out()
    environment.redact_streams()
    examples.keep_lines(app)
    try:
        app(prog_name="robustboard")
    except RobustboardError as error:
        if debug:
            raise
        console.say(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        console.say(STOPPED)
        sys.exit(INTERRUPTED)
    except SystemExit as stop:
        # Typer turns Ctrl-C into a silent exit.
        if isinstance(stop.__context__, typer.Exit) and isinstance(
            stop.__context__.__cause__, KeyboardInterrupt
        ):
            console.say(STOPPED)
        raise
    except BrokenPipeError:
        # The reader of our output went away (head, less); nothing is wrong with the run.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if debug:
            raise
        console.say(f"{error.filename or 'output'}: {error.strerror or error}")
        sys.exit(DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else UNREADABLE)
