from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from robustboard.errors import WorkspaceError
from robustboard.registry.check import check
from robustboard.registry.entries import LockedEntry, LockedFile
from robustboard.registry.lock import Lock, write_lock
from robustboard.workspace import Workspace

Plant = Any


def found(plant: Plant) -> list[str]:
    return [str(problem) for problem in check(plant.workspace)]


def test_a_sound_registry_has_no_problem(plant: Plant) -> None:
    assert found(plant) == []


def test_lines_are_sorted_by_file_and_line(plant: Plant) -> None:
    plant.edit("registry/models/net.yaml", "size: 160", "size: big")
    plant.edit("registry/models/net.yaml", "loader: timm", "loader: tim")
    plant.write("registry/lock.yaml", "model/gone: {}\n")
    plant.write("registry/datasets/x.txt", "")
    loader = "loader: expected timm, open_clip or plugin:NAME, got 'tim' (did you mean timm?)"
    assert found(plant) == [
        "registry/datasets/x.txt:1: expected files named ID.yaml here, got 'x.txt'",
        "registry/lock.yaml:1: model/gone: expected an entry of that id, got none: take the line out",
        f"registry/models/net.yaml:6: {loader}",
        "registry/models/net.yaml:11: input.size: expected a whole number from 1 to 4096, got 'big'",
    ]


def test_a_broken_reference_and_a_broken_file_are_told_in_one_run(plant: Plant) -> None:
    plant.edit("registry/labels/round.yaml", "- tr", "- t")
    plant.write("registry/models/empty.yaml", "")
    assert [line.split(": ")[0] for line in found(plant)] == [
        "registry/labels/round.yaml:5",
        "registry/models/empty.yaml:1",
    ]


def test_an_absent_registry_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="expected a folder"):
        check(Workspace(tmp_path, tmp_path))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("models/net2.yml", "expected files named ID.yaml here, got 'net2.yml'"),
        ("models/net2.yaml.orig", "expected files named ID.yaml here, got 'net2.yaml.orig'"),
        ("models/notes.txt", "expected files named ID.yaml here, got 'notes.txt'"),
        ("models/.net2.yaml", "expected an id of 2 to 64 characters"),
        ("models/Net2.yaml", "expected an id of 2 to 64 characters"),
        ("models/NET.yaml", "no reserved file name before .yaml, got 'NET' beside 'net.yaml'"),
        ("models/con.yaml", "no reserved file name before .yaml, got 'con'"),
        ("models/lpt1.x.yaml", "no reserved file name before .yaml, got 'lpt1.x'"),
        ("models/a--b.yaml", "without --"),
        ("models/a.yaml", "expected an id of 2 to 64 characters"),
        ("models/net .yaml", "got 'net '"),
        ("models/n\u0435t.yaml", r"got 'n\u0435t'"),
        ("models/net\n::error::x.yaml", r"got 'net\n::error::x'"),
        ("models/" + "n" * 65 + ".yaml", "expected an id of 2 to 64 characters"),
        ("modles/net.yaml", "got 'modles' (did you mean models"),
        ("lock.yml", "got 'lock.yml' (did you mean lock.yaml?)"),
        (
            "net.yaml",
            (
                "expected one of README.md, datasets, generators, labels, lock.yaml, models, oracles,"
                " reported, schema, testsets"
            ),
        ),
    ],
)
def test_files_that_no_one_would_read_are_reported(plant: Plant, name: str, said: str) -> None:
    plant.write(f"registry/{name}", "{}")
    lines = found(plant)
    assert [line for line in lines if said in line], lines
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_readme_and_hidden_files_are_no_entries(plant: Plant) -> None:
    for name in ("README.md", "models/README.md", "models/.DS_Store", ".gitkeep", "labels/.keep"):
        plant.write(f"registry/{name}", "x")
    assert found(plant) == []


def test_a_folder_named_like_an_entry_is_refused(plant: Plant) -> None:
    (plant.root / "registry/models/net2.yaml").mkdir()
    assert found(plant) == [
        "registry/models/net2.yaml:1: expected a regular file, got a link, folder or nothing"
    ]


@pytest.mark.parametrize("target", ["/etc/passwd", "net.yaml", "nowhere", "/dev/zero"])
def test_links_are_refused_wherever_they_point(plant: Plant, target: str) -> None:
    (plant.root / "registry/models/net2.yaml").symlink_to(target)
    assert found(plant) == [
        "registry/models/net2.yaml:1: expected a regular file, got a link, folder or nothing"
    ]


