"""Noise has the distribution that its name says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from robustboard.benchmarks.corruptions.parameters import PARAMETERS, SEVERITIES, VARIANTS, Variant
from robustboard.benchmarks.corruptions.table import apply

Pixels = npt.NDArray[np.uint8]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def plain(level: int, side: int = 100) -> Pixels:
    return np.full((side, side, 3), level, np.uint8)


def parameter(name: str, severity: int, variant: Variant = "imagenet") -> float:
    return PARAMETERS[variant][name][severity - 1][0]


def test_gaussian_noise_is_normal() -> None:
    """B054: a uniform jitter undoes the cut to integers; then all is as from N(0, 0.08)."""
    found = apply("gaussian_noise", plain(127), 1, generator()).astype(float)
    values = (found + generator(1).random(found.shape) - 127) / 255

    assert values.mean() == pytest.approx(0, abs=0.002)
    assert values.std() == pytest.approx(0.08, rel=0.01)
    assert stats.kstest(values.ravel(), stats.norm(scale=0.08).cdf).pvalue > 1e-3


def test_noise_of_channels_and_pixels_is_independent() -> None:
    found = apply("gaussian_noise", plain(127), 1, generator()).astype(float)
    flat = found.reshape(-1, 3)

    assert np.abs(np.corrcoef(flat.T) - np.eye(3)).max() < 0.04
    assert abs(np.corrcoef(flat[:-1, 0], flat[1:, 0])[0, 1]) < 0.04


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_shot_noise_counts_photons(severity: int, variant: Variant) -> None:
    """The counts are those of scipy's inverse Poisson distribution for the same uniform draws."""
    image = generator(3).integers(0, 256, (30, 30, 3), dtype=np.uint8)
    photons = parameter("shot_noise", severity, variant)
    uniform = (generator().integers(0, 2**32, image.shape, dtype=np.uint32) + 0.5) / 2**32
    counts = stats.poisson.ppf(uniform, image / 255 * photons)

    expected = (np.clip(counts / photons, 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(apply("shot_noise", image, severity, generator(), variant), expected)


def test_shot_noise_is_poisson() -> None:
    """At severity 5 a grey of 85 is 1 photon on average; 3 and more are white. Chi-squared over 30,000."""
    found = apply("shot_noise", plain(85), 5, generator())
    levels, counts = np.unique(found, return_counts=True)
    shares = [*stats.poisson.pmf([0, 1, 2], 1), stats.poisson.sf(2, 1)]

    assert levels.tolist() == [0, 85, 170, 255]
    assert stats.chisquare(counts, np.array(shares) * found.size).pvalue > 1e-3


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulses_are_black_or_white(severity: int) -> None:
    """A share of the values is replaced, half by 0 and half by 255; the others stay."""
    found = apply("impulse_noise", plain(100), severity, generator())
    share = parameter("impulse_noise", severity)
    hits = int((found != 100).sum())

    assert set(np.unique(found)) == {0, 100, 255}
    assert stats.binomtest(hits, found.size, share).pvalue > 1e-3
    assert stats.binomtest(int((found == 255).sum()), hits, 0.5).pvalue > 1e-3


def test_speckles_grow_with_the_value() -> None:
    """Black stays black; the spread is c times the value."""
    assert not apply("speckle_noise", plain(0), 5, generator()).any()
    for level in (40, 80):
        found = apply("speckle_noise", plain(level), 1, generator()).astype(float)
        # The cut to integers shifts by half a level and adds a variance of 1/12.
        assert found.mean() == pytest.approx(level - 0.5, abs=0.3)
        assert found.std() == pytest.approx((0.15**2 * level**2 + 1 / 12) ** 0.5, rel=0.02)


def test_the_cut_is_downwards() -> None:
    """x + c z in units of 1/255, cut: the same draws by hand."""
    image = generator(5).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    draws = generator().standard_normal(image.shape, dtype=np.float32).astype(np.float64)
    expected = np.clip(image / 255 + draws * 0.18, 0, 1) * 255

    gap = expected - apply("gaussian_noise", image, 3, generator())
    assert gap.min() > -1e-3
    assert gap.max() < 1 + 1e-3
