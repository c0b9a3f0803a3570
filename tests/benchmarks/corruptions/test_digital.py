"""Digital corruptions against Pillow, colorsys and SciPy."""

from __future__ import annotations

import colorsys
import io

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from scipy import ndimage

from robustboard.benchmarks.corruptions import digital
from robustboard.benchmarks.corruptions.parameters import PARAMETERS, SEVERITIES, VARIANTS, Variant
from robustboard.benchmarks.corruptions.setting import Setting
from robustboard.benchmarks.corruptions.table import apply

Pixels = npt.NDArray[np.uint8]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def noise(height: int = 24, width: int = 31, channels: int = 3) -> Pixels:
    return generator(9).integers(0, 256, (height, width, channels), dtype=np.uint8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_keeps_the_mean_and_shrinks_the_rest(severity: int, variant: Variant) -> None:
    (factor,) = PARAMETERS[variant]["contrast"][severity - 1]
    image = noise()
    found = apply("contrast", image, severity, generator(), variant)
    means = image.mean(axis=(0, 1))

    assert found.mean(axis=(0, 1)) == pytest.approx(means - 0.5, abs=0.1)  # the cut takes half a level
    assert np.abs((image - means) * factor + means - 0.5 - found).max() < 0.51
    assert np.array_equal(apply("contrast", image[:1, :1], severity, generator()), image[:1, :1])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_is_that_of_pillow(severity: int, channels: int) -> None:
    (quality,) = PARAMETERS["imagenet"]["jpeg_compression"][severity - 1]
    image = noise(channels=channels)
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "JPEG", quality=int(quality))

    expected = np.asarray(Image.open(file)).reshape(image.shape)
    assert np.array_equal(apply("jpeg_compression", image, severity, generator()), expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_pixelate_gives_means_of_blocks(channels: int) -> None:
    """Severity 2 halves, severity 5 quarters. Pillow rounds across, then down: at most one level."""
    image = noise(24, 32, channels)
    for severity, block in ((2, 2), (5, 4)):
        rows, columns = 24 // block, 32 // block
        means = image.reshape(rows, block, columns, block, channels).mean(axis=(1, 3), keepdims=True)
        expected = np.broadcast_to(means, (rows, block, columns, block, channels)).reshape(image.shape)
        assert np.abs(expected - apply("pixelate", image, severity, generator())).max() <= 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_saturate_changes_the_saturation_of_hsv(severity: int, variant: Variant) -> None:
    factor, shift = PARAMETERS[variant]["saturate"][severity - 1]
    image = noise()
    image[0] = 0, 0, 0
    image[1] = 77, 77, 77
    found = apply("saturate", image, severity, generator(), variant)
    for before, after in zip(image.reshape(-1, 3), found.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        wanted = np.array(colorsys.hsv_to_rgb(hue, min(saturation * factor + shift, 1), value)) * 255
        assert np.abs(wanted - 0.5 - after).max() < 0.51


@pytest.mark.parametrize("sigma", [0.96, 2.44, 19.52, 170.8])
def test_fields_are_smoothed_as_scipy_does(sigma: float) -> None:
    """Also where the Gaussian is wider than the image, border mirrored again and again."""
    fields = generator().random((2, 30, 41), dtype=np.float32)
    expected = ndimage.gaussian_filter(fields.astype(float), (0, sigma, sigma), mode="reflect", truncate=3)
    assert digital._smooth(fields, sigma) == pytest.approx(expected, abs=2e-6)


def test_displacement_interpolates_as_scipy_does() -> None:
    """Places far outside of the image mirror back into it."""
    image = noise().astype(np.float32)
    fields = (generator().random((2, 24, 31), dtype=np.float32) - np.float32(0.5)) * np.float32(150)
    rows, columns = np.mgrid[:24, :31]
    found = digital._displace(image, fields)
    for channel in range(3):
        expected = ndimage.map_coordinates(
            image[..., channel], [rows + fields[1], columns + fields[0]], order=1, mode="reflect"
        )
        assert np.abs(expected - 0.5 - found[..., channel]).max() < 0.53


def test_elastic_without_strength_is_the_affine_map_alone() -> None:
    """Without jitter even that is the identity."""
    still = Setting((0, 0, 0))
    assert np.array_equal(digital.elastic_transform(noise(), still, generator()), noise())

    corners = np.array([[12 + 8, 15 + 8], [12 + 8, 15 - 8], [12 - 8, 15 - 8]], dtype=np.float32)
    moved = corners + generator().uniform(-2.56, 2.56, (3, 2)).astype(np.float32)
    matrix = cv2.getAffineTransform(corners, moved)
    expected = cv2.warpAffine(noise().astype(np.float32), matrix, (31, 24), borderMode=cv2.BORDER_REFLECT_101)
    found = apply("elastic_transform", noise(), 1, generator(), "cifar")
    assert np.abs(np.asarray(expected) - 0.5 - found).max() < 0.51


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_moves_pixels_by_a_smooth_field(severity: int) -> None:
    """The whole against SciPy on a smooth image, draws in the documented order."""
    strength, sigma, jitter = PARAMETERS["imagenet"]["elastic_transform"][severity - 1]
    image = np.asarray(cv2.resize(noise(6, 6), (60, 60), interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
    draws = generator()
    corners = np.array([[30 + 20, 30 + 20], [30 + 20, 30 - 20], [30 - 20, 30 - 20]], dtype=np.float32)
    moved = corners + draws.uniform(-jitter, jitter, (3, 2)).astype(np.float32)
    matrix = cv2.getAffineTransform(corners, moved)
    turned = cv2.warpAffine(image.astype(np.float32), matrix, (60, 60), borderMode=cv2.BORDER_REFLECT_101)
    rows, columns = np.mgrid[:60, :60].astype(float)
    across, down = draws.random((2, 60, 60), dtype=np.float32).astype(float) * 2 - 1
    columns += ndimage.gaussian_filter(across, sigma, mode="reflect", truncate=3) * strength
    rows += ndimage.gaussian_filter(down, sigma, mode="reflect", truncate=3) * strength
    found = apply("elastic_transform", image, severity, generator())
    for channel in range(3):
        source = np.asarray(turned)[..., channel]
        expected = ndimage.map_coordinates(source, [rows, columns], order=1, mode="reflect")
        assert np.abs(np.clip(expected, 0, 255) - 0.5 - found[..., channel]).max() < 0.6
