"""Small real classifiers, trained in seconds, a run key for them, and a small registry on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from robustboard.runners.record import RunKey
from robustboard.workspace import Workspace

if TYPE_CHECKING:
    from torch import Tensor, nn

# torch and scikit-learn are imported where they are used: most tests need neither.

Labelled = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
"""(n, 1, 8, 8) pixels in [0, 1] and (n,) classes."""


def convolutional(seed: int) -> nn.Sequential:
    """A small convolutional net on 8x8 grey images, untrained."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 10),
        )


def fit(net: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, eps: float) -> nn.Module:
    """Train on clean images, or on one-step attacked ones when eps is above 0."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    generator = torch.Generator().manual_seed(0)
    net.train()
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(images), generator=generator), 100):
            batch = images[rows]
            if eps:
                start = (torch.rand(batch.shape, generator=generator) * 2 - 1) * eps
                moved = (batch + start).clamp(0, 1).requires_grad_()
                (slope,) = torch.autograd.grad(nn.functional.cross_entropy(net(moved), labels[rows]), moved)
                batch = (batch + (start + 1.25 * eps * slope.sign()).clamp(-eps, eps)).clamp(0, 1)
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(net(batch), labels[rows]))
            optimizer.step()
    optimizer.zero_grad()
    return net.eval().requires_grad_(requires_grad=False)


def _digits(rows: slice) -> Labelled:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return images[rows], labels.astype(np.int64)[rows]


@pytest.fixture(scope="session")
def digits_train() -> Labelled:
    """The first 1,197 UCI digits."""
    return _digits(slice(0, 1197))


@pytest.fixture(scope="session")
def digits_test() -> Labelled:
    """The last 600 UCI digits."""
    return _digits(slice(1197, 1797))


@pytest.fixture(scope="session")
def standard_net(digits_train: Labelled) -> nn.Module:
    """About 0.94 right on clean digits, 0.55 under PGD at Linf 0.1, 0.25 at 0.15."""
    import torch

    images, labels = map(torch.from_numpy, digits_train)
    return fit(convolutional(0), images, labels, epochs=8, eps=0)


@pytest.fixture(scope="session")
def robust_net(digits_train: Labelled) -> nn.Module:
    """Trained on attacked digits: about 0.82 right under PGD at Linf 0.1, 0.65 at 0.15."""
    import torch

    images, labels = map(torch.from_numpy, digits_train)
    return fit(convolutional(1), images, labels, epochs=12, eps=0.15)


@pytest.fixture
def two_class() -> nn.Module:
    """B039's model of 2x2 grey images: s = sum of pixels - 2, logits (s, -s)."""
    import torch
    from torch import nn

    linear = nn.Linear(4, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0] * 4, [-1.0] * 4]))
        linear.bias.copy_(torch.tensor([-2.0, 2.0]))
    return nn.Sequential(nn.Flatten(), linear)


@pytest.fixture(scope="session")
def run_key() -> RunKey:
    """A run key with every field filled in."""
    return RunKey(
        code=1,
        model="net",
        model_digest="0" * 64,
        weights_sha256="1" * 64,
        dataset="digits",
        dataset_digest="2" * 64,
        data_fingerprint="3" * 64,
        labels_digest="4" * 64,
        benchmark="pgd-v1",
        protocol_digest="5" * 64,
        seed=0,
        precision="float32",
        shard_size=250,
        software={"torch": "2.14"},
    )


SHAPES = """\
name: Shapes
source: a test
classes:
  sq: square
  ci: circle
  tr: triangle
"""
ROUND = """\
name: Round
subset_of: shapes
source: a test
classes:
  - tr
  - ci
"""
DATASET = """\
name: {name}
role: {role}
source:
  kind: folder
  path: shapes/{role}
label_space: shapes
size: 4
license: CC0-1.0
display_allowed: true
citation: drawn for a test
added: 2026-01-31
"""
MODEL = """\
name: Small net
source:
  kind: hub
  repo: timm/test_vit.r160_in1k
  revision: "{commit}"
loader: timm
architecture:
  name: test_vit
label_space: shapes
input:
  size: 160
  normalization: outside
  mean: [0.5, 0.5, 0.5]
  std: [0.5, 0.5, 0.5]
training:
  datasets: [Shapes]
  overlap:
    shapes: no
license: Apache-2.0
added: 2026-01-31
"""
PROTOCOL = """\
name: PGD
summary: An attack.
procedure:
  kind: attack
  attack: pgd
  norm: linf
  settings:
    - label_spaces: [shapes]
      budgets: [1/255, 8/255]
      headline: 8/255
      steps: 10
      relative_step: 1/4
source: a test
added: 2026-01-31
"""
PLANTED = {
    "registry/lock.yaml": "{}\n",
    "registry/labels/shapes.yaml": SHAPES,
    "registry/labels/round.yaml": ROUND,
    "registry/datasets/shapes.yaml": DATASET.format(name="Shapes", role="test"),
    "registry/datasets/shapes-train.yaml": DATASET.format(name="Shapes, training part", role="train"),
    "registry/models/net.yaml": MODEL.format(commit="0123456789" * 4),
    "benchmarks/pgd-v1.yaml": PROTOCOL,
}


class Plant:
    """A small sound registry in a folder of its own, to be spoilt by a test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = Workspace(root, root)
        for name, text in PLANTED.items():
            self.write(name, text)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file, and the folders above it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands once in a file."""
        text = (self.root / name).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        self.write(name, text.replace(old, new))


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """A small sound registry: one label space, one subset, two datasets, one model, one protocol."""
    return Plant(tmp_path)
