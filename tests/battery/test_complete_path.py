"""The whole path on a local Hub: register, lock, run, build a set, publish, pull, verify; then each fault."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.battery.local_hub import CANARY, A, Asker, B, LocalHub
from tests.battery.workspace import CLOSED, MODEL, OUT, SET, TABLE, digits_table, furnish

REFERENCE = "moved-digits@1.0.0"


@dataclass
class Journey:
    """One workspace after the whole path, and what each step said."""

    root: Path
    hub: LocalHub
    asker: Asker
    said: dict[str, tuple[int, str, str]]

    def run(self, *words: str, root: Path | None = None) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a command."""
        code, out, told = self.asker.value("command", ["--workspace", str(root or self.root), *words])
        assert "Traceback" not in told, told
        assert CANARY not in out + told
        return code, out, told

    def measure(self, *more: str, root: Path | None = None) -> tuple[int, str]:
        """Run the Hub's model on both of the Hub's sets."""
        words = ("run", "-m", "hub-net", "-b", "clean-v1", "-d", "hub-set", "-d", "closed-set", "--quiet")
        code, _, told = self.run(*words, *more, root=root)
        return code, told

    def results(self, root: Path | None = None) -> dict[str, Any]:
        folder = (root or self.root) / "leaderboard" / "results" / "hub-net"
        return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}

    def elsewhere(self, folder: Path) -> Path:
        """The same entries and lock on another machine, with an empty cache."""
        self.asker.value("cache", str(folder / "cache"))
        shutil.copytree(self.root, folder / "place", ignore=shutil.ignore_patterns("runs", "results"))
        return folder / "place"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """Every step, once."""
    folder = tmp_path_factory.mktemp("path")
    hub = LocalHub(folder / "hub")
    (hub.root / "writable").touch()
    asker = Asker(hub, folder / "home")
    asker.value("patient", 1.5, 16_384)
    found = Journey(folder / "place", hub, asker, {})
    furnish(found.root, hub, asker)
    (hub.root / "datasets" / CLOSED / "gated").touch()
    steps = {
        "check": ("check",),
        "lock": ("lock", "model/hub-net", "dataset/hub-set", "dataset/closed-set"),
        "run": ("run", "-m", "hub-net", "-b", "clean-v1", "-d", "hub-set", "-d", "closed-set", "--quiet"),
        "build": ("testset", "build", REFERENCE, "--quiet"),
        "publish": ("testset", "publish", REFERENCE, "--repo", OUT, "--yes"),
    }
    for name, words in steps.items():
        found.said[name] = found.run(*words)
    yield found
    asker.stop()
    hub.stop()


@pytest.fixture(autouse=True)
def sound(path: Journey) -> Iterator[None]:
    """No fault is left over for the next test."""
    kept = {
        name: (path.hub.root / name / "main").read_text() for name in (f"models/{MODEL}", f"datasets/{SET}")
    }
    yield
    path.hub.script()
    for name, commit in kept.items():
        (path.hub.root / name / "main").write_text(commit)


def test_entries_are_locked_to_commits_and_hashes(path: Journey) -> None:
    """One line an entry; the gated set as well, whose hashes are no secret."""
    assert path.said["check"][0] == 0, path.said["check"]
    assert path.said["lock"][0] == 0, path.said["lock"]
    assert f"HF_ENDPOINT is set: the Hub is {path.hub.address}" in path.said["lock"][2]
    lines = (path.root / "registry" / "lock.yaml").read_text().splitlines()
    for name in ("model/hub-net", "dataset/hub-set", "dataset/closed-set"):
        (line,) = [line for line in lines if line.startswith(f"{name}: ")]
        assert f"commit: {A}" in line
        assert "sha256" in line


def test_the_open_set_is_measured_and_the_closed_one_withheld(path: Journey) -> None:
    """One clear line, exit code 0, and a board that says withheld; the result names the Hub it came from."""
    code, _, told = path.said["run"]
    assert code == 0, told
    assert "1 ok, 0 skipped (already done), 0 failed, 1 withheld (terms were not accepted)" in told
    assert f"withheld hub-net/clean-v1--closed-set: gated: dataset closed-set: {CLOSED} is gated" in told
    results = path.results()
    assert list(results) == ["clean-v1--hub-set"]
    facts = results["clean-v1--hub-set"]["facts"]
    assert facts["environment"]["hub"] == path.hub.address
    assert f"Hub dataset {SET} at {A}" in facts["preparation"]["source"]
    failure = json.loads((path.root / "runs/failed/hub-net/clean-v1--closed-set.json").read_bytes())
    assert failure["kind"] == "gated"


def test_the_board_says_withheld(path: Journey) -> None:
    code, out, _ = path.run("board", "digits", "--json")
    assert code == 0
    (row,) = json.loads(out)[0]["rows"]
    statuses = {cell["status"]: cell["reason"] for cell in row["cells"].values()}
    assert set(statuses) == {"ok", "withheld"}, statuses
    assert "accept its terms at" in statuses["withheld"]


def test_public_reads_carry_no_token(path: Journey) -> None:
    reads = [line for line in path.hub.requests() if line.startswith(("GET", "HEAD"))]
    with_token = [line for line in reads if line.endswith(" token")]
    assert reads
    assert [line for line in with_token if "/resolve/" in line and CLOSED not in line] == []


