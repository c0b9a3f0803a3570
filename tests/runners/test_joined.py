"""Two sets as one: ids tell where an image is from, images keep their pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from robustboard.errors import CellError
from robustboard.runners.joined import join
from robustboard.runners.samples import Samples
from robustboard.runners.sources.pixels import ArrayImages


def samples(count: int, side: int, seed: int, channels: int = 1) -> Samples:
    array = np.random.default_rng(seed).integers(0, 256, (count, side, side, channels)).astype(np.uint8)
    images = ArrayImages(array, 255)
    return Samples(
        ids=tuple(f"{row:02d}" for row in range(count)),
        labels=np.arange(count),
        fingerprint=f"{seed:064d}",
        shape=(channels, side, side),
        facts={"source": f"set {seed}"},
        skipped=(),
        digests=tuple(images.digests()),
        rows=tuple(range(count)),
        images=images,
    )


def test_images_of_both_sets_stand_in_one_numbering() -> None:
    inside, outside = samples(3, 8, seed=1), samples(2, 8, seed=2)
    both = join(inside, outside)
    assert both.ids == ("in/00", "in/01", "in/02", "out/00", "out/01")
    assert both.labels.tolist() == [0, 1, 2, -1, -1]
    mixed = both.pixels([4, 0, 3, 2])
    assert np.array_equal(mixed[[1, 3]], inside.pixels([0, 2]))
    assert np.array_equal(mixed[[0, 2]], outside.pixels([1, 0]))
    chosen = both.select([1, 3])
    assert np.array_equal(chosen.pixels([1, 0]), both.pixels([3, 1]))


def test_images_of_another_size_are_resized_as_pillow_does_and_the_record_says_so() -> None:
    inside, outside = samples(2, 8, seed=1), samples(2, 28, seed=2)
    both = join(inside, outside)
    image = Image.fromarray(np.rint(outside.pixels([1])[0, 0] * 255).astype(np.uint8))
    expected = np.asarray(image.resize((8, 8), Image.Resampling.BILINEAR)) / 255
    assert both.pixels([3])[0, 0] == pytest.approx(expected, abs=1e-6)
    assert both.facts["out of distribution"].startswith("resized from 28 x 28")
    assert "out of distribution" not in join(inside, samples(2, 8, seed=2)).facts


def test_the_fingerprint_depends_on_both_sets_and_their_roles() -> None:
    first, second = samples(2, 8, seed=1), samples(2, 8, seed=2)
    prints = {join(first, second).fingerprint, join(second, first).fingerprint, first.fingerprint}
    prints.add(join(first, replace(second, fingerprint="9" * 64)).fingerprint)
    assert len(prints) == 4


def test_colour_and_grey_are_not_joined() -> None:
    with pytest.raises(CellError, match=r"expected images of 1 channels out of distribution, got 3"):
        join(samples(2, 8, seed=1), samples(2, 8, seed=2, channels=3))
