"""What an adaptive attack needs before it can be noted, on the entries and results of this repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from robustboard import commands, trust_cli
from robustboard.errors import ContentError, StoreError, UserError
from robustboard.leaderboard.results import workspace_results
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
SET = "external-digits-pgd-v1"


@pytest.fixture(scope="module")
def content() -> commands.Content:
    return commands.load(Workspace(ROOT, ROOT))


@pytest.fixture(scope="module")
def results(content: commands.Content) -> Mapping[Cell, Result]:
    return workspace_results(content.workspace)


def test_an_external_set_for_the_model_at_the_same_budget_is_taken_by_its_run(
    content: commands.Content, results: Mapping[Cell, Result]
) -> None:
    cell = Cell("digits-resnet", "pgd-v1", "digits")
    found = trust_cli._adaptive(content, cell, results[cell], SET)
    assert found == results[cell._replace(benchmark=SET)].key_digest


@pytest.mark.parametrize(
    ("cell", "benchmark", "said"),
    [
        (
            Cell("digits-resnet", "clean-v1", "digits"),
            SET,
            "is about robust_accuracy@linf 1/10, the result about",
        ),
        (Cell("digits-densenet", "pgd-v1", "digits"), SET, "is no external set that names digits-densenet"),
        (Cell("digits-resnet", "pgd-v1", "digits"), "autoattack-v1", "autoattack-v1 is no external set"),
        (Cell("digits-resnet", "pgd-v1", "digits"), "external-digits-pgd-v2", "unknown benchmark"),
    ],
)
def test_anything_else_is_refused(
    cell: Cell, benchmark: str, said: str, content: commands.Content, results: Mapping[Cell, Result]
) -> None:
    with pytest.raises(UserError) as error:
        trust_cli._adaptive(content, cell, results[cell], benchmark)
    assert said in str(error.value)


def test_an_attack_that_nobody_has_checked_lends_no_tier(
    content: commands.Content, results: Mapping[Cell, Result], tmp_path: Path
) -> None:
    cell, name = Cell("digits-resnet", "pgd-v1", "digits"), f"digits-resnet/{SET}--digits.json"
    place = tmp_path / "leaderboard" / "results" / name
    place.parent.mkdir(parents=True)
    place.write_bytes((ROOT / "leaderboard" / "results" / name).read_bytes())
    submitted = replace(content, workspace=Workspace(tmp_path, tmp_path))
    with pytest.raises(UserError, match=f"{SET} on digits-resnet is unchecked or invalidated: run it"):
        trust_cli._adaptive(submitted, cell, results[cell], SET)


@pytest.mark.parametrize(
    ("reason", "link", "said"),
    [
        ("", None, "reason: expected text of 1 to 4096"),
        ("wrong crop", "javascript:x", "link: expected an https"),
    ],
)
def test_an_invalidation_that_no_entry_may_hold_leaves_no_file(
    reason: str, link: str | None, said: str, tmp_path: Path, content: commands.Content
) -> None:
    name = "digits-resnet/clean-v1--digits.json"
    place = tmp_path / "leaderboard" / "results" / name
    place.parent.mkdir(parents=True)
    place.write_bytes((ROOT / "leaderboard" / "results" / name).read_bytes())
    submitted = replace(content, workspace=Workspace(tmp_path, tmp_path))
    context = SimpleNamespace(obj=SimpleNamespace(content=lambda: submitted))
    with pytest.raises(ContentError, match=said):
        trust_cli.invalidate(context, "digits-resnet/clean-v1/digits", reason=reason, link=link)  # type: ignore[arg-type]  # a context with what is read
    assert list((tmp_path / "leaderboard").rglob("*.yaml")) == []


class Shelf:
    """A store with one run, whatever the key."""

    def __init__(self, shards: object) -> None:
        self.run = SimpleNamespace(record=SimpleNamespace(shards=shards))

    def read(self, _: str) -> SimpleNamespace:
        return self.run

    def folder(self, key: str) -> Path:
        return Path("published") / key

    def name(self, path: Path) -> str:
        return str(path)


def test_other_predictions_under_the_same_key_hide_no_run_and_stop_no_other(
    content: commands.Content, results: Mapping[Cell, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository of predictions may be a stranger's: it cannot occupy the key of somebody else's run."""
    result = results[Cell("digits-resnet", "pgd-v1", "digits")]
    foreign, own = Shelf(()), Shelf(result.shards)
    monkeypatch.setattr("robustboard.runners.published.stores", lambda _: [foreign, own])
    found: object = trust_cli._stored(content, result)
    assert found == (own, own.run)
    monkeypatch.setattr("robustboard.runners.published.stores", lambda _: [foreign])
    with pytest.raises(StoreError, match="shards: other predictions than the result's"):
        trust_cli._stored(content, result)
