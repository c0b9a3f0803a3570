"""Bits an image and condition: what they add up to, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robustboard import jsons
from robustboard.errors import StoreError
from robustboard.runners.per_image import (
    PerImage,
    check_against,
    counted,
    pack,
    per_image,
    planes,
    read_per_image,
    shares,
    unpack,
)
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from robustboard.runners.score import read_result, result_path
from robustboard.workspace import Workspace
from tests.leaderboard.made_up import World
from tests.runners.small import CLEAN, NOISE, PGD, Place
from tests.runners.test_score import run

N = 1000


def first(count: int) -> np.ndarray[Any, Any]:
    return np.arange(N) < count


def table(rights: dict[str, Any], ids: list[str]) -> PredictionTable:
    """Label 0 everywhere; class 0 is predicted where an image is right."""
    return PredictionTable.concat(
        [
            PredictionTable.of(
                sample_id=ids,
                condition=condition,
                label=np.zeros(len(ids)),
                predicted=np.where(right, 0, 1),
                confidence=np.ones(len(ids)),
                distance=np.zeros(len(ids)),
                status=["ok"] * len(ids),
            )
            for condition, right in rights.items()
        ]
    )


def some_key() -> RunKey:
    world = World()
    world.add_model("one")
    return world.result("one").key


def test_fifty_thousand_images_take_six_kilobytes() -> None:
    flags = np.random.default_rng(0).random(50_000) < 0.7
    text = pack(flags)
    assert len(text) * 3 // 4 <= 6252
    assert np.array_equal(unpack(text, 50_000, "x"), flags)


@pytest.mark.parametrize(
    ("text", "count"), [("!", 3), (pack(np.ones(9, bool)), 8), (pack(np.ones(8, bool)), 7)]
)
def test_bits_that_are_not_as_many_as_the_images_are_refused(text: str, count: int) -> None:
    with pytest.raises(StoreError, match=r"x: right: expected"):
        unpack(text, count, "x")


def test_images_stand_in_the_order_of_ids() -> None:
    right = np.asarray([True, False, True, True])
    straight = per_image(some_key(), table({"clean": right}, list("abcd")), ["clean"])
    turned = per_image(some_key(), table({"clean": right[::-1]}, list("dcba")), ["clean"])
    assert straight == turned
    assert per_image(some_key(), table({"clean": right}, list("abce")), ["clean"]).samples != straight.samples


def test_attacked_images_count_only_when_right_before_and_after() -> None:
    found = counted({"clean": first(800), "linf 1/10": ~first(700)}, "robust_accuracy", "linf 1/10")
    assert found is not None
    assert int(found.sum()) == 100


def test_draws_of_noise_make_a_mean_and_a_worst_case() -> None:
    """900, 800 and 700 images: 700 are right in all draws; the mean is 800 and takes two binary digits."""
    draws = {f"uniform 1/10 draw {draw}": first(900 - 100 * draw) for draw in range(3)}
    right = {"clean": first(N), **draws, "uniform 1/5 draw 0": first(0)}
    worst, mean = (
        shares(right, metric, "uniform 1/10") for metric in ("noise_accuracy_worst", "noise_accuracy")
    )
    assert worst is not None
    assert mean is not None
    assert (int(worst.sum()), mean.mean()) == (700, pytest.approx(0.8))
    assert mean[:700].tolist() == [1.0] * 700
    assert mean[850] == pytest.approx(1 / 3)
    found = planes(right, "noise_accuracy", "uniform 1/10")
    assert found is not None
    assert len(found[0]) == 2


def test_the_area_under_a_curve_is_a_sum_over_budgets() -> None:
    """The trapezoid rule over budgets 0.1, 0.2 and 0.4 with 800, 600 and 200 images."""
    right = {"clean": first(900), "linf 1/10": first(800), "linf 1/5": first(600), "linf 2/5": first(200)}
    area = shares(right, "area_under_curve", "linf")
    assert area is not None
    assert area.mean() == pytest.approx((0.1 * 0.7 + 0.2 * 0.4) / 0.3)


@pytest.mark.parametrize(
    "name", ["robust_accuracy@l2 1", "noise_accuracy@blue 1", "min_accuracy@linf", "mce@all"]
)
def test_other_scores_are_no_means_over_images(name: str) -> None:
    metric, _, condition = name.partition("@")
    assert shares({"clean": first(5)}, metric, condition) is None


def test_a_run_leaves_outcomes_that_give_its_scores(place: Place) -> None:
    """Every share of a clean, a noisy and an attacked run is the mean of what its images give."""
    cells = (CLEAN, NOISE, PGD)
    run(place, *cells)
    checked = 0
    for cell in cells:
        result = read_result(result_path(place.workspace, cell.name))
        outcomes = read_per_image(place.workspace.outcomes / f"{cell.name}.json")
        check_against(outcomes, result, "x")
        right = outcomes.flags()
        for score in result.scores:
            found = shares(right, score.metric, score.condition)
            if found is not None and score.value is not None:
                assert found.mean() == pytest.approx(score.value, abs=1e-12)
                checked += 1
    assert checked >= 9
    path = place.workspace.outcomes / f"{PGD.name}.json"
    before = path.read_bytes()
    path.unlink()
    place.score()
    assert path.read_bytes() == before


def test_bits_that_do_not_add_up_are_refused(place: Place) -> None:
    run(place, CLEAN)
    result = read_result(result_path(place.workspace, CLEAN.name))
    path = place.workspace.outcomes / f"{CLEAN.name}.json"
    outcomes = read_per_image(path)
    turned = {name: pack(~flags) for name, flags in outcomes.flags().items()}
    path.write_bytes(jsons.seal(outcomes.model_copy(update={"right": turned})))
    with pytest.raises(StoreError, match=r"clean_accuracy@clean: expected \d+ right as in the result, got"):
        check_against(read_per_image(path), result, "x")
    with pytest.raises(StoreError, match="the outcomes of another run"):
        check_against(PerImage(key_digest="0", images=1, samples="s", right={}), result, "x")
    path.write_bytes(path.read_bytes().replace(b'"images": ', b'"images":  '))
    with pytest.raises(StoreError, match="canonical"):
        read_per_image(path)


def test_outcomes_go_where_output_goes(tmp_path: Any) -> None:
    place = Workspace(tmp_path / "content", tmp_path / "out")
    assert place.outcomes == tmp_path / "out/leaderboard/outcomes"
    assert place.committed_outcomes == tmp_path / "content/leaderboard/outcomes"
