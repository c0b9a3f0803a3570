"""From an entry and weights to a classifier: everything fits to the last tensor, or nothing is evaluated."""

from __future__ import annotations

import copy
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import skimage.data
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_sample_image

from robustboard.errors import CellError, UserError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.registry.lock import read_lock
from robustboard.runners.identity import file_sha256
from robustboard.runners.loaders import load_classifier, match_by_position
from robustboard.runners.networks import build_network
from robustboard.runners.weights import Weights, locate_weights
from robustboard.workspace import find

SMALL: dict[str, Any] = {"layers": (1, 1, 1, 1), "channels": (8, 8, 8, 8), "stem_width": 8}


def space(classes: int) -> LabelSpace:
    names = {str(number): f"class {number}" for number in range(classes)}
    return LabelSpace(id="numbers", name="Numbers", source="a test", classes=names)


def entry(
    architecture: str = "resnet18", arguments: dict[str, Any] | None = None, **changes: Any
) -> ModelEntry:
    """A small ResNet whose weights lie in a file."""
    return ModelEntry.model_validate(
        {
            "id": "small",
            "name": "Small",
            "source": {"kind": "file", "path": "small.safetensors", "sha256": "0" * 64},
            "loader": "timm",
            "architecture": {"name": architecture, "arguments": SMALL if arguments is None else arguments},
            "label_space": "numbers",
            "input": {"size": 32, "normalization": "inside"},
            "training": {"datasets": ("nothing",)},
            "license": "Apache-2.0",
            "added": "2026-01-31",
            **changes,
        }
    )


def stored(path: Path, state: dict[str, torch.Tensor]) -> Weights:
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    return Weights(path, file_sha256(path))


def network(classes: int, seed: int = 0) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_network(entry(), classes).eval()


def test_the_loaded_network_is_the_stored_one(tmp_path: Path) -> None:
    """Logits equal those of the network that was saved, twice, and torch's generator is left alone."""
    source = network(10)
    weights = stored(tmp_path / "small.safetensors", source.state_dict())
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()

    first, second = (load_classifier(entry(), space(10), weights) for _ in range(2))

    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(first(images), source(images), rtol=1e-5, atol=1e-5)
    assert torch.equal(first(images), second(images))


@pytest.mark.parametrize(("head", "classes"), [(10, 3), (3, 10), (1000, 10)])
def test_a_head_of_another_width_is_refused_with_both_numbers(
    head: int, classes: int, tmp_path: Path
) -> None:
    """B019: no head is ever made up."""
    weights = stored(tmp_path / "small.safetensors", network(head).state_dict())

    with pytest.raises(CellError) as caught:
        load_classifier(entry(), space(classes), weights)

    assert caught.value.kind == "class-count"
    assert caught.value.reason == f"the weights have a head of {head} classes, the label space has {classes}"


def test_weights_without_a_head_are_refused(tmp_path: Path) -> None:
    """B019: a missing head would be random; two loads would differ."""
    state = {name: tensor for name, tensor in network(10).state_dict().items() if not name.startswith("fc.")}

    with pytest.raises(CellError, match=r"2 tensor\(s\) missing, first 'fc.weight'") as caught:
        load_classifier(entry(), space(10), stored(tmp_path / "small.safetensors", state))

    assert caught.value.kind == "load"


def test_surplus_and_misshapen_tensors_are_refused(tmp_path: Path) -> None:
    state = network(10).state_dict()
    surplus = {**state, "extra.weight": torch.zeros(1)}
    misshapen = {**state, "conv1.weight": torch.zeros(8, 3, 5, 5)}

    with pytest.raises(CellError, match=r"1 unknown, first 'extra\.weight'"):
        load_classifier(entry(), space(10), stored(tmp_path / "a.safetensors", surplus))
    with pytest.raises(CellError, match=r"'conv1.weight' has shape \(8, 3, 5, 5\), expected \(64, 3, 7, 7\)"):
        load_classifier(entry(), space(10), stored(tmp_path / "b.safetensors", misshapen))


@pytest.mark.parametrize(("kind", "said"), [(torch.int64, "whole"), (torch.complex64, "complex")])
def test_another_kind_of_number_is_refused_not_cut(tmp_path: Path, kind: torch.dtype, said: str) -> None:
    """Fractions and imaginary parts would be lost in silence; half precision is the same kind."""
    state = network(10).state_dict()
    other = {**state, "conv1.weight": state["conv1.weight"].to(kind)}
    half = {**state, "conv1.weight": state["conv1.weight"].half()}

    with pytest.raises(CellError, match=rf"'conv1\.weight' holds {said} numbers, expected floating-point"):
        load_classifier(entry(), space(10), stored(tmp_path / "a.safetensors", other))
    load_classifier(entry(), space(10), stored(tmp_path / "b.safetensors", half))


