from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard import workspace
from robustboard.errors import ContentError, RobustboardError, UserError
from robustboard.registry import reported
from robustboard.registry.scores import ReportedScore
from robustboard.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
REFERENCE = REPOSITORY.parent / "shared" / "reference"
SOURCE = """\
name: A paper
summary: Some numbers.
paper: https://arxiv.org/abs/2010.09670
license: unknown
imported_from: paper.csv
arrange: tables
"""
HEADER = "source,arxiv,table,model,dataset,metric,value,unit"


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    folder = tmp_path / "registry" / "reported"
    folder.mkdir(parents=True)
    (tmp_path / "registry" / "lock.yaml").write_text("{}\n")
    (folder / "paper.yaml").write_text(SOURCE)
    return Workspace(tmp_path, tmp_path)


def row(value: str, unit: str = "percent", model: str = "net", metric: str = "top1_accuracy") -> str:
    return f"A paper,2010.09670,Table 1,{model},cifar10,{metric},{value},{unit}"


def import_rows(space: Workspace, tmp_path: Path, *rows: str) -> tuple[ReportedScore, ...]:
    folder = tmp_path / "given"
    folder.mkdir(exist_ok=True)
    (folder / "paper.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    reported.import_folder(space, folder, lambda _: None)
    return reported.load_reported(space)["paper"].scores


def test_declared_units_make_fraction_percent_and_percent_sign_equal(
    space: Workspace, tmp_path: Path
) -> None:
    """B069: 0.886 fraction, 88.6 percent and "88.6%" are one number."""
    scores = import_rows(
        space,
        tmp_path,
        row("0.886", "fraction", "first"),
        row("88.6", "percent", "second"),
        row("88.6%", "percent", "third"),
    )
    assert {reported.share(score) for score in scores} == {0.886}


@pytest.mark.parametrize(("unit", "share"), [("percent", 0.01), ("fraction", 1.0)])
def test_one_is_read_by_its_declared_unit(space: Workspace, tmp_path: Path, unit: str, share: float) -> None:
    """B069: 1 is one per cent or everything, as the row says."""
    (score,) = import_rows(space, tmp_path, row("1", unit))
    assert reported.share(score) == share


@pytest.mark.parametrize(
    ("value", "unit", "field", "message"),
    [
        ("100.5", "percent", "value", "expected 0 to 100 for unit percent, got '100.5'"),
        ("-0.1", "percent", "value", "expected 0 to 100 for unit percent, got '-0.1'"),
        ("-0.1", "fraction", "value", "expected 0 to 1 for unit fraction, got '-0.1'"),
        ("88.6", "fraction", "value", "expected 0 to 1 for unit fraction, got '88.6'"),
        ("88.6%", "fraction", "value", "expected % only where unit is percent, got '88.6%'"),
        ("88.6", "", "unit", "got nothing"),
        ("0.886", "share", "unit", "got 'share'"),
        ("88.6", "percents", "unit", "(did you mean percent, percentage_points?)"),
        ("nan", "percent", "value", "expected a plain decimal number, got 'nan'"),
        ("1e2", "percent", "value", "expected a plain decimal number, got '1e2'"),
        ("88,6", "percent", "", "expected 8 cells, got 9"),
        ("", "percent", "value", "expected a plain decimal number, got ''"),
        ("=1+1", "percent", "value", "expected a plain decimal number, got '=1+1'"),
        ("-3", "count", "value", "expected at least 0 for unit count, got '-3'"),
    ],
)
def test_values_out_of_range_or_without_unit_are_refused_with_file_line_and_field(
    space: Workspace, value: str, unit: str, field: str, message: str
) -> None:
    """B069: a value above 1 without unit, 100.5 and -0.1 are refused with file and field."""
    with pytest.raises(ContentError) as caught:
        import_rows(space, space.content, row("50"), row(value, unit, "other"))
    problem = caught.value.problems[0]
    assert (problem.file, problem.line, problem.field) == ("paper.csv", 3, field)
    assert message in str(problem)
    assert not (space.registry / "reported" / "paper.csv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row("50"), "paper.csv:3: expected each number once, got it again (first on line 2)"),
        (row("50", model="=HYPERLINK()"), "paper.csv:3: model: expected text of 1 to 300 characters"),
        (row("50", model=" padded"), "paper.csv:3: model: "),
        (row("50", model="x" * 301), "paper.csv:3: model: "),
        (row("50", model="right\u202eleft"), "paper.csv:3: expected printable text, got U+202E"),
        (row("50", metric="two words"), "paper.csv:3: metric: expected one word, got 'two words'"),
        ('"open', "paper.csv:3: expected comma-separated values"),
        ('"a\nb"' + row("50")[7:], "paper.csv:4: "),
        (row("50", model="other").replace("A paper", "B"), "paper.csv:3: source: expected 'A paper'"),
        (row("50", model="other").replace("2010", "1999"), "paper.csv:3: arxiv: expected the source's paper"),
    ],
)
def test_a_faulty_row_is_named(space: Workspace, tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ContentError) as caught:
        import_rows(space, tmp_path, row("50"), line)
    assert message in str(caught.value)


def test_all_faults_of_all_rows_come_at_once(space: Workspace, tmp_path: Path) -> None:
    with pytest.raises(ContentError) as caught:
        import_rows(space, tmp_path, row("200"), row("x", model="other"), row("5", "feet", "third"))
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4]


