"""From images to predictions: masks, budgets, second looks, batches."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from robustboard.benchmarks import attacks
from robustboard.benchmarks.attacks import AttackParameters, Attempt, Model
from robustboard.benchmarks.conditions import conditions
from robustboard.benchmarks.entries import (
    Attack,
    AttackSetting,
    Clean,
    Ladder,
    Noise,
    Procedure,
    Scope,
)
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.entries import Norm
from robustboard.runners.procedures import checked, measure
from robustboard.runners.record import PredictionTable, RunKey

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]
Pixels = NDArray[np.float32]
NORMS: tuple[Norm, ...] = ("linf", "l2")
TENTH = Fraction(1, 10)
SCOPE = Scope(datasets=("digits",))
CLEAN = Clean(kind="clean", settings=(SCOPE,))


def ladder(*budgets: str, steps: int = 1, relative_step: str = "1") -> AttackSetting:
    exact = tuple(Fraction(budget) for budget in budgets)
    return AttackSetting(
        datasets=("digits",),
        budgets=exact,
        headline=exact[-1],
        steps=steps,
        relative_step=Fraction(relative_step),
    )


def fgsm(*budgets: str, norm: Norm = "linf") -> Attack:
    return Attack(kind="attack", attack="fgsm", norm=norm, settings=(ladder(*budgets),))


def pgd(*budgets: str, norm: Norm = "linf", steps: int = 10) -> Attack:
    setting = ladder(*budgets, steps=steps, relative_step="1/4")
    return Attack(kind="attack", attack="pgd", norm=norm, random_start=True, settings=(setting,))


class Maker(Protocol):
    """One of the two above."""

    def __call__(self, *budgets: str, norm: Norm) -> Attack: ...


def noise(*budgets: str, draws: int = 2) -> Noise:
    setting = Ladder(
        datasets=("digits",), budgets=tuple(map(Fraction, budgets)), headline=Fraction(budgets[-1])
    )
    return Noise(kind="noise", distributions=("uniform", "gaussian"), draws=draws, settings=(setting,))


def run(
    procedure: Procedure,
    network: nn.Module,
    images: Pixels,
    labels: NDArray[np.int64],
    key: RunKey,
    *,
    batch_size: int = 64,
    classes: tuple[int, ...] | None = None,
    ids: list[str] | None = None,
) -> PredictionTable:
    return measure(
        procedure,
        procedure.settings[0],
        classifier=network,
        classes=classes,
        images=images,
        labels=labels,
        ids=ids or [f"image-{row}" for row in range(len(images))],
        key=key,
        batch_size=batch_size,
        device="cpu",
    )


def flat(*values: float) -> Pixels:
    """One 2x2 grey image a value."""
    return np.stack([np.full((1, 2, 2), value, np.float32) for value in values])


class Reading(nn.Module):
    """Classifies an image by its first pixel: class round(255 * pixel), of `classes`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, images: Tensor) -> Tensor:
        value = (images[:, 0, 0, 0] * 255).round()
        return -(torch.arange(self.classes) - value.unsqueeze(1)).abs()


def coded(*classes: int) -> Pixels:
    """Images that Reading takes for these classes."""
    return flat(*(each / 255 for each in classes))


def right(table: PredictionTable, condition: str) -> list[bool]:
    rows = table.only(condition)
    return [bool(flag) for flag in rows.column("predicted") == rows.column("label")]


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


# Attacks


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("make", [fgsm, pgd])
def test_linear_model_with_a_known_answer(
    two_class: nn.Module, run_key: RunKey, make: Maker, norm: Norm
) -> None:
    """B039: score 0.08 is in reach of budget 0.05, score 0.8 is not: robust accuracy 0.5."""
    procedure = make("1/20", norm=norm)
    table = run(procedure, two_class, flat(0.52, 0.70), np.array([0, 0]), run_key)
    assert right(table, "clean") == [True, True]
    assert right(table, f"{norm} 1/20") == [False, True]
    distance = table.only(f"{norm} 1/20").column("distance")
    assert (distance <= 0.05 + 1e-6).all()
    assert (distance > 0.02).all()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_measured_where_gradients_are_off(two_class: nn.Module, run_key: RunKey, mode: type) -> None:
    """B046: robust 0.5 inside no_grad and inference_mode, and with frozen parameters."""
    two_class.requires_grad_(requires_grad=False)
    with mode():
        table = run(pgd("1/20"), two_class, flat(0.52, 0.70), np.array([0, 0]), run_key)
    assert right(table, "linf 1/20") == [False, True]


