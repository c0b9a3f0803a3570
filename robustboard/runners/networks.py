"""Architecture of an entry → network with fresh weights."""

from __future__ import annotations

from typing import Any

import timm
from torch import nn

from robustboard.errors import CellError, echo, suggestion
from robustboard.registry.entries import ModelEntry
from robustboard.runners.tensors import first_line

_OWN = frozenset(
    {
        "pretrained",
        "pretrained_cfg",
        "pretrained_cfg_overlay",
        "checkpoint_path",
        "cache_dir",
        "num_classes",
        "in_chans",
        "features_only",
        "scriptable",
        "exportable",
        "no_jit",
    }
)
"""Arguments of timm.create_model that this project sets, or that would change what is loaded."""


def build_network(entry: ModelEntry, classes: int) -> nn.Module:
    """The timm network of an entry with fresh weights from torch's global generator.

    Raises CellError (load) for an architecture that timm does not have, or refused arguments.
    """
    name = entry.architecture.name
    if not timm.is_model(name):
        near = suggestion(name, timm.list_models())
        raise CellError("load", f"timm has no architecture {echo(name)}{near}")
    taken = sorted(_OWN & set(entry.architecture.arguments))
    if taken:
        raise CellError("load", f"architecture.arguments: {', '.join(taken)} may not be set by an entry")
    arguments: dict[str, Any] = dict(entry.architecture.arguments)
    try:
        network = timm.create_model(
            name,
            pretrained=False,
            num_classes=classes,
            in_chans=entry.input.channels,
            **arguments,
        )
    except (TypeError, ValueError, AssertionError, KeyError, RuntimeError) as error:
        raise CellError(
            "load", f"timm cannot build {name}: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not isinstance(network, nn.Module):
        raise CellError("load", f"timm built no network for {name}")
    return network
