from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from robustboard.benchmarks.catalog import check, load_benchmarks
from robustboard.benchmarks.entries import AttackSetting
from robustboard.errors import ContentError, WorkspaceError
from robustboard.registry.catalog import load_catalog

Plant = Any


def found(plant: Plant) -> list[str]:
    return [str(problem) for problem in check(plant.workspace)]


def refused(plant: Plant) -> list[str]:
    """What loading says; checking must say the same."""
    with pytest.raises(ContentError) as caught:
        load_benchmarks(plant.workspace, load_catalog(plant.workspace))
    lines = str(caught.value).splitlines()
    assert found(plant) == lines
    return lines


def test_protocols_are_found_by_id(plant: Plant) -> None:
    catalog = load_catalog(plant.workspace)
    protocols = load_benchmarks(plant.workspace, catalog)
    assert list(protocols) == ["pgd-v1"]
    setting = protocols["pgd-v1"].setting_for(catalog.dataset("shapes"))
    assert isinstance(setting, AttackSetting)
    assert setting.budgets == (Fraction(1, 255), Fraction(8, 255))
    assert protocols["pgd-v1"].setting_for(catalog.dataset("shapes-train")) is None
    assert found(plant) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "label_spaces: [shapes]",
            "label_spaces: [shape]",
            (
                "8: procedure.settings.0.label_spaces.0: expected a known label space, got 'shape' (did"
                " you mean shapes?)"
            ),
        ),
        (
            "label_spaces: [shapes]",
            "label_spaces: [shapes, round]",
            "8: procedure.settings.0.label_spaces.1: expected a known label space, got 'round'",
        ),
        (
            "label_spaces: [shapes]",
            "datasets: [shapes, shapes-tain]",
            (
                "8: procedure.settings.0.datasets.1: expected a known dataset, got 'shapes-tain' (did"
                " you mean shapes-train, shapes?)"
            ),
        ),
        (
            "label_spaces: [shapes]",
            "datasets: []",
            "8: procedure.settings.0: expected datasets or label_spaces, got 'neither'",
        ),
        (
            "headline: 8/255",
            "headline: 7/255",
            "10: procedure.settings.0.headline: expected one of the budgets, got '7/255'",
        ),
        (
            "[1/255, 8/255]",
            "[8/255, 1/255]",
            (
                "9: procedure.settings.0.budgets: expected budgets in rising order without repeats, got"
                " '8/255 1/255'"
            ),
        ),
        (
            "[1/255, 8/255]",
            "[8/255, 16/510]",
            (
                "9: procedure.settings.0.budgets: expected budgets in rising order without repeats, got"
                " '8/255 8/255'"
            ),
        ),
        (
            "[1/255, 8/255]",
            "[1/255, 8/255, 8]",
            (
                "9: procedure.settings.0.budgets: expected Linf budgets of at most 1, the whole pixel"
                " range (8/255 is eight pixel levels), got '8'"
            ),
        ),
        (
            "attack: pgd",
            "attack: pgdd",
            "5: procedure.attack: expected fgsm or pgd, got 'pgdd' (did you mean pgd?)",
        ),
        (
            "norm: linf",
            "norm: Linf2",
            "6: procedure.norm: expected linf or l2, got 'Linf2' (did you mean linf?)",
        ),
        (
            "kind: attack",
            "kind: atack",
            "4: procedure.kind: expected clean, noise, attack, cascade, external, worst-case,",
        ),
        (
            "steps: 10",
            "stesp: 10",
            "11: procedure.settings.0.stesp: expected a known key, got 'stesp' (did you mean steps",
        ),
    ],
)
def test_faults_of_a_protocol_are_told_with_line_and_field(
    plant: Plant, old: str, new: str, said: str
) -> None:
    plant.edit("benchmarks/pgd-v1.yaml", old, new)
    (line,) = refused(plant)
    assert line.startswith(f"benchmarks/pgd-v1.yaml:{said}")


def test_a_setting_that_never_applies_is_refused(plant: Plant) -> None:
    """The first setting that covers a dataset decides; a later one for it would be silently ignored."""
    setting = (
        "    - datasets: [shapes-train, shapes]\n"
        "      budgets: [1/2]\n      headline: 1/2\n      steps: 1\n      relative_step: 1\n"
    )
    plant.edit("benchmarks/pgd-v1.yaml", "source: a test\n", f"{setting}source: a test\n")
    (line,) = refused(plant)
    assert line.startswith("benchmarks/pgd-v1.yaml:13: procedure.settings.1.datasets.1: expected a dataset")
    assert line.endswith("that no setting above covers, got 'shapes'")


