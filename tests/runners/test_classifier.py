"""What happens between [0, 1] pixels and logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec
from robustboard.runners.classifier import Classifier, Preprocess
from tests.conftest import Labelled


def spec(**changes: Any) -> InputSpec:
    """An input spec with the network's own normalization, changed as wanted."""
    return InputSpec.model_validate({"size": 8, "channels": 1, "normalization": "inside", **changes})


class Wrapped(nn.Module):
    """A network that hands out its logits in some other form."""

    def __init__(self, network: nn.Module, form: Any) -> None:
        super().__init__()
        self.network = network
        self.form = form

    def forward(self, images: Tensor) -> Any:
        return self.form(self.network(images))


class Output:
    """An object with logits, as transformers returns."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


FORMS = {
    "tensor": lambda logits: logits,
    "tuple": lambda logits: (logits, logits.mean()),
    "dict": lambda logits: {"embedding": logits * 2, "logits": logits},
    "object": Output,
}


@pytest.mark.parametrize("form", FORMS)
def test_four_ways_to_return_logits_are_the_same_classifier(
    form: str, standard_net: nn.Module, digits_test: Labelled
) -> None:
    """B024: tensor, tuple, dict and object give the same logits and the same input gradients."""
    images = torch.from_numpy(digits_test[0][:50]).requires_grad_()
    targets = torch.from_numpy(digits_test[1][:50])
    expected = standard_net(images)
    (slope,) = torch.autograd.grad(functional.cross_entropy(expected, targets), images)

    classifier = Classifier(Wrapped(standard_net, FORMS[form]), spec(), 10)
    found = classifier(images)
    (found_slope,) = torch.autograd.grad(functional.cross_entropy(found, targets), images)

    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found_slope, slope, rtol=1e-4, atol=1e-5)


def test_a_dict_without_logits_is_refused_with_its_keys(standard_net: nn.Module) -> None:
    """B024: an output that names no logits is an error that lists what it has."""
    network = Wrapped(standard_net, lambda logits: {"embedding": logits, "pooled": logits})

    with pytest.raises(CellError, match="'embedding', 'pooled'") as caught:
        Classifier(network, spec(), 10)(torch.zeros(2, 1, 8, 8))

    assert caught.value.kind == "load"


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (lambda logits: logits[:, :, None], "load"),
        (lambda logits: logits[:, 0], "load"),
        (lambda logits: logits[:1], "load"),
        (lambda logits: logits.argmax(1, keepdim=True).expand(-1, 10), "load"),
        (lambda logits: logits[:, :9], "class-count"),
        (lambda _: None, "load"),
        (lambda _: (), "load"),
        (lambda logits: logits.numpy(), "load"),
    ],
)
def test_logits_of_another_shape_or_kind_are_refused(form: Any, kind: str, standard_net: nn.Module) -> None:
    """B024: (n, c, 1), (n,), too few rows or classes, whole numbers and nothing at all: never broadcast."""
    with torch.no_grad(), pytest.raises(CellError) as caught:
        Classifier(Wrapped(standard_net, form), spec(), 10)(torch.zeros(3, 1, 8, 8))

    assert caught.value.kind == kind


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_logits_that_are_no_numbers_are_refused(value: float, standard_net: nn.Module) -> None:
    """B038: NaN and infinity end the cell, they are not class 0."""

    def spoil(logits: Tensor) -> Tensor:
        spoilt = logits.clone()
        spoilt[1, 3] = value
        return spoilt

    with pytest.raises(CellError, match="NaN or infinity") as caught:
        Classifier(Wrapped(standard_net, spoil), spec(), 10)(torch.zeros(3, 1, 8, 8))

    assert caught.value.kind == "non-finite"


def test_train_does_not_leave_eval_mode_and_parameters_stay_frozen(digits_test: Labelled) -> None:
    """Batch statistics would make a prediction depend on its neighbours."""
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout(), nn.Linear(144, 10)
    )
    classifier = Classifier(network, spec(), 10)
    images = torch.from_numpy(digits_test[0][:20])

    classifier.train()

    assert not any(module.training for module in classifier.modules())
    assert not any(parameter.requires_grad for parameter in classifier.parameters())
    assert torch.allclose(classifier(images)[:5], classifier(images[:5]), atol=1e-6)


def spy(channels: int, size: int) -> tuple[nn.Module, list[Tensor]]:
    """A network that keeps what it is given."""
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images)
            return images.reshape(-1, channels * size * size)

    return Spy(), seen


@pytest.mark.parametrize(
    ("image_channels", "channels", "expected"),
    [(1, 1, "as it is"), (1, 3, "repeated"), (3, 3, "as it is"), (3, 1, "refused")],
)
def test_channels_delivered_equal_channels_declared(
    image_channels: int, channels: int, expected: str
) -> None:
    """B025: grey is repeated for a three-channel network and this is recorded; colour is never dropped."""
    network, seen = spy(channels, 28)
    mean = [0.1 * number for number in range(1, channels + 1)]
    outside = spec(
        size=28, channels=channels, normalization="outside", mean=tuple(mean), std=(0.5,) * channels
    )
    classifier = Classifier(network, outside, channels * 28 * 28)
    images = torch.rand(2, image_channels, 28, 28, generator=torch.Generator().manual_seed(0))

    if expected == "refused":
        with pytest.raises(CellError, match=r"takes 1 channel\(s\), the images have 3"):
            classifier(images)
        return
    classifier(images)

    wanted = [(images[:, min(c, image_channels - 1)] - mean[c]) / 0.5 for c in range(channels)]
    assert torch.allclose(seen[0], torch.stack(wanted, 1))
    assert classifier.facts.get("channels") == ("grey repeated to 3" if expected == "repeated" else None)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_mean_of_another_length_is_refused_with_the_entry(length: int) -> None:
    """B025: numbers of mean and std other than the channels never reach a batch."""
    if length == 3:
        spec(channels=3, normalization="outside", mean=(0.5,) * 3, std=(0.5,) * 3)
        return

    with pytest.raises(ValueError, match=r"expected 3 numbers \(channels 3, normalization outside\)"):
        spec(channels=3, normalization="outside", mean=(0.5,) * length, std=(0.5,) * 3)


def test_images_of_the_right_size_reach_the_network_to_the_bit() -> None:
    """B026: no second resize or crop; a border of one red pixel is still there, and the record says so."""
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    pixels[[0, -1], :] = pixels[:, [0, -1]] = (255, 0, 0)
    images = torch.from_numpy(pixels.astype(np.float32) / np.float32(255)).permute(2, 0, 1)[None]
    network, seen = spy(3, 224)
    classifier = Classifier(network, spec(size=224, channels=3, crop="7/8"), 3 * 224 * 224)

    classifier(images)

    assert torch.equal(seen[0], images)
    assert classifier.facts == {"normalization": "inside", "resize": "none"}


@pytest.mark.parametrize(
    ("spec_normalization", "inside"), [("inside", True), ("outside", False), ("outside", True)]
)
def test_normalization_happens_exactly_where_the_entry_says(
    *,
    spec_normalization: str,
    inside: bool,
    standard_net: nn.Module,
    digits_test: Labelled,
) -> None:
    """B027: inside or outside agree with the direct pass on five images; twice is another function."""

    class Normalising(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = standard_net((images - 0.3) / 0.4)
            return logits

    images = torch.from_numpy(digits_test[0][:5])
    direct = standard_net((images - 0.3) / 0.4)
    outside = {"normalization": "outside", "mean": (0.3,), "std": (0.4,)}
    chosen = spec() if spec_normalization == "inside" else spec(**outside)
    classifier = Classifier(Normalising() if inside else standard_net, chosen, 10)

    found = classifier(images)

    twice = inside and spec_normalization == "outside"
    assert torch.allclose(found, direct, atol=1e-5) == (not twice)
    assert classifier.facts["normalization"] == spec_normalization


def test_an_entry_cannot_ask_for_normalization_in_both_places() -> None:
    """B027: mean and std beside `inside` are refused."""
    with pytest.raises(ValueError, match=r"expected 0 numbers \(channels 1, normalization inside\)"):
        spec(mean=(0.5,), std=(0.5,))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("before", "after"), [(28, 16), (16, 28), (64, 24)])
def test_resizing_agrees_with_pillow(interpolation: str, before: int, after: int) -> None:
    """The same filter as PIL on 32-bit images, clipped to [0, 1]: at most 1e-5 apart."""
    pixels = np.random.default_rng(1).random((before, before), dtype=np.float32)
    pixels[: before // 2] = np.round(pixels[: before // 2])  # edges, where the bicubic kernel overshoots
    way = Image.Resampling.BILINEAR if interpolation == "bilinear" else Image.Resampling.BICUBIC
    expected = np.clip(np.asarray(Image.fromarray(pixels).resize((after, after), way)), 0, 1)

    found = Preprocess(spec(size=after, interpolation=interpolation))(torch.from_numpy(pixels)[None, None])

    assert np.abs(found[0, 0].numpy() - expected).max() < 1e-5


def test_the_gradient_through_resize_and_normalization_is_the_slope() -> None:
    """Compared with central differences in 64 bits."""
    outside = spec(size=6, interpolation="bilinear", normalization="outside", mean=(0.3,), std=(0.4,))
    preprocess = Preprocess(outside).double()
    images = torch.rand(1, 1, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    assert torch.autograd.gradcheck(preprocess, images.requires_grad_())


@pytest.mark.parametrize(
    "images", [torch.zeros(1, 8, 8), torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.zeros(2, 2, 8, 8)]
)
def test_images_of_another_kind_are_refused(images: Tensor, standard_net: nn.Module) -> None:
    """Bytes, a missing axis and two channels are errors, not guesses."""
    with pytest.raises(CellError) as caught:
        Classifier(standard_net, spec(), 10)(images)

    assert caught.value.kind == "load"