def test_a_model_without_gradient_is_marked_in_every_row(two_class: nn.Module, run_key: RunKey) -> None:
    """B046: the rounding model's rows say no-gradient; its clean errors stay already-wrong."""

    class Rounding(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = two_class((images * 255).round() / 255)
            return logits

    table = run(fgsm("1/20"), Rounding(), flat(0.52, 0.70, 0.2), np.array([0, 0, 0]), run_key)
    rows = table.only("linf 1/20")
    assert rows.column("status").tolist() == ["no-gradient", "no-gradient", "already-wrong"]


def test_images_wrong_before_the_attack_stay_wrong(two_class: nn.Module, run_key: RunKey) -> None:
    """B043: clean right on 7, the attack breaks 3; moving a wrong one would by chance put it right."""
    values = [0.51, 0.52, 0.53, 0.60, 0.65, 0.70, 0.75, 0.49, 0.30, 0.20]
    table = run(pgd("1/20"), two_class, flat(*values), np.zeros(10, np.int64), run_key)
    assert right(table, "clean") == [True] * 7 + [False] * 3
    assert right(table, "linf 1/20") == [False] * 3 + [True] * 4 + [False] * 3
    rows = table.only("linf 1/20")
    assert rows.column("status").tolist() == ["ok"] * 7 + ["already-wrong"] * 3
    assert rows.column("distance")[7:].tolist() == [0, 0, 0]
    clean = table.only("clean")
    assert rows.column("confidence")[7:].tolist() == clean.column("confidence")[7:].tolist()


def test_nothing_is_attacked_where_all_are_wrong(two_class: nn.Module, run_key: RunKey) -> None:
    table = run(pgd("1/20"), two_class, flat(0.1, 0.2), np.array([0, 0]), run_key)
    assert table.only("linf 1/20").column("status").tolist() == ["already-wrong"] * 2


@pytest.mark.parametrize("norm", NORMS)
def test_a_second_look_agrees_with_the_report(
    run_key: RunKey, digits_test: Labelled, standard_net: nn.Module, norm: Norm
) -> None:
    """B044: attacked images classified again, alone and by eights: the reported flags, each one."""
    images, labels = digits_test[0][:80], digits_test[1][:80]
    procedure = pgd("1/10", norm=norm)
    rows = run(procedure, standard_net, images, labels, run_key).only(f"{norm} 1/10")
    attacked = rows.column("status") == "ok"
    originals = torch.from_numpy(images[attacked])
    parameters = AttackParameters(norm, 0.1, 10, 0.25, random_start=True)
    ids = Draws(run_key.digest, tuple(rows.column("sample_id")[attacked]), f"{norm} 1/10")
    attempt = attacks.ATTACKS["pgd"](
        Model(standard_net), originals, torch.from_numpy(labels[attacked]), parameters, ids
    )
    stored = checked(attempt, originals, parameters)
    for size in (1, 8):
        again = torch.cat([standard_net(part) for part in torch.split(stored, size)]).argmax(1)
        assert np.array_equal(again.numpy(), rows.column("predicted")[attacked])


def proposing(offset: float | None, *, shape: tuple[int, ...] | None = None) -> attacks.Perturb:
    """An attack that keeps no promise: adds `offset` (None: not a number) or changes the shape."""

    def attack(
        model: Model, images: Tensor, labels: Tensor, parameters: AttackParameters, draws: Draws
    ) -> Attempt:
        del model, labels, parameters, draws
        moved = images + (float("nan") if offset is None else offset)
        if shape is not None:
            moved = torch.zeros(shape)
        images.fill_(0.123)  # and it tramples on what it was given
        return Attempt(moved, torch.zeros(len(images), dtype=torch.bool))

    return attack


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("offset", [-0.9, 0.9, 1e6])
def test_an_attack_that_leaves_its_budget_is_brought_back(
    monkeypatch: pytest.MonkeyPatch, two_class: nn.Module, run_key: RunKey, offset: float, norm: Norm
) -> None:
    """The runner clips and judges: image B survives a budget that the attack ignored."""
    monkeypatch.setitem(attacks.ATTACKS, "fgsm", proposing(offset))
    images = flat(0.52, 0.70)
    table = run(fgsm("1/20", norm=norm), two_class, images, np.array([0, 0]), run_key)
    assert right(table, f"{norm} 1/20") == [offset > 0, True]
    assert table.only(f"{norm} 1/20").column("distance").tolist() == pytest.approx([0.05] * 2, abs=1e-6)
    assert np.array_equal(images, flat(0.52, 0.70))


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (proposing(None), "not finite"),
        (proposing(0, shape=(1, 1, 2, 2)), "gave shape"),
        (proposing(0, shape=(2, 4)), "gave shape"),
    ],
)
def test_a_proposal_that_is_no_image_fails_the_cell(
    monkeypatch: pytest.MonkeyPatch,
    two_class: nn.Module,
    run_key: RunKey,
    attack: attacks.Perturb,
    message: str,
) -> None:
    monkeypatch.setitem(attacks.ATTACKS, "fgsm", attack)
    with pytest.raises(CellError, match=message) as caught:
        run(fgsm("1/20"), two_class, flat(0.52, 0.70), np.array([0, 0]), run_key)
    assert caught.value.kind == "budget"


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
