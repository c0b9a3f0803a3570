"""The network compiled for long attacks: checked before use, and left as it was where not equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from robustboard.errors import CellError
from robustboard.runners.classifier import Classifier
from robustboard.runners.folding import TOLERANCE, probes

Backend = str | Callable[[fx.GraphModule, list[Tensor]], Callable[..., Any]]
ERRORS = (CellError, RuntimeError, TypeError, AttributeError, ValueError, OSError)
"""What a compiler, or a network that it misread, may raise; none of it is a fault of the model."""


def compile_network(classifier: Classifier, backend: Backend = "inductor") -> bool:
    """Let torch.compile translate a classifier's network, where that changes nothing.

    The compiled network takes the network's place in a pass when its logits on made-up images differ by at
    most 1e-5 of their spread, and its input gradients likewise; otherwise all stays as it was.
    `classifier.compiled` says which of the two, and why. Compilation takes about a minute on a CPU, so it
    pays only for long attacks. Inside `torch.compiler.set_stance("force_eager")` the network runs as written.

    Args:
        classifier: On its device, folded.
        backend: One of `torch.compiler.list_backends()`, or a function of a graph and its inputs.

    Returns:
        Whether the network is compiled now.
    """
    network = classifier.network
    images = probes(classifier).to(next((each.device for each in network.parameters()), torch.device("cpu")))
    before = _passes(classifier, images)

    # A function, not the module: a compiled module warns of the hooks by which operations are counted.
    def run(inputs: Tensor) -> Any:  # noqa: ANN401 - whatever the network returns
        return network(inputs)

    classifier.translated = torch.compile(run, backend=backend)
    fault = None
    try:
        after = _passes(classifier, images)
        if not all(_agree(one, other) for one, other in zip(before, after, strict=True)):
            fault = "logits or gradients differ by more than 1e-5 of their spread"
    except ERRORS as error:
        fault = type(error).__name__
    if fault is not None:
        classifier.translated = None
        classifier.compiled = f"no: {fault}"
        return False
    classifier.compiled = backend if isinstance(backend, str) else "by a function"
    return True


def _passes(classifier: Classifier, images: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (n, k) and the gradient (n, c, h, w) of their largest, as attacks ask for them."""
    with torch.inference_mode(mode=False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        batch = images.clone().requires_grad_()
        logits = classifier(batch)
        if not logits.requires_grad:
            return logits, torch.zeros_like(batch)
        (slope,) = torch.autograd.grad(logits.amax(1).sum(), batch)
    return logits.detach(), slope


def _agree(one: Tensor, other: Tensor) -> bool:
    spread = float(one.max() - one.min())
    return float((one - other).abs().max()) <= TOLERANCE * spread
