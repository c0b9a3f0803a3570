"""Weather: snow, frost, fog, light and splashes."""

from __future__ import annotations

import cv2
import numpy as np
from scipy import ndimage

from robustboard.benchmarks.corruptions import filters, frosting
from robustboard.benchmarks.corruptions.blur import TRUNCATE
from robustboard.benchmarks.corruptions.compiled import compiled
from robustboard.benchmarks.corruptions.setting import TOLERANCE, Doubles, Floats, Pixels, Setting, cut

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey image (ITU-R BT.601)."""
WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
FIRST_AMPLITUDE = 100.0
"""Of the plasma fractal."""
MUD_EDGE = 0.8
"""Mud thinner than this is none."""


@compiled
def _brighten(image: Pixels, shift: float) -> Pixels:
    # At fixed hue and saturation all channels grow by the same factor; black turns grey.
    factors = np.empty(256)
    for value in range(1, 256):
        factors[value] = min(value + shift, 255.0) / value
    black = np.uint8(min(shift + TOLERANCE, 255.0))
    out = np.empty_like(image)
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            value = 0
            for channel in range(image.shape[2]):
                value = max(value, image[row, column, channel])
            for channel in range(image.shape[2]):
                level = black
                if value > 0:
                    level = np.uint8(image[row, column, channel] * factors[value] + TOLERANCE)
                out[row, column, channel] = level
    return out


def brightness(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """The value of HSV shifted up, hue and saturation kept. No draws. Equal to the original to +-1."""
    del generator
    (shift,) = setting.values
    return _brighten(image, 255 * shift)


@compiled
def plasma(draws: Floats, size: int, decay: float) -> Doubles:
    """A (size, size) cloud in [0, 1] by the diamond-square rule on a torus; `size` is a power of two.

    Args:
        draws: (size * size - 1,) uniform in [0, 1). At each step first the middles of squares, then those of
            the horizontal sides, then those of the vertical ones, row by row.
        size: Side.
        decay: Divisor of the amplitude from step to step; displacements are as large as its square.
    """
    heights = np.zeros((size, size))
    amplitude, step, used = FIRST_AMPLITUDE, size, 0
    while step > 1:
        half, reach = step // 2, amplitude * amplitude
        for row in range(0, size, step):
            for column in range(0, size, step):
                down, right = (row + step) % size, (column + step) % size
                corners = (heights[row, column] + heights[down, column]) + (
                    heights[row, right] + heights[down, right]
                )
                heights[row + half, column + half] = corners / 4 + reach * (2 * draws[used] - 1)
                used += 1
        for row in range(0, size, step):
            for column in range(0, size, step):
                ends = heights[row, column] + heights[row, (column + step) % size]
                middles = heights[row + half, column + half] + heights[row - step + half, column + half]
                heights[row, column + half] = (middles + ends) / 4 + reach * (2 * draws[used] - 1)
                used += 1
        for row in range(0, size, step):
            for column in range(0, size, step):
                ends = heights[row, column] + heights[(row + step) % size, column]
                middles = heights[row + half, column + half] + heights[row + half, column - step + half]
                heights[row + half, column] = (middles + ends) / 4 + reach * (2 * draws[used] - 1)
                used += 1
        step, amplitude = half, amplitude / decay
    heights -= heights.min()
    heights /= heights.max()
    return heights


@compiled
def _haze(image: Pixels, cloud: Doubles, density: float) -> Pixels:
    brightest = np.float64(image.max())
    # Levels are 0 to 255, densities belong to a range of 0 to 1.
    scale = brightest / (brightest + 255 * density)
    out = np.empty_like(image)
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            added = 255 * density * cloud[row, column]
            for channel in range(image.shape[2]):
                level = (image[row, column, channel] + added) * scale
                out[row, column, channel] = np.uint8(min(level + TOLERANCE, 255.0))
    return out


def fog(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """A plasma cloud added, the whole dimmed to the old range.

    The cloud's side is the least power of two, at least 2, that covers the image; the upper left part is
    used. Draws: float32 uniform, one less than the cloud has points. Equal to the original to +-1.
    """
    density, decay = setting.values
    size = max(1 << (max(image.shape[:2]) - 1).bit_length(), 2)
    draws = generator.random(size * size - 1, dtype=np.float32)
    return _haze(image, plasma(draws, size, decay), density)


def frost(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """A piece of a frost picture added, both weighted.

    Pictures are this project's own (`frosting`) or those handed in with the setting; the first five take
    part, as the original never draws its sixth. A picture that does not exceed the image is enlarged. Draws:
    integers for picture, row and column. With the original's pictures equal to the original to +-1.
    """
    own, its = setting.values
    height, width, channels = image.shape
    pictures = setting.textures or frosting.textures(setting.variant)
    picture = pictures[int(generator.integers(min(len(pictures), frosting.DRAWN)))]
    picture = frosting.fitted(picture, height, width)
    row = int(generator.integers(picture.shape[0] - height))
    column = int(generator.integers(picture.shape[1] - width))
    piece = picture[row : row + height, column : column + width].astype(np.float32)
    if channels == 1:
        piece = (piece @ np.array(LUMA, dtype=np.float32))[..., None]
    return cut(image * np.float32(own) + piece * np.float32(its))


@compiled
def _fall(image: Pixels, layer: Pixels, weight: float) -> Pixels:
    height, width, channels = image.shape
    out = np.empty_like(image)
    for row in range(height):
        for column in range(width):
            grey = np.float64(image[row, column, 0])
            if channels > 1:
                grey = LUMA[0] * grey + LUMA[1] * image[row, column, 1] + LUMA[2] * image[row, column, 2]
            pale = grey * 1.5 + 127.5
            flakes = np.float64(layer[row, column, 0]) + layer[height - 1 - row, width - 1 - column, 0]
            for channel in range(channels):
                value = np.float64(image[row, column, channel])
                level = weight * value + (1 - weight) * max(value, pale) + flakes
                out[row, column, channel] = np.uint8(min(level + TOLERANCE, 255.0))
    return out


def snow(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Random flakes, zoomed and smeared, over a paler image, once as they are and once turned by 180 degrees.

    Draws: float32 standard normal, one a pixel, then the uniform angle of the fall. The smear follows
    ImageMagick as in motion_blur. Equal to the original to +-1.
    """
    mean, deviation, factor, least, radius, sigma, weight = setting.values
    height, width = image.shape[:2]
    draws = generator.standard_normal((height, width), dtype=np.float32)
    rows, down = filters.zoom_axis(height, factor)
    columns, across = filters.zoom_axis(width, factor)
    layer = filters.zoom(mean + deviation * draws.astype(np.float64), rows, down, columns, across)
    layer[layer < least] = 0
    flakes = (np.clip(layer, 0, 1) * 255).astype(np.uint8)[..., None]
    flakes = filters.motion(flakes, radius, sigma, generator.uniform(-135, -45))
    return _fall(image, flakes, weight)


