"""A faster way back through convolutions of grey images: the same gradient, up to rounding."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from robustboard.runners.classifier import Classifier
from robustboard.runners.folding import plain, replace_modules


class _GreyConvolution(torch.autograd.Function):
    """A convolution of one channel whose gradient to its input is a matrix product, then a sum of patches.

    The kernels of CPUs work on channels in blocks of 8 or 16 and take 2 to 5 times as long for one. Each
    image is a product of its own, so that the images around it change nothing.
    """

    @staticmethod
    def forward(ctx: Any, images: Tensor, layer: nn.Conv2d) -> Tensor:  # noqa: ANN401 - torch leaves it untyped
        ctx.layer, ctx.size, ctx.kind = layer, images.shape[2:], images.dtype
        return functional.conv2d(
            images, layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch leaves it untyped
        layer = ctx.layer
        weight = layer.weight.to(slopes.dtype).contiguous().flatten(1).T.contiguous()
        patches = torch.matmul(weight, slopes.contiguous().flatten(2))
        found = functional.fold(
            patches, ctx.size, layer.kernel_size, layer.dilation, layer.padding, layer.stride
        )
        return found.to(ctx.kind), None


class GreyConv2d(nn.Conv2d):
    """A frozen convolution of one channel."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Images (n, 1, h, w) → (n, c, h', w')."""
        found: Tensor = _GreyConvolution.apply(input, self)
        return found


def _fits(layer: nn.Module) -> bool:
    return (
        type(layer) is nn.Conv2d
        and layer.in_channels == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and layer.weight.dtype == torch.float32
        and not any(parameter.requires_grad for parameter in layer.parameters())
        and plain(layer)
    )


def ease_stems(classifier: Classifier) -> int:
    """Give a classifier's convolutions of one channel the faster way back; outputs keep their bits.

    Returns:
        How many there are.
    """
    changes: dict[int, nn.Module] = {}
    for layer in classifier.network.modules():
        if _fits(layer):
            changes[id(layer)] = copy.copy(layer)
            changes[id(layer)].__class__ = GreyConv2d
    replace_modules(classifier.network, changes)
    return len(changes)
