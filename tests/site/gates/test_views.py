"""Gates 4, 5, 6 and 12: without scripts, from disk, from a link, and as a file."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from robustboard.site.downloads import records
from robustboard.site.render import SiteInput
from tests.site.gates.conftest import Open, Opened

COLUMNS = ["Clean", "PGD 1/10", "PGD, all budgets", "Gaussian 1/10", "Drop"]
OLD_LINKS = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "old-links.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


def saved(found: Opened, name: str) -> str:
    """The text of an export."""
    found.page.locator("summary", has_text="Export").click()
    with found.page.expect_download() as download:
        found.page.locator(f"[data-save={name}]").click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_without_scripts_every_row_and_column_is_there_and_no_control(open_page: Open, board: Path) -> None:
    """Gate 4."""
    with open_page(board, scripts=False) as found:
        rows, heads, controls = found.page.evaluate(
            """() => {
              const seen = (each) => each.offsetParent !== null;
              const words = (row) => [...row.cells].filter(seen).map((cell) => cell.innerText.trim());
              const table = document.querySelector("table.board");
              return [
                [...table.tBodies[0].rows].filter(seen).map((row) => words(row).length),
                words(table.tHead.rows[table.tHead.rows.length - 1]),
                [...document.querySelectorAll(".js, button, input, select")].filter(seen).length,
              ];
            }"""
        )
    assert rows == [len(COLUMNS) + 3] * 25
    assert heads == ["Rank", "Model", *COLUMNS, "Status"]
    assert controls == 0


def test_without_scripts_the_pages_of_benchmarks_are_sorted_and_have_whiskers(
    open_page: Open, made_up: Path
) -> None:
    """Gate 4: the way to sort by a column without scripts."""
    with open_page(made_up / "b" / "clean-v1.html", scripts=False) as found:
        rows = found.page.locator("table.places tbody tr").all()
        words = [
            row.locator("td.n").first.inner_text() for row in rows if row.locator("svg.whiskers").count()
        ]
        values = [
            float(text.split()[0]) for text in words if "outdated" not in text and "partial" not in text
        ]
    assert len(values) == 22
    assert values == sorted(values, reverse=True)


def test_a_view_set_by_hand_opens_again_from_its_link(open_page: Open, board: Path) -> None:
    """Gates 5 and 6: rows, order, columns and the line of words, after every control was used."""
    with open_page(board) as found:
        page = found.page
        page.get_by_role("button", name="Gaussian 1/10").click()
        page.locator("input[type=search]").fill("net")
        page.locator("summary", has_text="Choose columns").click()
        page.get_by_label("PGD, all budgets").check()
        page.locator(".panel").get_by_label("Clean", exact=True).uncheck()
        page.locator("summary", has_text="Filter").click()
        page.locator("[data-key=arch]").select_option("resnet")
        page.locator("[data-key=max]").select_option("10")
        page.get_by_label("Complete rows only").check()
        page.locator("summary", has_text="Show").click()
        page.get_by_label("Intervals").uncheck()
        page.keyboard.press("Escape")
        page.get_by_label("Pin Net net-08").check()
        link, view = page.url, found.view()
        assert found.complaints == []
    fragment = link.partition("#")[2]
    assert fragment == (
        "sort=-noise&q=net&show=pgd-area&hide=clean&arch=resnet&max=10&full=1&ci=0&pin=net-08"
    )
    assert view["heads"] == [
        "Pin",
        "Rank",
        "Model",
        "PGD 1/10",
        "PGD, all budgets",
        "Gaussian 1/10",
        "Status",
    ]
    assert view["rows"][0][2] == "Net net-08"
    assert "±" not in "".join(view["rows"][0])
    with open_page(board, f"#{fragment}") as again:
        assert again.view() == view
        assert again.page.locator("[data-key=arch]").input_value() == "resnet"
        again.page.get_by_role("button", name="Reset").click()
        assert len(again.ids()) == 25
        assert "#" not in again.page.url


def test_old_links_still_open(open_page: Open, board: Path) -> None:
    """Gate 6: unknown ids are passed over, known ones keep their meaning."""
    with open_page(board) as found:
        for fragment, status, first in OLD_LINKS:
            found.page.goto("about:blank")
            found.page.goto(f"{board.as_uri()}{fragment}")
            assert (found.status(), ",".join(found.ids()[:3])) == (status, first), fragment
        assert found.complaints == []


def test_a_changed_address_changes_the_view(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        found.page.evaluate("location.hash = '#q=long'")
        found.page.wait_for_function(
            "document.querySelector('[role=status]').textContent.includes('1 of 25')"
        )
        assert found.ids() == ["long"]


@pytest.mark.parametrize("direction", ["-", ""], ids=["best first", "worst first"])
def test_cells_without_a_number_stay_last_both_ways(open_page: Open, board: Path, direction: str) -> None:
    """B068: by unrounded value; ties in the order of ranks."""
    with open_page(board, f"#sort={direction}noise") as found:
        ids = found.ids()
    assert set(ids[-2:]) == {"long", "net-23"}
    values = [int(name[4:]) for name in ids[:-2]]
    expected = sorted(
        values, key=lambda n: -(120 + (37 * n) % 400 if n != 20 else 40) / (600 if n != 20 else 100)
    )
    assert values == (expected if direction else expected[::-1])


def test_a_pinned_row_stays_on_top_whatever_the_filter(open_page: Open, board: Path) -> None:
    with open_page(board, "#q=net-1&pin=net-05,net-03") as found:
        assert set(found.ids()[:2]) == {"net-03", "net-05"}
        assert len(found.ids()) == 12
        compare = found.page.get_by_role("link", name="Compare pinned")
        assert (compare.get_attribute("href") or "").endswith("compare.html#m=net-05,net-03")


def test_filtering_never_changes_a_rank(open_page: Open, board: Path) -> None:
    with open_page(board) as found:
        before = {row[2]: row[1] for row in found.table()}
        found.page.locator("input[type=search]").fill("net-1")
        after = {row[2]: row[1] for row in found.table()}
    assert len(after) == 10
    assert after.items() <= before.items()


def test_the_csv_of_a_view_holds_the_numbers_of_the_full_csv(
    open_page: Open, board: Path, shown: SiteInput
) -> None:
    """Gate 12, from disk: every digit, the columns and rows on screen, in their order."""
    with open_page(board, "#view=all&sort=-clean&q=net-0") as found:
        rows = list(csv.DictReader(io.StringIO(saved(found, "csv"))))
        ids = found.ids()
    assert [row["model"] for row in rows] == ids
    full: dict[tuple[str, str], dict[str, Any]] = {
        (each["model"], f"{each['benchmark']} {each['metric']}@{each['condition']}"): each
        for each in records(shown.catalog, shown.measured, shown.boards)
    }
    places = {
        "clean": "clean-v1 clean_accuracy@clean",
        "pgd": "pgd-v1 robust_accuracy@linf 1/10",
        "noise": "noise-v1 noise_accuracy@gaussian 1/10",
    }
    for row in rows:
        for column, place in places.items():
            expected = full[row["model"], place]
            for name, field in (("", "value"), ("_low", "low"), ("_high", "high")):
                assert float(row[f"{column}{name}"]) == expected[field]
            assert row[f"{column}_status"] == expected["status"]
        assert {"pgd-area", "drop"} <= set(row)


def test_markdown_and_latex_are_tables_of_what_is_on_screen(open_page: Open, board: Path) -> None:
    """Gate 12, as far as it goes without TeX: booktabs rules, equal rows, what is special escaped."""
    with open_page(board, "#q=net-0") as found:
        view = found.view()
        markdown = saved(found, "md").splitlines()
        found.page.keyboard.press("Escape")
        latex = saved(found, "tex")
    assert len(markdown) == 2 + len(view["rows"])
    assert {line.count(" | ") for line in markdown} == {len(view["heads"]) - 2}
    assert "Net net-08" in markdown[2] or "Net net-0" in markdown[2]
    for rule in ("\\toprule", "\\midrule", "\\bottomrule"):
        assert latex.count(rule) == 1
    body = latex[latex.index("\\midrule") : latex.index("\\bottomrule")].splitlines()[1:]
    assert len(body) == len(view["rows"])
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", latex)
    assert columns is not None
    assert {len(re.split(r"(?<!\\)&", line)) for line in body} == {len(columns.group(1))}
    assert all(line.endswith(" \\\\") for line in body)
    assert not re.search(r"(?<!\\)[%#_]", latex[latex.index("\\begin{table}") :])


def test_tables_of_reported_numbers_sort_and_can_be_searched(open_page: Open, real: Path) -> None:
    with open_page(real / "reported" / "imagenet-testbed.html", "#q=resnet50") as found:
        assert found.status().startswith("Showing ")
        head = found.page.locator("button.sort", has_text="val").first
        head.click()
        assert "sort=-" in found.page.url
        assert found.page.locator("[aria-sort]").count() == 1
        assert found.complaints == []


def test_a_board_without_a_measured_model_shows_what_others_report(open_page: Open, real: Path) -> None:
    with open_page(real / "board" / "cifar10.html", scripts=False) as found:
        figures = found.page.locator("figure.xy figcaption").all_inner_texts()
        assert all(found.page.locator("figure.xy svg").nth(n).is_visible() for n in range(len(figures)))
    assert "cifar10/Linf eps=8/255: autoattack accuracy over clean accuracy" in figures
    assert not [name for name in figures if name.startswith(("imagenet", "cifar100"))]
