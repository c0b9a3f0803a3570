"""Training from a recipe: repeatable, silent towards the rest of the process, whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from robustboard import durable
from robustboard.errors import CellError, StoreError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.registry.lock import Lock, read_lock
from robustboard.runners import identity
from robustboard.runners.classifier import Classifier
from robustboard.runners.loaders import load_classifier
from robustboard.runners.training import Trained, _shift, store, train
from robustboard.runners.weights import locate_weights
from robustboard.workspace import Workspace, find
from tests.conftest import Labelled
from tests.runners.small import plant_digits

STANDARD: dict[str, Any] = {
    "method": "standard",
    "dataset": "digits-train",
    "epochs": 8,
    "batch_size": 64,
    "learning_rate": "0.01",
    "shift": 1,
}
ADVERSARIAL = {
    **STANDARD,
    "method": "fgsm-adversarial",
    "eps": "1/10",
    "relative_step": "5/4",
    "batch_size": 32,
}


def entry(recipe: dict[str, Any], seed: int = 1, size: int = 8) -> ModelEntry:
    """A small ResNet for digits with the given recipe."""
    return ModelEntry.model_validate(
        {
            "id": "trained",
            "name": "Trained",
            "source": {"kind": "trained-here", "seed": seed, "recipe": recipe},
            "loader": "timm",
            "architecture": {
                "name": "resnet18",
                "arguments": {
                    "layers": (1, 1, 1, 1),
                    "channels": (16, 24, 32, 48),
                    "stem_type": "deep",
                    "stem_width": 8,
                },
            },
            "label_space": "digits",
            "input": {
                "size": size,
                "channels": 1,
                "normalization": "outside",
                "mean": (0.306,),
                "std": (0.377,),
            },
            "training": {"datasets": ("digits-train",)},
            "license": "Apache-2.0",
            "added": "2026-01-31",
        }
    )


def quick(**changes: Any) -> ModelEntry:
    """Two epochs on 200 images."""
    return entry({**STANDARD, "epochs": 2, "images": 200, **changes})


def same(left: Trained, right: Trained) -> bool:
    return all(torch.equal(left.state[name], right.state[name]) for name in left.state)


def test_equal_recipe_and_seed_give_equal_bytes_and_leave_no_trace(digits_train: Labelled) -> None:
    """Whatever torch's generator and number of threads were before, they are the same after."""
    torch.manual_seed(1)
    first = train(quick(), *digits_train, classes=10)
    torch.manual_seed(2)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    before = torch.get_rng_state()
    try:
        second = train(quick(), *digits_train, classes=10)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)

    assert torch.equal(torch.get_rng_state(), before)
    assert same(first, second)


def test_another_seed_gives_other_weights(digits_train: Labelled) -> None:
    other = quick().model_copy(update={"source": quick().source.model_copy(update={"seed": 2})})

    assert not same(train(quick(), *digits_train, classes=10), train(other, *digits_train, classes=10))


def test_training_works_where_gradients_are_off(digits_train: Labelled) -> None:
    """B046: a caller's no_grad does not matter."""
    with torch.no_grad():
        trained = train(quick(), *digits_train, classes=10)

    assert same(trained, train(quick(), *digits_train, classes=10))


def test_only_the_first_images_are_used_when_the_recipe_says_so(digits_train: Labelled) -> None:
    images, labels = digits_train

    assert same(
        train(quick(), images, labels, classes=10), train(quick(), images[:200], labels[:200], classes=10)
    )


def pgd(classifier: Classifier, images: torch.Tensor, labels: torch.Tensor, eps: float) -> torch.Tensor:
    """Ten signed steps of eps / 4 from the image itself; independent of the project's attacks."""
    moved = images.clone()
    for _ in range(10):
        moved.requires_grad_()
        (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(classifier(moved), labels), moved)
        moved = moved.detach() + eps / 4 * slope.sign()
        moved = images + (moved - images).clamp(-eps, eps)
        moved = moved.clamp(0, 1)
    return moved


