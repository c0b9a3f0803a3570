"""Correlations: Gaussian, disk, line of motion, and linear zoom.

Images are (h, w, c); every channel is filtered alike.
"""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from robustboard.benchmarks.corruptions.compiled import compiled
from robustboard.benchmarks.corruptions.setting import TOLERANCE, Doubles, Floats, Pixels

Whole = npt.NDArray[np.int64]
QUANTUM = 1 / 514
"""Half a step of ImageMagick's 16-bit values in units of 1/255: it rounds to those, then cuts to 8 bits."""
SMALL_DISK = 8
"""Up to this radius all disks have kernels of one size."""
LEAST_WEIGHT = 2.0**-22
"""Taps of a line of motion end where all later ones together weigh less."""


@lru_cache(maxsize=64)
def gaussian_weights(sigma: float, truncate: float) -> Doubles:
    """Weights at distance 0, 1, ... up to `truncate` sigmas; both sides together sum to 1."""
    radius = int(truncate * sigma + 0.5)
    if sigma <= 0 or radius == 0:
        return np.ones(1)
    distances = np.arange(-radius, radius + 1)
    heights = np.exp(-0.5 / (sigma * sigma) * distances**2)
    weights: Doubles = (heights / heights.sum())[radius:]
    return weights


@compiled
def gaussian(image: Doubles, weights: Doubles) -> Doubles:
    """Both axes smoothed, the border replicated.

    The sums run in scipy.ndimage's order: on processors where neither compiler fuses products and sums, the
    result is that of scipy.ndimage.gaussian_filter to the last bit.
    """
    height, width, channels = image.shape
    radius = weights.size - 1
    row_size = width * channels
    flat = image.reshape(height, row_size)
    out = np.empty((height, row_size))
    padded = np.empty(row_size + 2 * radius * channels)
    start = radius * channels
    for row in range(height):
        middle = padded[start : start + row_size]
        for index in range(row_size):
            middle[index] = flat[row, index] * weights[0]
        for distance in range(radius, 0, -1):
            above, below = flat[max(row - distance, 0)], flat[min(row + distance, height - 1)]
            weight = weights[distance]
            for index in range(row_size):
                middle[index] += (above[index] + below[index]) * weight
        for index in range(start):
            padded[index] = middle[index % channels]
            padded[start + row_size + index] = middle[row_size - channels + index % channels]
        target = out[row]
        for index in range(row_size):
            target[index] = middle[index] * weights[0]
        for distance in range(radius, 0, -1):
            left = padded[start - distance * channels : start - distance * channels + row_size]
            right = padded[start + distance * channels : start + distance * channels + row_size]
            weight = weights[distance]
            for index in range(row_size):
                target[index] += (left[index] + right[index]) * weight
    return out.reshape(image.shape)


@lru_cache(maxsize=32)
def disk(radius: float, softness: float) -> Floats:
    """A disk of equal weights whose edge is smoothed by a Gaussian, as (k, k) float32."""
    reach, size = (SMALL_DISK, 3) if radius <= SMALL_DISK else (int(radius), 5)
    axis = np.arange(-reach, reach + 1)
    inside = (axis[:, None] ** 2 + axis[None, :] ** 2 <= radius**2).astype(np.float32)
    smoothed = cv2.GaussianBlur(inside / inside.sum(), ksize=(size, size), sigmaX=softness)
    return np.asarray(smoothed, dtype=np.float32)


@lru_cache(maxsize=64)
def motion_weights(radius: float, sigma: float) -> Doubles:
    """One half of a Gaussian, from the pixel itself to the end of the line; sums to 1."""
    heights = np.exp(-(np.arange(2 * math.ceil(radius) + 1) ** 2) / (2 * sigma * sigma))
    weights: Doubles = heights / heights.sum()
    return weights


def motion(image: Pixels, radius: float, sigma: float, angle: float) -> Pixels:
    """Pixels smeared along a line of `angle` degrees, as ImageMagick's MotionBlurImage does it.

    Tap i reads the pixel nearest to i steps along the line; the border is replicated.
    """
    weights = motion_weights(radius, sigma)
    taps = int(np.count_nonzero(np.cumsum(weights[::-1]) >= LEAST_WEIGHT))
    steps = np.arange(taps)
    length = len(weights)
    direction = math.radians(angle)
    across, down = length * math.cos(direction), length * math.sin(direction)
    hypotenuse = math.hypot(across, down)
    columns = np.ceil(steps * across / hypotenuse - 0.5).astype(np.int64)
    rows = np.ceil(steps * down / hypotenuse - 0.5).astype(np.int64)
    return _smear(image, rows, columns, weights[:taps].astype(np.float32), QUANTUM)


