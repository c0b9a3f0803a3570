"""The registered control: gradients that mislead, found out by every check that is made for it."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from robustboard.benchmarks.entries import BenchmarkEntry, Cascade, CascadeStep, Ladder
from robustboard.errors import CellError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import ModelEntry
from robustboard.runners.classifier import Classifier
from robustboard.runners.flags import flags
from robustboard.runners.networks import RIPPLED, Rippled, build_network
from robustboard.runners.record import RunKey
from robustboard.runners.scoring import scores
from robustboard.runners.training import train
from robustboard.workspace import find
from tests.conftest import Labelled
from tests.runners.measuring import pgd, right, run

TENTH = Fraction(1, 10)


def registered() -> ModelEntry:
    return load_catalog(find(Path(__file__).resolve().parents[2])).model("digits-masked")


def changed(**arguments: Any) -> ModelEntry:
    """The registered entry with other arguments; those that are None are taken away."""
    entry = registered()
    merged = {**entry.architecture.arguments, **arguments}
    kept = {name: value for name, value in merged.items() if value is not None}
    architecture = entry.architecture.model_copy(update={"arguments": kept})
    return entry.model_copy(update={"architecture": architecture})


def cascade(*attacks: CascadeStep) -> Cascade:
    setting = Ladder(datasets=("digits",), budgets=(TENTH,), headline=TENTH)
    return Cascade(kind="cascade", norm="linf", attacks=attacks, settings=(setting,))


@pytest.fixture(scope="module")
def control(digits_train: Labelled) -> Classifier:
    """The control, trained by its own recipe."""
    entry = registered()
    network = build_network(entry, 10)
    network.load_state_dict(train(entry, *digits_train, classes=10).state)
    return Classifier(network, entry.input, 10)


def test_it_says_what_it_is() -> None:
    entry = registered()
    assert entry.control
    assert "control" in entry.name
    assert "no defence" in entry.name
    assert entry.architecture.name == RIPPLED


def test_ripples_are_the_formula_and_their_slope_changes_sign() -> None:
    """u - a sin(2 pi w u) / (2 pi w), whose derivative is 1 - a cos(2 pi w u)."""
    layer = Rippled(nn.Identity(), waves=5, slope=4).double()
    u = torch.linspace(0, 1, 101, dtype=torch.float64).reshape(1, 1, 1, -1).requires_grad_()
    out = layer(u)
    (slopes,) = torch.autograd.grad(out.sum(), u)
    at = u.detach()
    assert torch.allclose(out.detach(), at - 4 / (10 * math.pi) * (10 * math.pi * at).sin())
    assert torch.allclose(slopes, 1 - 4 * (10 * math.pi * at).cos())
    assert float((out.detach() - at).abs().max()) <= 4 / (10 * math.pi) + 1e-12


@pytest.mark.parametrize("missing", ["network", "waves", "slope"])
def test_it_needs_its_three_arguments(missing: str) -> None:
    with pytest.raises(CellError, match="rippled needs network, and waves and slope above 0"):
        build_network(changed(**{missing: None}), 10)


@pytest.mark.parametrize("arguments", [{"waves": 0}, {"slope": -1}, {"network": 3}])
def test_arguments_of_a_wrong_kind_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(CellError, match="rippled needs"):
        build_network(changed(**arguments), 10)


def test_what_timm_refuses_is_refused_behind_ripples_too() -> None:
    with pytest.raises(CellError, match="timm has no architecture"):
        build_network(changed(network="no-such-net"), 10)
    with pytest.raises(CellError, match="num_classes may not be set"):
        build_network(changed(num_classes=3), 10)


def test_pgd_is_fooled_square_is_not_and_the_flag_says_so(
    control: Classifier, digits_test: Labelled, run_key: RunKey
) -> None:
    """Of 60 digits PGD leaves four in five; Square, which asks for no gradient, breaks most of these."""
    images, labels = digits_test[0][:60], digits_test[1][:60]
    fooled = run(pgd("1/10", steps=20), control, images, labels, run_key)
    assert sum(right(fooled, "clean")) >= 54
    assert sum(right(fooled, "linf 1/10")) >= 48
    procedure = cascade(CascadeStep(attack="apgd-ce", steps=10), CascadeStep(attack="square", queries=1000))
    table = run(procedure, control, images, labels, run_key)
    assert sum(right(table, "linf 1/10")) <= 36
    entry = BenchmarkEntry(
        id="x-v1", name="X", summary="x", procedure=procedure, source="test", added=registered().added
    )
    found, _ = scores(entry, procedure.settings[0], table)
    raised = flags(entry, procedure.settings[0], found, table, None)
    assert [flag.name for flag in raised] == ["black-box-stronger"]
    broken = int((np.asarray(table.only("linf 1/10").column("attack"), str) == "square").sum())
    assert raised[0].value == broken / 60
    assert f"square broke {broken} of 60 images" in raised[0].reason