@pytest.mark.parametrize("name", ["registry/models", "registry/lock.yaml"])
def test_a_linked_folder_or_lock_is_refused(plant: Plant, name: str) -> None:
    path = plant.root / name
    path.rename(plant.root / "elsewhere")
    path.symlink_to(plant.root / "elsewhere")
    assert any(line.startswith(f"{name}:1: expected a") and "link" in line for line in found(plant))


def test_a_pipe_is_refused_without_waiting_for_it(plant: Plant) -> None:
    os.mkfifo(plant.root / "registry/models/pipe.yaml")
    assert found(plant) == [
        "registry/models/pipe.yaml:1: expected a regular file, got a link, folder or nothing"
    ]


def test_the_lock_must_agree_with_the_entries(plant: Plant) -> None:
    folder = LockedEntry(files=(LockedFile(path="shapes/test", size=1, sha256="0" * 64),))
    write_lock(
        plant.workspace,
        Lock({"model/net": LockedEntry(commit="f" * 40), "dataset/shapes": folder}),
    )
    (line,) = found(plant)
    commit = "0123456789" * 4
    assert (
        line == f"registry/lock.yaml:3: model/net.commit: expected {commit} as in the entry, got {'f' * 40}"
    )


def test_a_line_for_weights_that_are_trained_here_is_refused(plant: Plant) -> None:
    text = (plant.root / "registry/models/net.yaml").read_text()
    recipe = (
        "  kind: trained-here\n  seed: 0\n  recipe:\n    method: standard\n    dataset: shapes-train\n"
        "    epochs: 1\n    batch_size: 8\n    learning_rate: 0.1\n"
    )
    old = text[text.index("  kind: hub") : text.index("loader:")]
    plant.edit("registry/models/net.yaml", old, recipe)
    plant.write("registry/lock.yaml", "model/net: {}\n")
    (line,) = found(plant)
    assert line.startswith("registry/lock.yaml:1: model/net: expected no line, got one: this project trains")


def test_a_lock_line_of_a_broken_entry_is_no_second_fault(plant: Plant) -> None:
    plant.write("registry/lock.yaml", f"model/net: {{commit: {'f' * 40}}}\n")
    plant.edit("registry/models/net.yaml", "size: 160", "size: big")
    assert len(found(plant)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [("model/net: x\n", "model/net: expected a mapping, got 'x'"), ("!x {}\n", "expected a plain value")],
)
def test_a_damaged_lock_is_reported_like_any_file(plant: Plant, text: str, said: str) -> None:
    plant.write("registry/lock.yaml", text)
    assert [line for line in found(plant) if line.startswith("registry/lock.yaml:1: ") and said in line]


def test_five_hundred_entries_take_less_than_two_seconds(plant: Plant) -> None:
    text = (plant.root / "registry/models/net.yaml").read_text()
    for number in range(500):
        plant.write(f"registry/models/net-{number}.yaml", text.replace("Small net", f"Net {number} x"))
    start = time.process_time()
    assert found(plant) == []
    assert time.process_time() - start < 2


def test_a_licence_is_an_spdx_expression_or_said_to_be_none(plant: Plant) -> None:
    plant.edit("registry/models/net.yaml", "license: Apache-2.0", "license: CC BY 4.0")
    (problem,) = check(plant.workspace)
    wanted = "expected an SPDX licence expression such as Apache-2.0, unknown,"
    assert str(problem).startswith(f"registry/models/net.yaml:19: license: {wanted}")
    assert str(problem).endswith("(did you mean CC-BY-4.0?), got 'CC BY 4.0'")
    for good in ("MIT OR Apache-2.0", "unknown", '"other: terms of access"'):
        plant.edit("registry/models/net.yaml", "license: CC BY 4.0", f"license: {good}")
        assert check(plant.workspace) == []
        plant.edit("registry/models/net.yaml", f"license: {good}", "license: CC BY 4.0")


def test_a_source_of_an_answer_about_training_needs_the_answer(plant: Plant) -> None:
    plant.edit(
        "registry/models/net.yaml", "    shapes: no\n", "    shapes: no\n  sources:\n    shape: a paper\n"
    )
    (problem,) = check(plant.workspace)
    assert (
        "training.sources.shape: expected a known dataset under overlap, got 'shape' (did you mean shapes?)"
        in str(problem)
    )
