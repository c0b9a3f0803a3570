"""Normalisation folded into the layer before it: the same function in fewer steps, checked before use.

In evaluation mode a batch normalisation is one multiplication and one addition a channel, which the
weights and biases of the convolution or linear layer before it can take over.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.norm_act import BatchNormAct2d
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._python_dispatch import TorchDispatchMode

from robustboard.errors import CellError
from robustboard.runners.classifier import IMAGE_AXES, Classifier

TOLERANCE = 1e-5
"""Largest change of a logit that is accepted, as a share of the largest distance between two logits of
one image of the probe."""
PROBES = 6
FLAT = 2
"""Axes of a linear layer's tensor whose last one is the one that is normalised."""
LAYERS = (nn.Conv2d, nn.Linear, Conv2dSame)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, BatchNormAct2d)
"""Only these classes, none derived from them: a derived class may do something else."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Attributes of modules that hold what runs beside them; old weight and spectral norms do."""


@dataclass(frozen=True, slots=True)
class _Pair:
    layer: nn.Module
    norm: nn.Module


@dataclass
class _Trail:
    """What one pass did: which module made which tensor, and what took it."""

    calls: Counter[int] = field(default_factory=Counter)
    """Passes through each module, by its id."""
    outputs: dict[int, tuple[nn.Module, Tensor]] = field(default_factory=dict)
    """Tensors of layers, by their id; kept, so that no id is given twice."""
    followed: list[tuple[nn.Module, nn.Module, int]] = field(default_factory=list)
    """Layer, normalisation that took its tensor, and the tensor's id."""
    uses: Counter[int] = field(default_factory=Counter)
    """Operations that took each tensor of a layer."""


