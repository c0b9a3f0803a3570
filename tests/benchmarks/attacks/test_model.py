"""Passes through a network: batches, memory, gradient modes, checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from robustboard.benchmarks.attacks.losses import margin
from robustboard.benchmarks.attacks.model import Model
from robustboard.errors import CellError

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def _images(count: int = 10) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((count, 1, 2, 2)).astype(np.float32))


class Sizes(nn.Module):
    """Two-class sum model that remembers how many rows each pass had, and fails above a number."""

    def __init__(self, most: int = 10**6, error: type[Exception] = RuntimeError) -> None:
        super().__init__()
        self.most, self.error, self.seen = most, error, list[int]()

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.most:
            raise self.error("CUDA out of memory. Tried to allocate 2 GiB")
        self.seen.append(len(images))
        score = images.flatten(1).sum(1) - 2
        return torch.stack([score, -score], dim=1)


def test_passes_are_filled_up_to_whole_grains() -> None:
    network = Sizes()
    model = Model(network, batch_size=40)
    assert model.logits(_images(70)).shape == (70, 2)
    assert network.seen == [32, 32, 16]
    assert model.forward_rows == 70


def test_gradient_is_of_each_image_alone() -> None:
    """The sum model's margin -2 s falls by 2 a unit of each pixel when the label is 0."""
    images, labels = _images(5), torch.tensor([0, 0, 1, 1, 0])
    logits, slopes = Model(Sizes()).gradients(images, labels, margin)
    assert torch.allclose(logits[:, 0], images.flatten(1).sum(1) - 2)
    signs = torch.where(labels == 0, -2.0, 2.0).view(5, 1, 1, 1)
    assert torch.equal(slopes, signs.expand(5, 1, 2, 2))
    assert not logits.requires_grad
    assert not slopes.requires_grad


@pytest.mark.parametrize("wrong", [0, 3, 20, 30, 40])
def test_misclassified_images_need_no_way_back(
    robust_net: nn.Module, digits_test: Labelled, wrong: int
) -> None:
    """Their gradients are 0, the others' are the same to the bit, and many of them cost little."""
    images, truth = torch.from_numpy(digits_test[0][:40]), robust_net(torch.from_numpy(digits_test[0][:40]))
    labels = truth.argmax(1)
    labels[:wrong] = (labels[:wrong] + 1) % 10
    logits, slopes = Model(robust_net).gradients(images, labels, margin)
    model = Model(robust_net)
    again, standing = model.gradients(images, labels, margin, labels=labels)

    assert torch.equal(again, logits)
    assert not standing[:wrong].any()
    assert torch.equal(standing[wrong:], slopes[wrong:])
    assert model.gradient_rows == {0: 40, 3: 40, 20: 40, 30: 10, 40: 0}[wrong]


def test_gradients_where_gradients_are_off() -> None:
    """B046: inside no_grad and inference_mode, on tensors made there, with frozen parameters."""
    expected = Model(Sizes()).gradients(_images(), torch.zeros(10, dtype=torch.long), margin)[1]
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            images = _images() * 1
            slopes = Model(Sizes()).gradients(images, torch.zeros(10, dtype=torch.long), margin)[1]
        assert torch.equal(slopes, expected)


def test_parameters_get_no_gradient(two_class: nn.Module) -> None:
    images, labels = _images(3), torch.zeros(3, dtype=torch.long)
    assert Model(two_class).gradients(images, labels, margin)[1].any()
    assert all(parameter.requires_grad for parameter in two_class.parameters())
    assert all(parameter.grad is None for parameter in two_class.parameters())


def test_a_network_cut_off_from_its_input_has_zero_gradient() -> None:
    constant = nn.Parameter(torch.zeros(2))
    model = Model(lambda images: constant.expand(len(images), 2))
    assert not model.gradients(_images(), torch.zeros(10, dtype=torch.long), margin)[1].any()
    detached = Model(lambda images: Sizes()(images.detach().round()))
    assert not detached.gradients(_images(), torch.zeros(10, dtype=torch.long), margin)[1].any()


