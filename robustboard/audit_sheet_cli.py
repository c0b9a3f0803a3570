"""The commands `robustboard audit-sheet`: accepted images shown to people, and what they say of oracles."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.runners.audit_sheet import Precision

app = typer.Typer(
    help="Let people look at generated images that an oracle accepted.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def write(
    context: typer.Context,
    to: Annotated[Path, typer.Argument(help="Folder for sheet.html and answers.csv.", metavar="DIR")],
    *,
    benchmark: Annotated[
        str, typer.Option("--benchmark", "-b", help="Benchmark id, one that generates images.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Dataset id.")],
    images: Annotated[int, typer.Option(min=1, max=10_000, help="How many to draw.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the draw.")] = 0,
) -> None:
    """Draw accepted images of all stored runs, and write them beside their sources, with a CSV for answers.

    Example: robustboard audit-sheet write audit-digits -b fmr-v1 -d digits --images 50
    """
    _write(context.obj.content(), to, (benchmark, dataset), count=images, seed=seed)


@app.command()
def read(
    files: Annotated[list[Path], typer.Argument(help="Filled answers.csv of one or more people.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Tell from filled sheets how often the oracle was right about what it accepted.

    Example: robustboard audit-sheet read audit-digits/answers.csv
    """
    from robustboard.runners.audit_sheet import read_answers  # noqa: PLC0415 - not paid by --help

    found = {str(path): read_answers(path, str(path)) for path in files}
    if as_json:
        console.out_json({name: [asdict(each) for each in rows] for name, rows in found.items()})
        return
    for name, rows in found.items():
        console.out_table(
            ["generator by oracle", "asked", "yes", "no", "unsure", "blank", "precision %", "doubts as no %"],
            (_told(each) for each in rows),
            title=name,
        )


def _told(each: Precision) -> list[str]:
    counts = [each.asked, each.yes, each.no, each.unsure, each.blank]
    shown = "-"
    if each.precision is not None and each.low is not None and each.high is not None:
        shown = f"{100 * each.precision:.1f} [{100 * each.low:.1f}, {100 * each.high:.1f}]"
    lowest = "-" if each.lowest is None else f"{100 * each.lowest:.1f}"
    return [each.pair, *map(str, counts), shown, lowest]


def _write(content: Content, to: Path, what: tuple[str, str], *, count: int, seed: int) -> None:
    from robustboard.analyse_cli import generated_runs  # noqa: PLC0415 - not paid by --help
    from robustboard.benchmarks.generated import pair_name  # noqa: PLC0415 - likewise
    from robustboard.registry.entries import InputSpec  # noqa: PLC0415 - likewise
    from robustboard.runners.audit_sheet import ANSWERS, PAGE, questions, write_sheet  # noqa: PLC0415 - likewise
    from robustboard.runners.samples import load_samples  # noqa: PLC0415 - likewise

    setting, runs = generated_runs(content, *what)
    catalog, (benchmark, dataset) = content.catalog, what
    entry = catalog.dataset(dataset)
    space = catalog.label_space(entry.label_space)
    spec = InputSpec(size=entry.native_size or 1, channels=entry.channels, normalization="inside")
    if entry.native_size is None:
        spec = catalog.model(min(runs)).input
        runs = {name: run for name, run in runs.items() if catalog.model(name).input == spec}
    samples = load_samples(
        entry, space, workspace=content.workspace, lock=content.lock, input=spec, catalog=catalog
    )
    pairs = [pair_name(use.generator, oracle) for use, oracle in setting.pairs]
    asked = questions(content.workspace, runs, pairs, samples, count=count, seed=seed)
    write_sheet(to, asked, space, f"Do they still show their class? {benchmark} on {dataset}, seed {seed}")
    console.say(f"{len(asked)} images of {len(runs)} models: look at {to / PAGE}, answer in {to / ANSWERS}")
