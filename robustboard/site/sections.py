"""Pages beside boards, benchmarks and models: comparison, generated sets, changes, releases, badges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustboard.leaderboard import howmany
from robustboard.leaderboard.cells import IN_PERCENT, points_text
from robustboard.leaderboard.means import SeedRow, seed_rows
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.site import downloads
from robustboard.site.badges import Badge, badges
from robustboard.site.compare import board_pairs, comparable, doubted_scores, model_script
from robustboard.site.releases import Changes, Release, history, numbers_of
from robustboard.site.sets import ShownSet

if TYPE_CHECKING:
    from robustboard.site.render import Pages, SiteInput

ADVICE = (howmany.TABLE_GAPS, howmany.table())


def add_sections(site: SiteInput, pages: Pages, scores: str) -> None:
    """Render them all; `scores` is the text of data/leaderboard.csv."""
    by_model: dict[str, list[tuple[Cell, Result]]] = {}
    for cell, result in site.measured.results.items():
        by_model.setdefault(cell.model, []).append((cell, result))
    _compare(site, pages, by_model)
    _sets(pages, site.sets)
    _releases(site, pages)
    found = site_history(site, scores)
    pages.add("changes.html", "changes.html.j2", history=found)
    pages.add("changes.xml", "changes.xml.j2", history=[each for each in found if each.date])
    pages.add("submit.html", "submit.html.j2")
    pages.add("cite.html", "cite.html.j2")
    drawing = pages.environment.get_template("badge.svg.j2")
    for badge in site_badges(site):
        pages.found[badge.path] = drawing.render(badge=badge)


def _compare(site: SiteInput, pages: Pages, by_model: Mapping[str, Sequence[tuple[Cell, Result]]]) -> None:
    models = [site.catalog.models[name] for name in by_model if name in site.catalog.models]
    pairs = board_pairs(site.boards.values(), site.measured)
    pages.add("compare.html", "compare.html.j2", models=models, pairs=pairs)
    wanted, doubted = comparable(site.boards.values()), doubted_scores(site.boards.values())
    for model in models:
        pages.found[f"data/outcomes/{model.id}.js"] = model_script(
            model.id,
            by_model[model.id],
            catalog=site.catalog,
            benchmarks=site.benchmarks,
            measured=site.measured,
            wanted=wanted,
            doubted=doubted,
        )


def _sets(pages: Pages, sets: Sequence[ShownSet]) -> None:
    pages.add("s/index.html", "sets.html.j2", sets=sets)
    for shown in sets:
        versions = [each for each in sets if each.entry.set == shown.entry.set]
        for gallery in shown.pages():
            pages.add(
                f"s/{gallery.path}.html", "set.html.j2", shown=shown, gallery=gallery, versions=versions
            )


def site_history(site: SiteInput, scores: str) -> tuple[Changes, ...]:
    """Changes of every release and since the newest one."""
    if not site.releases:
        return ()
    return history(site.releases, numbers_of(scores), set_contents(site.sets))


def set_contents(sets: Sequence[ShownSet]) -> dict[str, str]:
    """Set with its version → digest of its content, of those at hand built."""
    return {each.entry.reference: each.manifest.content_sha256 for each in sets if each.manifest}


def site_badges(site: SiteInput) -> list[Badge]:
    """Badges of all results; they name the newest release, or the program's version where there is none."""
    release = site.releases[-1].name if site.releases else site.version
    return badges(site.catalog, site.benchmarks, site.measured, site.boards.values(), release)


@dataclass(frozen=True, slots=True)
class PastRow:
    """One cell of a model in every release."""

    benchmark: str
    dataset: str
    score: str
    values: tuple[str | None, ...]
    """As shown, in the order of releases; None where there was no number."""


def past_by_model(releases: Sequence[Release]) -> dict[str, tuple[PastRow, ...]]:
    """What releases said of every model: the number that stands for each cell."""
    found: dict[str, dict[tuple[str, str, str], list[str | None]]] = {}
    for place, release in enumerate(releases):
        for key, row in release.numbers.items():
            if row["headline"] == "yes":
                rows = found.setdefault(key[0], {})
                name = (key[1], key[2], f"{key[3]}@{key[4]}")
                rows.setdefault(name, [None] * len(releases))[place] = shown_number(row)
    return {
        model: tuple(PastRow(*name, tuple(values)) for name, values in sorted(rows.items()))
        for model, rows in found.items()
    }


