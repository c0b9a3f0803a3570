"""What holds for every corruption: shape, type, range, repeatability, and more harm with more severity."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skimage import data

from robustboard.benchmarks.corruptions.parameters import CATEGORIES, SEVERITIES, VARIANTS, Variant
from robustboard.benchmarks.corruptions.table import CORRUPTIONS, apply
from robustboard.benchmarks.seeds import sample_generator
from robustboard.errors import UnknownNameError, UserError

Pixels = npt.NDArray[np.uint8]
PLAIN = {"zoom_blur", "contrast", "brightness", "saturate", "pixelate", "jpeg_compression"} | {
    name for name in CORRUPTIONS if name.endswith("_blur")
}
WITHOUT_DRAWS = PLAIN - {"glass_blur", "motion_blur"}
UNEVEN = {
    "frost": "at severity 4 a darker image under as much frost as at 3",
    "elastic_transform": "two kinds of displacement, coarse at severities 1 and 2, fine after",
    "saturate": "less colour at severities 1 and 2, more after",
    "spatter": "water, then mud",
    "glass_blur": "fewer passes with longer steps at severities 2 and 4",
}
"""Corruptions whose severities are not ordered by distance, by their definition."""


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def noise(*shape: int) -> Pixels:
    return generator(9).integers(0, 256, shape, dtype=np.uint8)


def photographs() -> list[Pixels]:
    """Middle pieces of three photographs, 224 by 224."""
    load: list[Callable[[], npt.ArrayLike]] = [data.astronaut, data.coffee, data.chelsea]
    images = [np.asarray(image())[..., :3] for image in load]
    return [np.ascontiguousarray(image[40 : 40 + 224, 100 : 100 + 224]) for image in images]


def test_table_has_every_name_once() -> None:
    assert list(CORRUPTIONS) == list(CATEGORIES)
    assert [each.name for each in CORRUPTIONS.values()] == list(CORRUPTIONS)
    assert sum(each.extra for each in CORRUPTIONS.values()) == 4
    assert {name: each.least for name, each in CORRUPTIONS.items() if each.least > 1} == {
        "elastic_transform": 3
    }


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28), (28, 28, 1), (64, 64, 3), (300, 200, 3)])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_small_grey_and_oblong_images(name: str, shape: tuple[int, ...]) -> None:
    """B051: same shape and type back, all severities and variants, and no image is wiped out."""
    for variant in VARIANTS:
        for severity in SEVERITIES:
            found = apply(name, noise(*shape), severity, generator(), variant)
            assert (found.shape, found.dtype.name) == (shape, "uint8")
            assert found.std() > 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(list(CORRUPTIONS)),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([None, 1, 3]),
    severity=st.sampled_from(SEVERITIES),
    variant=st.sampled_from(VARIANTS),
    seed=st.integers(0, 2**63),
)
def test_any_size_works(
    *, name: str, height: int, width: int, channels: int | None, severity: int, variant: Variant, seed: int
) -> None:
    """From 1 by 1: the image is not touched, the result is new, and equal draws give equal bytes."""
    least = CORRUPTIONS[name].least
    shape = (max(height, least), max(width, least), *([] if channels is None else [channels]))
    image = generator(seed).integers(0, 256, shape, dtype=np.uint8)
    before = image.copy()
    image.setflags(write=False)
    found = apply(name, image, severity, generator(seed), variant)

    assert (found.shape, found.dtype.name) == (shape, "uint8")
    assert np.array_equal(image, before)
    assert not np.shares_memory(image, found)
    assert np.array_equal(found, apply(name, image, severity, generator(seed), variant))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_draws_belong_to_image_and_purpose(name: str) -> None:
    """Whatever ran before, and in which order, an image comes out the same; another sample does not."""
    image = noise(40, 40, 3)

    def run(sample: str) -> Pixels:
        return apply(name, image, 3, sample_generator("0" * 64, sample, f"{name} 3"))

    first, second = run("a"), run("b")
    for other in reversed(CORRUPTIONS):
        apply(other, image, 5, generator())
    assert np.array_equal(run("b"), second)
    assert np.array_equal(run("a"), first)
    assert np.array_equal(first, second) == (name in WITHOUT_DRAWS | {"gaussian_blur", "defocus_blur"})


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_memory_layout_does_not_show(name: str) -> None:
    """A view with odd strides gives what its copy gives."""
    wide = noise(30, 60, 3)
    view = wide[::-1, ::2]
    expected = apply(name, view.copy(), 4, generator())
    assert np.array_equal(apply(name, view, 4, generator()), expected)


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name not in UNEVEN])
def test_more_severity_is_further_from_the_photograph(name: str) -> None:
    """Mean squared distance over three photographs, with one draw for all severities."""
    distances = []
    for severity in SEVERITIES:
        gaps = [
            apply(name, image, severity, generator(number)).astype(float) - image
            for number, image in enumerate(photographs())
        ]
        distances.append(np.mean(np.square(gaps)))
    assert distances == sorted(distances), distances
    assert distances[-1] > 1.5 * distances[0]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_grey_is_the_colour_form_seen_in_grey(name: str) -> None:
    """Corruptions of plain arithmetic treat a grey image as each channel of its colour form."""
    grey = noise(32, 32) // 3  # so that no channel is clipped
    found = apply(name, grey, 2, generator()).astype(int)
    coloured = apply(name, np.repeat(grey[..., None], 3, axis=2), 2, generator()).astype(int)
    assert np.array_equal(found, apply(name, grey[..., None], 2, generator())[..., 0])
    if name in PLAIN - {"jpeg_compression"} | {"fog", "elastic_transform"}:
        assert np.abs(coloured - found[..., None]).max() <= 1
    elif name in {"snow", "frost", "spatter"}:
        assert np.abs(coloured @ np.array([0.299, 0.587, 0.114]) - found).max() < 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": noise(4, 4, 3).astype(np.float32)}, "image: expected a uint8 array, got float32"),
        ({"image": [[1]]}, "image: expected a uint8 array, got list"),
        ({"image": noise(4, 4, 4)}, r"expected shape \(h, w\), \(h, w, 1\) or \(h, w, 3\), got \(4, 4, 4\)"),
        ({"image": noise(2, 4, 4, 3)}, r"got \(2, 4, 4, 3\)"),
        ({"image": noise(4)}, r"got \(4,\)"),
        ({"image": noise(4, 0, 3)}, r"expected sides of at least 1, got \(4, 0, 3\)"),
        ({"severity": 0}, "severity: expected an integer from 1 to 5, got '0'"),
        ({"severity": True}, "severity: expected an integer from 1 to 5, got 'True'"),
        ({"variant": "svhn"}, "variant: expected imagenet or cifar, got 'svhn'"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, object], message: str) -> None:
    given_: dict[str, object] = {"image": noise(4, 4, 3), "severity": 3, "variant": "imagenet", **change}
    with pytest.raises(UserError, match=f"^fog: .*{message}"):
        apply(
            "fog",
            cast("Pixels", given_["image"]),
            cast("int", given_["severity"]),
            generator(),
            cast("Variant", given_["variant"]),
        )


def test_least_sizes_and_names_are_told() -> None:
    """B051: an error names the corruption and its least size."""
    with pytest.raises(UserError, match=r"^elastic_transform: .* at least 3, got \(2, 9, 3\)"):
        apply("elastic_transform", noise(2, 9, 3), 1, generator())
    with pytest.raises(UnknownNameError, match=r"unknown corruption 'glas_blur' .*did you mean glass_blur"):
        apply("glas_blur", noise(4, 4, 3), 1, generator())
