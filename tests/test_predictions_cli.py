"""Predictions onto a Hub on loopback and back into a fresh store, byte for byte; then each fault."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from robustboard import jsons, predictions_cli
from robustboard.errors import CellError, StoreError, UserError
from robustboard.runners import published
from robustboard.runners.eval_results import read_items, yaml_bytes
from robustboard.runners.keys import Cell
from robustboard.runners.published import MANIFEST, PublishedManifest, compact, restore
from robustboard.runners.record import Result
from robustboard.runners.store import Store
from robustboard.runners.verifications import Standing, Tier
from robustboard.workspace import Workspace
from tests.leaderboard.forging import Ground, ground
from tests.leaderboard.made_up import World
from tests.runners.small import CLEAN, NOISE, PGD

ROOT = Path(__file__).resolve().parent.parent
OTHER = CLEAN._replace(model="other")


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """Three runs of one model and one of another."""
    return ground(tmp_path_factory.mktemp("ground"))


def results(field: Ground) -> dict[Any, Result]:
    return {
        cell: jsons.unseal(field.path(cell.name).read_bytes(), Result, cell.name)
        for cell in (CLEAN, NOISE, PGD, OTHER)
    }


@pytest.mark.long
def test_predictions_are_packed_by_protocol_and_unpacked_byte_for_byte(field: Ground, tmp_path: Path) -> None:
    store = Store(field.workspace.runs)
    found = compact(store, results(field), tmp_path / "out")
    files = {file.path for file in found.manifest.files}
    assert len([name for name in files if name.startswith("data/clean-v1--digits--")]) == 1
    assert len(files) == 1 + 3
    again = compact(store, results(field), tmp_path / "again")
    assert again.manifest == found.manifest
    fresh = Store(tmp_path / "fresh" / "runs")
    for run in found.manifest.runs:
        table = published._read(tmp_path / "out" / run.path, run.path)
        restore(fresh, run, table, run.path)
    for digest in (run.plan.key_digest for run in found.manifest.runs):
        for path in sorted(store.folder(digest).glob("*")):
            assert (fresh.folder(digest) / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.long
def test_the_files_open_as_a_dataset_of_rows_with_their_run(field: Ground, tmp_path: Path) -> None:
    """Read by pyarrow alone: two models side by side under one protocol."""
    found = compact(Store(field.workspace.runs), results(field), tmp_path)
    path = next(run.path for run in found.manifest.runs if run.plan.key.model == "other")
    table = pq.read_table(tmp_path / path)
    assert len(set(table.column("run").to_pylist())) == 2
    assert table.num_rows == 200
    card = (tmp_path / "README.md").read_text()
    assert f"data_files: {path}" in card


@pytest.mark.long
@pytest.mark.parametrize("spoil", ["label", "predicted", "rows", "run", "record"])
def test_rows_that_are_not_those_of_the_run_are_refused(spoil: str, field: Ground, tmp_path: Path) -> None:
    found = compact(Store(field.workspace.runs), results(field), tmp_path / "out")
    run = next(run for run in found.manifest.runs if run.plan.key.model == "other")
    table = published._read(tmp_path / "out" / run.path, run.path)
    if spoil in ("label", "predicted"):
        rows = table.to_pydict()
        place = rows["run"].index(run.plan.key_digest)
        rows[spoil][place] = (rows[spoil][place] + 1) % 10
        table = pa.table(rows, schema=table.schema)
    elif spoil == "rows":
        first = table.column("run")[0].as_py() == run.plan.key_digest
        table = table.slice(1) if first else table.slice(0, 199)
    elif spoil == "run":
        others = [each for each in found.manifest.runs if each.path == run.path and each != run]
        run = run.model_copy(update={"shards": others[0].shards})
    else:
        run = run.model_copy(update={"record_sha256": "0" * 64})
    with pytest.raises(StoreError, match=r"data/.*: (s00\d+\.parquet|rows|record_sha256|.*sha256)"):
        restore(Store(tmp_path / "fresh" / "runs"), run, table, run.path)


@pytest.mark.long
def test_a_packed_result_with_other_predictions_is_refused(field: Ground, tmp_path: Path) -> None:
    found = results(field)
    shards = found[OTHER].shards
    swapped = {CLEAN: found[CLEAN].model_copy(update={"shards": shards})}
    with pytest.raises(StoreError, match=r"clean-v1--digits\.json: shards: other predictions are stored"):
        compact(Store(field.workspace.runs), swapped, tmp_path)
    with pytest.raises(UserError, match="there is nothing to publish"):
        compact(Store(tmp_path / "nowhere"), found, tmp_path)


@dataclass
class Hub:
    """A Hub's folder, and a process in which commands run against it."""

    root: Path
    driver: subprocess.Popen[str]

    def run(self, workspace: Path, *words: str) -> tuple[int, str, str]:
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(["--workspace", str(workspace), *words]) + "\n")
        self.driver.stdin.flush()
        code, out, told = json.loads(self.driver.stdout.readline())
        assert "Traceback" not in told, told
        assert "hf_canary" not in out + told
        return code, out.strip(), told.strip()

    def writes(self) -> list[str]:
        log = self.root / "requests.log"
        lines = log.read_text().splitlines() if log.is_file() else []
        return [line for line in lines if line.split()[0] in ("POST", "PUT", "DELETE", "PATCH")]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/runners/sources/hub_server.py"), str(folder)], **pipes
    )
    assert server.stdout is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ROBUSTBOARD_"))}
    driver = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/runners/testsets/command_driver.py")],
        env={
            **kept,
            "PYTHONPATH": str(ROOT),
            "HF_ENDPOINT": server.stdout.readline().strip(),
            "HF_HOME": str(folder / "cache"),
            "HF_TOKEN": "hf_canaryCANARYcanary",
            "HF_HUB_DISABLE_XET": "1",
            "PYTHONWARNINGS": "ignore",
        },
        **pipes,
    )
    yield Hub(folder, driver)
    for process in (driver, server):
        process.communicate("")


