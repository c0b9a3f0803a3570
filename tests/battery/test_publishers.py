"""F3: two publishers, cut at every request: a whole commit or none, no partial version, tags never move."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.battery.local_hub import Asker, LocalHub

CUTS = 10
"""Requests that the first publisher gets through before the line is cut; a publication takes eight."""


def version(folder: Path, content: str) -> dict[str, bytes]:
    """Files of a set: a manifest, a table, a card."""
    files = {
        "manifest.json": f'{{"content": "{content}"}}'.encode(),
        "data/a.parquet": f"PAR1 {content}".encode() * 50,
        "data/b.parquet": f"PAR1 b {content}".encode() * 50,
        "README.md": f"# {content}\n".encode(),
    }
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return files


@dataclass
class Watched:
    """A repository, and the versions that may lie in it."""

    hub: LocalHub
    repo: str
    versions: list[dict[str, bytes]]
    tags: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.hub.root / "datasets" / self.repo

    def commits(self) -> list[dict[str, bytes]]:
        return [
            {
                path.relative_to(each).as_posix(): path.read_bytes()
                for path in each.rglob("*")
                if path.is_file()
            }
            for each in sorted(self.folder.glob("*"))
            if len(each.name) == 40
        ]

    def partial(self) -> int:
        """Commits that hold no whole version."""
        return sum(commit not in self.versions for commit in self.commits())

    def look(self) -> None:
        """Note where the tag is."""
        tag = self.folder / "tags" / "v1"
        if tag.is_file():
            self.tags.append(tag.read_text())


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    (found.root / "writable").touch()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def askers(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Asker]]:
    folder = tmp_path_factory.mktemp("askers")
    found = [Asker(hub, folder / name) for name in ("first", "second")]
    for asker in found:
        asker.value("patient", 1.5, 16_384)
    yield found
    for asker in found:
        asker.stop()


def play(
    hub: LocalHub, askers: list[Asker], folder: Path, cut: int, *, same: bool, how: str = "publish"
) -> tuple[Watched, list[dict[str, Any]]]:
    """The first publisher is cut off, the second publishes, the first tries again."""
    folders = [folder / "first", folder / "second"]
    versions = [version(folders[0], "one"), version(folders[1], "one" if same else "two")]
    watched = Watched(hub, f"org/{how}-{'same' if same else 'other'}-{cut}", versions)
    counter = hub.root / "cut"
    answers = []
    counter.write_text(str(cut))
    try:
        answers.append(askers[0].ask(how, watched.repo, "v1", str(folders[0])))
    finally:
        counter.unlink()
    watched.look()
    for asker, place in ((askers[1], folders[1]), (askers[0], folders[0])):
        answers.append(asker.ask(how, watched.repo, "v1", str(place)))
        watched.look()
    return watched, answers


@pytest.mark.parametrize("other", ["same content", "another content"])
@pytest.mark.parametrize("cut", range(CUTS))
def test_cut_at_any_request_there_is_a_whole_commit_or_none(
    cut: int,
    other: str,
    hub: LocalHub,
    askers: list[Asker],
    tmp_path: Path,
) -> None:
    same = other == "same content"
    watched, answers = play(hub, askers, tmp_path, cut, same=same)

    assert watched.partial() == 0
    assert len(set(watched.tags)) == 1, "the tag is there, and stays where it was first put"
    assert (watched.folder / watched.tags[-1] / "manifest.json").is_file()
    assert len(watched.commits()) <= (1 if same else 2)
    for answer in answers:
        assert answer.get("kind") != "traceback", answer
        assert "\n" not in answer.get("text", "")
    if same:
        assert answers[-1]["value"][1] == "already published"
    else:
        refused = [answer["text"] for answer in answers[1:] if "text" in answer]
        assert len(refused) == 1, answers
        assert "is never rewritten and a tag never moved" in refused[0]


@pytest.mark.long
def test_two_at_the_same_moment(hub: LocalHub, askers: list[Asker], tmp_path: Path) -> None:
    """Ten races, of another content each: whole commits, one tag, and the loser is told in one line."""
    for number in range(10):
        folders = [tmp_path / f"{number}-{name}" for name in ("one", "two")]
        versions = [version(folder, folder.name) for folder in folders]
        watched = Watched(hub, f"org/race-{number}", versions)
        with ThreadPoolExecutor(2) as pool:
            waiting = [
                pool.submit(asker.ask, "publish", watched.repo, "v1", str(folder))
                for asker, folder in zip(askers, folders, strict=True)
            ]
            answers = [each.result() for each in waiting]
        watched.look()
        assert watched.partial() == 0
        assert sum("value" in answer for answer in answers) <= 1, "one version has the tag"
        assert len(watched.tags) == 1
        assert all("\n" not in answer.get("text", "") for answer in answers)


@pytest.mark.long
def test_control_file_by_file_leaves_partial_versions_and_moves_tags(
    hub: LocalHub, askers: list[Asker], tmp_path: Path
) -> None:
    """As simple programs publish: one upload a file, the tag deleted and made again."""
    partial = moved = 0
    for cut in range(4, 12, 2):
        watched, _ = play(hub, askers, tmp_path / str(cut), cut, same=False, how="naive_publish")
        partial += watched.partial() > 0
        moved += len(set(watched.tags)) > 1
    assert partial == 4
    assert moved >= 1
