"""From images to predictions: masks, noise, batches, memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from robustboard.benchmarks.conditions import conditions
from robustboard.benchmarks.entries import (
    Procedure,
)
from robustboard.errors import CellError
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from tests.runners.measuring import (
    CLEAN,
    Labelled,
    Reading,
    coded,
    fgsm,
    flat,
    noise,
    pgd,
    right,
    run,
)

# Clean


@pytest.mark.parametrize("batch_size", [1, 4, 10, 16])
@pytest.mark.parametrize("shards", [1, 3])
def test_uneven_batches_and_shards_count_each_image_once(
    run_key: RunKey, batch_size: int, shards: int
) -> None:
    """B037: ten rows, eight right: 0.8 and n = 10 every time."""
    images, labels = coded(*range(8), 0, 0), np.arange(10)
    parts = [
        run(
            CLEAN,
            Reading(10),
            images[rows],
            labels[rows],
            run_key,
            batch_size=batch_size,
            ids=[f"image-{row}" for row in rows],
        )
        for rows in np.array_split(np.arange(10), shards)
    ]
    table = PredictionTable.concat(parts)
    assert table.table.num_rows == 10
    assert sum(right(table, "clean")) == 8
    assert table.column("sample_id").tolist() == [f"image-{row}" for row in range(10)]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("procedure", [CLEAN, pgd("1/10"), noise("1/10")], ids=["clean", "pgd", "noise"])
def test_outputs_that_are_no_numbers_fail_the_cell(
    run_key: RunKey, value: float, procedure: Procedure
) -> None:
    """B038: five images of label 0 get NaN or infinite logits: an error, never accuracy 1.0."""

    labels = [0] * 5 + [1, 2, 3, 4, 5]

    class Broken(Reading):
        def forward(self, images: Tensor) -> Tensor:
            logits = super().forward(images)
            return torch.where(images[:, 0, 0, :1] < 0.002, torch.full_like(logits, value), logits)

    with pytest.raises(CellError) as caught:
        run(procedure, Broken(10), coded(*labels), np.array(labels), run_key)
    assert caught.value.kind == "non-finite"


def test_class_subset_is_cut_before_the_softmax_in_its_own_order(run_key: RunKey) -> None:
    """B030: 1,000 outputs, classes [47, 3, 901]: accuracy 1.0, and the shares of the three sum to 1."""

    class Peaked(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            chosen = torch.tensor([47, 3, 901])[(images[:, 0, 0, 0] * 255).round().long()]
            logits = torch.zeros(len(images), 1000)
            logits[:, 500] = 50.0  # the peak of a class that does not occur
            return logits.scatter(1, chosen.unsqueeze(1), 2.0)

    table = run(CLEAN, Peaked(), coded(0, 1, 2), np.array([47, 3, 901]), run_key, classes=(47, 3, 901))
    assert table.column("predicted").tolist() == [47, 3, 901]
    share = float(np.exp(2) / (np.exp(2) + 2))
    assert table.column("confidence").tolist() == pytest.approx([share] * 3, abs=1e-6)


def test_a_label_outside_the_class_subset_fails_the_cell(run_key: RunKey) -> None:
    with pytest.raises(CellError, match=r"labels \[5\] are not in the dataset's class subset"):
        run(CLEAN, Reading(10), coded(1, 5), np.array([1, 5]), run_key, classes=(0, 1, 2))


def test_pixels_are_clamped_within_rounding_and_refused_beyond(run_key: RunKey) -> None:
    """B040: -3e-8 is rounding, -0.5 is another scale."""
    images = coded(3, 4)
    images[0, 0, 1, 1] = -3e-8
    images[1, 0, 1, 1] = 1 + 5e-7
    given_images = images.copy()
    assert right(run(CLEAN, Reading(10), images, np.array([3, 4]), run_key), "clean") == [True, True]
    assert np.array_equal(images, given_images)
    for fault, message in ((-0.5, "-0.5 to"), (1.2, "to 1.2"), (255.0, "to 255"), (np.nan, "not finite")):
        images[0, 0, 1, 1] = fault
        with pytest.raises(CellError, match=message):
            run(CLEAN, Reading(10), images, np.array([3, 4]), run_key)


def test_confidence_is_the_softmax_share_of_the_predicted_class(
    run_key: RunKey, digits_test: Labelled, standard_net: nn.Module
) -> None:
    images, labels = digits_test[0][:30], digits_test[1][:30]
    table = run(CLEAN, standard_net, images, labels, run_key)
    shares = torch.softmax(standard_net(torch.from_numpy(images)), dim=1).numpy()
    assert np.array_equal(table.column("predicted"), shares.argmax(1))
    assert np.allclose(table.column("confidence"), shares.max(1), atol=1e-6)


def test_dropout_and_batch_statistics_are_off_whatever_the_mode_before(run_key: RunKey) -> None:
    """B045: a network handed over in training mode; evaluation mode afterwards, nothing else changed."""
    network = nn.Sequential(
        nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(16, 3)
    )
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    images = np.random.default_rng(0).random((12, 1, 2, 2)).astype(np.float32)
    labels = np.arange(12) % 3
    first = run(pgd("1/10"), network, images, labels, run_key)
    second = run(pgd("1/10"), network, images, labels, run_key)
    assert first.table.equals(second.table)
    assert not any(module.training for module in network.modules())
    after = network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in network.parameters())


# Noise


def test_noise_rows_come_condition_by_condition_in_the_samples_order(run_key: RunKey) -> None:
    procedure = noise("1/20", "1/10")
    table = run(procedure, Reading(256), coded(100, 200), np.array([100, 200]), run_key)
    names = conditions(procedure, procedure.settings[0])
    assert table.column("condition").tolist() == [name for name in names for _ in range(2)]
    assert table.column("sample_id").tolist() == ["image-0", "image-1"] * len(names)
    assert set(table.column("status")) == {"ok"}
    uniform = table.only("uniform 1/20 draw 0").column("distance")
    assert (uniform <= 0.05 + 1e-6).all()
    assert (uniform > 0.01).all()


def test_draws_of_noise_differ_from_each_other(run_key: RunKey) -> None:
    table = run(noise("1/10", draws=3), Reading(256), coded(100), np.array([100]), run_key)
    noisy = [name for name in table.conditions() if name != "clean"]
    assert len({float(table.only(name).column("distance")[0]) for name in noisy}) == 6


# Batches, order, memory


@pytest.mark.parametrize("kind", ["standard_net", "robust_net"])
@pytest.mark.parametrize(
    "procedure",
    [pgd("1/20", "1/10"), pgd("1/2", norm="l2"), fgsm("1/10"), noise("1/5")],
    ids=["pgd", "pgd-l2", "fgsm", "noise"],
)
def test_batch_size_changes_no_row(
    request: pytest.FixtureRequest, run_key: RunKey, digits_test: Labelled, kind: str, procedure: Procedure
) -> None:
    network: nn.Module = request.getfixturevalue(kind)
    images, labels = digits_test[0][:100], digits_test[1][:100]
    first = run(procedure, network, images, labels, run_key, batch_size=64)
    for batch_size in (1, 7):
        again = run(procedure, network, images, labels, run_key, batch_size=batch_size)
        for column in ("sample_id", "condition", "label", "predicted", "status"):
            assert np.array_equal(first.column(column), again.column(column)), column
        assert np.allclose(first.column("confidence"), again.column("confidence"), atol=1e-4)


@given(seed=st.integers(0, 10_000), width=st.sampled_from([3, 8, 17]), channels=st.sampled_from([1, 3]))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batch_size_changes_no_row_of_random_nets(
    run_key: RunKey, seed: int, width: int, channels: int
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1, groups=width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(width * 25, 5),
        )
    images = np.random.default_rng(seed).random((23, channels, 5, 5)).astype(np.float32)
    with torch.no_grad():
        labels = network(torch.from_numpy(images)).argmax(1).numpy()
    tables = [
        run(pgd("1/50", "1/10"), network, images, labels, run_key, batch_size=batch_size)
        for batch_size in (1, 7, 64)
    ]
    for table in tables[1:]:
        for column in ("predicted", "status"):
            assert np.array_equal(tables[0].column(column), table.column(column))


@pytest.mark.parametrize("procedure", [pgd("1/10"), noise("1/5")], ids=["pgd", "noise"])
def test_order_and_neighbours_change_no_row(
    run_key: RunKey, digits_test: Labelled, standard_net: nn.Module, procedure: Procedure
) -> None:
    images, labels = digits_test[0][:60], digits_test[1][:60]
    whole = run(procedure, standard_net, images, labels, run_key).table.to_pandas()
    rows = np.random.default_rng(0).permutation(60)[:25]
    part = run(
        procedure, standard_net, images[rows], labels[rows], run_key, ids=[f"image-{row}" for row in rows]
    ).table.to_pandas()
    keys = ["sample_id", "condition"]
    merged = part.merge(whole, on=keys, suffixes=("", "_whole"))
    assert len(merged) == len(part)
    for column in ("predicted", "status"):
        assert (merged[column] == merged[f"{column}_whole"]).all()


def test_another_run_key_draws_other_noise(run_key: RunKey, standard_net: nn.Module) -> None:
    images, labels = flat(0.5), np.array([0])
    images = np.full((1, 1, 8, 8), 0.5, np.float32)
    other = run_key.model_copy(update={"seed": 1})
    first, second = (
        float(run(noise("1/10"), standard_net, images, labels, key).column("confidence")[1])
        for key in (run_key, other)
    )
    assert first != second


def test_memory_that_suffices_for_few_images_gives_the_same_rows(
    run_key: RunKey, digits_test: Labelled, standard_net: nn.Module
) -> None:
    class Cramped(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 16:
                raise torch.OutOfMemoryError("out of memory")
            logits: Tensor = standard_net(images)
            return logits

    images, labels = digits_test[0][:50], digits_test[1][:50]
    procedure = pgd("1/10")
    expected = run(procedure, standard_net, images, labels, run_key)
    assert run(procedure, Cramped(), images, labels, run_key, batch_size=200).table.equals(expected.table)


def test_memory_that_does_not_suffice_for_one_image_fails_the_cell(run_key: RunKey) -> None:
    class Full(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            raise RuntimeError(f"CUDA out of memory with {len(images)} images")

    with pytest.raises(CellError) as caught:
        run(CLEAN, Full(), flat(0.5), np.array([0]), run_key)
    assert caught.value.kind == "out-of-memory"


def test_arrays_of_unequal_length_are_a_defect(run_key: RunKey) -> None:
    with pytest.raises(ValueError, match="as many images as labels and ids"):
        run(CLEAN, Reading(3), coded(1, 2), np.array([1]), run_key)
    with pytest.raises(ValueError, match="expected images"):
        run(CLEAN, Reading(3), np.zeros((0, 1, 2, 2), np.float32), np.array([], np.int64), run_key)