def test_the_set_goes_out_in_one_commit_with_a_tag_and_comes_back_whole(
    path: Journey, tmp_path: Path
) -> None:
    assert path.said["build"][0] == 0, path.said["build"]
    code, _, told = path.said["publish"]
    assert code == 0, told
    repository = path.hub.root / "datasets" / OUT
    commit = (repository / "main").read_text()
    assert (repository / "tags" / "v1.0.0").read_text() == commit
    there = path.elsewhere(tmp_path)
    code, _, told = path.run("testset", "pull", REFERENCE, "--repo", OUT, "--quiet", root=there)
    assert code == 0, told
    code, _, told = path.run("testset", "verify", REFERENCE, root=there)
    assert code == 0, told
    assert "0 damages" in told
    mine, pulled = (each / "runs/testsets/moved-digits/1.0.0" for each in (path.root, there))
    assert {p.name: p.read_bytes() for p in pulled.rglob("*") if p.is_file()} == {
        p.name: p.read_bytes() for p in mine.rglob("*") if p.is_file()
    }


def test_in_a_fresh_cache_the_numbers_are_the_same(path: Journey, tmp_path: Path) -> None:
    there = path.elsewhere(tmp_path)
    code, told = path.measure(root=there)
    assert code == 0, told
    first, again = path.results()["clean-v1--hub-set"], path.results(there)["clean-v1--hub-set"]
    assert (first["key_digest"], first["scores"]) == (again["key_digest"], again["scores"])


def test_a_moved_branch_changes_nothing(path: Journey, tmp_path: Path) -> None:
    path.hub.plant({TABLE: digits_table(1400)}, SET, "datasets", commit=B)
    there = path.elsewhere(tmp_path)
    assert path.measure(root=there)[0] == 0
    assert (
        path.results(there)["clean-v1--hub-set"]["key_digest"]
        == path.results()["clean-v1--hub-set"]["key_digest"]
    )


def test_other_bytes_at_the_same_commit_fail_that_cell_alone(path: Journey, tmp_path: Path) -> None:
    there = path.elsewhere(tmp_path)
    path.hub.script({"match": f"GET /datasets/{SET}/resolve/.*parquet", "do": "flip", "at": 0.5})
    code, told = path.measure("-d", "digits", root=there)
    assert code == 1
    assert "failed hub-net/clean-v1--hub-set: hash-mismatch: dataset hub-set: data/test" in told
    assert "1 ok" in told
    assert list(path.results(there)) == ["clean-v1--digits"]


def test_other_weights_at_the_same_commit_fail_the_model(path: Journey, tmp_path: Path) -> None:
    there = path.elsewhere(tmp_path)
    path.hub.script(
        {"match": f"(GET|HEAD) /{MODEL}/resolve/.*", "do": "body", "body": "<html>sign in</html>"}
    )
    code, told = path.measure(root=there)
    assert code == 1
    assert "hash-mismatch: model.safetensors of org/net: expected" in told
    assert "it looks like HTML, a web page saved in its place" in told
    assert path.results(there) == {}


def test_without_the_hub_cells_are_pending_and_go_on_later(path: Journey, tmp_path: Path) -> None:
    there = path.elsewhere(tmp_path)
    path.hub.script({"match": f".* /datasets/{SET}/resolve/.*", "do": "status", "status": 503})
    code, told = path.measure(root=there)
    assert code == 1
    assert "1 pending (the Hub was out of reach; run the same command again)" in told
    path.hub.script()
    code, told = path.measure(root=there)
    assert code == 0, told
    assert "1 ok" in told
    assert not (there / "runs/failed/hub-net/clean-v1--hub-set.json").exists()


def test_damage_in_the_cache_is_healed(path: Journey, tmp_path: Path) -> None:
    there = path.elsewhere(tmp_path)
    assert path.measure(root=there)[0] == 0
    for file in (tmp_path / "cache").rglob("blobs/*"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    shutil.rmtree(there / "leaderboard" / "results")
    shutil.rmtree(there / "runs")
    code, told = path.measure(root=there)
    assert code == 0, told
    assert path.results(there)["clean-v1--hub-set"]["scores"] == path.results()["clean-v1--hub-set"]["scores"]
    assert len(list((tmp_path / "cache" / "robustboard-quarantine").iterdir())) == 2


def test_a_moved_tag_is_refused(path: Journey, tmp_path: Path) -> None:
    """Whoever can write to the repository moves the tag to another content: the recipe's own hash decides."""
    repository = path.hub.root / "datasets" / OUT
    tag = repository / "tags" / "v1.0.0"
    good = tag.read_text()
    there = path.elsewhere(tmp_path)
    shutil.copytree(repository / good, repository / ("f" * 40))
    manifest = repository / ("f" * 40) / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"kept": 4', b'"kept": 3', 1))
    tag.write_text("f" * 40)
    try:
        code, _, told = path.run("testset", "pull", REFERENCE, "--repo", OUT, "--quiet", root=there)
    finally:
        tag.write_text(good)
        shutil.rmtree(repository / ("f" * 40))
    assert code in (1, 2)
    assert "manifest.json" in told
    assert not (there / "runs/testsets/moved-digits/1.0.0/manifest.json").exists()