def checkout(field: Ground, root: Path, *, runs: bool) -> Path:
    """A copy of the workspace as Git would have it, with or without stored runs; of the first model alone."""
    shutil.copytree(field.workspace.content, root, ignore=None if runs else shutil.ignore_patterns("runs"))
    shutil.copytree(field.workspace.content / "runners", root / "runners", dirs_exist_ok=True)
    shutil.rmtree(root / "leaderboard" / "results" / "other")
    shutil.rmtree(root / "leaderboard" / "verifications" / "other", ignore_errors=True)
    return root


@pytest.mark.long
def test_the_whole_path_of_predictions_through_a_hub(hub: Hub, field: Ground, tmp_path: Path) -> None:
    """Dry run, publish with tag, publish again, pull into a fresh place, count there, and each refusal."""
    here = checkout(field, tmp_path / "here", runs=True)
    there = checkout(field, tmp_path / "there", runs=False)
    words = ("predictions", "publish", "--repo", "org/answers", "--tag", "2026.1")

    code, out, told = hub.run(here, *words)
    assert (code, hub.writes()) == (0, [])
    assert "nothing was sent; add --yes to publish" in told
    assert "data/clean-v1--digits--" in out

    (hub.root / "writable").touch()
    assert "published at" in hub.run(here, *words, "--yes")[2]
    (tag,) = (hub.root / "datasets/org/answers/tags").iterdir()
    commit = tag.read_text()
    assert tag.name == "2026.1"
    assert "already published at" in hub.run(here, *words, "--yes")[2]
    assert tag.read_text() == commit

    code, _, told = hub.run(there, "recompute", "--dry")
    assert (code, "0 results, 0 integers" in told) == (0, True)
    assert "no predictions here of 3 others" in told
    assert "nothing to fetch" in hub.run(there, "predictions", "pull")[2]
    noted = here / "leaderboard/predictions/org-answers-2026.1.yaml"
    (there / "leaderboard/predictions").mkdir()
    shutil.copyfile(noted, there / "leaderboard/predictions" / noted.name)
    code, _, told = hub.run(there, "predictions", "pull")
    assert (code, f"3 runs of org/answers at {commit}, 3 of them new" in told) == (0, True), told
    assert "0 of them new" in hub.run(there, "predictions", "pull", "org/answers")[2]
    code, _, told = hub.run(there, "recompute")
    assert (code, "3 results, " in told, "0 differ" in told) == (0, True, True), told
    noted = json.loads((there / "leaderboard/verifications/tiny/clean-v1--digits.json").read_text())
    assert {each["how"] for each in noted["checks"]} == {"run", "recomputation"}
    assert not list((there / "runs").glob("[0-9a-f][0-9a-f]"))

    data = next((hub.root / "datasets/org/answers" / commit / "data").glob("clean-v1--*.parquet"))
    data.write_bytes(data.read_bytes()[:-9] + b"forged!!!")
    shutil.rmtree(there / "runs")
    shutil.rmtree(hub.root / "cache")
    code, _, told = hub.run(there, "predictions", "pull", "org/answers")
    assert (code, "\n" in told) == (2, False)
    assert "SHA-256" in told

    (hub.root / "writable").unlink()
    code, _, told = hub.run(here, *words[:-1], "2026.2", "--yes")
    assert (code, told.splitlines()[-1]) == (2, "org/answers: the token may not write to it")


