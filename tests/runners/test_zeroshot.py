"""Zero-shot classifiers, shown on a small CLIP that is trained here on digits and their names."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from robustboard.errors import CellError
from robustboard.registry.entries import ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.identity import model_digest
from robustboard.runners.loaders import load_classifier
from robustboard.runners.weights import Weights
from robustboard.runners.zeroshot import class_prompts
from tests.conftest import Labelled

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEMPLATES = ("a photo of the digit {}.", "{}", "the number {} by hand")
SIZE = 8
CONFIG = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": SIZE, "layers": 2, "width": 64, "patch_size": 2},
    "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
SPACE = LabelSpace(
    id="digits", name="Digits", source="a test", classes={str(n): name for n, name in enumerate(NAMES)}
)


def entry(templates: tuple[str, ...] = TEMPLATES, **changes: Any) -> ModelEntry:
    return ModelEntry.model_validate(
        {
            "id": "clip",
            "name": "Clip",
            "source": {"kind": "hub", "repo": "org/clip", "revision": "a" * 40},
            "loader": "open_clip",
            "architecture": {"name": "tiny"},
            "label_space": "digits",
            "input": {
                "size": SIZE,
                "interpolation": "bicubic",
                "normalization": "outside",
                "mean": (0.306,) * 3,
                "std": (0.377,) * 3,
            },
            "zero_shot": {"templates": templates},
            "training": {"datasets": ("digits-train",)},
            "license": "MIT",
            "added": "2026-01-31",
            **changes,
        }
    )


def trained_clip(images: torch.Tensor, labels: torch.Tensor) -> Any:
    """Contrast images with sentences on their digits, which are encoded once a step and a class."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = open_clip.CLIP(**CONFIG)
    generator = torch.Generator().manual_seed(0)
    tokenizer = open_clip.SimpleTokenizer(context_length=12)
    tokens = [tokenizer([template.replace("{}", name) for name in NAMES]) for template in TEMPLATES]
    inputs = (images.expand(-1, 3, -1, -1) - 0.306) / 0.377
    model.token_embedding.weight.requires_grad_(requires_grad=False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=14 * -(-len(images) // 100))
    model.train()
    for _ in range(14):
        for rows in torch.split(torch.randperm(len(images), generator=generator), 100):
            pictures = functional.normalize(model.encode_image(inputs[rows]), dim=-1)
            words = functional.normalize(model.encode_text(tokens[schedule.last_epoch % 3]), dim=-1)
            logits = model.logit_scale.exp() * pictures @ words.T
            optimizer.zero_grad()
            torch.autograd.backward(functional.cross_entropy(logits, labels[rows]))
            optimizer.step()
            schedule.step()
    return model.eval()


@pytest.fixture(scope="module")
def clip(digits_train: Labelled, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A trained model, and the folder it is stored in as the Hub would hold it."""
    torch.set_num_threads(1)
    model = trained_clip(*map(torch.from_numpy, digits_train))
    folder = tmp_path_factory.mktemp("clip")
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    config = {"model_cfg": CONFIG, "preprocess_cfg": {"mean": [0.306] * 3, "std": [0.377] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return model, folder


def weights(folder: Path) -> Weights:
    return Weights(folder, "0" * 64)


def test_it_classifies_unseen_digits(clip: tuple[Any, Path], digits_test: Labelled) -> None:
    """Far above the tenth that chance gives; grey images are repeated; gradients reach the pixels."""
    images, labels = map(torch.from_numpy, digits_test)
    classifier = load_classifier(entry(), SPACE, weights(clip[1]))

    images = images.requires_grad_()
    logits = classifier(images)
    (slope,) = torch.autograd.grad(functional.cross_entropy(logits, labels), images)

    assert logits.shape == (600, 10)
    assert (logits.argmax(1) == labels).float().mean() > 0.5
    assert float(slope.abs().sum()) > 0
    assert not any(parameter.requires_grad for parameter in classifier.parameters())
    assert classifier.facts["channels"] == "grey repeated to 3"


def test_the_logits_are_scaled_cosines_with_mean_prompts(
    clip: tuple[Any, Path], digits_test: Labelled
) -> None:
    """Spelled out class by class and prompt by prompt, with plain loops."""
    model, folder = clip
    images = torch.from_numpy(digits_test[0][:7])
    tokenizer = open_clip.SimpleTokenizer(context_length=12)

    def unit(vector: torch.Tensor) -> torch.Tensor:
        return vector / vector.square().sum().sqrt()

    with torch.no_grad():
        found = load_classifier(entry(), SPACE, weights(folder))(images)
        pictures = model.encode_image((images.expand(-1, 3, -1, -1) - 0.306) / 0.377)
        for column, name in enumerate(NAMES):
            units = [unit(model.encode_text(tokenizer([t.replace("{}", name)]))[0]) for t in TEMPLATES]
            direction = unit(sum(units[1:], units[0]) / len(units))
            for row, picture in enumerate(pictures):
                wanted = model.logit_scale.exp() * torch.dot(unit(picture), direction)
                assert abs(float(found[row, column]) - float(wanted)) < 1e-3


def test_prompts_go_with_class_keys_in_order() -> None:
    space = LabelSpace(id="animals", name="A", source="x", classes={"n2": "dog", "n1": "cat"})

    found = class_prompts(("a {}.", "{}!"), space)

    assert found == {"n2": ("a dog.", "dog!"), "n1": ("a cat.", "cat!")}
    assert list(found) == ["n2", "n1"]


def test_classes_in_another_order_give_the_same_columns_in_that_order(
    clip: tuple[Any, Path], digits_test: Labelled
) -> None:
    """B012: a column belongs to its class, wherever it stands; chunks of classes change nothing."""
    images = torch.from_numpy(digits_test[0][:20])
    order = [7, 2, 9, 0, 1, 3, 4, 5, 6, 8]
    shuffled = SPACE.model_copy(update={"classes": {str(n): NAMES[n] for n in order}})

    with torch.no_grad():
        straight = load_classifier(entry(), SPACE, weights(clip[1]))(images)
        found = load_classifier(entry(), shuffled, weights(clip[1]))(images)

    assert torch.allclose(found, straight[:, order], atol=1e-4)


def test_other_prompts_are_another_model(clip: tuple[Any, Path], digits_test: Labelled) -> None:
    images = torch.from_numpy(digits_test[0][:20])
    other = entry(("the number {} by hand",))

    with torch.no_grad():
        first = load_classifier(entry(), SPACE, weights(clip[1]))(images)
        second = load_classifier(other, SPACE, weights(clip[1]))(images)

    assert not torch.allclose(first, second, atol=1e-3)
    assert model_digest(other) != model_digest(entry())


def test_torchs_generator_is_left_alone(clip: tuple[Any, Path]) -> None:
    before = torch.get_rng_state()

    load_classifier(entry(), SPACE, weights(clip[1]))

    assert torch.equal(torch.get_rng_state(), before)


def test_a_snapshot_of_links_as_the_hubs_cache_lays_it_loads(clip: tuple[Any, Path], tmp_path: Path) -> None:
    """Files are links to blobs that are named by their hash."""
    snapshot = tmp_path / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for path in clip[1].iterdir():
        blob = tmp_path / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(blob)

    assert load_classifier(entry(), SPACE, weights(snapshot)).classes == 10


def without_weights(folder: Path) -> None:
    (folder / "open_clip_model.safetensors").unlink()


def without_config(folder: Path) -> None:
    (folder / "open_clip_config.json").unlink()


def with_a_page(folder: Path) -> None:
    (folder / "open_clip_model.safetensors").write_bytes(b"<html>" + b"x" * 2000)


def with_nan(folder: Path) -> None:
    state = load_file(folder / "open_clip_model.safetensors")
    state["ln_final.weight"][3] = float("nan")
    save_file(state, folder / "open_clip_model.safetensors")


def without_a_tensor(folder: Path) -> None:
    state = load_file(folder / "open_clip_model.safetensors")
    del state["ln_final.weight"]
    save_file(state, folder / "open_clip_model.safetensors")


def configured(section: str, **values: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "open_clip_config.json").read_text())
        config["model_cfg"][section].update(values)
        (folder / "open_clip_config.json").write_text(json.dumps(config))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message", "kind"),
    [
        (without_weights, "expected open_clip_model.safetensors in", "load"),
        (without_config, "expected open_clip_config.json in", "load"),
        (with_a_page, "looks like HTML", "load"),
        (with_nan, "'ln_final.weight' holds NaN", "non-finite"),
        (without_a_tensor, "open_clip cannot load clip", "load"),
        (configured("text_cfg", hf_model_name="org/other"), "from another repository", "load"),
        (configured("vision_cfg", timm_model_name="hf-hub:org/other"), "timm has no architecture", "load"),
        (configured("vision_cfg", width=96), "open_clip cannot load clip", "load"),
        (configured("vision_cfg", wings=2), "'wings' is no key that open_clip is given", "load"),
    ],
)
def test_an_incomplete_or_hostile_folder_is_one_line(
    spoil: Callable[[Path], None], message: str, kind: str, clip: tuple[Any, Path], tmp_path: Path
) -> None:
    """B021: no random model where weights are absent, and nothing else is fetched or run."""
    folder = tmp_path / "snapshot"
    shutil.copytree(clip[1], folder)
    spoil(folder)

    with pytest.raises(CellError, match=message) as caught:
        load_classifier(entry(), SPACE, weights(folder))

    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)


def test_another_input_size_than_the_entrys_is_refused(clip: tuple[Any, Path]) -> None:
    """open_clip would resize positions in silence, or fail at the first batch."""
    wrong = entry().model_copy(update={"input": entry().input.model_copy(update={"size": 16})})

    with pytest.raises(CellError, match="takes images of 8x8, the entry says 16"):
        load_classifier(wrong, SPACE, weights(clip[1]))


def test_a_tokenizer_that_needs_another_library_says_which(
    clip: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "snapshot"
    shutil.copytree(clip[1], folder)
    configured("text_cfg", hf_tokenizer_name="org/other")(folder)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(CellError, match="pip install transformers") as caught:
        load_classifier(entry(), SPACE, weights(folder))

    assert caught.value.kind == "extra-missing"
