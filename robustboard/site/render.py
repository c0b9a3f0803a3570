"""Values → pages: a pure function; the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jinja2 import Environment

from robustboard import jsons
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.benchmarks.metrics import METRICS
from robustboard.leaderboard.board import Board
from robustboard.leaderboard.cells import Measured
from robustboard.registry.catalog import Catalog
from robustboard.registry.reported import Reported, canonical
from robustboard.runners.flags import MEANINGS
from robustboard.runners.verifications import Tier
from robustboard.site import downloads, published
from robustboard.site.badges import Badge
from robustboard.site.benchmarks import Budgets, benchmark_tables, settings_of
from robustboard.site.boards import ShownBoard, show_board
from robustboard.site.indexes import schema
from robustboard.site.models import ModelStandings, model_standings, spread
from robustboard.site.releases import Release
from robustboard.site.scatter import scatters
from robustboard.site.sections import ADVICE, add_sections, past_by_model, site_badges
from robustboard.site.sets import ShownSet
from robustboard.site.tradeoffs import (
    board_reported_plots,
    generated_plots,
    reported_plots,
    trade_offs,
)

PREVIEW_ROWS = 8
"""Rows of each board on the front page."""

VERIFIED: frozenset[Tier] = frozenset({"verified", "adaptive"})
"""Tiers of what was run or audited here."""


@dataclass(frozen=True, slots=True)
class SiteInput:
    """All that pages are made of."""

    catalog: Catalog
    benchmarks: Mapping[str, BenchmarkEntry]
    boards: Mapping[str, Board]
    measured: Measured
    reported: Mapping[str, Reported]
    version: str
    sets: tuple[ShownSet, ...] = ()
    """Generated test sets, built or not."""
    releases: tuple[Release, ...] = ()
    """Frozen ones, oldest first."""
    address: str | None = None
    """Where the site will stand, with a slash at its end; None where that is not known."""

    @property
    def verified(self) -> int:
        """Number of scores that this project ran or audited."""
        trust = self.measured.trust
        return sum(
            len(result.scores)
            for cell, result in self.measured.results.items()
            if cell not in trust or (trust[cell].invalid is None and trust[cell].tier in VERIFIED)
        )

    @property
    def measured_datasets(self) -> frozenset[str]:
        """Datasets with a result."""
        return frozenset(cell.dataset for cell in self.measured.results)

    @property
    def measured_models(self) -> int:
        """Number of models with a result."""
        return len({cell.model for cell in self.measured.results})

    @property
    def reported_numbers(self) -> int:
        """Number of published numbers shown."""
        return sum(len(item.scores) for item in self.reported.values())


class Pages:
    """Renders templates into a dict of pages."""

    def __init__(self, site: SiteInput, environment: Environment) -> None:
        """No page yet."""
        self.environment = environment
        self.environment.globals.update({"site": site})
        self.found: dict[str, str] = {}

    def add(self, path: str, template: str, **values: object) -> None:
        """Render one page; `root` leads from it to the top folder, unless it is given."""
        root = values.pop("root", "../" * path.count("/"))
        self.found[path] = self.environment.get_template(template).render(root=root, path=path, **values)


def render(site: SiteInput, environment: Environment) -> dict[str, str]:
    """All pages and downloads, path → text."""
    pages = Pages(site, environment)
    models = site.catalog.models
    boards = {name: show_board(board, site.benchmarks, models) for name, board in site.boards.items()}
    mentions = {
        name: [published.mention(view, site.reported) for view in board.entry.reported]
        for name, board in site.boards.items()
    }
    filled = [shown for shown in boards.values() if shown.measured]
    empty = [shown for shown in boards.values() if not shown.measured]
    pages.add(
        "index.html",
        "index.html.j2",
        boards=filled,
        empty=empty,
        mentions=mentions,
        preview=PREVIEW_ROWS,
    )
    for name, shown in boards.items():
        figures = scatters(shown.board, site.catalog, site.reported)
        pages.add(
            f"board/{name}.html",
            "board.html.j2",
            shown=shown,
            mentions=mentions[name],
            scatters=figures,
            trade_offs=trade_offs(shown.board, site.catalog, site.benchmarks, site.measured),
            generated=generated_plots(shown.board, site.catalog, site.measured),
            told=board_reported_plots(shown.board, site.reported),
        )
    _benchmarks(site, pages)
    _models(site, pages)
    _reported(site, pages, boards)
    pages.add(
        "method.html",
        "method.html.j2",
        metrics=METRICS,
        settings=_settings(site),
        meanings=MEANINGS,
        advice=ADVICE,
    )
    _downloads(site, pages)
    add_sections(site, pages, pages.found["data/leaderboard.csv"])
    # Hosts show it at any depth, so its links start from the site's address where that is known.
    pages.add("404.html", "404.html.j2", root=site.address or "")
    return dict(sorted(pages.found.items()))


def _settings(site: SiteInput) -> dict[str, tuple[Budgets, ...]]:
    return {name: settings_of(entry) for name, entry in site.benchmarks.items()}


def _benchmarks(site: SiteInput, pages: Pages) -> None:
    tables = {
        name: benchmark_tables(entry, site.catalog, site.measured) for name, entry in site.benchmarks.items()
    }
    pages.add("b/index.html", "benchmarks.html.j2", tables=tables)
    for name, entry in site.benchmarks.items():
        pages.add(
            f"b/{name}.html",
            "benchmark.html.j2",
            benchmark=entry,
            settings=settings_of(entry),
            tables=tables[name],
            metrics=METRICS,
        )


def _models(site: SiteInput, pages: Pages) -> None:
    middles = spread(site.measured)
    names = published.claims_by_name(site.reported.values())
    past = past_by_model(site.releases)
    by_model: dict[str, list[Badge]] = {}
    for badge in site_badges(site):
        by_model.setdefault(badge.path.split("/")[1], []).append(badge)
    all_standings: list[ModelStandings] = []
    for model in site.catalog.models.values():
        found = model_standings(
            model,
            catalog=site.catalog,
            benchmarks=site.benchmarks,
            measured=site.measured,
            boards=site.boards.values(),
            middles=middles,
            flags=site.measured.flags.get(model.id, ()),
        )
        all_standings.append(found)
        claims = published.claims(model, names)
        pages.add(
            f"m/{model.id}.html",
            "model.html.j2",
            found=found,
            model=model,
            claims=claims,
            meanings=MEANINGS,
            past=past.get(model.id, ()),
            badges=by_model.get(model.id, ()),
        )
    pages.add(
        "m/index.html",
        "models.html.j2",
        measured=[found for found in all_standings if found.results],
        waiting=[found for found in all_standings if not found.results],
    )


def _reported(site: SiteInput, pages: Pages, boards: Mapping[str, ShownBoard]) -> None:
    pages.add("reported/index.html", "reported.html.j2")
    for name, item in site.reported.items():
        where = [
            shown.board.entry
            for shown in boards.values()
            if any(view.source == name for view in shown.board.entry.reported)
        ]
        tables = published.tables(item)
        figures = [
            found for number, table in enumerate(tables) for found in reported_plots(table, f"p{number}")
        ]
        pages.add(
            f"reported/{name}.html",
            "source.html.j2",
            item=item,
            tables=tables,
            boards=where,
            plots=figures,
        )


def _downloads(site: SiteInput, pages: Pages) -> None:
    found = downloads.records(site.catalog, site.measured, site.boards)
    pages.found["data/leaderboard.csv"] = downloads.leaderboard_csv(found)
    pages.found["data/leaderboard.json"] = downloads.leaderboard_json(found, site.boards)
    for name, board in site.boards.items():
        pages.found[f"data/boards/{name}.js"] = downloads.board_script(board)
    for name, item in site.reported.items():
        pages.found[f"data/reported/{name}.csv"] = canonical(item.scores).decode("utf-8")
    pages.found["data/schema.json"] = jsons.canonical(schema()).decode("ascii")
    pages.add("data/index.html", "data.html.j2", columns=downloads.COLUMNS, records=len(found))