@pytest.mark.long
def test_a_changed_content_never_moves_a_tag(hub: Hub, field: Ground, tmp_path: Path) -> None:
    here = checkout(field, tmp_path / "here", runs=True)
    (hub.root / "writable").touch()
    words = ("predictions", "publish", "--repo", "org/moving", "--tag", "v1", "--yes")
    assert hub.run(here, *words)[0] == 0
    (here / "leaderboard/results/tiny/pgd-v1--digits.json").unlink()
    code, _, told = hub.run(here, *words)
    assert code == 2
    assert "v1 names another content" in told.splitlines()[-1]


def test_an_exported_result_file_is_read_back_by_the_hubs_own_client() -> None:
    """The format against huggingface_hub's parser and PyYAML, both ways."""
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml, parse_eval_result_entries

    item: dict[str, Any] = {
        "dataset": {"id": "uoft-cs/cifar10", "task_id": "clean-v1", "revision": "0" * 40},
        "value": 0.9312,
        "date": "2026-01-31T00:00:00Z",
        "source": {"url": "https://example.org/m/net.html", "name": "robustboard"},
        "notes": 'clean_accuracy@clean, n = 10000: share, "quoted"',
    }
    data = yaml_bytes([item])
    (entry,) = parse_eval_result_entries(yaml.safe_load(data))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("uoft-cs/cifar10", "clean-v1", 0.9312)
    assert (entry.source_url, entry.notes) == (item["source"]["url"], item["notes"])
    own = EvalResultEntry(dataset_id="a/b", task_id="t", value=20.9, notes="x")
    theirs = eval_result_entries_to_yaml([own])
    (mine,) = read_items(yaml.dump(theirs).encode(), "x.yaml")
    assert (mine["dataset"], mine["value"], mine["notes"]) == ({"id": "a/b", "task_id": "t"}, "20.9", "x")


def test_a_manifest_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST
    path.write_bytes(b"{}\n")
    with pytest.raises(StoreError, match="expected the hash of the content"):
        jsons.unseal(path.read_bytes(), PublishedManifest, MANIFEST)


def test_a_repository_that_is_gone_keeps_no_other_from_being_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One contributor who deletes a dataset must not stop the robot that looks at everybody's."""
    for name in ("a-gone", "b-damaged", "c-there"):
        path = tmp_path / "leaderboard" / "predictions" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"repo: org/{name}\nrevision: {'0' * 40}\nby: A tester\nadded: 2026-02-03\n")
    faults = {"org/a-gone": CellError("missing", "no such dataset"), "org/b-damaged": StoreError("bad rows")}

    def pull(_workspace: Workspace, repo: str, *, commit: str) -> published.Pulled:
        if repo in faults:
            raise faults[repo]
        return published.Pulled(commit, 3, 2)

    monkeypatch.setattr(published, "pull", pull)
    context = SimpleNamespace(content=lambda: SimpleNamespace(workspace=Workspace(tmp_path, tmp_path)))
    app = typer.Typer()
    app.command()(predictions_cli.pull)
    done = CliRunner().invoke(app, [], obj=context)
    assert "3 runs of org/c-there" in done.output
    assert "org/a-gone: no such dataset" in done.output
    assert isinstance(done.exception, UserError)
    assert str(done.exception) == "org/b-damaged: bad rows"


@pytest.mark.parametrize("tier", ["reported", "smoke", "verified", "invalid"])
def test_only_what_may_rank_is_written_for_a_model_s_repository(
    tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, cell = World(), Cell("net", "clean-v1", "photos")
    source = {"kind": "hub", "repo": "org/net", "revision": "0" * 40}
    world.add_model("net", source=source)
    data = {"split": "test", "image_column": "image", "label_column": "label"}
    world.add_dataset("photos", size=600, source={**source, "repo": "org/photos", **data})
    measured = {cell: world.result("net", dataset="photos", correct=540)}
    standing = Standing("verified", (), "wrong crop") if tier == "invalid" else Standing(cast("Tier", tier))
    monkeypatch.setattr("robustboard.leaderboard.results.workspace_results", lambda _: measured)
    monkeypatch.setattr("robustboard.leaderboard.trust.standings", lambda *_: {cell: standing})
    place = Workspace(tmp_path, tmp_path)
    content = SimpleNamespace(workspace=place, catalog=world.catalog, benchmarks=world.benchmarks)
    app = typer.Typer()
    app.command()(predictions_cli.export)
    done = CliRunner().invoke(
        app, ["net", "--to", str(tmp_path)], obj=SimpleNamespace(content=lambda: content)
    )
    path = tmp_path / ".eval_results" / "clean-v1--photos.yaml"
    assert (path.exists(), isinstance(done.exception, UserError)) == (
        (tier == "verified"),
        (tier != "verified"),
    )
