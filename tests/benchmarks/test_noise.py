"""Random noise is what its name says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from robustboard.benchmarks.noise import noise_generators, perturb

GREY = np.full((1, 1, 100, 100), 0.5, np.float32)
TENTH = Fraction(1, 10)


def test_uniform_noise_is_two_sided_and_bounded() -> None:
    """B054: uniform noise of size 0.1 on grey 0.5."""
    generators = noise_generators("k", ["a"], "uniform 1/10 draw 0")
    noisy = perturb(GREY, distribution="uniform", size=TENTH, generators=generators)
    assert noisy.min() >= 0.4
    assert noisy.max() <= 0.6
    assert abs(noisy.mean() - 0.5) < 0.002
    assert abs(noisy.std() - 0.0577) < 0.001


def test_gaussian_noise_has_the_stated_deviation() -> None:
    """B054: Gaussian noise of size 0.1 on grey 0.5, clipped after adding."""
    generators = noise_generators("k", ["a"], "gaussian 1/10 draw 0")
    noisy = perturb(GREY, distribution="gaussian", size=TENTH, generators=generators)
    assert abs(noisy.mean() - 0.5) < 0.004
    assert abs(noisy.std() - 0.1) < 0.003
    assert noisy.max() > 0.75  # beyond what uniform noise of any sort at this size can reach
    strong = perturb(GREY, distribution="gaussian", size=Fraction(1), generators=generators)
    assert strong.min() == 0
    assert strong.max() == 1


def test_an_image_gets_the_same_noise_in_any_company() -> None:
    images = np.random.default_rng(0).random((3, 3, 5, 5)).astype(np.float32)
    before = images.copy()
    condition = "gaussian 1/10 draw 0"
    together = perturb(
        images,
        distribution="gaussian",
        size=TENTH,
        generators=noise_generators("k", ["a", "b", "c"], condition),
    )
    alone = perturb(
        images[1:2], distribution="gaussian", size=TENTH, generators=noise_generators("k", ["b"], condition)
    )
    assert np.array_equal(together[1:2], alone)
    assert np.array_equal(images, before)
    assert not np.array_equal(together[0] - images[0], together[1] - images[1])
