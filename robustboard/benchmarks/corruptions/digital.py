"""Changes that happen to digital images, and of colour."""

from __future__ import annotations

import io
from functools import lru_cache

import cv2
import numpy as np
from PIL import Image
from scipy import fft

from robustboard.benchmarks.corruptions import filters
from robustboard.benchmarks.corruptions.compiled import compiled
from robustboard.benchmarks.corruptions.setting import TOLERANCE, Doubles, Floats, Pixels, Setting

FIELD_TRUNCATE = 3.0
"""Sigmas at which the smoothing of the displacements ends."""


def contrast(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Nearer to the mean of each channel. No draws. Equal to the original to +-1."""
    del generator
    (factor,) = setting.values
    return _towards_mean(image, factor)


@compiled
def _towards_mean(image: Pixels, factor: float) -> Pixels:
    height, width, channels = image.shape
    sums = np.zeros(channels, dtype=np.int64)
    for row in range(height):
        for column in range(width):
            for channel in range(channels):
                sums[channel] += image[row, column, channel]
    levels = np.empty((channels, 256), dtype=np.uint8)
    for channel in range(channels):
        mean = sums[channel] / (height * width)
        for level in range(256):
            wanted = (level - mean) * factor + mean + TOLERANCE
            levels[channel, level] = np.uint8(min(max(wanted, 0.0), 255.0))
    out = np.empty_like(image)
    for row in range(height):
        for column in range(width):
            for channel in range(channels):
                out[row, column, channel] = levels[channel, image[row, column, channel]]
    return out


def _picture(image: Pixels) -> Image.Image:
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def pixelate(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Shrunk and enlarged again with Pillow's box filter. No draws. Equal to the original."""
    del generator
    (share,) = setting.values
    height, width = image.shape[:2]
    small = (max(int(width * share), 1), max(int(height * share), 1))
    picture = _picture(image).resize(small, Image.Resampling.BOX)
    return np.array(picture.resize((width, height), Image.Resampling.BOX)).reshape(image.shape)


def jpeg_compression(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """Encoded and decoded by Pillow; one channel as a grey JPEG. No draws. Equal to the original."""
    del generator
    (quality,) = setting.values
    file = io.BytesIO()
    _picture(image).save(file, "JPEG", quality=int(quality))
    with Image.open(file) as picture:
        return np.array(picture).reshape(image.shape)


@lru_cache(maxsize=64)
def _damping(size: int, sigma: float) -> Floats:
    """Factors by which a Gaussian with a mirrored border damps the cosines of one axis."""
    weights = filters.gaussian_weights(sigma, FIELD_TRUNCATE)
    distances = np.arange(1, len(weights))
    angles = np.pi * np.arange(size)[:, None] * distances / size
    factors: Doubles = weights[0] + 2 * (np.cos(angles) * weights[1:]).sum(axis=1)
    return factors.astype(np.float32)


def _smooth(fields: Floats, sigma: float) -> Floats:
    """(n, h, w) smoothed over the last two axes by way of their cosine transforms.

    A Gaussian with a mirrored border is a product there, at a cost that does not grow with sigma.
    """
    _, height, width = fields.shape
    waves = fft.dctn(fields, axes=(1, 2))
    waves *= _damping(height, sigma)[:, None] * _damping(width, sigma)[None, :]
    return np.asarray(fft.idctn(waves, axes=(1, 2), overwrite_x=True), dtype=np.float32)


@compiled
def _mirror(index: int, size: int) -> int:
    index %= 2 * size
    return index if index < size else 2 * size - 1 - index


@compiled
def _displace(image: Floats, fields: Floats) -> Pixels:
    height, width, channels = image.shape
    out = np.empty(image.shape, dtype=np.uint8)
    for row in range(height):
        for column in range(width):
            x, y = fields[0, row, column], fields[1, row, column]
            left, top = np.floor(x), np.floor(y)
            across, down = x - left, y - top
            first, second = column + int(left), row + int(top)
            x0, x1 = _mirror(first, width), _mirror(first + 1, width)
            y0, y1 = _mirror(second, height), _mirror(second + 1, height)
            for channel in range(channels):
                above = image[y0, x0, channel] * (1 - across) + image[y0, x1, channel] * across
                below = image[y1, x0, channel] * (1 - across) + image[y1, x1, channel] * across
                level = above * (1 - down) + below * down + np.float32(TOLERANCE)
                out[row, column, channel] = np.uint8(min(max(level, np.float32(0)), np.float32(255)))
    return out


def elastic_transform(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """A random affine map, then smooth random displacements; borders mirrored.

    Draws: 3 by 2 uniform jitters of the corners, then float32 uniform fields across and down in [-1, 1).
    OpenCV does the affine map, as in the original. Equal to the original to +-1 but where a displaced pixel
    falls on a hard edge of the image: float32 places differ by a millionth of a pixel.
    """
    strength, sigma, jitter = setting.values
    height, width = image.shape[:2]
    middle = np.array([height // 2, width // 2], dtype=np.float32)
    side = min(height, width) // 3
    corners = np.stack([middle + side, middle + np.array([side, -side]), middle - side]).astype(np.float32)
    moved = corners + generator.uniform(-jitter, jitter, corners.shape).astype(np.float32)
    turned = cv2.warpAffine(
        image.astype(np.float32),
        cv2.getAffineTransform(corners, moved),
        (width, height),
        borderMode=cv2.BORDER_REFLECT_101,
    )
    fields = generator.random((2, height, width), dtype=np.float32) * np.float32(2) - np.float32(1)
    fields = _smooth(fields, sigma) * np.float32(strength)
    return _displace(np.asarray(turned, dtype=np.float32).reshape(image.shape), fields)


@compiled
def _saturate(image: Pixels, factor: float, shift: float) -> Pixels:
    out = np.empty_like(image)
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            red, green, blue = image[row, column]
            most, least = max(red, green, blue), min(red, green, blue)
            value, spread = np.float64(most), np.float64(most) - np.float64(least)
            saturation = spread / value if most > 0 else 0.0
            wanted = min(max(saturation * factor + shift, 0.0), 1.0)
            # What channels lack of the value grows as the saturation; the hue of grey counts as red.
            growth = value * wanted / spread if spread > 0 else 0.0
            for channel in range(3):
                lacking = growth * (value - image[row, column, channel])
                if spread == 0 and channel > 0:
                    lacking = value * wanted
                out[row, column, channel] = np.uint8(value - lacking + TOLERANCE)
    return out


def saturate(image: Pixels, setting: Setting, generator: np.random.Generator) -> Pixels:
    """The saturation of HSV scaled and shifted. No draws. Equal to the original to +-1.

    Grey pixels have hue 0, so that a shift turns them red, as in the original.
    """
    del generator
    factor, shift = setting.values
    return _saturate(image, factor, shift)
