"""A network as a function of pixels: images in [0, 1] in, logits out, everything between inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustboard.errors import CellError, echo
from robustboard.registry.entries import InputSpec

RGB = 3
IMAGE_AXES = 4
LOGIT_AXES = 2

_MODES = {"nearest": "nearest-exact", "bilinear": "bilinear", "bicubic": "bicubic"}


class Preprocess(nn.Module):
    """From [0, 1] pixels to what the network takes: channels, size, mean and std; differentiable.

    Grey images are repeated for a three-channel network. Images that are not size by size already
    are resized to it with antialiasing (pixel centres aligned, as PIL does); images of the right
    size are left alone to the bit. Bicubic results are clipped to [0, 1], as they are for 8-bit
    images: the kernel overshoots at edges, and the network was never shown such pixels.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, spec: InputSpec) -> None:
        """Take an entry's input spec."""
        super().__init__()
        self.spec = spec
        self.outside = spec.normalization == "outside"
        shape = (1, -1, 1, 1)
        mean, std = (
            torch.tensor(values, dtype=torch.float32).reshape(shape) for values in (spec.mean, spec.std)
        )
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images float (n, c, h, w) in [0, 1] → float (n, spec.channels, spec.size, spec.size).

        Raises CellError (load) for a shape or type that the network cannot take.
        """
        if images.ndim != IMAGE_AXES or not images.is_floating_point():
            raise CellError(
                "load", f"expected float images (n, c, h, w), got {images.dtype} {tuple(images.shape)}"
            )
        channels = images.shape[1]
        if channels == 1 and self.spec.channels == RGB:
            images = images.expand(-1, RGB, -1, -1)
        elif channels != self.spec.channels:
            raise CellError(
                "load",
                f"the model takes {self.spec.channels} channel(s), the images have {channels};"
                " only grey images are repeated to three channels",
            )
        size = (self.spec.size, self.spec.size)
        if tuple(images.shape[2:]) != size:
            images = self._resize(images, size)
        return (images - self.mean) / self.std if self.outside else images

    def _resize(self, images: Tensor, size: tuple[int, int]) -> Tensor:
        mode = _MODES[self.spec.interpolation]
        if self.spec.interpolation == "nearest":
            return functional.interpolate(images, size, mode=mode)
        resized = functional.interpolate(images, size, mode=mode, antialias=True, align_corners=False)
        return resized.clamp(0.0, 1.0) if self.spec.interpolation == "bicubic" else resized

    def facts(self, shape: tuple[int, int, int]) -> dict[str, str]:
        """What is done to images of shape (c, h, w), in words."""
        channels, height, width = shape
        size = self.spec.size
        facts = {"normalization": self.spec.normalization, "resize": "none"}
        if channels == 1 and self.spec.channels == RGB:
            facts["channels"] = "grey repeated to 3"
        if (height, width) != (size, size):
            way = self.spec.interpolation + ("" if self.spec.interpolation == "nearest" else ", antialiased")
            facts["resize"] = f"{height}x{width} to {size}x{size}, {way}"
        return facts


class Classifier(nn.Module):
    """A frozen network in eval mode behind its preprocessing.

    `classes` is the width of its output, `parameter_count` the number of weights that it came with;
    `facts` says in words what was done to the images of the last call (resize, channels,
    normalization) and to the network (folded, compiled), for the record of a run.
    """

    def __init__(self, network: nn.Module, spec: InputSpec, classes: int) -> None:
        """Freeze the network for good: eval mode, no gradients for its parameters."""
        super().__init__()
        self.preprocess = Preprocess(spec)
        # Convolutions are 1.2 to 1.9 times faster on CPUs with channels last, and equal up to rounding.
        self.network = network.to(memory_format=torch.channels_last)
        self.classes = classes
        self.facts: dict[str, str] = {}
        self.parameter_count = sum(parameter.numel() for parameter in network.parameters())
        self.folded = 0
        """Normalisations that the layers before them have taken over."""
        self.translated: Callable[[Tensor], Any] | None = None
        """The network as a compiler gave it back; takes the network's place in a pass."""
        self.compiled: str | None = None
        """The backend that translated the network, or why none did; None where nobody asked."""
        self.requires_grad_(requires_grad=False)
        self.eval()

    def train(self, mode: bool = True) -> Classifier:  # noqa: ARG002, FBT001, FBT002 - torch's signature
        """Stay in eval mode: batch statistics and dropout have no place in a measurement."""
        super().train(mode=False)
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Images float32 (n, c, h, w) in [0, 1] → logits float32 (n, classes), finite.

        Gradients flow to the images. Raises CellError: load for images or outputs of a wrong
        kind, class-count for a wrong width, non-finite for NaN or infinite logits.
        """
        inputs = self.preprocess(images)
        self.facts = self.preprocess.facts((images.shape[1], images.shape[2], images.shape[3]))
        if self.folded:
            self.facts["folded"] = f"{self.folded} normalisation layer{'s' if self.folded > 1 else ''}"
        if self.compiled is not None:
            self.facts["compiled"] = self.compiled
        run = self.network if self.translated is None else self.translated
        logits = _logits(run(inputs))
        if logits.ndim != LOGIT_AXES or logits.shape[0] != images.shape[0] or not logits.is_floating_point():
            raise CellError(
                "load",
                f"expected float logits of shape ({images.shape[0]}, {self.classes}),"
                f" got {logits.dtype} {tuple(logits.shape)}",
            )
        if logits.shape[1] != self.classes:
            raise CellError("class-count", f"expected {self.classes} logits an image, got {logits.shape[1]}")
        logits = logits.float()
        if not torch.isfinite(logits.detach()).all():
            raise CellError("non-finite", "the model's logits hold NaN or infinity")
        return logits


def _logits(output: Any) -> Tensor:  # noqa: ANN401 - whatever a network returns
    """The logits in what a network returned: a tensor, a tuple's first, a dict's or object's `logits`."""
    found = output
    if isinstance(output, dict):
        if "logits" not in output:
            keys = ", ".join(sorted(echo(key) for key in output))
            raise CellError("load", f"expected a key 'logits' in the model's output, got {keys or 'no keys'}")
        found = output["logits"]
    elif isinstance(output, (tuple, list)) and not hasattr(output, "logits"):
        found = output[0] if output else None
    elif not isinstance(output, Tensor):
        found = getattr(output, "logits", None)
    if not isinstance(found, Tensor):
        raise CellError("load", f"expected logits from the model, got {type(output).__name__}")
    return found