def _water(liquid: Doubles, strength: float) -> Floats | None:
    """How much water lies where, (h, w) float32; None where there is none at all."""
    levels = (liquid * 255).astype(np.uint8)
    away = cv2.distanceTransform(255 - cv2.Canny(levels, 50, 150), cv2.DIST_L2, 5)
    near = cv2.blur(np.minimum(away, 20), (3, 3)).astype(np.uint8)
    slope = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    relief = cv2.filter2D(cv2.equalizeHist(near), cv2.CV_8U, slope)
    film = levels * cv2.blur(relief, (3, 3)).astype(np.float32)
    most = film.max()
    return np.asarray(film / most * np.float32(strength), dtype=np.float32) if most > 0 else None


def spatter(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Splashes of pale water (severities 1 to 3) or brown mud.

    Draws: float32 standard normal, one a pixel. Equal to the original to +-1; where no liquid is left the
    image stays as it is (the original divides by zero there).
    """
    mean, deviation, sigma, least, strength, kind = setting.values
    draws = generator.standard_normal(image.shape[:2], dtype=np.float32)
    liquid = ndimage.gaussian_filter(
        mean + deviation * draws.astype(np.float64), sigma, mode="nearest", truncate=TRUNCATE
    )
    liquid[liquid < least] = 0
    colour = np.array(WATER if kind == 0 else MUD, dtype=np.float32) * 255
    if image.shape[2] == 1:
        colour = np.array([colour @ np.array(LUMA, dtype=np.float32)])
    if kind == 0:
        film = _water(liquid, strength)
        return image.copy() if film is None else cut(image + film[..., None] * colour)
    mud = (liquid > least).astype(np.float32)
    mud = ndimage.gaussian_filter(mud, strength, mode="nearest", truncate=TRUNCATE)
    mud[mud < MUD_EDGE] = 0
    return cut(image * (1 - mud[..., None]) + mud[..., None] * colour)
