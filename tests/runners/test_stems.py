"""The way back through convolutions of grey images."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks.attacks import Model
from robustboard.benchmarks.attacks.losses import margin
from robustboard.registry.entries import InputSpec
from robustboard.runners.classifier import Classifier
from robustboard.runners.stems import GreyConv2d, ease_stems

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]
SPEC = InputSpec.model_validate({"size": 8, "channels": 1, "normalization": "inside"})


def slopes(network: nn.Module, images: Tensor) -> Tensor:
    batch = images.clone().requires_grad_()
    (found,) = torch.autograd.grad(network(batch).square().sum(), batch)
    return found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(3, 1, 1, 1), (3, 2, 1, 1), (5, 3, 0, 1), ((3, 2), (1, 2), (2, 0), (2, 1)), (1, 1, 0, 1)],
)
def test_the_gradient_is_that_of_the_convolution(
    kernel: int, stride: int, padding: int, dilation: int, *, bias: bool
) -> None:
    """Also where the last pixels meet no kernel. Outputs have the same bits."""
    layer = nn.Conv2d(1, 6, kernel, stride, padding, dilation, bias=bias)
    network = nn.Sequential(layer, nn.Flatten())
    width = int(network(torch.zeros(1, 1, 8, 8)).shape[1])
    plain = copy.deepcopy(network).to(memory_format=torch.channels_last)
    classifier = Classifier(network, SPEC, width)
    images = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))

    assert ease_stems(classifier) == 1
    assert isinstance(network[0], GreyConv2d)
    assert torch.equal(classifier(images), plain(images))
    torch.testing.assert_close(slopes(classifier, images), slopes(plain, images), rtol=1e-5, atol=1e-6)


def test_rows_do_not_depend_on_the_rows_around_them(digits_test: Labelled, robust_net: nn.Module) -> None:
    images, labels = torch.from_numpy(digits_test[0][:70]), torch.from_numpy(digits_test[1][:70])
    classifier = Classifier(copy.deepcopy(robust_net), SPEC, 10)
    assert ease_stems(classifier) == 1
    whole = Model(classifier, batch_size=64).gradients(images, labels, margin)[1]
    for batch_size in (16, 48, 200):
        assert torch.equal(
            Model(classifier, batch_size=batch_size).gradients(images, labels, margin)[1], whole
        )
    assert torch.equal(Model(classifier).gradients(images[5:6], labels[5:6], margin)[1], whole[5:6])


def test_in_half_precision_the_gradient_is_that_of_the_pixels(
    digits_test: Labelled, robust_net: nn.Module
) -> None:
    images, labels = torch.from_numpy(digits_test[0][:32]), torch.from_numpy(digits_test[1][:32])
    classifier = Classifier(copy.deepcopy(robust_net), SPEC, 10)
    wanted = Model(classifier, autocast=True).gradients(images, labels, margin)[1]
    assert ease_stems(classifier) == 1
    found = Model(classifier, autocast=True).gradients(images, labels, margin)[1]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=0.1, atol=0.05 * float(wanted.abs().max()))


def test_other_layers_are_left_alone() -> None:
    """Colours, reflected borders, named padding, a hook."""
    hooked = nn.Conv2d(1, 2, 3)
    hooked.register_forward_hook(lambda _module, _inputs, output: output * 2)
    for layer in (
        nn.Conv2d(3, 6, 3),
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(1, 2, 3, padding="same"),
        nn.Conv1d(1, 2, 3),
        hooked,
    ):
        classifier = Classifier(nn.Sequential(layer), SPEC, 2)
        assert ease_stems(classifier) == 0
        assert list(classifier.network.modules())[1] is layer