def test_a_pickle_from_a_data_folder_is_refused(tmp_path: Path) -> None:
    """Only a package's file, which the entry names by hash, may be a pickle."""
    torch.save(network(10).state_dict(), tmp_path / "small.pth")

    with pytest.raises(CellError, match=r"expected a \.safetensors file"):
        load_classifier(entry(), space(10), Weights(tmp_path / "small.pth", "0" * 64))


@pytest.mark.parametrize(
    ("architecture", "arguments", "message"),
    [
        ("resnet81", {}, r"timm has no architecture 'resnet81' \(did you mean .*resnet18"),
        ("resnet18", {"pretrained": True}, "pretrained may not be set by an entry"),
        ("resnet18", {"num_classes": 7, "checkpoint_path": "x"}, "checkpoint_path, num_classes may not"),
        ("resnet18", {"wings": 2}, "timm cannot build resnet18: TypeError"),
        ("resnet18", {"layers": (1, 1)}, "timm cannot build resnet18|do not fit the architecture"),
    ],
)
def test_what_timm_cannot_or_must_not_build_is_one_line(
    architecture: str, arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    weights = stored(tmp_path / "small.safetensors", network(10).state_dict())

    with pytest.raises(CellError, match=message) as caught:
        load_classifier(entry(architecture, arguments), space(10), weights)

    assert caught.value.kind == "load"
    assert "\n" not in str(caught.value)


def test_a_tagged_architecture_is_built_without_its_published_weights(tmp_path: Path) -> None:
    """`test_resnet.r160_in1k` names published weights; what counts is the file."""
    tagged = entry("test_resnet.r160_in1k", {})
    source = timm.create_model("test_resnet", num_classes=10).eval()
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    found = load_classifier(tagged, space(10), stored(tmp_path / "a.safetensors", source.state_dict()))

    torch.testing.assert_close(found(images), source(images), rtol=1e-5, atol=1e-5)


# Matching by position


PLACES = {"stem.weight": torch.zeros(4, 3), "stem.bias": torch.zeros(4), "fc.weight": torch.zeros(10, 4)}


def test_tensors_are_matched_in_order() -> None:
    state = {
        f"_other{number}.{name.split('.')[1]}": t + number for number, (name, t) in enumerate(PLACES.items())
    }

    found = match_by_position(state, PLACES)

    assert list(found) == list(PLACES)
    assert [float(tensor.max()) for tensor in found.values()] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a.weight": torch.zeros(4, 3)}, "expected 3 tensors, the file holds 1"),
        ({**PLACES, "stem.bias": torch.zeros(5)}, r"'stem.bias' \(5,\) does not match stem.bias \(4,\)"),
        (
            {"a.weight": torch.zeros(4, 3), "a.running_mean": torch.zeros(4), "b.weight": torch.zeros(10, 4)},
            "'a.running_mean' .* does not match stem.bias",
        ),
        ({**PLACES, "fc.weight": torch.zeros(10, 5)}, "does not match fc.weight"),
    ],
)
def test_tensors_that_do_not_match_in_order_are_refused(state: dict[str, Any], message: str) -> None:
    """Count, shapes and the last part of each name must agree."""
    with pytest.raises(CellError, match=message):
        match_by_position(state, PLACES)


def test_the_width_of_a_head_is_left_to_the_check_of_classes(tmp_path: Path) -> None:
    """B019: also where tensors are matched in order, the message names both numbers."""
    architecture = {"name": "resnet18", "arguments": SMALL, "state_map": "position"}
    source = {"kind": "package", "distribution": "x", "path": "x.pth", "sha256": "0" * 64}
    torch.save(network(7).state_dict(), tmp_path / "x.pth")
    placed = ModelEntry.model_validate(
        {**entry().model_dump(), "source": source, "architecture": architecture}
    )

    with pytest.raises(CellError, match="a head of 7 classes, the label space has 10"):
        load_classifier(placed, space(10), Weights(tmp_path / "x.pth", "0" * 64))


# EfficientNet-Lite0 from its package


PHOTOS: dict[str, Callable[[], Any]] = {
    "chelsea": skimage.data.chelsea,
    "coffee": skimage.data.coffee,
    "china": lambda: load_sample_image("china.jpg"),
}


