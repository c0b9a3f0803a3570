from __future__ import annotations

from pathlib import Path

import pytest

from robustboard import workspace
from robustboard.errors import WorkspaceError


def make(folder: Path) -> Path:
    (folder / "registry").mkdir(parents=True)
    (folder / "registry" / "lock.yaml").write_text("{}\n")
    return folder


def test_nearest_folder_above_the_working_folder_wins(tmp_path: Path) -> None:
    outer = make(tmp_path / "outer")
    inner = make(outer / "inner")
    below = inner / "a" / "b"
    below.mkdir(parents=True)

    assert workspace.find(start=below).content == inner
    assert workspace.find(start=outer / "registry").content == outer


def test_option_beats_variable_beats_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, named, other = (make(tmp_path / name) for name in ("here", "named", "other"))
    monkeypatch.setenv(workspace.VARIABLE, str(named))

    assert workspace.find(start=here).content == named
    assert workspace.find(other, start=here).content == other


def test_named_folder_without_a_registry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"expected a workspace with registry/lock\.yaml"):
        workspace.find(tmp_path)


def test_outside_any_checkout_the_installation_answers(tmp_path: Path) -> None:
    assert (workspace.find(start=tmp_path).registry / "lock.yaml").is_file()


def test_nothing_found_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "PACKAGE", tmp_path / "nowhere" / "robustboard")
    with pytest.raises(WorkspaceError, match="--workspace DIR"):
        workspace.find(start=tmp_path)


def test_output_can_go_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = make(tmp_path / "content")
    assert workspace.find(content).runs == content / "runs"
    assert workspace.find(content, output=tmp_path / "out").runs == tmp_path / "out" / "runs"
    monkeypatch.setenv(workspace.OUTPUT_VARIABLE, str(tmp_path / "set"))
    assert workspace.find(content).site_output == tmp_path / "set" / "site" / "_build"


def test_paths_are_shown_relative_to_the_workspace(tmp_path: Path) -> None:
    place = workspace.Workspace(tmp_path / "content", tmp_path / "output")
    assert place.show(tmp_path / "content" / "registry" / "x.yaml") == "registry/x.yaml"
    assert place.show(tmp_path / "output" / "runs") == "runs"
    assert place.show(tmp_path / "z") == (tmp_path / "z").as_posix()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_an_output_that_is_or_lies_below_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match="expected a folder for what is made, got a file"):
        workspace.find(make(tmp_path / "space"), output=tmp_path / name)


def test_a_deleted_working_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(WorkspaceError, match="the working folder has been deleted"):
        workspace.find()
