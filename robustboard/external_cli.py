"""The commands `robustboard external`: attacked images, checked and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console
from robustboard.errors import CellError, UserError, echo

if TYPE_CHECKING:
    from fractions import Fraction

    from robustboard.commands import Content
    from robustboard.registry.entries import DatasetEntry, InputSpec, Norm
    from robustboard.runners.export import Exported

NORMS: dict[str, Norm] = {"linf": "linf", "l2": "l2"}

app = typer.Typer(
    help="Check attacked images that are to be handed in, and write those of an attack here.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Parquet file with PNG images, or NumPy archive (.npz).")],
    *,
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Dataset that the originals are of.")],
    norm: Annotated[str, typer.Option(help="linf or l2.")],
    budget: Annotated[str, typer.Option(help="Such as 8/255, of the [0, 1] pixel range.")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Whose input size the images have, where the dataset has none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check a file of attacked images: ids, shapes, pixels, budget. No model is loaded, nothing is stored.

    Example: robustboard external check mine.npz --dataset digits --norm linf --budget 1/10
    """
    if norm not in NORMS:
        raise UserError(f"--norm: expected linf or l2, got {echo(norm)}")
    _check(
        context.obj.content(), file, dataset, NORMS[norm], fraction(budget), model_id=model, as_json=as_json
    )


@app.command()
def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model id.")],
    benchmark: Annotated[str, typer.Argument(help="Benchmark id, one that attacks.")],
    dataset: Annotated[str, typer.Argument(help="Dataset id.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file, .npz or .parquet.")],
    budget: Annotated[
        str | None, typer.Option(help="One of the protocol's budgets; the headline's when absent.")
    ] = None,
    eight_bit: Annotated[
        bool | None,
        typer.Option("--8-bit/--float", help="Pixels as k/255 or float32; .parquet holds 8 bits only."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Run profile, a file under runners/.")] = "cpu",
    allow_plugins: Annotated[
        bool, typer.Option("--allow-plugins", help="Load third-party loaders (entry points run code).")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Attack a model as a run does, write the attacked images without loss, and judge the file.

    Prints robust accuracy as it was in memory and as it is from the file: they differ where 8 bits are
    too coarse for the attack.

    Example: robustboard external export digits-resnet pgd-v1 digits --out pgd.npz
    """
    # As in a run: threads that wait awake cost time where other programs want the same cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from robustboard.runners.evaluate import Session  # noqa: PLC0415 - imports torch
    from robustboard.runners.export import encoding_for, export_images  # noqa: PLC0415 - as above
    from robustboard.runners.plan import wanted_cells  # noqa: PLC0415 - as above
    from robustboard.runners.profiles import load_profile  # noqa: PLC0415 - as above
    from robustboard.runners.progress import reporter  # noqa: PLC0415 - as above

    content: Content = context.obj.content()
    wanted = None if budget is None else fraction(budget)
    encoding = encoding_for(out, {None: None, True: "8-bit", False: "float32"}[eight_bit])
    (cell,) = wanted_cells(
        content.catalog,
        content.benchmarks,
        model_ids=[model],
        benchmark_ids=[benchmark],
        dataset_ids=[dataset],
    )
    session = Session(
        workspace=content.workspace,
        catalog=content.catalog,
        benchmarks=content.benchmarks,
        lock=content.lock,
        profile=load_profile(content.workspace, profile),
        reporter=reporter(quiet=quiet),
        allow_plugins=allow_plugins,
    )
    with session.reporter:
        found = export_images(session, cell, out, encoding, budget=wanted)
    _show_export(found, out)


def fraction(text: str) -> Fraction:
    """A budget as people write it. Raises UserError for anything but a positive number."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - not paid by --help

    from robustboard.fields import Positive  # noqa: PLC0415 - as above

    try:
        found: Fraction = TypeAdapter(Positive).validate_python(text)
    except ValidationError as error:
        raise UserError(f"--budget: {error.errors(include_url=False)[0]['msg']}, got {echo(text)}") from error
    return found


def _input(content: Content, entry: DatasetEntry, model: str | None) -> InputSpec:
    """How the images are looked at: as stored, or as one model takes them."""
    from robustboard.registry.entries import InputSpec  # noqa: PLC0415 - not paid by --help

    if model is not None:
        found = content.catalog.model(model)
        if found.label_space != entry.label_space:
            raise UserError(f"model {model} has the labels of {found.label_space}, {entry.id} has others")
        return found.input
    if entry.native_size is None:
        raise UserError(
            f"{entry.id} has no native size, so its attacked images have a model's input size:"
            " name the model with --model"
        )
    return InputSpec(size=entry.native_size, channels=entry.channels, normalization="inside")


def _check(
    content: Content,
    file: Path,
    dataset: str,
    norm: Norm,
    budget: Fraction,
    *,
    model_id: str | None,
    as_json: bool,
) -> None:
    entry = content.catalog.dataset(dataset)
    spec = _input(content, entry, model_id)
    if not file.is_file():
        raise UserError(f"{file}: expected a file of attacked images, found none")
    from robustboard.runners.external import NUMBER, read_set  # noqa: PLC0415 - imports torch
    from robustboard.runners.samples import load_samples  # noqa: PLC0415 - as above

    space = content.catalog.label_space(entry.label_space)
    samples = load_samples(
        entry,
        space,
        workspace=content.workspace,
        lock=content.lock,
        input=spec,
        catalog=content.catalog,
    )
    try:
        found = read_set(file, str(file), samples, entry, norm=norm, budget=budget)
    except CellError as error:
        # A file on the command line is the user's to mend, unlike a cell of a run.
        raise UserError(error.reason) from error
    unchanged = int((found.distances == 0).sum())
    rows = {
        "file": str(file),
        "sha256": found.sha256,
        "pixels": NUMBER[found.images.encoding],
        "images": f"{len(found.places)} of {len(samples.ids)} of {dataset}",
        "not attacked": str(len(samples.ids) - len(found.places)),
        "as the original": str(unchanged),
        "budget": f"{norm} {budget}, that is {float(budget):.7g}",
        "largest distance": f"{found.distances.max():.7g}",
        "mean distance": f"{found.distances.mean():.7g}",
    }
    if as_json:
        console.out_json(rows)
        return
    console.out_table(("what", "found"), list(rows.items()))
    console.say(f"{file}: no problem")


def _show_export(found: Exported, out: Path) -> None:
    manifest, n = found.manifest, found.manifest.evaluated
    console.out_table(
        ("images judged", "robust accuracy", "right", "of"),
        [
            (where, f"{100 * right / n:.2f} %", str(right), str(n))
            for where, right in (
                ("float32 in memory", manifest.robust_in_memory),
                (f"{manifest.encoding} from file", manifest.robust_from_file or 0),
            )
        ],
    )
    if found.held_pixels:
        console.say(
            f"{found.held_pixels} pixels of {found.held_images} images do not have the nearest 8-bit value,"
            " which lies outside the budget"
        )
    console.say(
        f"{out}: {len(found.attacked.places)} attacked images of {n}, {manifest.condition},"
        f" SHA-256 {found.attacked.sha256}"
    )
