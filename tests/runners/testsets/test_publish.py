"""Publishing and pulling through the real client, against a Hub on loopback that takes uploads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustboard.registry.testsets import load_test_sets
from robustboard.runners.testsets.build import build
from robustboard.runners.testsets.manifest import MANIFEST, shard_path
from tests.runners.small import Place
from tests.runners.testsets.places import plant, recipe_text
from tests.runners.testsets.sets import Digits, blank, files, forge, material, part

ROOT = Path(__file__).resolve().parents[3]
SHARD = shard_path(0, 1)


class Line:
    """A Hub that takes uploads, and a process that runs commands against it; one for all tests."""

    def __init__(self, folder: Path) -> None:
        self.hub = folder / "hub"
        self.hub.mkdir()
        server = ROOT / "tests" / "runners" / "sources" / "hub_server.py"
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.server = subprocess.Popen([sys.executable, str(server), str(self.hub)], **pipes)
        assert self.server.stdout is not None
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        self.driver = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("command_driver.py"))],
            env={
                **kept,
                "PYTHONPATH": str(ROOT),
                "HF_ENDPOINT": self.server.stdout.readline().strip(),
                "HF_HOME": str(folder / "cache"),
                "HF_TOKEN": "hf_canaryCANARYcanary",
                "HF_HUB_DISABLE_XET": "1",
                "PYTHONWARNINGS": "ignore",
            },
            **pipes,
        )

    def stop(self) -> None:
        for process in (self.driver, self.server):
            process.communicate("")


@dataclass
class Board:
    """A workspace with a built set, and a repository of its own on the Hub."""

    root: Path
    hub: Path
    driver: subprocess.Popen[str]
    repo: str

    @property
    def set(self) -> Path:
        return self.root / "runs" / "testsets" / "moved-digits" / "1.0.0"

    @property
    def repository(self) -> Path:
        return self.hub / "datasets" / self.repo

    def run(self, *words: str, root: Path | None = None) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of `robustboard testset ...`."""
        asked = ["--workspace", str(root or self.root), "testset", *words]
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(asked) + "\n")
        self.driver.stdin.flush()
        code, out, told = json.loads(self.driver.stdout.readline())
        assert "hf_canary" not in out + told
        assert "Traceback" not in told, told
        return code, out, told

    def publish(self, *words: str, version: str = "1.0.0") -> tuple[int, str]:
        code, _, told = self.run("publish", f"moved-digits@{version}", "--repo", self.repo, *words)
        return code, told.strip().splitlines()[-1]

    def pull(self, root: Path, *words: str) -> tuple[int, str]:
        code, _, told = self.run(
            "pull", "moved-digits@1.0.0", "--repo", self.repo, "--quiet", *words, root=root
        )
        return code, told.strip().splitlines()[-1]

    def requests(self, *methods: str) -> list[str]:
        log = self.hub / "requests.log"
        lines = log.read_text().splitlines() if log.is_file() else []
        return [line for line in lines if not methods or line.split()[0] in methods]

    def commits(self) -> list[str]:
        return sorted(path.name for path in self.repository.glob("*") if len(path.name) == 40)

    def main(self) -> str:
        return (self.repository / "main").read_text()

    def tag(self, name: str = "v1.0.0") -> str:
        return (self.repository / "tags" / name).read_text()


def made(place: Place, version: str = "1.0.0", producer: Digits | None = None) -> Path:
    """A set with the registry's recipe, of the quick generator and oracle of sets.py."""

    class Named(Digits):
        @property
        def parts(self) -> Any:
            return part("generator", "built-in"), part("oracle", "judge")

    recipe = load_test_sets(place.workspace, place.catalog)[f"moved-digits-{version}"]
    chosen = Named(producer.maker) if producer else Named()
    whole = material(chosen)
    whole = type(whole)(
        recipe, whole.samples, part("dataset", "digits"), whole.classes, chosen, whole.software
    )
    runs = place.workspace.runs / "testsets"
    return build(whole, runs / "moved-digits" / version, runs / ".work").folder


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "place"
    made(plant(root, v1_0_0=recipe_text(), v1_1_0=recipe_text("1.1.0", per_class=5)))
    return root


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    found = Line(tmp_path_factory.mktemp("line"))
    yield found
    found.stop()


@pytest.fixture
def board(template: Path, line: Line, tmp_path: Path) -> Board:
    for name in ("cut", "moves", "requests.log"):
        (line.hub / name).unlink(missing_ok=True)
    (line.hub / "writable").touch()
    number = len(list(tmp_path.parent.iterdir()))
    root = Path(shutil.copytree(template, tmp_path / "place"))
    return Board(root, line.hub, line.driver, f"org/moved-digits-{number}")


