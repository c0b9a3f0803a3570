"""Architecture of an entry → network with fresh weights."""

from __future__ import annotations

import math
from typing import Any

import timm
import torch
from torch import Tensor, nn

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


RIPPLED = "rippled"
"""The one architecture that is not timm's: a timm network behind ripples, a control for sanity flags."""
_RIPPLES = ("network", "waves", "slope")


class Rippled(nn.Module):
    """A network behind fine ripples that hide its gradients: u - slope / (2 pi waves) * sin(2 pi waves u).

    A control, no defence: the input is moved by at most slope / (2 pi waves), which the network hardly
    sees, while its derivative 1 - slope * cos(2 pi waves u) points the wrong way about half the time.
    Attacks with gradients wander; attacks that read outputs alone see a smooth network ("shattered
    gradients", Athalye et al. 2018, "Obfuscated gradients give a false sense of security", section 3).
    """

    def __init__(self, network: nn.Module, waves: float, slope: float) -> None:
        """Waves a unit of the network's input, and the steepness of the ripples."""
        super().__init__()
        self.network = network
        self.waves = 2 * math.pi * waves
        self.slope = slope

    def forward(self, images: Tensor) -> Tensor:
        """Images (n, c, h, w) → what the network makes of the rippled ones."""
        rippled = images - (self.slope / self.waves) * torch.sin(self.waves * images)
        outputs: Tensor = self.network(rippled)
        return outputs


def build_network(entry: ModelEntry, classes: int) -> nn.Module:
    """The network of an entry with fresh weights from torch's global generator: timm's, or a control.

    Raises CellError (load) for an architecture that timm does not have, or refused arguments.
    """
    name, arguments = entry.architecture.name, dict(entry.architecture.arguments)
    if name != RIPPLED:
        return _timm_network(entry, name, arguments, classes)
    base, waves, slope = (arguments.pop(each, None) for each in _RIPPLES)
    numbers = [each for each in (waves, slope) if isinstance(each, (int, float)) and each > 0]
    if not isinstance(base, str) or len(numbers) < len((waves, slope)):
        raise CellError(
            "load", f"architecture.arguments: {RIPPLED} needs network, and waves and slope above 0"
        )
    return Rippled(_timm_network(entry, base, arguments, classes), *numbers)


def _timm_network(entry: ModelEntry, name: str, arguments: dict[str, Any], classes: int) -> nn.Module:
    if not timm.is_model(name):
        near = suggestion(name, timm.list_models())
        raise CellError("load", f"timm has no architecture {echo(name)}{near}")
    taken = sorted(_OWN & set(arguments))
    if taken:
        raise CellError("load", f"architecture.arguments: {', '.join(taken)} may not be set by an entry")
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
