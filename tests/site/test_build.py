from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.errors import StoreError, UserError, WorkspaceError
from robustboard.registry.catalog import load_catalog
from robustboard.site.build import MARKER, Built, build
from robustboard.site.freshness import inputs_digest
from robustboard.workspace import Workspace
from tests.leaderboard.made_up import World

REPOSITORY = Path(__file__).resolve().parents[2]


def make(output: Path, space: Workspace | None = None) -> Built:
    """The site of this repository's content and committed results."""
    space = space or Workspace(REPOSITORY, output.parent)
    catalog = load_catalog(space)
    benchmarks = load_benchmarks(space, catalog)
    return build(space, catalog, benchmarks, results=[space.committed_results], output=output)


def content(folder: Path) -> dict[str, bytes]:
    """All files but the marker's digest of inputs, which a file saved meanwhile in the checkout changes."""
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    if MARKER in found:
        marker = json.loads(found[MARKER])
        found[MARKER] = json.dumps({name: marker[name] for name in marker if name != "inputs"}).encode()
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "site"
    make(folder)
    return folder


@pytest.fixture
def output(built: Path, tmp_path: Path) -> Path:
    """A copy of a finished site."""
    return Path(shutil.copytree(built, tmp_path / "site"))


def test_the_site_of_this_repository_has_its_parts(built: Path) -> None:
    names = set(content(built))
    assert {"index.html", "404.html", "static/site.css", "static/icon.svg", "data/leaderboard.csv"} <= names
    assert {"board/digits.html", "b/pgd-v1.html", "reported/robustbench.html", MARKER} <= names


def test_two_builds_are_byte_identical(built: Path, tmp_path: Path) -> None:
    second = make(tmp_path / "again")
    assert second.written == second.files
    assert content(tmp_path / "again") == content(built)


def test_a_second_build_writes_nothing(output: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*.html")}
    again = make(output)
    assert (again.written, again.removed) == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*.html")} == before


def test_nothing_is_rendered_where_nothing_changed(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("rendered although nothing changed")

    first = make(output)
    monkeypatch.setattr("robustboard.site.build.render", refuse)
    assert make(output) == first
    (output / "index.html").write_text("edited")
    with pytest.raises(AssertionError, match="rendered"):
        make(output)


def test_every_kind_of_input_makes_a_build_look_again(tmp_path: Path) -> None:
    """Content, results, outcomes, failures, built sets, entries in memory and the address."""
    space = Workspace(tmp_path / "content", tmp_path / "out")
    results = [tmp_path / "results"]
    world = World()
    world.add_model("one")

    def digest(address: str | None = None) -> str:
        return inputs_digest(space, world.models.values(), results, address)

    seen = [digest(), digest("https://example.org/")]
    for path in (
        space.registry / "models" / "x.yaml",
        space.benchmarks / "x.yaml",
        space.boards / "x.yaml",
        space.site_source / "templates" / "x.j2",
        space.site_source / "static" / "x.css",
        results[0] / "one" / "x.json",
        tmp_path / "outcomes" / "one" / "x.json",
        tmp_path / "verifications" / "one" / "x.json",
        space.output / "leaderboard" / "verifications" / "one" / "x.json",
        space.runs / "failed" / "one" / "x.json",
        space.built_sets / "x" / "1.0.0" / "manifest.json",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
        seen.append(digest())
        path.write_text("2")
        seen.append(digest())
        path.rename(path.with_name("renamed"))
        seen.append(digest())
    (results[0] / "linked").symlink_to(tmp_path / "content" / "registry", target_is_directory=True)
    (results[0] / "round").symlink_to(results[0], target_is_directory=True)
    seen.append(digest())
    world.add_model("two")
    seen.append(digest())
    assert len(set(seen)) == len(seen)
    assert digest() == seen[-1]


def test_only_changed_files_are_written(output: Path) -> None:
    (output / "index.html").write_text("edited")
    (output / "404.html").unlink()
    assert make(output).written == 2
    assert "edited" not in (output / "index.html").read_text()


def test_pages_that_are_gone_are_removed_and_other_files_stay(output: Path) -> None:
    marker = json.loads((output / MARKER).read_text())
    (output / "m" / "renamed.html").write_text("old page")
    (output / "old").mkdir()
    (output / "old" / "page.html").write_text("old page")
    (output / MARKER).write_text(json.dumps({"files": [*marker["files"], "m/renamed.html", "old/page.html"]}))
    (output / "CNAME").write_text("example.org")
    assert make(output).removed == 2
    assert not (output / "m" / "renamed.html").exists()
    assert not (output / "old").exists()
    assert (output / "CNAME").read_text() == "example.org"


@pytest.mark.parametrize("name", ["notes.txt", ".git/config", "index.html"])
def test_a_folder_that_no_build_wrote_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_text("precious")
    with pytest.raises(UserError, match="expected an empty folder or a site written by robustboard"):
        make(tmp_path / "mine")
    assert content(tmp_path / "mine") == {name: b"precious"}


def test_a_file_or_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(UserError, match="got a link or a file"):
            make(tmp_path / name)


@pytest.mark.parametrize(
    "marker", ["", "[]", '{"files": 3}', '{"files": ["../outside"]}', '{"files": ["/etc/passwd"]}']
)
def test_a_forged_marker_is_refused(tmp_path: Path, marker: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "site" / MARKER).write_text(marker)
    with pytest.raises(UserError):
        make(tmp_path / "site")
    assert (tmp_path / "outside").read_text() == "precious"


def test_a_link_inside_the_folder_does_not_lead_the_build_out(output: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    shutil.rmtree(output / "m")
    (output / "m").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match="leads out of it"):
        make(output)
    assert not list((tmp_path / "outside").iterdir())


def test_a_build_that_was_killed_half_way_is_completed(built: Path, output: Path) -> None:
    for path in list(output.rglob("*.html"))[::2]:
        path.write_bytes(path.read_bytes()[:100])
    make(output)
    assert content(output) == content(built)


def test_missing_templates_are_an_error_not_an_empty_site(tmp_path: Path) -> None:
    for name in ("registry", "benchmarks", "leaderboard"):
        shutil.copytree(REPOSITORY / name, tmp_path / "space" / name)
    space = Workspace(tmp_path / "space", tmp_path / "space")
    with pytest.raises(WorkspaceError, match="templates"):
        make(tmp_path / "site", space)
    assert not (tmp_path / "site").exists()


def test_half_written_files_of_a_killed_build_are_swept_and_never_lock_the_folder(tmp_path: Path) -> None:
    """What kill -9 leaves at the first and at any later file is no reason to refuse, and never published."""
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    host = "".join(c if c.isalnum() else "_" for c in socket.gethostname())
    site = tmp_path / "site"
    site.mkdir()
    (site / f".partial-{host}-{dead.pid}-00").write_text("{")
    make(site)
    (site / "m" / f".partial-{host}-{dead.pid}-01").write_text("<html")
    make(site)
    assert not list(site.rglob(".partial-*"))


def test_the_marker_is_whole_at_every_moment(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that dies while it writes leaves the old marker or the new one, so the next one goes on."""
    (output / "index.html").write_text("old")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(KeyboardInterrupt):
        make(output)
    monkeypatch.undo()
    make(output)
    assert (output / "index.html").read_text() != "old"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot write: Not a directory"):
        make(tmp_path / "file" / "site")
