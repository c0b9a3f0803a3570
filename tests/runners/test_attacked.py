"""The runner and attacks: budgets, second looks, images that were wrong before."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustboard.benchmarks import attacks
from robustboard.benchmarks.attacks import AttackParameters, Attempt, Model
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.entries import Norm
from robustboard.runners.procedures import checked
from robustboard.runners.record import RunKey
from tests.runners.measuring import (
    NORMS,
    Labelled,
    Maker,
    fgsm,
    flat,
    pgd,
    right,
    run,
)


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