def test_wrong_columns_are_refused(space: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "paper.csv").write_text("model,value\nnet,5\n")
    with pytest.raises(ContentError, match="expected the columns source,arxiv,table"):
        reported.import_folder(space, folder, lambda _: None)
    (folder / "paper.csv").write_text("")
    with pytest.raises(ContentError, match="got an empty file"):
        reported.import_folder(space, folder, lambda _: None)
    (folder / "paper.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ContentError, match="expected UTF-8, got byte 0xff"):
        reported.import_folder(space, folder, lambda _: None)


def test_missing_folder_and_missing_table_are_named(space: Workspace, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a folder of CSV files"):
        reported.import_folder(space, tmp_path / "absent", lambda _: None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ContentError, match=r"paper\.yaml:1: imported_from: expected 'paper\.csv'"):
        reported.import_folder(space, tmp_path / "empty", lambda _: None)


def test_a_table_without_source_and_a_source_without_table_are_faults(space: Workspace) -> None:
    (space.registry / "reported" / "stray.csv").write_text("table\n")
    with pytest.raises(ContentError) as caught:
        reported.load_reported(space)
    assert [str(problem) for problem in caught.value.problems] == [
        "registry/reported/paper.csv:1: expected the table of paper.yaml, found none",
        "registry/reported/stray.csv:1: expected stray.yaml beside it, found none",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b,net,d,m,5,percent\na,net,d,m,5,percent\n", ":3: expected rows sorted"),
        ("a,net,d,m,5.0,percent\n", ":2: value: expected 5 (the shortest form), got '5.0'"),
        ("a,net,d,m,5%,percent\n", ":2: value: expected 5 (the shortest form), got '5%'"),
        ('"a",net,d,m,5,percent\n', ":1: expected minimal quotes and line feeds"),
        ("a,net,d,m,5,percent\r\n", ":1: expected minimal quotes and line feeds"),
        ("a,net,d,m,5,percent", ":1: expected minimal quotes and line feeds"),
        ("a,net,d,m,-0,percentage_points\n", ":2: value: expected 0 (the shortest form), got '-0'"),
    ],
)
def test_a_file_that_is_not_canonical_is_refused(text: str, message: str) -> None:
    with pytest.raises(ContentError) as caught:
        reported.read_scores(f"table,model,dataset,metric,value,unit\n{text}".encode(), "x.csv")
    assert message in str(caught.value)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b,c", 'd"e', "1 é"]),
            st.decimals(min_value=0, max_value=100, places=3, allow_nan=False),
        ),
        max_size=6,
        unique_by=lambda pair: pair[0],
    )
)
def test_canonical_bytes_read_back_to_the_same_numbers(pairs: list[tuple[str, object]]) -> None:
    scores = [
        ReportedScore(model=name, dataset="d", metric="m", value=float(str(value)), unit="percent", table="t")
        for name, value in pairs
    ]
    data = reported.canonical(scores)
    assert sorted(reported.read_scores(data, "x.csv"), key=reported.order) == sorted(
        scores, key=reported.order
    )


def test_row_order_of_the_import_does_not_matter(space: Workspace, tmp_path: Path) -> None:
    rows = [row(str(number), model=f"net{number}") for number in range(20)]
    import_rows(space, tmp_path, *rows)
    path = space.registry / "reported" / "paper.csv"
    first = path.read_bytes()
    random.Random(0).shuffle(rows)
    import_rows(space, tmp_path, *rows)
    assert path.read_bytes() == first


def test_the_command_writes_and_says_what(
    space: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "paper.csv").write_text(f"{HEADER}\n{row('50')}\n")
    (folder / "other.csv").write_text("a\n")
    arguments = [str(folder), "--workspace", str(space.content)]
    assert reported.main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "paper: 1 numbers of 1 models from paper.csv",
        "no source in registry/reported/ imports other.csv",
    ]
    (folder / "paper.csv").write_text(f"{HEADER}\n{row('500')}\n")
    assert reported.main(arguments) == 2
    assert "paper.csv:2: value: expected 0 to 100" in capsys.readouterr().err


def test_files_of_this_repository_are_sound_and_canonical() -> None:
    loaded = reported.load_reported(workspace.find(REPOSITORY))
    counts = {key: len(item.scores) for key, item in loaded.items()}
    assert counts["robustbench"] == 533
    assert counts["imagenet-testbed"] == 2965
    assert counts["timm-ood"] == 599
    assert counts["john-behmanush"] == 64
    assert counts["imagenet-rib"] == 69


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published tables lie in ../shared/reference")
def test_every_number_of_the_published_tables_is_here_unchanged() -> None:
    """Counted with another reader: floats, no ordering, no canonical text."""
    for item in reported.load_reported(workspace.find(REPOSITORY)).values():
        with (REFERENCE / item.source.imported_from).open(encoding="utf-8", newline="") as file:
            expected = {
                (r["table"], r["model"], r["dataset"], r["metric"], float(r["value"]), r["unit"])
                for r in csv.DictReader(file)
            }
        assert {(*reported.order(s), s.value, s.unit) for s in item.scores} == expected


def test_faults_are_user_errors() -> None:
    assert issubclass(ContentError, RobustboardError)
    assert ContentError.exit_code == 2
