"""A look at a model beside its predictions: the evidence from which sanity flags are raised.

On the first images of a shard, always in passes of the same size: what is seen depends on the run's
key and the shard alone, never on the batch size, the order of shards, or a resumption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from robustboard.benchmarks.attacks import ATTACKS, Model
from robustboard.benchmarks.conditions import Condition
from robustboard.benchmarks.entries import Attack, Cascade, Ladder, Procedure, Scope
from robustboard.benchmarks.seeds import Draws
from robustboard.registry.entries import Norm
from robustboard.runners.inputs import Pixels, valid_pixels
from robustboard.runners.procedures import Rung, checked, ladder
from robustboard.runners.randomness import mean_logits, seeded
from robustboard.runners.record import Checks, RunKey

ROWS = 16
"""Images looked at, and rows of every pass."""
CLIMBING = frozenset({"pgd", "apgd-ce", "apgd-dlr", "apgd-targeted"})
"""Attacks that climb in many steps inside a budget; the first of a protocol gets the whole pixel range.
Not FGSM, whose single step overshoots, nor FAB, which looks for the nearest wrong image."""
SUM_TOLERANCE = 1e-3
"""How far from 1 the outputs of an image may sum up to and still be taken for probabilities."""
_BACKWARD: tuple[Callable[..., Any], ...] = (
    torch.autograd.grad,
    torch.autograd.backward,
    torch.Tensor.backward,
)


class GradientWatch(TorchFunctionMode):
    """Notices whether autograd is asked for gradients inside the block, by this thread.

    Whatever name the function was imported under, and inside torch.func as well. Not seen: gradients
    in forward mode, by finite differences, in another thread, in compiled code, or worked out by hand.
    """

    def __init__(self) -> None:
        """Nothing was seen yet."""
        super().__init__()
        self.seen = False

    def __torch_function__(  # noqa: D105 - torch's protocol
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        self.seen = self.seen or func in _BACKWARD
        return func(*args, **(kwargs or {}))


def look(
    procedure: Procedure,
    setting: Scope,
    *,
    classifier: torch.nn.Module,
    classes: tuple[int, ...] | None,
    images: Pixels,
    labels: npt.NDArray[np.int64],
    ids: Sequence[str],
    key: RunKey,
    device: str,
) -> Checks:
    """What the first images of a shard show; two passes, and an unbounded attack where there is a ladder.

    Arguments as those of `procedures.measure`; images beyond the first 16 are not looked at. The
    classifier is in evaluation mode afterwards; torch's random state is left alone. A compiled network is
    looked at as it was written.
    """
    classifier.eval()
    autocast = key.precision == "bfloat16"
    model = Model(classifier, batch_size=ROWS, device=device, autocast=autocast)
    pixels = torch.from_numpy(valid_pixels(images[:ROWS])).to(model.device)
    names, columns = tuple(ids[:ROWS]), torch.arange(0) if classes is None else torch.tensor(classes)
    with torch.compiler.set_stance("force_eager"), torch.inference_mode(mode=False), torch.no_grad():
        with seeded(key.digest, names[0], "sanity", model.device):
            with GradientWatch() as watch:
                first = model.logits(pixels).cpu()
            second = model.logits(pixels).cpu()
        kept = [outputs if classes is None else outputs[:, columns] for outputs in (first, second)]
        chosen = [outputs.argmax(1) for outputs in kept]
        wanted = torch.from_numpy(np.asarray(labels[:ROWS], np.int64))
        right = (chosen[0] if classes is None else columns[chosen[0]]) == wanted
        met = Draws(key.digest, tuple(name for name, ok in zip(names, right, strict=True) if ok), "sanity")
        survivors = None
        rung = unbounded_rung(procedure, setting, pixels)
        if rung is not None:
            cut = Model(classifier, batch_size=ROWS, classes=classes, device=device, autocast=autocast)
            average_over = procedure.average_over if isinstance(procedure, Cascade) else 1
            with seeded(key.digest, names[0], "sanity, unbounded", model.device):
                survivors = _survivors(
                    cut, rung, pixels[right], chosen[0][right], met, average_over=average_over
                )
    return Checks(
        images=len(pixels),
        spread=float((first.double() - second.double()).abs().amax()),
        flips=int((chosen[0] != chosen[1]).sum()),
        softmax=_is_distribution(first),
        inner_gradients=watch.seen,
        classes=kept[0].shape[1],
        unbounded=survivors,
        attacked=len(met.sample_ids) if survivors is not None else 0,
    )


def unbounded_rung(procedure: Procedure, setting: Scope, images: Tensor) -> Rung | None:
    """A protocol's first climbing attack with the whole pixel range as budget; None where it has none.

    Linf 1, or L2 the square root of the number of pixel values: every image of the size is inside.
    """
    if not isinstance(procedure, Attack | Cascade) or not isinstance(setting, Ladder):
        return None
    rungs = ladder(procedure, setting, Condition(procedure.norm, setting.headline))
    first = next((rung for rung in rungs if rung.attack in CLIMBING), None)
    if first is None:
        return None
    return replace(first, parameters=replace(first.parameters, eps=_whole_range(procedure.norm, images)))


def _whole_range(norm: Norm, images: Tensor) -> float:
    return 1.0 if norm == "linf" else float(images[0].numel()) ** 0.5


def _survivors(
    model: Model, rung: Rung, images: Tensor, labels: Tensor, draws: Draws, *, average_over: int
) -> int:
    """How many of the images, all classified right, the attack leaves so."""
    if not len(images):
        return 0
    aims = labels.to(model.device)
    attempt = ATTACKS[rung.attack](model, images.clone(), aims.clone(), rung.parameters, draws)
    left = mean_logits(model, checked(attempt, images, rung.parameters), average_over).argmax(1)
    return int((left == aims).sum())


def _is_distribution(outputs: Tensor) -> bool:
    """Whether every row of (n, k) outputs holds no negative number and sums up to 1."""
    sums = outputs.double().sum(1)
    return bool((outputs >= 0).all()) and bool(((sums - 1).abs() < SUM_TOLERANCE).all())