def accuracies(trained: Trained, model: ModelEntry, data: Labelled, folder: Path) -> tuple[float, float]:
    """Shares right on clean digits and under PGD at Linf 1/10, of the weights as stored and loaded again."""
    workspace = Workspace(folder, folder)
    store(model, trained, "0" * 64, workspace)
    weights = locate_weights(model, workspace=workspace, lock=Lock(), train=False)
    assert weights is not None
    space = LabelSpace(
        id="digits", name="Digits", source="a test", classes={str(n): str(n) for n in range(10)}
    )
    classifier = load_classifier(model, space, weights)
    images, labels = (torch.from_numpy(part[:300]) for part in data)
    with torch.no_grad():
        clean = classifier(images).argmax(1) == labels
    attacked = classifier(pgd(classifier, images, labels, 0.1)).argmax(1) == labels
    return float(clean.float().mean()), float((clean & attacked).float().mean())


def test_adversarial_training_pays_under_attack(
    digits_train: Labelled, digits_test: Labelled, tmp_path: Path
) -> None:
    """On 300 digits it never saw: both nets know clean digits, one withstands PGD far better."""
    standard, adversarial = entry(STANDARD, size=16), entry(ADVERSARIAL, size=16)

    plain = accuracies(train(standard, *digits_train, classes=10), standard, digits_test, tmp_path / "a")
    robust = accuracies(
        train(adversarial, *digits_train, classes=10), adversarial, digits_test, tmp_path / "b"
    )

    assert plain[0] > 0.9
    assert robust[0] > 0.85
    assert robust[1] > plain[1] + 0.2


