"""`check --online`: what the Hub says of an entry is held against it, with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Plant
from tests.test_new_cli import COMMIT, Hub, filled, hub

__all__ = ["hub"]
pytestmark = pytest.mark.long
BOARD = "leaderboard/boards/README.md"


def entry(hub: Hub, plant: Plant) -> Path:
    """A locked entry of the timm repository, as a contributor makes it."""
    plant.write(BOARD, "Boards.\n")
    plant.write("runners/README.md", "Profiles.\n")
    plant.write("registry/models/net.yaml", (plant.root / "registry/models/net.yaml").read_text())
    (plant.root / "registry/models/net.yaml").unlink()
    code, out, told = hub.run(plant.root, "new", "model", "org/Test_ResNet.small")
    assert code == 0, told
    path = plant.root / out
    filled(path, {"were its test": "no"})
    assert "locked model/test_resnet.small" in hub.run(plant.root, "lock")[2]
    return path


def online(hub: Hub, plant: Plant, *more: str) -> tuple[int, list[str]]:
    code, _, told = hub.run(plant.root, "check", "--online", *more)
    return code, told.splitlines()


def test_an_entry_that_is_as_the_hub_says_passes(hub: Hub, plant: Plant) -> None:
    entry(hub, plant)
    code, told = online(hub, plant)
    assert (code, told[-1]) == (0, "1 entries compared with the Hub, 0 problems")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (f"revision: {COMMIT}", "revision: unresolved", "source.revision: expected a commit, got the word"),
        ("Test_ResNet.small\n  rev", "nobody\n  rev", "expected it on the Hub, got the Hub has no public"),
        (COMMIT, "a" * 40, "expected it on the Hub, got org/Test_ResNet.small has no such commit"),
        ("org/Test_ResNet.small", "org/mystery", "source.repo: expected other files, got"),
        ("label_space: shapes", "label_space: other", "label_space: expected a label space of 3 classes"),
    ],
)
def test_each_lie_of_an_entry_is_told(hub: Hub, plant: Plant, old: str, new: str, said: str) -> None:
    path = entry(hub, plant)
    plant.write("registry/labels/other.yaml", "name: Other\nsource: x\nclasses: {a: a, b: b}\n")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1).replace("shapes: no", "shapes-train: no"))
    if COMMIT not in path.read_text():
        plant.write("registry/lock.yaml", "{}\n")
    code, told = online(hub, plant)
    assert code == 2
    place = "registry/models/test_resnet.small.yaml:"
    assert any(said in line and line.startswith(place) for line in told), told


def test_a_gated_repository_is_withheld_and_the_rest_goes_on(hub: Hub, plant: Plant) -> None:
    entry(hub, plant)
    text = (plant.root / "registry/models/test_resnet.small.yaml").read_text()
    other = text.replace("name: Test_ResNet.small", "name: Locked").replace("Test_ResNet.small", "locked")
    plant.write("registry/models/locked.yaml", other)
    assert "locked model/locked" in hub.run(plant.root, "lock")[2]
    code, told = online(hub, plant)
    assert code == 0, told
    assert any(line.startswith("withheld: model/locked: org/locked is gated") for line in told)
