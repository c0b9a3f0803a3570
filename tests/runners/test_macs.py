"""Costs against sums worked out by hand."""

from __future__ import annotations

from typing import Any

import timm
import torch
from torch import Tensor, nn

from robustboard.errors import CellError
from robustboard.runners.macs import macs, parameters

CPU = torch.device("cpu")


def test_convolution_and_matrix_product_are_counted_by_hand() -> None:
    """3x3 convolution 3 → 8 on 10x10 without padding: 8*8*8*27; linear 512 → 10: 5,120."""
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)).eval()

    assert macs(network, (3, 10, 10), CPU) == 8 * 8 * 8 * 27 + 512 * 10
    assert parameters(network) == 8 * 27 + 8 + 512 * 10 + 10


def test_attention_is_counted() -> None:
    """Each of the blocks multiplies queries with keys and weights with values: 2 * tokens^2 * width."""
    network: Any = timm.create_model("test_vit", num_classes=10).eval()
    tokens, width, blocks = (160 // 16) ** 2 + 1, network.embed_dim, len(network.blocks)
    hidden = network.blocks[0].mlp.fc1.out_features
    patches = (tokens - 1) * 3 * 16 * 16 * width
    products = tokens * (4 * width * width + 2 * width * hidden) + 2 * tokens * tokens * width

    assert macs(network, (3, 160, 160), CPU) == patches + blocks * products + width * 10


class Refusing(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        raise CellError("load", f"no such images: {tuple(images.shape)}")


def test_nothing_counted_is_none() -> None:
    assert macs(nn.Flatten(), (1, 8, 8), CPU) is None
    assert macs(Refusing(), (1, 8, 8), CPU) is None
