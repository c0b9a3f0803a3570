"""Folded normalisation: where it is certain, where it is refused, and that nothing changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import timm
import torch
from numpy.typing import NDArray
from timm.layers.norm_act import BatchNormAct2d
from timm.layers.std_conv import StdConv2d
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from robustboard.registry.entries import InputSpec
from robustboard.runners.classifier import Classifier
from robustboard.runners.folding import TOLERANCE, fold
from robustboard.runners.macs import parameters

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def classified(network: nn.Module, channels: int = 1, size: int = 8, classes: int = 10) -> Classifier:
    """A classifier whose normalisations have statistics that matter."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in network.state_dict().items():
        if name.endswith("running_mean"):
            tensor.normal_(0, 0.3, generator=generator)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 2, generator=generator)
        elif tensor.is_floating_point() and f"{name.rpartition('.')[0]}.running_mean" in network.state_dict():
            tensor.copy_(tensor + 1).mul_(0.4)
    spec = InputSpec.model_validate({"size": size, "channels": channels, "normalization": "inside"})
    return Classifier(network, spec, classes)


def some(classifier: Classifier, count: int = 5) -> Tensor:
    spec = classifier.preprocess.spec
    return torch.rand(count, spec.channels, spec.size, spec.size, generator=torch.Generator().manual_seed(1))


def norms(network: nn.Module) -> int:
    return sum(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())


def test_one_channel_worked_out_by_hand() -> None:
    """2 x + 1, less 3, divided by sqrt(3.99999 + 1e-5) = 2, times 5, plus 7."""
    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.Flatten())
    numbers = {
        "0.weight": 2.0, "0.bias": 1.0, "1.running_mean": 3.0, "1.running_var": 3.99999, "1.weight": 5.0,
        "1.bias": 7.0,
    }  # fmt: skip
    state = network.state_dict()
    for name, value in numbers.items():
        state[name].fill_(value)
    spec = InputSpec.model_validate({"size": 2, "channels": 1, "normalization": "inside"})
    classifier = Classifier(network, spec, 4)

    assert fold(classifier) == 1
    assert network.state_dict()["0.weight"].item() == pytest.approx(5.0)
    assert network.state_dict()["0.bias"].item() == pytest.approx((1 - 3) / 2 * 5 + 7)
    images = torch.tensor([0.0, 0.25, 0.5, 1.0]).view(1, 1, 2, 2)
    assert classifier(images).tolist()[0] == pytest.approx([2.0, 3.25, 4.5, 7.0])


@pytest.mark.parametrize(
    ("name", "size", "activation"),
    [("resnet18", 32, False), ("efficientnet_lite0", 64, True), ("tf_efficientnet_b0", 64, True)],
)
def test_networks_of_timm_keep_their_logits_and_gradients(name: str, size: int, *, activation: bool) -> None:
    """All normalisations go, activations stay, the number of weights is that of the file."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = timm.create_model(name, num_classes=10)
    count, before = parameters(network), norms(network)
    assert any(isinstance(module, BatchNormAct2d) for module in network.modules()) == activation
    classifier = classified(network, 3, size)
    images = some(classifier).requires_grad_()
    wanted = classifier(images)
    (slope,) = torch.autograd.grad(wanted[:, 0].sum(), images)
    wanted = wanted.detach()

    assert fold(classifier) == before
    assert norms(network) == 0
    found = classifier(images)
    (again,) = torch.autograd.grad(found[:, 0].sum(), images)
    assert (found.detach() - wanted).abs().max() <= 10 * TOLERANCE * float(wanted.amax() - wanted.amin())
    # Where an activation sits at its kink, rounding decides on which side.
    assert torch.cosine_similarity(again.flatten(1), slope.flatten(1)).min() > 0.999
    assert classifier.facts["folded"] == f"{before} normalisation layers"
    assert classifier.parameter_count == count
    assert not any(parameter.requires_grad for parameter in classifier.parameters())


def test_a_trained_network_gives_the_same_answers(digits_test: Labelled, standard_net: nn.Module) -> None:
    images = torch.from_numpy(digits_test[0])
    spec = InputSpec.model_validate({"size": 8, "channels": 1, "normalization": "inside"})
    classifier = Classifier(copy.deepcopy(standard_net), spec, 10)
    wanted = classifier(images)

    assert fold(classifier) == 1
    found = classifier(images)
    assert not torch.equal(found, wanted)
    assert (found - wanted).abs().max() <= TOLERANCE * float((wanted.amax(1) - wanted.amin(1)).max())
    assert torch.equal(found.argmax(1), wanted.argmax(1))
    assert classifier.facts["folded"] == "1 normalisation layer"


class Wired(nn.Module):
    """A convolution, a normalisation and a head, wired as a function says."""

    def __init__(
        self,
        wiring: Callable[[Any, Tensor], Tensor],
        conv: nn.Module | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.conv = conv or nn.Conv2d(1, 4, 3, padding=1)
        self.norm = norm or nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 10)
        self.wiring = wiring

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.wiring(self, images).mean((2, 3)))
        return logits


def straight(net: Any, images: Tensor) -> Tensor:
    found: Tensor = net.norm(net.conv(images))
    return found


def beside(net: Any, images: Tensor) -> Tensor:
    """A bypass around the normalisation."""
    made = net.conv(images)
    found: Tensor = net.norm(made) + made
    return found


def between(net: Any, images: Tensor) -> Tensor:
    found: Tensor = net.norm(net.conv(images).relu_())
    return found


def viewed(net: Any, images: Tensor) -> Tensor:
    """The convolution's result is looked at under another name."""
    made = net.conv(images)
    found: Tensor = net.norm(made) + made.detach().sign()
    return found


