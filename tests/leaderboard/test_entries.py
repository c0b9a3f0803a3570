from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robustboard import workspace
from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.benchmarks.entries import Scope
from robustboard.errors import ContentError, WorkspaceError
from robustboard.leaderboard.entries import BoardEntry, CleanSide, load_boards
from robustboard.leaderboard.fits import load_fits
from robustboard.registry.catalog import load_catalog
from robustboard.registry.reported import load_reported
from robustboard.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
BOARD = """\
name: Squares
summary: Squares in two classes.
label_space: shapes
datasets: [squares]
columns:
  - id: clean
    title: Clean
    benchmark: clean-v1
    dataset: squares
  - id: pgd
    title: PGD
    group: Attack
    benchmark: pgd-v1
    dataset: squares
    score: robust_accuracy@linf 1/5
order: pgd
"""


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    (tmp_path / "leaderboard" / "boards").mkdir(parents=True)
    return Workspace(tmp_path, tmp_path)


def load(space: Workspace, world: Any, text: str) -> BoardEntry:
    (space.boards / "squares.yaml").write_text(text, encoding="utf-8")
    return load_boards(space, world.catalog, world.benchmarks, {})["squares"]


def test_a_board_reads_back(space: Workspace, world: Any) -> None:
    board = load(space, world, BOARD)
    assert (board.id, board.order_column.title) == ("squares", "PGD")
    assert [column.score for column in board.columns] == [None, "robust_accuracy@linf 1/5"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "label_space: shapes",
            "label_space: shape",
            ":3: label_space: expected a known label space, got 'shape'",
        ),
        (
            "datasets: [squares]",
            "datasets: [squares, paints]",
            ":4: datasets.1: expected a dataset of label space",
        ),
        ("datasets: [squares]", "datasets: [squars]", "(did you mean squares?)"),
        (
            "datasets: [squares]",
            "datasets: [squares, squares]",
            ":4: datasets: expected each one once, got 'squares again'",
        ),
        (
            "    dataset: squares\n    score",
            "    dataset: paints\n    score",
            "columns.1.dataset: expected a dataset of the",
        ),
        ("benchmark: clean-v1", "benchmark: clean-v2", ":8: columns.0.benchmark: expected a known benchmark"),
        ("robust_accuracy@", "robust_acuracy@", "(did you mean robust_accuracy, "),
        (
            "order: pgd",
            "order: autoattack",
            ":16: order: expected the id of a column (clean, pgd), got 'autoattack'",
        ),
        ("id: pgd", "id: clean", ":5: columns: expected each one once, got 'clean again'"),
        (
            "id: pgd",
            "id: <b>",
            "columns.1.id: expected a column id of at most 40 characters a-z 0-9 -, got '<b>'",
        ),
        ("title: PGD", "titel: PGD", "(did you mean title?)"),
        (
            "order: pgd",
            "order: pgd\nreported:\n  - source: nowhere",
            "expected a known source in registry/reported",
        ),
    ],
)
def test_a_faulty_board_is_refused_with_file_line_and_field(
    space: Workspace, world: Any, old: str, new: str, message: str
) -> None:
    assert old in BOARD
    with pytest.raises(ContentError) as caught:
        load(space, world, BOARD.replace(old, new))
    text = str(caught.value)
    assert "leaderboard/boards/squares.yaml:" in text
    assert message in text


COLUMN = """\
  - id: drop
    title: Drop
    benchmark: clean-v1
    dataset: squares
    derive: drop
order: pgd"""
DERIVED = BOARD.replace("order: pgd", COLUMN)


def derived(space: Workspace, world: Any, *lines: str) -> BoardEntry:
    """The board with its last column derived as the lines say."""
    world.add_dataset("circles", size=10, matched_clean="squares")
    text = DERIVED.replace("    derive: drop\n", "".join(f"    {line}\n" for line in lines))
    return load(space, world, text.replace("[squares]", "[squares, circles]"))