def elsewhere(board: Board) -> Path:
    """The same registry on another machine, without the set."""
    root = board.root.parent / "elsewhere"
    shutil.copytree(board.root, root, ignore=shutil.ignore_patterns("runs"))
    return root


def test_without_yes_nothing_is_sent(board: Board) -> None:
    """F2: the plan is printed and no request of any kind is made."""
    code, out, told = board.run("publish", "moved-digits@1.0.0", "--repo", board.repo)

    assert code == 0
    assert "one commit, tag v1.0.0" in told
    assert told.strip().endswith("nothing was sent; add --yes to publish")
    assert SHARD in out
    assert board.requests() == []


def test_a_set_goes_up_in_one_commit_and_comes_down_byte_for_byte(board: Board) -> None:
    """One commit, one tag; pulled at the tag and at the commit; equal files; again: nothing to do."""
    code, told = board.publish("--yes")
    assert (code, board.commits()) == (0, [board.main()]), told
    assert told == f"moved-digits@1.0.0: published at {board.main()}, tag v1.0.0"
    assert board.tag() == board.main()
    assert files(board.repository / board.main()) == files(board.set)
    assert len([line for line in board.requests("POST") if "/commit/" in line]) == 1

    there = elsewhere(board)
    code, told = board.pull(there)
    assert code == 0, told
    pulled = there / "runs" / "testsets" / "moved-digits" / "1.0.0"
    assert files(pulled) == files(board.set)
    assert "4 files fetched" in told
    assert not [line for line in board.requests("GET", "HEAD") if "/resolve/" in line and "token" in line]

    code, told = board.pull(there, "--revision", board.main())
    assert "0 files fetched" in told
    code, told = board.publish("--yes")
    assert (code, told) == (0, f"moved-digits@1.0.0: already published at {board.main()}, tag v1.0.0")
    assert len(board.commits()) == 1


def test_a_published_version_is_never_rewritten(board: Board) -> None:
    """Another content under the same version: refused, the tag and the branch stay."""
    board.publish("--yes")
    before = board.main()
    path = board.root / "registry" / "testsets" / "moved-digits-1.0.0.yaml"
    path.write_text(recipe_text(seed=2))
    shutil.rmtree(board.set)
    made(Place(plant(board.root, v1_0_0=recipe_text(seed=2)).workspace))

    code, told = board.publish("--yes")

    assert code == 2
    assert "v1.0.0 names another content" in told
    assert "never rewritten and a tag never moved" in told
    assert (board.main(), board.tag(), len(board.commits())) == (before, before, 1)


def test_the_next_version_is_a_commit_on_top(board: Board) -> None:
    """Shards of the older one go from the branch and stay at its tag."""
    board.publish("--yes")
    first = board.main()
    place = Place(plant(board.root, v1_1_0=recipe_text("1.1.0", per_class=5)).workspace)
    made(place, "1.1.0")

    code, told = board.publish("--yes", version="1.1.0")

    assert code == 0, told
    assert board.main() != first
    assert (board.tag(), board.tag("v1.1.0")) == (first, board.main())
    newer = board.root / "runs" / "testsets" / "moved-digits" / "1.1.0"
    assert files(board.repository / board.main()) == files(newer)
    assert files(board.repository / first) == files(board.set)


def test_a_repository_of_something_else_loses_nothing(board: Board) -> None:
    """A slip in --repo: the files of an older version go, those of another data set do not."""
    there = board.repository / ("e" * 40)
    there.mkdir(parents=True)
    (there / "README.md").write_text("years of work")
    (there / "train.csv").write_text("a,b")
    (board.repository / "main").write_text(there.name)

    code, told = board.publish("--yes")

    assert (code, board.main(), board.commits()) == (2, there.name, [there.name])
    assert told == (
        f"{board.repo}: expected an empty dataset or one with {MANIFEST}, got 1 other files ('train.csv'):"
        " what was not published from here is not deleted"
    )


def test_cut_off_at_any_request_the_hub_holds_all_or_nothing(board: Board) -> None:
    """F3: the line is cut after 0, 1, 2 ... requests: never a partial commit, and the next try goes on."""
    counter = board.hub / "cut"
    cuts = 0
    for allowed in range(30):
        counter.write_text(str(allowed))
        code, _ = board.publish("--yes")
        for commit in board.commits():
            assert files(board.repository / commit) == files(board.set)
        assert len(board.commits()) <= 1
        if code == 0:
            break
        cuts += 1
    assert cuts >= 3
    counter.unlink()
    assert board.publish("--yes")[0] == 0
    assert board.tag() == board.main()
    assert len(board.commits()) == 1