def twice(net: Any, images: Tensor) -> Tensor:
    found: Tensor = net.norm(net.conv(images)) + net.norm(net.conv(images.flip(3)))
    return found


def weighed(net: Any, images: Tensor) -> Tensor:
    """The weights are used elsewhere, too: only the logits can tell."""
    found: Tensor = net.norm(net.conv(images)) * net.conv.weight.sum()
    return found


def reversed_(net: Any, images: Tensor) -> Tensor:
    found: Tensor = net.conv(net.norm(images.expand(-1, 4, -1, -1)))
    return found


def noisy(net: Any, images: Tensor) -> Tensor:
    found: Tensor = net.norm(net.conv(images))
    return found + torch.rand(())


def hooked(on: str) -> nn.Module:
    network = Wired(straight)
    getattr(network, on).register_forward_hook(lambda _module, _inputs, output: output * 2)
    return network


def old_weight_norm() -> nn.Module:
    network = Wired(straight)
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(network.conv)
    return network


def tied() -> nn.Module:
    network = Wired(straight)
    other = network.other = nn.Conv2d(1, 4, 3)
    other.register_parameter("weight", network.conv.get_parameter("weight"))
    return network


def in_two_places() -> nn.Module:
    network = Wired(straight)
    network.again = network.norm
    return network


def patched() -> nn.Module:
    network = Wired(straight)
    network.conv.forward = lambda images: images.expand(-1, 4, -1, -1) * 3
    return network


REFUSED: dict[str, Callable[[], nn.Module]] = {
    "used beside": lambda: Wired(beside),
    "changed between": lambda: Wired(between),
    "seen under another name": lambda: Wired(viewed),
    "passed twice": lambda: Wired(twice),
    "weights used elsewhere": lambda: Wired(weighed),
    "the other way round": lambda: Wired(reversed_, conv=nn.Conv2d(4, 4, 3)),
    "random answers": lambda: Wired(noisy),
    "statistics of the batch": lambda: Wired(straight, norm=nn.BatchNorm2d(4, track_running_stats=False)),
    "another normalisation": lambda: Wired(straight, norm=nn.InstanceNorm2d(4)),
    "another convolution": lambda: Wired(straight, conv=StdConv2d(1, 4, 3)),
    "hook of the layer": lambda: hooked("conv"),
    "hook of the normalisation": lambda: hooked("norm"),
    "weight norm": lambda: Wired(straight, conv=parametrizations.weight_norm(nn.Conv2d(1, 4, 3))),
    "spectral norm": lambda: Wired(straight, conv=parametrizations.spectral_norm(nn.Conv2d(1, 4, 3))),
    "weight norm of old": old_weight_norm,
    "tied weights": tied,
    "normalisation in two places": in_two_places,
    "another forward": patched,
    "double precision": lambda: Wired(
        lambda net, images: net.norm(net.conv(images.double())).float(),
        conv=nn.Conv2d(1, 4, 3, dtype=torch.float64),
        norm=nn.BatchNorm2d(4, dtype=torch.float64),
    ),
    "none there": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
    "a failing pass": lambda: Wired(lambda net, images: net.norm(net.conv(images) @ images)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_certain_is_left_alone(name: str) -> None:
    """No layer is replaced, and where the network answers at all, its answers keep their bits."""
    classifier = classified(REFUSED[name]())
    modules = list(classifier.modules())
    steady = name not in ("random answers", "a failing pass")
    before = classifier(some(classifier)) if steady else None
    state = torch.get_rng_state()

    assert fold(classifier) == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert [id(module) for module in classifier.modules()] == [id(module) for module in modules]
    if before is not None:
        assert torch.equal(classifier(some(classifier)), before)
        assert "folded" not in classifier.facts


def test_the_same_wiring_is_folded_where_nothing_stands_against_it() -> None:
    """What is refused above is refused for its one difference from this."""
    for network in (
        Wired(straight),
        Wired(straight, conv=nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect", bias=False)),
        Wired(straight, norm=nn.BatchNorm2d(4, affine=True, eps=0.1)),
        Wired(straight, norm=BatchNormAct2d(4)),
        Wired(lambda net, images: net.norm(net.conv(images)) + 1),
    ):
        classifier = classified(network)
        before = classifier(some(classifier))
        assert fold(classifier) == 1
        torch.testing.assert_close(classifier(some(classifier)), before, rtol=1e-5, atol=1e-5)


def test_linear_layers_are_folded_where_their_last_axis_is_normalised() -> None:
    """A normalisation of sequences works on the middle axis: another thing."""
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))
    rows = nn.Sequential(nn.Flatten(2), nn.Linear(64, 1), nn.BatchNorm1d(1), nn.Flatten(), nn.Linear(1, 10))
    for network, folded in ((flat, 1), (rows, 0)):
        classifier = classified(network)
        before = classifier(some(classifier))
        assert fold(classifier) == folded
        torch.testing.assert_close(classifier(some(classifier)), before, rtol=1e-5, atol=1e-5)