def test_progress_rises_to_one(digits_train: Labelled) -> None:
    seen: list[tuple[str, float]] = []

    train(quick(), *digits_train, classes=10, progress=lambda stage, done: seen.append((stage, done)))

    shares = [done for _, done in seen]
    assert {stage for stage, _ in seen} == {"training"}
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert shares[-1] == 1.0
    assert len(shares) == 2 * (200 // 64)


def test_the_accuracy_is_that_of_the_stored_network(digits_train: Labelled) -> None:
    images, labels = digits_train
    trained = train(quick(), images, labels, classes=10)
    from robustboard.runners.networks import build_network

    network = build_network(quick(), 10)
    network.load_state_dict(trained.state)
    classifier = Classifier(network, quick().input, 10)
    with torch.no_grad():
        right = classifier(torch.from_numpy(images[:200])).argmax(1).numpy() == labels[:200]

    assert trained.accuracy == right.mean()
    assert trained.seconds > 0


def test_shifts_move_whole_images_within_the_limit() -> None:
    """Each result is one of the nine shifts of its image, made here with edge padding; all nine occur."""
    images = np.random.default_rng(0).random((300, 1, 5, 6)).astype(np.float32)
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    shifts = [(dy, dx) for dy in range(3) for dx in range(3)]

    found = _shift(torch.from_numpy(images), 1, torch.Generator().manual_seed(0)).numpy()

    which = [
        next(
            shift
            for shift in shifts
            if np.array_equal(one, pad[:, shift[0] : shift[0] + 5, shift[1] : shift[1] + 6])
        )
        for one, pad in zip(found, padded, strict=True)
    ]
    assert set(which) == set(shifts)


def test_too_few_images_for_a_batch_is_an_error(digits_train: Labelled) -> None:
    images, labels = digits_train

    with pytest.raises(CellError, match="expected at least 64 training images, got 10"):
        train(quick(), images[:10], labels[:10], classes=10)


def test_a_loss_that_explodes_is_an_error(digits_train: Labelled) -> None:
    with pytest.raises(CellError, match="the training loss became") as caught:
        train(quick(learning_rate="1e30"), *digits_train, classes=10)

    assert caught.value.kind == "non-finite"


# Stored weights


def test_weights_are_trained_once_and_found_again(tmp_path: Path) -> None:
    """Absent: None, or trained on request. Present: taken, with the hash that stands in the sidecar."""
    workspace = plant_digits(tmp_path)
    model, lock = load_catalog(workspace).model("tiny"), read_lock(workspace)
    assert locate_weights(model, workspace=workspace, lock=lock, train=False) is None
    assert identity.weights_identity(model, workspace=workspace, lock=lock) is None

    trained = locate_weights(model, workspace=workspace, lock=lock, train=True)
    stamp = identity.trained_path(model, workspace).stat().st_mtime_ns
    again = locate_weights(model, workspace=workspace, lock=lock, train=True)

    assert trained is not None
    assert again == trained
    assert trained.sha256 == identity.file_sha256(trained.path)
    assert trained.sha256 == identity.weights_identity(model, workspace=workspace, lock=lock)
    assert trained.path.stat().st_mtime_ns == stamp
    sidecar = identity.read_sidecar(model, workspace)
    assert sidecar is not None
    assert sidecar.recipe_digest == trained.path.stem == identity.recipe_digest(model)
    assert sidecar.software.keys() == {"torch", "timm"}
    assert sidecar.accuracy > 0.5


def test_weights_without_their_sidecar_do_not_count(digits_train: Labelled, tmp_path: Path) -> None:
    """Training was killed between the two files."""
    workspace = Workspace(tmp_path, tmp_path)
    trained = train(quick(), *digits_train, classes=10)
    store(quick(), trained, "0" * 64, workspace)
    path = identity.trained_path(quick(), workspace)
    assert all(torch.equal(load_file(path)[name], trained.state[name]) for name in trained.state)

    path.with_suffix(".json").unlink()

    assert locate_weights(quick(), workspace=workspace, lock=Lock(), train=False) is None


@pytest.mark.parametrize("part", ["weights", "sidecar"])
def test_damaged_weights_are_refused(part: str, digits_train: Labelled, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path)
    store(quick(), train(quick(), *digits_train, classes=10), "0" * 64, workspace)
    path = identity.trained_path(quick(), workspace)
    path = path if part == "weights" else path.with_suffix(".json")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x80
    path.write_bytes(data)

    with pytest.raises((CellError, StoreError)) as caught:
        locate_weights(quick(), workspace=workspace, lock=Lock(), train=True)

    assert path.name in str(caught.value)


DRIVER = """\
import sys
from pathlib import Path
from robustboard.registry.catalog import load_catalog
from robustboard.registry.lock import read_lock
from robustboard.runners.weights import locate_weights
from robustboard.workspace import find

workspace = find(Path(sys.argv[1]))
entry = load_catalog(workspace).model("tiny")
report = lambda stage, done: print(done, flush=True)
locate_weights(entry, workspace=workspace, lock=read_lock(workspace), train=True, progress=report)
print("stored", flush=True)
"""


def test_a_killed_training_leaves_nothing_that_counts(tmp_path: Path) -> None:
    """kill -9 in the middle; the next run trains again and ends with the bytes of an undisturbed one."""
    workspace = plant_digits(tmp_path / "killed")
    command = [sys.executable, "-c", DRIVER, str(workspace.content)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    model, lock = load_catalog(workspace).model("tiny"), read_lock(workspace)
    assert locate_weights(model, workspace=workspace, lock=lock, train=False) is None

    undisturbed = plant_digits(tmp_path / "undisturbed")
    after = locate_weights(model, workspace=workspace, lock=lock, train=True)
    once = locate_weights(model, workspace=undisturbed, lock=lock, train=True)

    assert after is not None
    assert once is not None
    assert after.sha256 == once.sha256


def test_a_full_disk_leaves_no_weights(
    digits_train: Labelled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path, tmp_path)
    trained = train(quick(), *digits_train, classes=10)

    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "write", full)
    with pytest.raises(OSError, match="No space"):
        store(quick(), trained, "0" * 64, workspace)

    assert identity.read_sidecar(quick(), workspace) is None


# The recipes that ship


@pytest.mark.parametrize(
    "name", ["digits-resnet", "digits-densenet", "digits-mobilenet", "digits-resnet-adv"]
)
def test_the_recipes_of_the_demo_reach_their_mark(
    name: str, digits_train: Labelled, digits_test: Labelled
) -> None:
    """At least 93 % of 600 unseen digits; 88 % for the adversarially trained net."""
    from robustboard.runners.networks import build_network

    model = load_catalog(find(Path(__file__).resolve().parents[2])).model(name)
    trained = train(model, *digits_train, classes=10)
    network = build_network(model, 10)
    network.load_state_dict(trained.state)
    images, labels = map(torch.from_numpy, digits_test)
    with torch.no_grad():
        right = (Classifier(network, model.input, 10)(images).argmax(1) == labels).float().mean()

    assert right >= (0.88 if name.endswith("-adv") else 0.93)
    assert sum(parameter.numel() for parameter in network.parameters()) < 200_000
