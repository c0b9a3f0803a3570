"""The commands `robustboard release` and `robustboard changes`: freeze the boards, and tell what changed."""

from __future__ import annotations

from datetime import date as day
from typing import TYPE_CHECKING, Annotated

import typer

from robustboard import console

if TYPE_CHECKING:
    from robustboard.commands import Content
    from robustboard.site.releases import Changes
    from robustboard.site.render import SiteInput


def release(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="YEAR.MONTH such as 2026.12, or 2026.12.2.")],
    *,
    date: Annotated[
        str | None, typer.Option(help="Day of the release, YYYY-MM-DD; today when absent.")
    ] = None,
) -> None:
    """Freeze the boards as they are now into leaderboard/releases/NAME: text files that never change.

    The same numbers under the same name again are no change; other numbers are refused.

    Example: robustboard release 2026.12
    """
    from robustboard.errors import UserError, echo  # noqa: PLC0415 - not paid by --help
    from robustboard.site.releases import check_name, freeze  # noqa: PLC0415 - imports pandas
    from robustboard.site.sections import release_about, scores_text  # noqa: PLC0415 - only here

    check_name(name)
    try:
        when = day.fromisoformat(date) if date is not None else day.today()  # noqa: DTZ011 - a calendar day
    except ValueError:
        raise UserError(f"expected --date YYYY-MM-DD, got {echo(date)}") from None
    content = context.obj.content()
    site = _site(content)
    found = freeze(
        content.workspace.output / "leaderboard" / "releases",
        name,
        when.isoformat(),
        scores=scores_text(site),
        boards=site.boards,
        about=release_about(site),
    )
    console.say(f"release {found.name} of {found.record.date}: {len(found.numbers)} scores")
    console.out(str(content.workspace.output / "leaderboard" / "releases" / found.name))


def changes(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Tell what changed from release to release and since the last one: numbers, never ranks.

    Example: robustboard changes
    """
    from dataclasses import asdict  # noqa: PLC0415 - not paid by --help

    from robustboard.site.sections import scores_text, site_history  # noqa: PLC0415 - imports pandas

    site = _site(context.obj.content())
    found = site_history(site, scores_text(site))
    if as_json:
        console.out_json([asdict(each) for each in found])
        return
    for each in found:
        _show(each)
    if not site.releases:
        console.say("no release yet; freeze one with: robustboard release YEAR.MONTH")
    elif not any(each.date is None for each in found):
        console.say(f"nothing changed since release {site.releases[-1].name}")


def _show(each: Changes) -> None:
    from robustboard.site.sections import shown_number  # noqa: PLC0415 - only here

    title = f"{each.name} of {each.date}" if each.date else f"since {each.since}"
    for words, names in (("new", each.added), ("gone", each.removed), ("new set", each.sets)):
        for name in names:
            console.out(f"{title}: {words}: {name}")
    if each.cells:
        console.out_table(
            ("model", "benchmark", "dataset", "score", "before", "after", "other scores"),
            [
                (
                    cell.model,
                    cell.benchmark,
                    cell.dataset,
                    cell.score,
                    shown_number(cell.before) or "none",
                    shown_number(cell.after) or "none",
                    str(cell.others),
                )
                for cell in each.cells
            ],
            title=title,
        )


def _site(content: Content) -> SiteInput:
    from robustboard.site.build import site_input  # noqa: PLC0415 - imports pandas

    place = content.workspace
    return site_input(place, content.catalog, content.benchmarks, [place.committed_results, place.results])