def test_gradient_entries_that_are_no_numbers_become_zero() -> None:
    """The square root has an infinite slope at 0."""
    model = Model(lambda images: torch.stack([images.sqrt().sum((1, 2, 3)), images.sum((1, 2, 3))], dim=1))
    images = torch.tensor([[[[0.0, 0.25], [0.25, 0.25]]]])
    slopes = model.gradients(images, torch.tensor([1]), margin)[1]
    assert torch.isfinite(slopes).all()
    assert slopes[0, 0, 0, 0] == 0
    assert slopes[0, 0, 1, 1] == pytest.approx(1 / (2 * 0.5) - 1)


@pytest.mark.parametrize(
    ("most", "error"), [(20, RuntimeError), (5, torch.OutOfMemoryError), (1, MemoryError)]
)
def test_a_pass_that_runs_out_of_memory_is_halved(most: int, error: type[Exception]) -> None:
    expected = Model(Sizes()).logits(_images(70))
    model = Model(Sizes(most, error), batch_size=64)
    assert torch.equal(model.logits(_images(70)), expected)
    assert model.rows <= most
    slopes = Model(Sizes(most, error)).gradients(_images(70), torch.zeros(70, dtype=torch.long), margin)[1]
    assert torch.equal(slopes, torch.full_like(slopes, -2.0))


class Scarce(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Memory that does not suffice for the first division of a batch of images."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.failed = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.failed and func is torch.ops.aten.div.Tensor and args[0].ndim == 4:
            self.failed = True
            raise torch.OutOfMemoryError("CUDA out of memory")
        return func(*args, **(kwargs or {}))


def test_memory_that_runs_out_after_a_pass_leaves_no_row_twice() -> None:
    images, labels = _images(32), torch.zeros(32, dtype=torch.long)
    wanted = Model(Sizes()).gradients(images, labels, margin)
    with Scarce() as scarce:
        logits, slopes = Model(Sizes(), batch_size=32).gradients(images, labels, margin)
    assert scarce.failed
    assert torch.equal(logits, wanted[0])
    assert torch.equal(slopes, wanted[1])


def test_no_memory_for_one_image_fails_the_cell() -> None:
    with pytest.raises(CellError, match="single image") as caught:
        Model(Sizes(0)).logits(_images())
    assert caught.value.kind == "out-of-memory"


def test_other_errors_of_a_network_are_not_taken_for_memory() -> None:
    def broken(images: Tensor) -> Tensor:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied {tuple(images.shape)}")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        Model(broken).logits(_images())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_logits_that_are_no_numbers_fail_the_cell(value: float) -> None:
    """B038: never class 0, never a successful attack."""

    def network(images: Tensor) -> Tensor:
        logits = Sizes()(images)
        return torch.where(images[:, 0, 0, 0:1] > 0.5, torch.full_like(logits, value), logits)

    for call in (
        lambda: Model(network).logits(_images()),
        lambda: Model(network).gradients(_images(), torch.zeros(10, dtype=torch.long), margin),
    ):
        with pytest.raises(CellError, match="of 10 images") as caught:
            call()
        assert caught.value.kind == "non-finite"


def test_logits_of_another_shape_are_refused() -> None:
    with pytest.raises(CellError, match="expected logits of shape"):
        Model(lambda images: images).logits(_images())


def test_class_subset_keeps_columns_in_its_order() -> None:
    """B030: sorting the subset would give chance."""
    columns = torch.arange(1000.0).expand(16, 1000)
    model = Model(lambda images: columns[: len(images)], classes=[47, 3, 901])
    assert model.logits(_images(2)).tolist() == [[47.0, 3.0, 901.0]] * 2


def test_rows_do_not_depend_on_the_batch_around_them(robust_net: nn.Module, digits_test: Labelled) -> None:
    """Filled-up passes give each row the same bits at every batch size."""
    images, labels = torch.from_numpy(digits_test[0][:70]), torch.from_numpy(digits_test[1][:70])
    logits, slopes = Model(robust_net, batch_size=64).gradients(images, labels, margin)
    for batch_size in (1, 7, 33, 200):
        again = Model(robust_net, batch_size=batch_size).gradients(images, labels, margin)
        assert torch.equal(again[0], logits)
        assert torch.equal(again[1], slopes)
    single = Model(robust_net).gradients(images[5:6], labels[5:6], margin)
    assert torch.equal(single[0], logits[5:6])
    assert torch.equal(single[1], slopes[5:6])
