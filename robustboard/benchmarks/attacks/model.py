"""A network as attacks and the runner see it: logits and input gradients of any number of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from robustboard.benchmarks.attacks.losses import Loss
from robustboard.errors import CellError

GRAIN = 16
"""Rows of every pass through the network are filled up to a multiple of this. The CPU kernels of
torch choose their order of summation by the number of rows; at multiples of 16 each row's result is
the same whatever rows surround it, so the batch size cannot move a decision."""


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "allocate memory" in text or "not enough memory" in text
    )


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class Model:
    """Passes through a network, cut into batches.

    The network is a function (n, c, h, w) float32 in [0, 1] → (n, classes) logits, in evaluation
    mode. Only gradients of the images are taken; its parameters are never touched. Works inside
    `torch.no_grad` and `torch.inference_mode`. A pass that runs out of memory is repeated with
    half as many rows.
    """

    def __init__(
        self,
        network: Callable[[Tensor], Tensor],
        *,
        batch_size: int = 64,
        classes: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
        autocast: bool = False,
    ) -> None:
        """Wrap a network.

        Args:
            network: Images to logits; on `device`.
            batch_size: Rows a pass, rounded down to a multiple of 16, at least 16.
            classes: Output columns to keep, in this order; None keeps all.
            device: Where images go.
            autocast: Run the network in bfloat16 where torch deems it safe.
        """
        self.network = network
        self.device = torch.device(device)
        self.columns = None if classes is None else torch.tensor(list(classes), device=self.device)
        self.autocast = autocast
        self.rows = max(GRAIN, batch_size - batch_size % GRAIN)
        """Rows of one pass at most; halved when memory runs out."""
        self.forward_rows = 0
        """Images sent through the network so far, without filling."""
        self.gradient_rows = 0
        """Images whose gradient was taken so far, without filling."""

    def _filled(self, count: int) -> int:
        """Rows of a pass for so many images."""
        return count + -count % min(GRAIN, self.rows)

    def _forward(self, images: Tensor) -> Tensor:
        """Logits of one batch: filled up to the grain, checked, cut to the classes."""
        count = len(images)
        missing = self._filled(count) - count
        if missing:
            filler = images[-1:].detach().expand(missing, *images.shape[1:])
            images = torch.cat([images, filler])
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            logits = self.network(images)
        if logits.shape[:-1] != (len(images),):
            raise CellError(
                "class-count", f"expected logits of shape ({len(images)}, classes), got {tuple(logits.shape)}"
            )
        logits = logits[:count].float()
        if self.columns is not None:
            logits = logits[:, self.columns]
        if not bool(torch.isfinite(logits).all()):
            bad = int((~torch.isfinite(logits)).any(1).sum())
            raise CellError("non-finite", f"the model's logits are not finite for {bad} of {count} images")
        self.forward_rows += count
        return logits

    def _batches(self, count: int, work: Callable[[slice], None]) -> None:
        """Do `work` on successive rows, with fewer of them whenever memory runs out."""
        start = 0
        while start < count:
            rows = slice(start, min(start + self.rows, count))
            try:
                work(rows)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
                if self.rows == 1:
                    raise CellError("out-of-memory", "not enough memory for a single image") from None
            else:
                start = rows.stop
                continue
            self.rows = max(1, self.rows // 2)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def logits(self, images: Tensor) -> Tensor:
        """(n, k) float32 logits of (n, c, h, w) images, detached.

        Raises CellError: non-finite logits, a wrong shape, no memory even for one image.
        """
        parts: list[Tensor] = []

        def work(rows: slice) -> None:
            with torch.inference_mode(mode=False), torch.no_grad():
                parts.append(self._forward(images[rows].clone()))

        self._batches(len(images), work)
        return _joined(parts)

    def gradients(
        self,
        images: Tensor,
        aims: Tensor,
        loss: Loss,
        average_over: int = 1,
        *,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits (n, k) and the gradient (n, c, h, w) of each image's own loss, both detached.

        Entries of the gradient that are not finite become 0. Raises CellError as `logits` does.

        Args:
            images: (n, c, h, w) in [0, 1].
            aims: (n, ...) second argument of the loss, most often the labels.
            loss: Maps logits and aims to one number an image.
            average_over: Passes whose logits and gradients are averaged, for models that answer
                differently each time.
            labels: (n,) where gradients of misclassified images are not needed: theirs are 0, which
                saves the way back through the network where many are.
        """
        logits: list[Tensor] = []
        slopes: list[Tensor] = []

        def work(rows: slice) -> None:
            if labels is not None and average_over == 1:
                outputs, slope = self._standing_gradient(images[rows], aims[rows], loss, labels[rows])
                logits.append(outputs)
                slopes.append(slope)
                return
            outputs, slope = self._gradient(images[rows], aims[rows], loss)
            for _ in range(average_over - 1):
                more, further = self._gradient(images[rows], aims[rows], loss)
                outputs, slope = outputs + more, slope + further
            # Both or neither: where memory runs out in between, the rows are done again.
            outputs, slope = outputs / average_over, slope / average_over
            logits.append(outputs)
            slopes.append(slope)

        self._batches(len(images), work)
        return _joined(logits), _joined(slopes)

    def _gradient(self, images: Tensor, aims: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
        """Detached logits and gradients of one batch."""
        with torch.inference_mode(mode=False), torch.enable_grad():
            batch = images.detach().clone().requires_grad_()
            outputs = self._forward(batch)
            return outputs.detach(), self._back(outputs, batch, aims, loss)

    def _back(self, outputs: Tensor, batch: Tensor, aims: Tensor, loss: Loss) -> Tensor:
        """The way back of one batch, which requires gradients, from its outputs."""
        self.gradient_rows += len(batch)
        total = loss(outputs, aims.clone()).sum()
        slope = None
        if total.requires_grad:
            (slope,) = torch.autograd.grad(total, batch, allow_unused=True)
        if slope is None:
            slope = torch.zeros_like(batch)
        return torch.nan_to_num(slope.detach(), nan=0.0, posinf=0.0, neginf=0.0)

    def _standing_gradient(
        self, images: Tensor, aims: Tensor, loss: Loss, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Detached logits of one batch, and gradients of the rows that are classified right; 0 elsewhere.

        Where at most half of the passes' rows still stand, these go through the network again on
        their own, which costs less than to take all rows back.
        """
        with torch.inference_mode(mode=False), torch.enable_grad():
            batch = images.detach().clone().requires_grad_()
            outputs = self._forward(batch)
            logits = outputs.detach()
            standing = torch.nonzero(logits.argmax(1) == labels).squeeze(1)
            if len(standing) == len(batch):
                return logits, self._back(outputs, batch, aims, loss)
            slopes = torch.zeros_like(images)
            if 2 * self._filled(len(standing)) > self._filled(len(batch)):
                slopes[standing] = self._back(outputs, batch, aims, loss)[standing]
            elif len(standing):
                del outputs, batch
                slopes[standing] = self._gradient(images[standing], aims[standing], loss)[1]
            return logits, slopes
