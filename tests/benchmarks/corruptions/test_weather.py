"""Weather against colorsys, slow definitions and arithmetic on plain images."""

from __future__ import annotations

import colorsys
import hashlib
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from scipy import ndimage

from robustboard.benchmarks.corruptions import frosting, weather
from robustboard.benchmarks.corruptions.parameters import FROST, PARAMETERS, SEVERITIES, VARIANTS, Variant
from robustboard.benchmarks.corruptions.setting import Setting
from robustboard.benchmarks.corruptions.table import apply
from robustboard.errors import UserError

Pixels = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def noise(height: int = 24, width: int = 31) -> Pixels:
    return generator(9).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_brightness_shifts_the_value_of_hsv(severity: int) -> None:
    (shift,) = PARAMETERS["imagenet"]["brightness"][severity - 1]
    image = noise()
    image[0] = 0, 0, 0
    image[1] = 77, 77, 77
    found = apply("brightness", image, severity, generator())
    for before, after in zip(image.reshape(-1, 3), found.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        wanted = np.array(colorsys.hsv_to_rgb(hue, saturation, min(value + shift, 1))) * 255
        assert np.abs(wanted - 0.5 - after).max() < 0.51


def test_brightness_of_known_colours() -> None:
    """V + 0.2 at severity 2: black to grey 51, half red doubles its excess, white stays."""
    image = np.array([[[0, 0, 0], [102, 0, 0], [100, 50, 200], [255, 255, 255]]], np.uint8)
    found = apply("brightness", image, 2, generator())
    assert found.tolist() == [[[51, 51, 51], [153, 0, 0], [125, 62, 251], [255, 255, 255]]]


def diamond_square(draws: npt.NDArray[np.float32], size: int, decay: float) -> Doubles:
    """The fractal on whole arrays that wrap around; draws in the order squares, rows, columns."""
    heights = np.zeros((size, size))
    amplitude, step, rest = 100.0, size, draws.astype(float) * 2 - 1
    while step > 1:
        half = step // 2
        count = (size // step) ** 2
        wobble = [rest[turn * count :][:count].reshape(size // step, -1) for turn in range(3)]
        rest = rest[3 * count :]
        corner = heights[::step, ::step]
        four = corner + np.roll(corner, -1, 0) + np.roll(corner, -1, 1) + np.roll(corner, (-1, -1), (0, 1))
        middle = four / 4 + amplitude**2 * wobble[0]
        heights[half::step, half::step] = middle
        across = corner + np.roll(corner, -1, 1) + middle + np.roll(middle, 1, 0)
        heights[::step, half::step] = across / 4 + amplitude**2 * wobble[1]
        down = corner + np.roll(corner, -1, 0) + middle + np.roll(middle, 1, 1)
        heights[half::step, ::step] = down / 4 + amplitude**2 * wobble[2]
        step, amplitude = half, amplitude / decay
    assert not rest.size
    return np.asarray((heights - heights.min()) / np.ptp(heights))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_fog_is_a_cloud_over_a_dimmed_image(severity: int, variant: Variant) -> None:
    """The image is 31 wide: the cloud has the next power of two."""
    density, decay = PARAMETERS[variant]["fog"][severity - 1]
    cloud = diamond_square(generator().random(32 * 32 - 1, dtype=np.float32), 32, decay)[:24, :31, None]
    image = noise() // 2
    brightest = image.max() / 255
    wanted = np.clip((image / 255 + density * cloud) * brightest / (brightest + density), 0, 1) * 255
    assert np.abs(wanted - 0.5 - apply("fog", image, severity, generator(), variant)).max() < 0.51


def test_fog_over_black_stays_black() -> None:
    assert not apply("fog", np.zeros((9, 9, 3), np.uint8), 5, generator()).any()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_adds_a_piece_of_a_picture(severity: int) -> None:
    """On a plain image and a plain picture: own 100 + its 60 at the severity's weights, cut."""
    own, its = PARAMETERS["imagenet"]["frost"][severity - 1]
    image, picture = np.full((20, 30, 3), 100, np.uint8), np.full((50, 50, 3), 60, np.uint8)
    found = apply("frost", image, severity, generator(), textures=[picture])
    assert found.min() == found.max() == math.floor(100 * own + 60 * its + 1e-3)


def test_frost_cuts_the_piece_that_was_drawn() -> None:
    """Picture, row and column are drawn in turn; the sixth picture never takes part."""
    pictures = [generator(seed).integers(0, 256, (40, 50, 3), dtype=np.uint8) for seed in range(6)]
    seen = set()
    for seed in range(40):
        draws = generator(seed)
        number, row, column = (int(draws.integers(limit)) for limit in (5, 40 - 20, 50 - 30))
        piece = pictures[number][row : row + 20, column : column + 30]
        black = np.zeros((20, 30, 3), np.uint8)
        found = apply("frost", black, 1, generator(seed), textures=pictures)
        assert np.abs(piece * 0.4 - 0.5 - found).max() < 0.51
        seen.add(number)
    assert seen == {0, 1, 2, 3, 4}


def test_own_frost_is_pinned_by_its_version() -> None:
    """Whoever changes a pixel of these pictures changes FROST, this digest, and results."""
    digest = hashlib.sha256(b"".join(picture.tobytes() for picture in frosting.textures("imagenet")))
    assert (FROST, digest.hexdigest()[:16]) == ("robustboard-frost/1", "03db786972112f1d")


def test_own_frost_is_as_bright_and_rough_as_stated() -> None:
    for picture, (tint, spread) in zip(frosting.textures("imagenet"), frosting.TINTS, strict=True):
        assert picture.shape == (400, 600, 3)
        assert picture.mean(axis=(0, 1)) == pytest.approx(tint, abs=2)
        assert picture.std(axis=(0, 1)) == pytest.approx([spread] * 3, rel=0.05)
    assert [picture.shape for picture in frosting.textures("cifar")] == [(80, 120, 3)] * 5


def test_frost_pictures_are_read_from_a_folder(tmp_path: Path) -> None:
    for name in frosting.NAMES:
        Image.fromarray(np.full((60, 90, 3), 8, np.uint8)).save(tmp_path / name)
    assert [picture.shape for picture in frosting.read(tmp_path, "imagenet")] == [(60, 90, 3)] * 5
    assert [picture.shape for picture in frosting.read(tmp_path, "cifar")] == [(12, 18, 3)] * 5

    (tmp_path / "frost3.png").write_text("<html>")
    with pytest.raises(UserError, match=r"frost3\.png: expected a frost picture, got cannot identify"):
        frosting.read(tmp_path, "imagenet")
    (tmp_path / "frost3.png").unlink()
    with pytest.raises(UserError, match=r"expected a frost picture, got .*No such file"):
        frosting.read(tmp_path, "imagenet")


@pytest.mark.parametrize(("height", "width"), [(50, 20), (20, 80), (50, 80), (300, 200)])
def test_small_frost_pictures_are_enlarged(height: int, width: int) -> None:
    picture = frosting.fitted(np.full((50, 80, 3), 7, np.uint8), height, width)
    assert picture.shape[0] > height
    assert picture.shape[1] > width
    assert picture.min() == picture.max() == 7


def test_snow_without_flakes_is_a_paler_image() -> None:
    """Flakes below 2 are dropped, and none are larger: 0.8 x + 0.2 max(x, 1.5 x + 127.5) for grey x."""
    setting = Setting((0.1, 0.3, 3, 2.0, 10, 4, 0.8))
    for level in (0, 100, 255):
        found = weather.snow(np.full((20, 20, 3), level, np.uint8), setting, generator())
        wanted = min(0.8 * level + 0.2 * (1.5 * level + 127.5), 255)
        assert found.min() == found.max() == math.floor(wanted + 1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_snow_falls_twice(severity: int, variant: Variant) -> None:
    """On black, against scipy's zoom and a smear tap by tap: flakes, and flakes turned by 180 degrees."""
    mean, deviation, factor, least, radius, sigma, weight = PARAMETERS[variant]["snow"][severity - 1]
    draws = generator()
    side = 40
    layer = mean + deviation * draws.standard_normal((side, side), dtype=np.float32).astype(float)
    inner = math.ceil(side / factor)
    first = (side - inner) // 2
    large = ndimage.zoom(layer[first : first + inner, first : first + inner], factor, order=1)
    trim = (large.shape[0] - side) // 2
    large = large[trim : trim + side, trim : trim + side]
    flakes = np.floor(np.clip(np.where(large < least, 0, large), 0, 1) * 255)
    angle = math.radians(draws.uniform(-135, -45))
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    smear = np.zeros_like(flakes)
    for step, share in enumerate(weights / weights.sum()):
        rows = np.clip(np.arange(side) + math.ceil(step * math.sin(angle) - 0.5), 0, side - 1)
        columns = np.clip(np.arange(side) + math.ceil(step * math.cos(angle) - 0.5), 0, side - 1)
        smear += share * flakes[rows][:, columns]
    smear = np.floor(smear + 1 / 514)
    wanted = np.clip((1 - weight) * 127.5 + smear + smear[::-1, ::-1], 0, 255)

    found = apply("snow", np.zeros((side, side, 3), np.uint8), severity, generator(), variant)
    assert np.abs(np.floor(wanted + 1e-3)[..., None] - found).max() <= 1
    assert smear.max() > 20


def test_no_liquid_leaves_no_spatter() -> None:
    """Where the original divides by zero."""
    for strength, kind in ((0.6, 0), (1.5, 1)):
        setting = Setting((0.1, 0.01, 4, 0.69, strength, kind))
        assert np.array_equal(weather.spatter(noise(), setting, generator()), noise())


@pytest.mark.parametrize("severity", [4, 5])
def test_mud_is_brown(severity: int) -> None:
    """Over white each pixel is a mixture of white and (63, 42, 20), with one share in all channels."""
    found = apply("spatter", np.full((64, 64, 3), 255, np.uint8), severity, generator()).astype(float)
    shares = (255 - found) / (255 - np.array([63, 42, 20]))
    assert np.ptp(shares, axis=2).max() < 0.01
    assert 0.02 < (shares[..., 0] > 0.79).mean() < 0.98
    assert not ((shares > 0.02) & (shares < 0.78)).any()


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_water_is_turquoise(severity: int) -> None:
    """Over black each pixel is a share of (175, 238, 238), at most the strength."""
    found = apply("spatter", np.zeros((64, 64, 3), np.uint8), severity, generator()).astype(float)
    strength = PARAMETERS["imagenet"]["spatter"][severity - 1][4]
    shares = found / np.array([175, 238, 238])
    assert np.ptp(shares, axis=2).max() < 0.01
    assert shares.max() == pytest.approx(strength, abs=0.01)
    assert (shares == 0).mean() > 0.1
