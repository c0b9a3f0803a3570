"""`make bench-oracle`: our loop of generated images beside the same loop written one image at a time.

Both use the same small networks (a VQModel, a classifier, a CLIP-sized oracle of convolutions); statuses,
steps and 8-bit images must be the same, else there is no ratio.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import timm
import torch
from diffusers import VQModel
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import LoopSettings, OracleAnswer, Origin, perturb
from robustboard.benchmarks.seeds import Draws
from robustboard.runners.generators import VqGenerator

TARGET = 5.0
STEP = 0.02


@dataclass(frozen=True, slots=True)
class Parts:
    """What both loops use."""

    vq: Any
    model: nn.Module
    oracle: nn.Module
    images: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a loop made of the images."""

    images: Tensor
    status: list[str]
    steps: list[int]
    seconds: float


def parts(count: int) -> Parts:
    """Digits, and networks fitted to them for a moment so that verdicts are neither all yes nor all no."""
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy((pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = torch.from_numpy(labels.astype(np.int64))
    kind: Any = VQModel
    vq = kind(
        in_channels=1,
        out_channels=1,
        down_block_types=["DownEncoderBlock2D"] * 2,
        up_block_types=["UpDecoderBlock2D"] * 2,
        block_out_channels=[16, 32],
        latent_channels=8,
        num_vq_embeddings=64,
        norm_num_groups=8,
        mid_block_add_attention=False,
    )
    model = timm.create_model(
        "resnet18", num_classes=10, in_chans=1, channels=(8, 16, 24, 32), layers=(1, 1, 1, 1)
    )
    oracle = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    for network in (model, oracle):
        _fit(network, images[:1000], targets[:1000])
    _fit_vq(vq, images[:1000])
    for network in (vq, model, oracle):
        network.eval().requires_grad_(requires_grad=False)
    return Parts(vq, model, oracle, images[1000 : 1000 + count], targets[1000 : 1000 + count])


def _fit(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(5):
        for rows in torch.split(torch.randperm(len(images)), 50):
            optimizer.zero_grad()
            torch.autograd.backward(functional.cross_entropy(network(images[rows]), labels[rows]))
            optimizer.step()


def _fit_vq(vq: Any, images: Tensor) -> None:
    optimizer = torch.optim.Adam(vq.parameters(), lr=3e-3)
    for _ in range(6):
        for rows in torch.split(torch.randperm(len(images)), 50):
            pixels = 2 * images[rows] - 1
            latents = vq.encode(pixels).latents
            decoded = vq.decode(latents, force_not_quantize=True).sample
            optimizer.zero_grad()
            torch.autograd.backward(functional.mse_loss(decoded, pixels))
            optimizer.step()


class Judge:
    """The oracle behind our interface."""

    def __init__(self, network: nn.Module) -> None:
        """Of one network."""
        self.model = Model(network)

    def judge(self, images: Tensor) -> OracleAnswer:
        """Its classes."""
        predicted = self.model.logits(images).argmax(1).numpy()
        ones = np.ones(len(images), np.float32)
        return OracleAnswer(predicted, ones, ones)


def ours(given: Parts, budget: int) -> Outcome:
    """The batched loop."""
    ids = tuple(str(row) for row in range(len(given.images)))
    origin = Origin(given.images, given.labels, Draws("0" * 64, ids, "bench"))
    generator = VqGenerator(given.vq, size=8, channels=1, quantised=False)
    started = time.perf_counter()
    made = perturb(
        Model(given.model), Judge(given.oracle), generator, origin, LoopSettings(budget, STEP, rows=64)
    )
    seconds = time.perf_counter() - started
    return Outcome(made.images, [str(each) for each in made.status], made.steps.tolist(), seconds)


def naive(given: Parts, budget: int) -> Outcome:
    """The definition, one image at a time: decode, differentiate, step, decode again, ask the oracle."""
    found, status, steps = [], [], []
    started = time.perf_counter()
    for image, label in zip(torch.split(given.images, 1), torch.split(given.labels, 1), strict=True):
        best, told, count = _one(given, image, label, budget)
        found.append(best)
        status.append(told)
        steps.append(count)
    return Outcome(torch.cat(found), status, steps, time.perf_counter() - started)


def _one(given: Parts, image: Tensor, label: Tensor, budget: int) -> tuple[Tensor, str, int]:
    def agrees(candidate: Tensor) -> bool:
        with torch.no_grad():
            return bool(given.oracle(candidate).argmax(1) == label)

    def decoded(latents: Tensor) -> Tensor:
        pixels: Tensor = given.vq.decode(latents, force_not_quantize=True).sample
        return (pixels + 1) / 2

    if not agrees(image):
        return image, "source-rejected", 0
    with torch.no_grad():
        latents = given.vq.encode(2 * image - 1).latents
        best = decoded(latents).clamp(0, 1)
    if not agrees(best):
        return image, "rejected-at-0", 0
    latents = latents.clone().requires_grad_()
    optimizer = torch.optim.Adam([latents], lr=STEP, maximize=True)
    accepted = 0
    for step in range(1, budget + 1):
        optimizer.zero_grad()
        logits = given.model(decoded(latents))
        wrong = logits.scatter(1, label.unsqueeze(1), float("-inf"))
        torch.autograd.backward((torch.logsumexp(wrong, 1) - logits[:, label.item()]).sum())
        optimizer.step()
        with torch.no_grad():
            candidate = decoded(latents).clamp(0, 1)
        if not agrees(candidate):
            break
        best, accepted = candidate, step
    return best.detach(), "accepted" if accepted else "reconstruction-only", accepted


def compare(count: int, budget: int) -> float:
    """Print both times and the ratio of images a second. Raises SystemExit where results differ."""
    given = parts(count)
    fast, slow = ours(given, budget), naive(given, budget)
    apart = [
        row
        for row in range(count)
        if (fast.status[row], fast.steps[row]) != (slow.status[row], slow.steps[row])
    ]
    largest = (fast.images - slow.images).abs().amax().item()
    ratio = slow.seconds / fast.seconds
    sys.stdout.write(
        f"{count} images, at most {budget} steps, {fast.status.count('accepted')} accepted,"
        f" {sum(fast.steps)} steps\n"
        f"one at a time {count / slow.seconds:8.1f} images/s\n"
        f"batched       {count / fast.seconds:8.1f} images/s   {ratio:.1f}x (at least {TARGET:g}x is owed)\n"
        f"statuses or steps that differ: {len(apart)}; largest difference of a pixel: {largest:.2e}\n"
    )
    if apart or largest > 1 / 255:
        raise SystemExit("the two loops differ, so their times say nothing")
    return ratio


def main() -> int:
    """Compare; 1 when the ratio falls short."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=int, default=192)
    options.add_argument("--budget", type=int, default=20)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    return 0 if compare(chosen.images, chosen.budget) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
