"""Blur against slow definitions and SciPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import ndimage

from robustboard.benchmarks.corruptions import filters
from robustboard.benchmarks.corruptions.parameters import PARAMETERS, SEVERITIES, VARIANTS, Variant
from robustboard.benchmarks.corruptions.table import apply

Pixels = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def noise(height: int = 40, width: int = 33, channels: int = 3) -> Pixels:
    return generator(9).integers(0, 256, (height, width, channels), dtype=np.uint8)


def impulse(side: int = 41) -> Pixels:
    image = np.zeros((side, side, 3), np.uint8)
    image[side // 2, side // 2] = 255
    return image


def smooth(image: npt.ArrayLike, sigma: float) -> Pixels:
    """As scikit-image and the authors do it: scipy, border replicated, cut."""
    found = ndimage.gaussian_filter(np.asarray(image) / 255.0, (sigma, sigma, 0), mode="nearest", truncate=4)
    return np.asarray(np.clip(found, 0, 1) * 255).astype(np.uint8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_blur_is_that_of_scipy(severity: int, variant: Variant) -> None:
    (sigma,) = PARAMETERS[variant]["gaussian_blur"][severity - 1]
    found = apply("gaussian_blur", noise(), severity, generator(), variant)
    assert np.abs(found.astype(int) - smooth(noise(), sigma)).max() <= 1  # 0 without fused multiply-add
    assert (found == smooth(noise(), sigma)).mean() > 0.999


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_glass_blur_overwrites_pixel_by_pixel(severity: int, variant: Variant) -> None:
    """From bottom right to top left every pixel takes what stands at a random near place at that moment."""
    sigma, reach, passes = PARAMETERS[variant]["glass_blur"][severity - 1]
    reach, passes = int(reach), int(passes)
    image = noise()
    height, width = image.shape[:2]
    count = passes * (height - 2 * reach) * (width - 2 * reach)
    draws = iter(generator().integers(-reach, reach, (count, 2), dtype=np.int8).astype(int))
    glass = smooth(image, sigma)
    for _ in range(passes):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                right, down = next(draws)
                glass[row, column] = glass[row + down, column + right]

    assert next(draws, None) is None
    assert np.array_equal(apply("glass_blur", image, severity, generator(), variant), smooth(glass, sigma))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_defocus_spreads_a_point_over_a_disk(severity: int) -> None:
    """Every pixel of the disk gets about 255 / pi r^2, the rest nothing beyond the soft edge."""
    radius = PARAMETERS["imagenet"]["defocus_blur"][severity - 1][0]
    found = apply("defocus_blur", impulse(), severity, generator())[..., 0]
    y, x = np.mgrid[:41, :41] - 20
    distance = np.hypot(x, y)

    assert not found[distance > radius + 2].any()
    inner = found[distance < radius - 2]
    assert inner.min() == inner.max() == pytest.approx(255 / (math.pi * radius**2), abs=1.1)
    assert np.array_equal(found, found.T)
    assert np.array_equal(found, found[::-1, ::-1])


def test_defocus_mirrors_the_border() -> None:
    """Against scipy's correlation with the border pixel not repeated."""
    kernel = filters.disk(4, 0.5)
    expected = ndimage.correlate(noise().astype(float), kernel[..., None], mode="mirror")
    found = apply("defocus_blur", noise(), 2, generator())
    assert np.abs(expected - 0.5 - found).max() < 0.51


def drawn_angle(low: float, high: float) -> float:
    return float(generator().uniform(low, high))


def smeared(image: Pixels, radius: float, sigma: float, angle: float) -> Doubles:
    """Tap by tap: half a Gaussian along the line, nearest pixels, border replicated."""
    length = int(2 * radius + 1)
    weights = np.exp(-(np.arange(length) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    total = np.zeros(image.shape)
    height, width = image.shape[:2]
    for step, weight in enumerate(weights):
        down = math.ceil(step * math.sin(math.radians(angle)) - 0.5)
        right = math.ceil(step * math.cos(math.radians(angle)) - 0.5)
        rows = np.clip(np.arange(height) + down, 0, height - 1)
        columns = np.clip(np.arange(width) + right, 0, width - 1)
        total += weight * image[rows][:, columns]
    return total


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_motion_blur_follows_the_line(severity: int, variant: Variant) -> None:
    radius, sigma = PARAMETERS[variant]["motion_blur"][severity - 1]
    found = apply("motion_blur", noise(), severity, generator(), variant)
    expected = smeared(noise(), radius, sigma, drawn_angle(-45, 45))
    assert np.abs(np.floor(expected + 1 / 514) - found).max() <= 1
    assert (np.floor(expected + 1 / 514) == found).mean() > 0.99


def test_motion_of_a_point_is_a_falling_line() -> None:
    """At angle 0 a point trails to its left only, ever fainter; the sum of the weights is 1."""
    found = filters.motion(impulse(), 10, 3, 0.0)[..., 0].astype(float)
    line = found[20]

    assert not np.delete(found, 20, axis=0).any()
    assert not line[21:].any()
    assert (np.diff(line[:21]) >= 0).all()
    assert line.sum() == pytest.approx(255, abs=10)  # each of the taps is cut


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("side", [32, 56])
def test_zoom_blur_is_the_mean_of_zooms(severity: int, variant: Variant, side: int) -> None:
    """Against scipy.ndimage.zoom on the middle of a square, as the authors do it."""
    image = noise(side, side)
    factors = np.arange(1, *PARAMETERS[variant]["zoom_blur"][severity - 1])
    total = image.astype(float)
    for factor in factors:
        inner = math.ceil(side / factor)
        first = (side - inner) // 2
        part = image[first : first + inner, first : first + inner].astype(float)
        large = ndimage.zoom(part, (factor, factor, 1), order=1)
        trim = (large.shape[0] - side) // 2
        total += large[trim : trim + side, trim : trim + side]

    found = apply("zoom_blur", image, severity, generator(), variant)
    assert np.abs(total / (len(factors) + 1) - 0.5 - found).max() < 0.51


@pytest.mark.parametrize("level", [0, 1, 100, 254, 255])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_blur_leaves_a_plain_image(level: int, severity: int) -> None:
    """The two that are byte-equal to the original are cut down as it is: by one level a smoothing."""
    for name, darker in (("motion_blur", 0), ("zoom_blur", 0), ("gaussian_blur", 1), ("glass_blur", 2)):
        found = apply(name, np.full((30, 30, 3), level, np.uint8), severity, generator())
        assert level - darker <= found.min() <= found.max() <= level, name


@pytest.mark.parametrize(("severity", "sum_of_weights"), [(1, 1), (2, 1), (3, 1), (4, 1.0130), (5, 1.0108)])
def test_large_disks_brighten_as_in_the_original(severity: int, sum_of_weights: float) -> None:
    """The authors soften the edge in an array that just holds the disk, whose border mirrors weight into it.

    Radius 8: a side of the border holds 1 of the 197 points, the line before it 7, and a neighbour weighs
    e^-2 / (1 + 2 e^-2) = 0.1065: 4 sides * 0.1065 * (7 - 1) / 197 = 0.0130.
    """
    radius, softness = PARAMETERS["imagenet"]["defocus_blur"][severity - 1]
    assert filters.disk(radius, softness).sum() == pytest.approx(sum_of_weights, abs=1e-4)
    found = apply("defocus_blur", np.full((30, 30, 3), 200, np.uint8), severity, generator())
    assert found.min() == found.max() == int(200 * sum_of_weights + 1e-3)