def test_the_clean_side_is_the_matched_dataset_under_a_benchmark_that_covers_it(
    space: Workspace, world: Any
) -> None:
    """The column's own benchmark where it does, else clean-v1; both can be named."""
    world.benchmarks["circles-v1"] = world.benchmarks["clean-v1"].model_copy(
        update={
            "id": "circles-v1",
            "procedure": world.benchmarks["clean-v1"].procedure.model_copy(
                update={"settings": (Scope(datasets=("circles",)),)}
            ),
        }
    )
    board = derived(space, world, "derive: drop")
    squares, circles = (
        board.columns[-1].model_copy(update={"benchmark": benchmark, "dataset": dataset})
        for benchmark, dataset in (("pgd-v1", "squares"), ("circles-v1", "circles"))
    )
    named = circles.model_copy(update={"clean": CleanSide(benchmark="noise-v1", dataset="circles")})
    found = [column.clean_cell(world.catalog, world.benchmarks) for column in (squares, circles, named)]
    assert found == [("pgd-v1", "squares"), ("clean-v1", "squares"), ("noise-v1", "circles")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["derive: dropp"], "columns.2.derive: expected"),
        (["derive: effective-robustness"], "columns.2.fit: expected a fit, or own, got 'none'"),
        (
            ["derive: drop", "fit: own"],
            "columns.2.fit: expected none, unless derive is effective-robustness, got 'own'",
        ),
        (["fit: own"], "columns.2.fit: expected none, unless derive is effective-robustness"),
        (
            ["derive: relative-robustness", "clean: {dataset: squares}"],
            "columns.2.clean: expected none, unless derive is drop or effective-robustness",
        ),
        (
            ["derive: drop", "exclude: [net]"],
            "columns.2.exclude: expected none, unless fit is own, got 'net'",
        ),
        (
            ["derive: effective-robustness", "fit: own", "exclude: [nobody]"],
            "columns.2.exclude.0: expected a known model, got 'nobody'",
        ),
        (
            ["derive: drop", "clean: {dataset: square}"],
            "clean.dataset: expected a known dataset, got 'square'",
        ),
        (
            ["derive: drop", "clean: {dataset: paints}"],
            "columns.2.clean.dataset: expected a dataset of label space shapes, got paints (colours)",
        ),
        (
            ["derive: drop", "clean: {benchmark: clean-v2}"],
            "columns.2.clean.benchmark: expected a known benchmark",
        ),
        (
            ["derive: drop", "score: brier_score@clean"],
            "columns.2.score: expected a share to derive from, got brier_score@clean (ratio)",
        ),
        (["derive: effective-robustness", "fit: lines"], "columns.2.fit: expected a known fit, got 'lines'"),
    ],
)
def test_a_faulty_derived_column_is_refused_with_its_field(
    space: Workspace, world: Any, lines: list[str], message: str
) -> None:
    with pytest.raises(ContentError) as caught:
        derived(space, world, *lines)
    assert message in str(caught.value)


def test_a_published_fit_must_be_that_of_the_column(space: Workspace, world: Any) -> None:
    found = workspace.find(REPOSITORY)
    fits = load_fits(found, load_catalog(found), load_reported(found))
    world.add_dataset("circles", size=10, matched_clean="squares")
    text = DERIVED.replace("derive: drop", "derive: effective-robustness\n    fit: imagenet-v2")
    (space.boards / "squares.yaml").write_text(text, encoding="utf-8")
    message = (
        r"columns\.2\.fit: expected a fit of squares over squares, got imagenet-v2, one of imagenet-v2 over"
    )
    with pytest.raises(ContentError, match=message):
        load_boards(space, world.catalog, world.benchmarks, {}, fits)


def test_a_training_set_is_no_column(space: Workspace, world: Any) -> None:
    world.add_dataset("squares-train", size=10, role="train")
    text = BOARD.replace("datasets: [squares]", "datasets: [squares, squares-train]")
    with pytest.raises(ContentError, match="expected a test set, got squares-train"):
        load(space, world, text)


def test_a_benchmark_must_cover_the_dataset(space: Workspace, world: Any) -> None:
    text = BOARD.replace("label_space: shapes", "label_space: colours").replace("squares", "paints")
    with pytest.raises(ContentError, match="expected a benchmark with a setting for paints, got pgd-v1"):
        load(space, world, text)


def test_an_absent_folder_is_an_error(tmp_path: Path, world: Any) -> None:
    with pytest.raises(WorkspaceError, match="leaderboard/boards"):
        load_boards(Workspace(tmp_path, tmp_path), world.catalog, world.benchmarks, {})


def test_boards_of_this_repository_are_sound() -> None:
    space = workspace.find(REPOSITORY)
    catalog = load_catalog(space)
    boards = load_boards(space, catalog, load_benchmarks(space, catalog))
    assert {"digits", "fashion-mnist", "cifar10", "imagenet-1k"} <= set(boards)


def test_reported_datasets_are_checked_against_the_source(space: Workspace, world: Any) -> None:
    reported = load_reported(workspace.find(REPOSITORY))
    text = f"{BOARD}reported:\n  - source: robustbench\n    datasets: [cifar11]\n"
    (space.boards / "squares.yaml").write_text(text)
    with pytest.raises(
        ContentError, match=r"reported\.0\.datasets\.0: expected a known dataset of robustbench"
    ):
        load_boards(space, world.catalog, world.benchmarks, reported)


MEAN = """\
  - id: both
    title: Mean
    derive: mean
    of: [clean, pgd]
order: pgd
"""


def test_a_mean_takes_benchmark_and_dataset_of_its_first_part(space: Workspace, world: Any) -> None:
    board = load(space, world, BOARD.replace("order: pgd\n", MEAN))
    both = board.columns[2]
    assert (both.derive, both.of, both.benchmark, both.dataset) == (
        "mean",
        ("clean", "pgd"),
        "clean-v1",
        "squares",
    )


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("[one, nobody]", r":19: seeds.0.models.1: expected a known model, got 'nobody'"),
        ("[one, other]", r":19: seeds.0.models.1: expected a model of label space shapes, got other"),
        ("[one, wide]", r"expected the network and input of one, with another seed, got wide"),
        ("[one, one]", r"expected each model once, got one again"),
        ("[one]", r"models: "),
    ],
)
def test_seeds_are_models_of_one_recipe(space: Workspace, world: Any, models: str, message: str) -> None:
    world.add_model("one")
    world.add_model("two")
    world.add_model("other", label_space="colours")
    world.add_model("wide", architecture={"name": "wide_resnet50_2"})
    text = f"{BOARD}seeds:\n  - name: Net\n    models: [one, two]\n"
    assert load(space, world, text).seeds[0].models == ("one", "two")
    with pytest.raises(ContentError, match=message):
        load(space, world, text.replace("[one, two]", models))