def test_out_of_distribution_sets_are_covered_only_by_name(plant: Plant) -> None:
    plant.edit("registry/datasets/shapes.yaml", "role: test", "role: out-of-distribution")
    catalog = load_catalog(plant.workspace)
    protocol = load_benchmarks(plant.workspace, catalog)["pgd-v1"]
    assert protocol.setting_for(catalog.dataset("shapes")) is None


@pytest.mark.parametrize("name", ["pgd.yaml", "pgd-v0.yaml", "pgd-v1.2.yaml", "PGD-v2.yaml", "pgd-v2.yml"])
def test_a_protocol_file_is_named_with_its_version(plant: Plant, name: str) -> None:
    plant.write(f"benchmarks/{name}", (plant.root / "benchmarks/pgd-v1.yaml").read_text())
    (line,) = found(plant)
    assert line.startswith(f"benchmarks/{name}:1: ")


def test_a_reference_to_a_broken_dataset_is_no_fault_of_the_protocol(plant: Plant) -> None:
    plant.edit("benchmarks/pgd-v1.yaml", "label_spaces: [shapes]", "datasets: [shapes]")
    plant.edit("registry/datasets/shapes.yaml", "size: 4", "size: x")
    assert found(plant) == []


def test_an_absent_folder_is_an_error(plant: Plant) -> None:
    catalog = load_catalog(plant.workspace)
    (plant.root / "benchmarks/pgd-v1.yaml").unlink()
    (plant.root / "benchmarks").rmdir()
    with pytest.raises(WorkspaceError, match="benchmarks: expected a folder, found none"):
        load_benchmarks(plant.workspace, catalog)


def release(plant: Plant, name: str = "pgd-v1") -> Path:
    data = (plant.root / f"benchmarks/{name}.yaml").read_bytes()
    path: Path = plant.write(
        "benchmarks/released.sha256", f"{hashlib.sha256(data).hexdigest()}  {name}.yaml\n"
    )
    return path


def test_a_released_protocol_may_stand_beside_new_ones(plant: Plant) -> None:
    release(plant)
    plant.write("benchmarks/pgd-v2.yaml", (plant.root / "benchmarks/pgd-v1.yaml").read_text())
    assert found(plant) == []


@pytest.mark.parametrize(
    ("old", "new"), [("steps: 10", "steps: 20"), ("An attack.", "An attack!"), ("a test", "a  test")]
)
def test_an_edit_of_a_released_protocol_is_refused_and_the_next_version_named(
    plant: Plant, old: str, new: str
) -> None:
    release(plant)
    plant.edit("benchmarks/pgd-v1.yaml", old, new)
    (line,) = found(plant)
    assert line.startswith("benchmarks/pgd-v1.yaml:1: expected the released text with SHA-256 ")
    assert line.endswith("a released protocol never changes, so undo the edit and write pgd-v2.yaml")


def test_a_released_protocol_may_not_vanish(plant: Plant) -> None:
    release(plant)
    (plant.root / "benchmarks/pgd-v1.yaml").unlink()
    assert found(plant) == [
        "benchmarks/released.sha256:1: pgd-v1: expected the released protocol, got no file of it"
    ]


@pytest.mark.parametrize(
    "line", ["x", "", "0" * 64 + " pgd-v1.yaml", "0" * 64 + "  ../x.yaml", "\x1b[31m", "0" * 64]
)
def test_a_line_of_the_table_that_says_nothing_is_refused(plant: Plant, line: str) -> None:
    path = release(plant)
    path.write_text(path.read_text() + line + "\n")
    (said,) = found(plant)
    assert said.startswith("benchmarks/released.sha256:2: expected `SHA-256, two spaces, ID.yaml`, got '")
    assert said.isprintable()


def test_a_protocol_is_released_once(plant: Plant) -> None:
    path = release(plant)
    path.write_text(path.read_text() * 2)
    assert found(plant) == [
        "benchmarks/released.sha256:2: pgd-v1: expected each protocol once, got it again (first on line 1)"
    ]
