"""Draws that a network makes itself: a fixed seed for each measurement, and nothing left changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from robustboard import jsons
from robustboard.benchmarks.attacks import Model
from robustboard.runners.record import RunKey


@contextmanager
def seeded(key_digest: str, sample_id: str, purpose: str, device: torch.device) -> Iterator[None]:
    """Seed torch's generators from three texts inside the block, and put them back after it.

    A network that draws random numbers in its forward pass gives the same answers for the same
    texts, images and rows a pass. Only generators of torch are seeded: the CPU's, and the device's
    where it is a CUDA one. Draws from NumPy, from Python or from a generator of the network's own
    are out of reach; they show as different answers from run to run.
    """
    indices: list[int] = []
    if device.type == "cuda":
        indices = [torch.empty(0, device=device).device.index]  # "cuda" alone has no index yet
    seed = int(jsons.digest("robustboard.forward-seed/1", [key_digest, sample_id, purpose])[:15], 16)
    with torch.random.fork_rng(devices=indices):
        torch.default_generator.manual_seed(seed)
        for index in indices:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield


def mean_logits(model: Model, images: Tensor, passes: int) -> Tensor:
    """(n, k) float64 logits; of several passes, the logarithm of their mean softmax shares."""
    if passes == 1:
        return model.logits(images).double()
    found = [torch.softmax(model.logits(images).double(), dim=1) for _ in range(passes)]
    shares = torch.stack(found).mean(0)
    return shares.clamp_min(torch.finfo(shares.dtype).tiny).log()


def clean_seed(key: RunKey) -> str:
    """The key's digest without what protocols differ in, so that all of them see the same clean answers."""
    return key.model_copy(update={"benchmark": "", "protocol_digest": "", "parts": {}}).digest