@compiled
def _smear(image: Pixels, rows: Whole, columns: Whole, weights: Floats, offset: float) -> Pixels:
    height, width, channels = image.shape
    row_size = width * channels
    before = max(-columns.min(), 0) * channels
    after = max(columns.max(), 0) * channels
    padded = np.empty((height, before + row_size + after), dtype=np.float32)
    for row in range(height):
        for index in range(before):
            padded[row, index] = image[row, 0, index % channels]
        for column in range(width):
            for channel in range(channels):
                padded[row, before + column * channels + channel] = image[row, column, channel]
        for index in range(after):
            padded[row, before + row_size + index] = image[row, width - 1, index % channels]
    out = np.empty((height, row_size), dtype=np.uint8)
    total = np.empty(row_size, dtype=np.float32)
    for row in range(height):
        total[:] = np.float32(offset)
        for tap in range(weights.size):
            source = padded[min(max(row + rows[tap], 0), height - 1)]
            start = before + columns[tap] * channels
            part = source[start : start + row_size]
            weight = weights[tap]
            for index in range(row_size):
                total[index] += part[index] * weight
        for index in range(row_size):
            out[row, index] = np.uint8(min(max(total[index], np.float32(0)), np.float32(255)))
    return out.reshape(image.shape)


def zoom_axis(size: int, factor: float) -> tuple[Whole, Doubles]:
    """Where the pixels of one axis of a zoomed image come from: (size,) lower neighbours, (size,) shares.

    The middle ceil(size / factor) pixels are stretched to round(factor times that), corner to corner, and
    the middle `size` of them are kept (scipy.ndimage.zoom of order 1 in the original). A pixel whose place
    scipy rounds beyond the last one is empty: its neighbour is -1.
    """
    inner = math.ceil(size / factor)
    first = (size - inner) // 2
    outer = round(inner * factor)
    kept = np.arange(size) + (outer - size) // 2
    places = kept.astype(np.float64) * ((inner - 1) / (outer - 1) if outer > 1 else 0.0)
    lower = np.minimum(np.floor(places), max(inner - 2, 0)).astype(np.int64)
    shares = places - lower
    return np.where(places > inner - 1, -1, lower + first), shares


@compiled
def zoom(image: Doubles, rows: Whole, down: Doubles, columns: Whole, across: Doubles) -> Doubles:
    """One channel (h, w) zoomed linearly, with the tables of `zoom_axis` for both axes."""
    height, width = image.shape
    out = np.zeros((rows.size, columns.size))
    for row in range(rows.size):
        if rows[row] < 0:
            continue
        above, below = image[rows[row]], image[min(rows[row] + 1, height - 1)]
        for column in range(columns.size):
            left = columns[column]
            if left < 0:
                continue
            right = min(left + 1, width - 1)
            low, high = 1 - down[row], down[row]
            near, far = 1 - across[column], across[column]
            out[row, column] = (above[left] * low * near + above[right] * low * far) + (
                below[left] * high * near + below[right] * high * far
            )
    return out


@compiled
def zooms(image: Pixels, rows: Whole, down: Floats, columns: Whole, across: Floats) -> Pixels:
    """Mean of the image and of its zooms, one a row of the (n, h) and (n, w) tables; float32 inside."""
    height, width, channels = image.shape
    row_size = width * channels
    total = np.empty(row_size, dtype=np.float32)
    line = np.empty(row_size, dtype=np.float32)
    out = np.empty((height, row_size), dtype=np.uint8)
    flat = image.reshape(height, row_size)
    scale = np.float32(1) / np.float32(rows.shape[0] + 1)
    for row in range(height):
        for index in range(row_size):
            total[index] = np.float32(flat[row, index])
        for number in range(rows.shape[0]):
            top = rows[number, row]
            if top < 0:
                continue
            above, below, share = flat[top], flat[min(top + 1, height - 1)], down[number, row]
            for index in range(row_size):
                first = np.float32(above[index])
                line[index] = first + (np.float32(below[index]) - first) * share
            for column in range(width):
                left = columns[number, column]
                if left < 0:
                    continue
                part = across[number, column]
                start, end = left * channels, min(left + 1, width - 1) * channels
                for channel in range(channels):
                    value = line[start + channel]
                    total[column * channels + channel] += value + (line[end + channel] - value) * part
        for index in range(row_size):
            level = total[index] * scale + np.float32(TOLERANCE)
            out[row, index] = np.uint8(min(level, np.float32(255)))
    return out.reshape(image.shape)
