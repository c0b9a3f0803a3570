"""ImageNet's sets end to end, from a Hub and from folders: 1.0 when done right, less with each mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import e
from pathlib import Path
from typing import Any

import pytest

from tests.runners.thousand import ROOT, World

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the driver measured in a world of its own."""
    world = World(tmp_path_factory.mktemp("thousand"))
    command = [sys.executable, str(HERE / "sources" / "hub_server.py"), str(world.hub)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ROBUSTBOARD"))
        }
        run = subprocess.run(
            [sys.executable, "-m", "tests.runners.thousand_driver", str(world.root)],
            env={
                **kept,
                "HF_ENDPOINT": server.stdout.readline().strip(),
                "HF_HOME": str(world.root / "home"),
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        server.stdin.close()
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize(
    ("dataset", "images"),
    [
        ("imagenet-1k", 1000),
        ("imagenet-1k-a", 200),
        ("imagenet-1k-objectnet", 125),
        ("imagenet-a", 200),
        ("imagenet-r", 200),
        ("imagenet-v2", 1000),
        ("objectnet", 113),
    ],
)
def test_a_right_model_scores_one(answers: dict[str, Any], dataset: str, images: int) -> None:
    """Specs 1.3, 6.1, 7.1, 7.2 and 7.5, in the layouts of the published sets."""
    found = answers[dataset]
    assert (found["metric"], found["score"], found["n"]) == ("clean_accuracy", 1.0, images)


@pytest.mark.parametrize(
    ("case", "score"),
    [
        ("imagenet-1k, off by one", 0.0),
        ("imagenet-a, unmasked", 0.0),
        ("imagenet-r, unmasked", 0.0),
        # Pictures of nine categories show a class that is not their first: every category is at 0 there,
        # and the first in order wins, which is one of the nine.
        ("objectnet, one index only", (113 - 9 + 1) / 113),
    ],
)
def test_each_classic_mistake_costs_what_it_must(answers: dict[str, Any], case: str, score: float) -> None:
    assert answers[case]["score"] == pytest.approx(score, abs=1e-12)
    dataset = case.split(",", maxsplit=1)[0]
    assert answers[case]["key"] != answers[dataset]["key"], "another run, not the same number"


def test_folders_in_the_order_of_their_names_would_score_nearly_nothing(answers: dict[str, Any]) -> None:
    """Specs 7.2: "0", "1", "10", "100" … leave few numbers in their place."""
    in_place = sum(rank == int(name) for rank, name in enumerate(sorted(map(str, range(1000)))))
    assert answers["imagenet-v2, folder order"]["score"] == in_place / 1000 < 0.02


def test_a_frame_that_is_not_cut_off_costs_nearly_everything(answers: dict[str, Any]) -> None:
    """Specs 7.5: two red pixels on every side."""
    assert answers["objectnet, border kept"]["score"] < 0.1
    assert "2 pixels cut off every side" in answers["objectnet"]["facts"]["preprocessing"]


@pytest.mark.parametrize("case", ["imagenet-a, labels as indices", "imagenet-a, mask of another set"])
def test_labels_outside_the_subset_are_refused_with_one_line(answers: dict[str, Any], case: str) -> None:
    """A label that the subset does not hold is a fault of the entry, never a wrong answer of the model."""
    reason = answers[case]["reason"]
    subset = "imagenet-r" if "another" in case else "imagenet-a"
    assert (
        f"is none of the 200 of class subset {subset}; correct the data, label_map or class_subset" in reason
    )
    assert reason.startswith("labels: dataset imagenet-a: row ")
    assert "\n" not in reason


@pytest.mark.parametrize("dataset", ["imagenet-1k", "imagenet-1k-a", "imagenet-r"])
def test_groups_of_a_hub_set_come_along_also_through_a_view(answers: dict[str, Any], dataset: str) -> None:
    assert answers[dataset]["groups"] == ["Africa", "Asia", "Europe"]


def test_the_record_says_how_categories_were_compared(answers: dict[str, Any]) -> None:
    wanted = {"objectnet": "113, compared by the highest logit", "cue-conflict": "16, compared by the mean"}
    for dataset, words in wanted.items():
        assert answers[dataset]["facts"]["categories"].startswith(words)
    assert "categories" not in answers["imagenet-a"]["facts"]


def test_cue_conflicts_are_decided_by_the_mean_and_know_their_textures(answers: dict[str, Any]) -> None:
    """Specs 7.4: the mean over n classes of which one has logit x is (e^x + n - 1)/n, up to a factor."""
    sizes = [len(keys) for keys in World.categories().values()]
    right = maximum = 0
    for shape, mine in enumerate(sizes):
        for texture, its in enumerate(sizes):
            means = [1.0] * 16
            if shape == texture:
                means[shape] = (e**3 + mine - 1) / mine
            else:
                means[shape], means[texture] = (e + mine - 1) / mine, (e**2 + its - 1) / its
            right += max(range(16), key=means.__getitem__) == shape
            maximum += shape == texture
    found = answers["cue-conflict"]
    assert found["score"] == right / 256
    assert answers["cue-conflict, maximum for mean"]["score"] == maximum / 256 == 1 / 16
    assert 1 / 16 < right / 256 < 1
    assert found["groups"] == sorted(map(str, range(16)))