class _Uses(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Counts the operations on tensors of a trail."""

    def __init__(self, trail: _Trail) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.trail = trail

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        for each in {id(tensor) for tensor in _tensors((*args, *kwargs.values()))}:
            self.trail.uses[each] += each in self.trail.outputs
        return func(*args, **kwargs)


def _tensors(values: Iterable[object]) -> Iterator[Tensor]:
    """The tensors among some arguments and in their lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


@contextmanager
def _followed(trail: _Trail) -> Iterator[None]:
    """Fill the trail with what happens inside the block."""

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ANN401 - a module's
        trail.calls[id(module)] += 1
        if type(module) in LAYERS and isinstance(output, Tensor):
            trail.outputs[id(output)] = (module, output)
        if type(module) in NORMS and inputs and id(inputs[0]) in trail.outputs:
            layer, taken = trail.outputs[id(inputs[0])]
            if taken.ndim == (FLAT if isinstance(layer, nn.Linear) else IMAGE_AXES):
                trail.followed.append((layer, module, id(taken)))

    handle = register_module_forward_hook(note)
    try:
        with _Uses(trail):
            yield
    finally:
        handle.remove()


def plain(module: nn.Module) -> bool:
    """Whether a module does what its class does, and nothing beside it."""
    hooked = any(value for name, value in vars(module).items() if name.endswith(HOOKS))
    altered = "forward" in vars(module) or is_parametrized(module)
    return not altered and not hooked and not module.training


def _foldable(norm: nn.Module) -> bool:
    """Whether a normalisation uses stored statistics."""
    mean, variance = (getattr(norm, name, None) for name in ("running_mean", "running_var"))
    return isinstance(mean, Tensor) and isinstance(variance, Tensor)


def _pairs(network: nn.Module, trail: _Trail) -> list[_Pair]:
    """Layers whose only use is by a normalisation, with it; each in one place, passed once."""
    places = Counter(id(module) for _, module in network.named_modules(remove_duplicate=False))
    owners = Counter(id(each) for _, each in network.named_parameters(remove_duplicate=False))
    pairs = []
    for layer, norm, taken in trail.followed:
        if trail.uses[taken] != 1:
            continue
        both = (layer, norm)
        alone = all(places[id(each)] == 1 and trail.calls[id(each)] == 1 and plain(each) for each in both)
        own = all(owners[id(each)] == 1 for module in both for each in module.parameters(recurse=False))
        single = all(each.dtype == torch.float32 for module in both for each in module.parameters())
        if alone and own and single and _foldable(norm):
            pairs.append(_Pair(layer, norm))
    return pairs


def _merged(pair: _Pair) -> nn.Module:
    """A copy of the layer that normalises as well; worked out in float64, rounded once."""
    layer, norm = pair.layer, pair.norm
    weight = _double(layer, "weight", 1.0)
    mean, variance = _double(norm, "running_mean", 0.0), _double(norm, "running_var", 1.0)
    scale = _double(norm, "weight", 1.0) / (variance + getattr(norm, "eps", 0.0)).sqrt()
    bias = (_double(layer, "bias", 0.0) - mean) * scale + _double(norm, "bias", 0.0)
    fresh = (weight * scale.view(-1, *[1] * (weight.ndim - 1))).float()
    if isinstance(layer, nn.Conv2d):
        fresh = fresh.contiguous(memory_format=torch.channels_last)
    merged = copy.deepcopy(layer)
    merged.weight = nn.Parameter(fresh, requires_grad=False)
    merged.bias = nn.Parameter(bias.float(), requires_grad=False)
    return merged


def _double(module: nn.Module, name: str, missing: float) -> Tensor:
    """A module's tensor in float64, or a number in the place of None."""
    found = getattr(module, name)
    return found.detach().double() if isinstance(found, Tensor) else torch.tensor(missing).double()


def _rest(norm: nn.Module) -> nn.Module:
    """What is left of a normalisation once it is folded: its activation, where it has one."""
    if isinstance(norm, BatchNormAct2d):
        return nn.Sequential(norm.drop, norm.act).eval()
    return nn.Identity().eval()


def replace_modules(network: nn.Module, changes: dict[int, nn.Module]) -> None:
    """Put other modules in the places of some, by their id."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if id(child) in changes:
                setattr(parent, name, changes[id(child)])


def probes(classifier: Classifier) -> Tensor:
    """(6, c, s, s) images in [0, 1] of the network's own size: noise, fine and coarse, and smooth slopes."""
    spec = classifier.preprocess.spec
    generator = torch.Generator().manual_seed(0)
    shape = (PROBES // 2, spec.channels)
    fine = torch.rand(*shape, spec.size, spec.size, generator=generator)
    coarse = torch.rand(*shape, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, (spec.size, spec.size), mode="bilinear", align_corners=True)
    return torch.cat([fine, smooth])


def fold(classifier: Classifier) -> int:
    """Fold the normalisations of a classifier's network where that is certain and changes nothing.

    One pass over a few made-up images shows which layer's result is taken by a normalisation alone. The
    folded network takes the network's place when its logits on those images differ by at most 1e-5 of
    their spread; otherwise all stays as it was.

    Returns:
        Folded normalisations, which `classifier.facts` says too.
    """
    network = classifier.network
    if not any(type(module) in NORMS for module in network.modules()):
        return 0
    trail, images = _Trail(), probes(classifier)
    with torch.inference_mode(mode=False), torch.no_grad(), torch.random.fork_rng(devices=[]):
        with _followed(trail):
            before = _logits(classifier, images)
        if before is None:
            return 0
        pairs = _pairs(network, trail)
        changes = {id(pair.layer): _merged(pair) for pair in pairs}
        changes |= {id(pair.norm): _rest(pair.norm) for pair in pairs}
        back = {id(changes[id(each)]): each for pair in pairs for each in (pair.layer, pair.norm)}
        replace_modules(network, changes)
        if not pairs or not _agrees(classifier, images, before):
            replace_modules(network, back)
            return 0
    classifier.folded = len(pairs)
    return len(pairs)


def _logits(classifier: Classifier, images: Tensor) -> Tensor | None:
    """The logits, or None where the network fails on made-up images: a measurement will say why."""
    try:
        logits: Tensor = classifier(images)
    except (CellError, RuntimeError, TypeError, AttributeError, ValueError):
        return None
    return logits


def _agrees(classifier: Classifier, images: Tensor, before: Tensor) -> bool:
    """Whether a network that was changed gives the logits that it gave before."""
    after = _logits(classifier, images)
    if after is None:
        return False
    spread = float((before.amax(1) - before.amin(1)).max())
    return float((after - before).abs().max()) <= TOLERANCE * spread