def test_somebody_else_writing_meanwhile_is_one_line(board: Board) -> None:
    """The parent that was seen is no longer the newest: 412, nothing is overwritten."""
    board.publish("--yes")
    first = board.main()
    place = Place(plant(board.root, v1_1_0=recipe_text("1.1.0", per_class=5)).workspace)
    made(place, "1.1.0")
    shutil.copytree(board.repository / first, board.repository / ("f" * 40))
    (board.hub / "moves").write_text("f" * 40)

    code, told = board.publish("--yes", version="1.1.0")

    assert code == 2
    assert told == f"{board.repo}: it was changed meanwhile: run the same command again"
    assert not (board.repository / "tags" / "v1.1.0").exists()


@pytest.mark.parametrize("state", ["damaged", "incomplete"])
def test_damaged_and_incomplete_sets_are_not_published(board: Board, state: str) -> None:
    """B059: refused before anything is asked of the Hub."""
    folder = board.set
    if state == "damaged":
        data = bytearray((folder / SHARD).read_bytes())
        data[50] ^= 1
        (folder / SHARD).write_bytes(data)
    else:
        shutil.rmtree(folder)
        place = Place(plant(board.root).workspace)
        folder = made(
            place,
            producer=Digits(
                lambda image, label, seed: blank(image, label, seed) + 0.2 * (label == 3) * image
            ),
        )
    code, told = board.publish("--yes", "--at", str(folder))

    assert code in (1, 2)
    assert ("a damaged set is not published" if state == "damaged" else "is not published") in told
    assert board.requests() == []


def test_without_a_right_to_write_it_is_one_line(board: Board) -> None:
    (board.hub / "writable").unlink()
    code, told = board.publish("--yes")
    assert (code, told) == (2, f"{board.repo}: the token may not write to it")


# Pulling


def test_a_pull_goes_on_where_it_was_cut(board: Board) -> None:
    """Files that are there whole are not asked for again; a damaged one is."""
    board.publish("--yes")
    there = elsewhere(board)
    pulled = there / "runs" / "testsets" / "moved-digits" / "1.0.0"
    counter = board.hub / "cut"
    for allowed in (4, 8, 12):
        counter.write_text(str(allowed))
        code, _ = board.pull(there)
        assert code in (0, 2)
        assert code == 0 or not (pulled / MANIFEST).exists()
    counter.unlink()
    assert board.pull(there)[0] == 0
    assert files(pulled) == files(board.set)

    (pulled / "README.md").write_text("# other\n")
    code, told = board.pull(there)
    assert (code, "1 files fetched" in told) == (0, True), told
    assert files(pulled) == files(board.set)


@pytest.mark.parametrize(
    ("name", "words"),
    [(SHARD, "hash-mismatch|expected SHA-256"), (MANIFEST, "manifest.json")],
)
def test_other_bytes_on_the_hub_are_refused(board: Board, name: str, words: str) -> None:
    """One flipped bit in the repository: no set appears here."""
    import re

    board.publish("--yes")
    there = elsewhere(board)
    path = board.repository / board.main() / name
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)

    code, told = board.pull(there)

    assert code in (1, 2)
    assert re.search(words, told)
    assert not (there / "runs" / "testsets" / "moved-digits" / "1.0.0" / MANIFEST).exists()


def test_a_hostile_manifest_leads_nowhere(board: Board) -> None:
    """Paths that climb out are refused before anything is fetched by them."""
    board.publish("--yes")
    there = elsewhere(board)

    def climb(value: dict[str, Any]) -> None:
        value["shards"][0]["path"] = "../../../../evil.parquet"

    forge(board.repository / board.main(), climb)
    code, told = board.pull(there)
    assert code == 1
    assert "shards.0: path: expected" in told
    assert not [line for line in board.requests() if "evil" in line]


def test_the_content_that_the_registry_states_is_demanded(board: Board) -> None:
    board.publish("--yes")
    there = elsewhere(board)
    path = there / "registry" / "testsets" / "moved-digits-1.0.0.yaml"
    path.write_text(recipe_text(more=f"content_sha256: '{'0' * 64}'\n"))
    code, told = board.pull(there)
    assert code == 2
    assert f"expected content {'0' * 64} as in moved-digits-1.0.0" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--revision", "main"), "--revision: expected a commit hash of 40 hex digits, got 'main'"),
        (("--repo", "../x"), "--repo: expected a Hub repository"),
        ((), "has no tag 'v1.0.0'"),
    ],
)
def test_what_cannot_be_pulled_is_one_line(board: Board, words: tuple[str, ...], told: str) -> None:
    board.repository.mkdir(parents=True)
    (board.repository / ("a" * 40)).mkdir()
    (board.repository / "main").write_text("a" * 40)
    code, found = board.pull(elsewhere(board), *words)
    assert code == 2
    assert told in found