@pytest.fixture(scope="module")
def lite0() -> Any:
    """The registry's entry, its classifier and the keys of its classes."""
    workspace = find(Path(__file__).resolve().parents[2])
    catalog = load_catalog(workspace)
    model = catalog.model("efficientnet-lite0")
    weights = locate_weights(model, workspace=workspace, lock=read_lock(workspace), train=False)
    assert weights is not None
    classes = catalog.label_space(model.label_space)
    return model, load_classifier(model, classes, weights), list(classes.classes.values()), weights


def photo(name: str, model: ModelEntry) -> torch.Tensor:
    """Resized and cropped as timm does: shorter side to size / crop, bicubic, centre crop."""
    pixels: npt.NDArray[np.uint8] = PHOTOS[name]()
    image = Image.fromarray(pixels)
    side = int(model.input.size / model.input.crop)
    scale = side / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = ((length - model.input.size) // 2 for length in image.size)
    image = image.crop((left, top, left + model.input.size, top + model.input.size))
    return torch.from_numpy(np.asarray(image, np.float32) / 255).permute(2, 0, 1)[None]


def test_efficientnet_lite0_gives_the_logits_of_the_original_implementation(lite0: Any) -> None:
    """Bit for bit in the same memory layout, on three photos, against PyPI's efficientnet-lite-pytorch."""
    original_package = pytest.importorskip("efficientnet_lite_pytorch")
    model, classifier, _, weights = lite0
    original = original_package.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=str(weights.path)
    )
    original.eval()
    plain = copy.deepcopy(classifier.network).to(memory_format=torch.contiguous_format)

    for name in PHOTOS:
        images = photo(name, model)
        with torch.no_grad():
            expected = original((images - 0.5) / 0.5)
            assert torch.equal(plain((images - 0.5) / 0.5), expected)
            torch.testing.assert_close(classifier(images), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "words"),
    [("chelsea", ("cat", "tabby")), ("coffee", ("espresso",)), ("china", ("palace",))],
)
def test_efficientnet_lite0_knows_what_is_on_the_photos(
    name: str, words: tuple[str, ...], lite0: Any
) -> None:
    """A cat, a cup of espresso, a palace."""
    model, classifier, names, _ = lite0

    with torch.no_grad():
        best = names[int(classifier(photo(name, model)).argmax())]

    assert any(word in best.lower() for word in words), best


# Plugins


PLUGIN = """\
import torch
from robustboard.runners.classifier import Classifier

class Brightest(torch.nn.Module):
    def forward(self, images):
        return images.flatten(1)[:, :10] * 2

def load(entry, space, weights):
    return Classifier(Brightest(), entry.input, len(space.classes))
"""


@pytest.fixture
def installed_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that offers the loader `brightest`, as pip would lay it out."""
    folder = tmp_path / "site-packages"
    info = folder / "brightest-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "brightest_loader.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brightest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        textwrap.dedent("""\
        [robustboard.loaders]
        brightest = brightest_loader:load
        broken = brightest_absent:load
        """)
    )
    monkeypatch.syspath_prepend(folder)


@pytest.mark.usefixtures("installed_plugin")
def test_a_plugin_loads_when_it_is_allowed(tmp_path: Path) -> None:
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    plugged = entry(loader="plugin:brightest")

    found = load_classifier(plugged, space(10), Weights(tmp_path, "0" * 64), allow_plugins=True)

    assert torch.equal(found(images), images.flatten(1)[:, :10] * 2)


@pytest.mark.usefixtures("installed_plugin")
def test_a_plugin_is_not_even_imported_without_leave(tmp_path: Path) -> None:
    sys.modules.pop("brightest_loader", None)

    with pytest.raises(UserError, match=r"plugin:brightest runs code .*--allow-plugins"):
        load_classifier(entry(loader="plugin:brightest"), space(10), Weights(tmp_path, "0" * 64))

    assert "brightest_loader" not in sys.modules


@pytest.mark.usefixtures("installed_plugin")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", r"no installed distribution offers the loader 'absent' \(known: .*brightest"),
        ("broken", "plugin:broken cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_plugin_that_is_absent_or_broken_is_one_line(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CellError, match=message) as caught:
        load_classifier(
            entry(loader=f"plugin:{name}"), space(10), Weights(tmp_path, "0" * 64), allow_plugins=True
        )

    assert caught.value.kind == "load"
