"""Oracles and generators against the rest of the registry: faults with their lines."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from robustboard.registry.check import check
from robustboard.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """The digits' part of the shipped registry."""
    registry = tmp_path / "registry"
    for folder in ("models", "datasets", "labels", "oracles", "generators"):
        (registry / folder).mkdir(parents=True)
        for path in (ROOT / "registry" / folder).glob("digits*.yaml"):
            shutil.copy(path, registry / folder)
    (registry / "lock.yaml").write_text("{}\n", encoding="utf-8")
    return Workspace(tmp_path, tmp_path)


def faults(place: Workspace) -> list[str]:
    return [str(problem) for problem in check(place)]


def edit(place: Workspace, name: str, old: str, new: str) -> None:
    path = place.registry / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_shipped_entries_of_digits_have_no_fault(place: Workspace) -> None:
    assert faults(place) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("oracles/digits-clip.yaml", "dataset: digits-train", "dataset: digits", "role train"),
        ("oracles/digits-clip.yaml", "- dataset: digits\n", "- dataset: digitz\n", "a known dataset"),
        ("oracles/digits-clip.yaml", "label_space: digits", "label_space: digitz", "a known label space"),
        (
            "oracles/digits-clip.yaml",
            '"an image of the digit {}"\n  input',
            '"an image"\n  input',
            "`{}` once",
        ),
        ("oracles/digits-net.yaml", "model: digits-densenet", "model: digits-densenets", "a known model"),
        ("oracles/digits-both.yaml", "digits-clip, digits-net", "digits-clip, digits-nut", "a known oracle"),
        (
            "oracles/digits-both.yaml",
            "digits-clip, digits-net",
            "digits-clip, digits-both",
            "no ensemble itself",
        ),
        ("oracles/digits-both.yaml", "digits-clip, digits-net", "digits-net, digits-net", "each member once"),
        ("generators/digits-vq.yaml", "dataset: digits-train", "dataset: digits", "role train"),
        ("generators/digits-ddpm.yaml", "sampler: ddim", "sampler: magic", "ddim"),
        ("oracles/digits-probe.yaml", "features: digits-clip", "features: digits-clop", "a known oracle"),
        ("oracles/digits-probe.yaml", "features: digits-clip", "features: digits-net", "a zero-shot oracle"),
        ("oracles/digits-probe.yaml", "dataset: digits-train", "dataset: digits", "role train"),
        ("generators/digits-vq-sparse.yaml", "generator: digits-vq", "generator: vq", "a known generator"),
        (
            "generators/digits-vq-sparse.yaml",
            "generator: digits-vq",
            "generator: digits-vq-sparse",
            "that is not sparse itself",
        ),
        ("generators/digits-vq-sparse.yaml", "model: digits-resnet", "model: digits-rosnet", "a known model"),
        ("generators/digits-vq-sparse.yaml", "oracle: digits-clip", "oracle: clip", "a known oracle"),
        ("generators/digits-vq-sparse.yaml", "dataset: digits-train", "dataset: digits", "role train"),
    ],
)
def test_faults_are_told_with_file_and_field(
    place: Workspace, name: str, old: str, new: str, told: str
) -> None:
    edit(place, name, old, new)
    found = [each for each in faults(place) if told in each]
    assert len(found) == 1
    assert found[0].startswith(f"registry/{name}:")


def test_prompts_need_a_name_for_every_class(place: Workspace) -> None:
    """B056: a file of names with only two classes is refused."""
    edit(place, "oracles/digits-clip.yaml", "  input:\n", '  class_names: {"1": one, "0": zero}\n  input:\n')
    (found,) = faults(place)
    assert "expected a name for each of the 10 classes of digits" in found


def test_a_lock_line_for_what_is_trained_here_is_a_fault(place: Workspace) -> None:
    (place.registry / "lock.yaml").write_text(
        f"generator/digits-vq: {{commit: {'0' * 40}, files: []}}\n", encoding="utf-8"
    )
    (found,) = faults(place)
    assert "this project trains the weights" in found
