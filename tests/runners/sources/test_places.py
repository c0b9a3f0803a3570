from __future__ import annotations

import os
from pathlib import Path

import pytest

from robustboard.runners.sources.places import SYSTEM, AbsentFile, data_folders, find_data
from robustboard.workspace import Workspace


def test_folders_are_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable first, then output, content and the system's folder; the first hit wins."""
    workspace = Workspace(tmp_path / "content", tmp_path / "output")
    named = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setenv("ROBUSTBOARD_DATA", os.pathsep.join(map(str, named)))
    folders = [*named, workspace.output / "data", workspace.content / "data"]

    assert data_folders(workspace) == (*folders, SYSTEM)
    for folder in reversed(folders):
        (folder / "set").mkdir(parents=True)
        assert find_data("set", workspace) == folder / "set"


def test_a_folder_named_twice_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTBOARD_DATA", raising=False)

    assert data_folders(Workspace(tmp_path, tmp_path)) == (tmp_path / "data", SYSTEM)


def test_an_absent_file_says_where_it_was_sought_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustboard.runners.sources.places.SYSTEM", tmp_path / "system")
    monkeypatch.setenv("ROBUSTBOARD_DATA", str(tmp_path / "disk"))
    with pytest.raises(AbsentFile) as caught:
        find_data("fashion-mnist/train.gz", Workspace(tmp_path, tmp_path))

    assert caught.value.kind == "missing"
    assert str(caught.value) == (
        "missing: fashion-mnist/train.gz is in none of disk, data, system;"
        " apt-get install dataset-fashion-mnist (Debian, Ubuntu),"
        " or set ROBUSTBOARD_DATA to the folder that holds fashion-mnist"
    )


def test_an_unpackaged_set_gets_no_package_hint(tmp_path: Path) -> None:
    with pytest.raises(AbsentFile) as caught:
        find_data("nowhere/at-all.npz", Workspace(tmp_path, tmp_path))

    assert "apt-get" not in caught.value.reason
