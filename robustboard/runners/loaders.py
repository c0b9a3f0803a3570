"""Entry and weights → classifier: one function a loader, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn

from robustboard.errors import CellError, UserError, echo
from robustboard.registry.entries import HubWeights, ModelEntry, PackageWeights
from robustboard.registry.labels import LabelSpace
from robustboard.runners.classifier import Classifier
from robustboard.runners.configs import check_size
from robustboard.runners.networks import build_network
from robustboard.runners.tensors import State, first_line, read_state
from robustboard.runners.weights import Weights
from robustboard.runners.zeroshot import load_open_clip

Loader = Callable[[ModelEntry, LabelSpace, Weights], Classifier]

GROUP = "robustboard.loaders"
"""Entry points of installed plugins: `NAME = module:function`, a function like those in LOADERS."""


def load_classifier(
    entry: ModelEntry, space: LabelSpace, weights: Weights, *, allow_plugins: bool = False
) -> Classifier:
    """The frozen classifier of an entry over the classes of its label space.

    Raises CellError when the weights do not fit (load), the head's width is not the number of
    classes (class-count) or a weight is no number (non-finite); UserError for a loader from a
    plugin unless `allow_plugins`.
    """
    if entry.loader.startswith("plugin:"):
        return _plugin(entry.loader.removeprefix("plugin:"), allowed=allow_plugins)(entry, space, weights)
    return LOADERS[entry.loader](entry, space, weights)


def load_timm(entry: ModelEntry, space: LabelSpace, weights: Weights) -> Classifier:
    """A timm network with the stored weights, every tensor of it and no other."""
    classes = len(space.classes)
    stored = read_state(weights.path, pickle_allowed=_may_be_pickle(entry))
    numbers = sum(tensor.numel() for tensor in stored.values())
    with torch.random.fork_rng(devices=[]):
        if entry.architecture.arguments:  # without any, the library's own sizes stand
            check_size(lambda: build_network(entry, classes), numbers, what=entry.architecture.name)
        network = build_network(entry, classes)
    wanted = network.state_dict()
    if entry.architecture.state_map == "position":
        stored = match_by_position(stored, wanted, _heads(network))
    _check_head(stored, _heads(network), classes)
    _check_fit(stored, wanted)
    network.load_state_dict(stored, strict=True)
    return Classifier(network, entry.input, classes)


def _may_be_pickle(entry: ModelEntry) -> bool:
    """Whether the entry itself names a pickle's SHA-256, which is checked before the file is read."""
    source = entry.source
    return isinstance(source, PackageWeights) or (isinstance(source, HubWeights) and source.pickle)


def match_by_position(
    stored: State, wanted: Mapping[str, Tensor], heads: frozenset[str] = frozenset()
) -> State:
    """Stored tensors under the network's names, matched in order.

    Only for files in which the same tensors stand in the same order under other names: equal
    count, and for each pair the same shape and the same last part of the name. The width of
    tensors named in `heads` is left to the check of classes, which names both numbers. Raises
    CellError (load).
    """
    if len(stored) != len(wanted):
        raise CellError("load", f"expected {len(wanted)} tensors, the file holds {len(stored)}")
    matched: State = {}
    for (name, tensor), (target, place) in zip(stored.items(), wanted.items(), strict=True):
        same_part = name.rsplit(".", 1)[-1] == target.rsplit(".", 1)[-1]
        skipped = 1 if target in heads else 0
        if not same_part or tensor.ndim != place.ndim or tensor.shape[skipped:] != place.shape[skipped:]:
            raise CellError(
                "load",
                f"tensor {echo(name)} {tuple(tensor.shape)} does not match {target} {tuple(place.shape)}",
            )
        matched[target] = tensor
    return matched


def _heads(network: nn.Module) -> frozenset[str]:
    """Names of the tensors whose first axis is the classes, as timm knows them."""
    config: Any = getattr(network, "default_cfg", None) or {}
    heads = config.get("classifier") or ()
    names = [heads] if isinstance(heads, str) else list(heads)
    return frozenset(f"{name}.{part}" for name in names for part in ("weight", "bias"))


def _check_head(stored: State, heads: frozenset[str], classes: int) -> None:
    """Raise CellError (class-count) when a stored head has another width than the label space."""
    for name in sorted(heads & stored.keys()):
        width = stored[name].shape[0] if stored[name].ndim else 0
        if width != classes:
            raise CellError(
                "class-count", f"the weights have a head of {width} classes, the label space has {classes}"
            )


def _check_fit(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise CellError (load) unless names, shapes and kinds of numbers are the same on both sides."""
    missing = [name for name in wanted if name not in stored]
    surplus = [name for name in stored if name not in wanted]
    if missing or surplus:
        parts = []
        if missing:
            parts.append(f"{len(missing)} tensor(s) missing, first {echo(missing[0])}")
        if surplus:
            parts.append(f"{len(surplus)} unknown, first {echo(surplus[0])}")
        raise CellError("load", f"the weights do not fit the architecture: {'; '.join(parts)}")
    for name, tensor in stored.items():
        if tensor.shape != wanted[name].shape:
            raise CellError(
                "load",
                f"the weights do not fit the architecture: {echo(name)} has shape {tuple(tensor.shape)},"
                f" expected {tuple(wanted[name].shape)}",
            )
        # Copying would cut fractions and imaginary parts off without a word; a width may differ.
        if _number(tensor) != _number(wanted[name]):
            raise CellError(
                "load",
                f"the weights do not fit the architecture: {echo(name)} holds {_number(tensor)} numbers,"
                f" expected {_number(wanted[name])}",
            )


def _number(tensor: Tensor) -> str:
    if tensor.is_complex():
        return "complex"
    return "floating-point" if tensor.is_floating_point() else "whole"


def _plugin(name: str, *, allowed: bool) -> Loader:
    found = {point.name: point for point in metadata.entry_points(group=GROUP)}
    if not allowed:
        raise UserError(
            f"loader plugin:{name} runs code that is not part of robustboard:"
            " pass --allow-plugins when you trust it"
        )
    if name not in found:
        known = ", ".join(sorted(found)) or "none is installed"
        raise CellError("load", f"no installed distribution offers the loader {echo(name)} (known: {known})")
    try:
        loader: Loader = found[name].load()
    except (ImportError, AttributeError) as error:
        raise CellError(
            "load", f"plugin:{name} cannot be loaded: {type(error).__name__}: {first_line(error)}"
        ) from error
    return loader


LOADERS: dict[str, Loader] = {"timm": load_timm, "open_clip": load_open_clip}
