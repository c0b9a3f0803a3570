"""The command `robustboard howmany`: images needed to tell two accuracies apart."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from robustboard import console

PERCENT_SIGN = "%"


def howmany(
    first: Annotated[str, typer.Argument(help="One accuracy, as a share (0.90) or in percent (90%).")],
    second: Annotated[str, typer.Argument(help="The other one.")],
    *,
    disagree: Annotated[
        str | None,
        typer.Option(help="Share of images that exactly one of the models gets right, where it is known."),
    ] = None,
    power: Annotated[str, typer.Option(help="Share of tries that shall see the difference.")] = "0.8",
    alpha: Annotated[str, typer.Option(help="Level of the two-sided test.")] = "0.05",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Tell how many test images it takes to see that one model is better than another.

    Examples:
      robustboard howmany 0.90 0.91

      robustboard howmany 76.1% 76.5% --disagree 8% --power 0.9
    """
    from robustboard.leaderboard.howmany import needed  # noqa: PLC0415 - not paid by --help

    shares = {"first": first, "second": second, "disagree": disagree, "power": power, "alpha": alpha}
    read = {name: _share(name, text) for name, text in shares.items() if text is not None}
    found = needed(
        read["first"], read["second"], read.get("disagree"), power=read["power"], alpha=read["alpha"]
    )
    if as_json:
        console.out_json(asdict(found))
        return
    chosen = "as you say" if disagree is not None else "halfway from nested to unrelated mistakes"
    console.out_table(
        ("comparison", "images", "how"),
        [
            (
                "unpaired",
                f"{found.unpaired:,}",
                "each model on images of its own, or from two accuracies alone",
            ),
            (
                "paired",
                f"{found.paired:,}",
                f"the same images; one alone is right on {100 * found.disagreement:.2g} %, {chosen}",
            ),
        ],
        title=f"to see {100 * found.first:g} % against {100 * found.second:g} %",
    )
    console.say(
        f"in {100 * read['power']:g} of 100 tries, two-sided at {100 * read['alpha']:g} %;"
        f" models with unrelated mistakes part on {100 * found.most:.2g} % of the images"
    )


def _share(name: str, text: str) -> float:
    from robustboard.errors import UserError, echo  # noqa: PLC0415 - not paid by --help

    percent = text.strip().endswith(PERCENT_SIGN)
    try:
        value = float(text.strip().rstrip(PERCENT_SIGN))
    except ValueError:
        raise UserError(f"{name}: expected a share such as 0.9, or 90%, got {echo(text)}") from None
    return value / 100 if percent else value