def shown_number(row: Mapping[str, str] | None) -> str | None:
    """`36.3` for a share in a row of leaderboard.csv, its status beside it unless it is ok."""
    if row is None:
        return None
    if not row["value"]:
        return row["status"]
    value = float(row["value"])
    if row["unit"] == "difference":
        text = points_text(value, 2, signed=True)
    else:
        text = f"{value * 100:.2f} %" if row["unit"] in IN_PERCENT else f"{value:.4g}"
    return text if row["status"] == "ok" else f"{text} ({row['status']})"


def seeds_of(board: Any) -> tuple[SeedRow, ...]:  # noqa: ANN401 - a Board; templates hand over what they hold
    """Several trainings of one recipe on a board."""
    return seed_rows(board.entry, {row.model: row.cells for row in board.rows})


def _releases(site: SiteInput, pages: Pages) -> None:
    pages.add("r/index.html", "releases.html.j2")
    newest = site.releases[-1].name if site.releases else None
    for release in site.releases:
        common = {"release": release, "newest": newest}
        pages.add(f"r/{release.name}/index.html", "release.html.j2", **common)
        for board in release.boards:
            if board["rows"]:
                rows = [_frozen_row(row, board["columns"]) for row in board["rows"]]
                pages.add(
                    f"r/{release.name}/{board['id']}.html",
                    "release_board.html.j2",
                    **common,
                    board=board,
                    rows=rows,
                )


@dataclass(frozen=True, slots=True)
class FrozenRow:
    """One row of a board as it was."""

    model: str
    name: str
    ranks: tuple[int, int] | None
    cells: tuple[tuple[str | None, str | None], ...]
    """Text and margin; the first is None for a cell without a number, and the second is then its status."""


def _frozen_row(row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> FrozenRow:
    cells = tuple(_frozen_cell(row["cells"][column["id"]]) for column in columns)
    ranks = tuple(row["ranks"]) if row["ranks"] else None
    return FrozenRow(row["model"], row["name"], ranks, cells)


def _frozen_cell(cell: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if cell["value"] is None:
        return None, cell["status"]
    scale = 100 if cell["unit"] in IN_PERCENT else 1
    digits = 1 if scale == 100 else 3  # noqa: PLR2004 - per cent
    text = f"{cell['value'] * scale:.{digits}f}"
    text = text if cell["status"] == "ok" else f"{text} ({cell['status']})"
    if cell["low"] is None:
        return text, None
    margin = max(cell["value"] - cell["low"], cell["high"] - cell["value"]) * scale
    return text, f"±{max(margin, 10.0**-digits):.{digits}f}"


def release_files(site: SiteInput) -> dict[str, bytes]:
    """Files of releases and sets that stand in the site as they are."""
    files: dict[str, bytes] = {}
    for release in site.releases:
        files |= {f"r/{release.name}/{name}": data for name, data in release.files.items()}
    for shown in site.sets:
        files |= {f"{shown.folder}/{name}": data for name, data in shown.files.items()}
    return files


def release_about(site: SiteInput) -> dict[str, Any]:
    """What a release's record says beside its numbers, by results that are current and may rank."""
    protocols, datasets = {}, {}
    for cell, result in sorted(site.measured.results.items()):
        if cell in site.measured.outdated:
            continue
        protocols[f"{cell.benchmark} on {cell.dataset}"] = result.key.protocol_digest
        mixed = "detection" if cell.benchmark.startswith("detection") else ""
        name = f"{cell.dataset} for {cell.benchmark}" if mixed else cell.dataset
        datasets[name] = result.key.data_fingerprint
    return {
        "version": site.version,
        "protocols": protocols,
        "datasets": datasets,
        "sets": set_contents(site.sets),
    }


def scores_text(site: SiteInput) -> str:
    """data/leaderboard.csv of a site."""
    return downloads.leaderboard_csv(downloads.records(site.catalog, site.measured, site.boards))
