from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec
from robustboard.runners.sources.decoding import decode, strict_pillow
from robustboard.runners.sources.fitting import View, fit, view_of
from tests.runners.sources.lab import Lab, encode, photographs


def spec(size: int, crop: str, interpolation: str = "bilinear") -> InputSpec:
    return InputSpec.model_validate(
        {"size": size, "crop": crop, "interpolation": interpolation, "normalization": "inside"}
    )


def theirs(image: Image.Image, wanted: InputSpec) -> npt.NDArray[np.uint8]:
    """timm's evaluation transform without its last step."""
    factory = pytest.importorskip("timm.data.transforms_factory")
    transform = factory.transforms_imagenet_eval(
        wanted.size, crop_pct=float(wanted.crop), interpolation=wanted.interpolation, normalize=False
    )
    found: npt.NDArray[np.uint8] = transform(image).numpy().transpose(1, 2, 0)
    return found


@pytest.mark.parametrize("path", photographs(), ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("size", "crop", "interpolation"),
    [(224, "7/8", "bicubic"), (240, "0.882", "bicubic"), (64, "1", "bilinear"), (299, "0.95", "nearest")],
)
def test_photographs_are_fitted_as_timm_fits_them(
    path: Path, size: int, crop: str, interpolation: str
) -> None:
    """Same bytes as timm's evaluation transform."""
    wanted = spec(size, crop, interpolation)
    with strict_pillow():
        image = decode(path.read_bytes(), path.name, 3)

    assert np.array_equal(np.asarray(fit(image, wanted, path.name)), theirs(image, wanted))


@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    size=st.integers(1, 40),
    crop=st.sampled_from(["1", "7/8", "0.9", "0.95", "1/2", "0.882"]),
)
@settings(max_examples=60, deadline=None)
def test_any_size_is_fitted_as_timm_fits_it(width: int, height: int, size: int, crop: str) -> None:
    pixels = np.random.default_rng(width * 100 + height).integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(pixels)
    found = fit(image, spec(size, crop), "row 7")

    assert found.size == (size, size)
    assert np.array_equal(np.asarray(found), theirs(image, spec(size, crop)))


def test_an_image_of_the_wanted_size_passes_unchanged() -> None:
    """B026: 224x224 with a red border, crop 1: the border is still there."""
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    pixels[[0, -1], :] = pixels[:, [0, -1]] = (255, 0, 0)

    for interpolation in ("nearest", "bilinear", "bicubic"):
        found = fit(Image.fromarray(pixels), spec(224, "1", interpolation), "row 7")
        assert np.array_equal(np.asarray(found), pixels)


def test_resize_target_is_exact() -> None:
    """floor(size / crop) with an exact crop: no float may turn 300 into 299."""
    for size in range(1, 400):
        for crop in (Fraction(96, 100), Fraction(7, 8), Fraction(1, 3)):
            whole = math.floor(size / crop)
            image = Image.new("L", (whole, whole + 3))
            assert fit(image, spec(size, str(crop), "nearest"), "row 7").size == (size, size)


def test_a_line_of_pixels_cannot_grow_into_a_bomb() -> None:
    image = Image.new("L", (200_000, 1))

    with pytest.raises(CellError, match="row 7: 200000 x 1 is too narrow to resize to 256 pixels"):
        fit(image, spec(224, "7/8"), "row 7")


# Views of a dataset's files


def test_a_border_is_cut_off_before_anything_else() -> None:
    """ObjectNet's red frame of 2 pixels never reaches the model."""
    pixels = np.random.default_rng(0).integers(0, 256, (44, 36, 3), np.uint8)
    framed = pixels.copy()
    framed[[0, 1, -2, -1], :] = framed[:, [0, 1, -2, -1]] = (255, 0, 0)
    inner = Image.fromarray(framed[2:-2, 2:-2])
    wanted = spec(24, "7/8", "bicubic")
    found = View(3, 24, wanted, border=2).of(encode(framed), "row 7")

    assert np.array_equal(found, theirs(inner, wanted))
    assert (View(3, 32, None, border=2).of(encode(framed[:36]), "row 7") == framed[2:34, 2:-2]).all()


def test_an_image_that_is_all_border_is_refused() -> None:
    with pytest.raises(CellError, match="row 7: 8 x 4 is no larger than its border of 2"):
        View(3, 4, None, border=2).of(encode(np.zeros((4, 8, 3), np.uint8)), "row 7")


@pytest.mark.parametrize("size", [224, 240])
def test_images_that_were_cropped_already_are_not_cropped_again(size: int) -> None:
    """B026: ImageNet-C's 224 pixels as stored for a 224 model, and whole for one of 240."""
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    entry = Lab.entry({"kind": "folder", "path": "x"}, 1, preprocessing="crop-only")
    view = view_of(entry, spec(size, "7/8", "bicubic"))
    found = view.of(encode(pixels), "row 7")

    whole = Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC)
    assert np.array_equal(found, pixels if size == 224 else np.asarray(whole))
    assert "7/8" not in view.words()
    assert f"shorter side to {size} (bicubic)" in view.words()


def test_views_say_what_they_do() -> None:
    source = {"kind": "folder", "path": "x"}
    usual = spec(224, "7/8", "bicubic")

    assert view_of(Lab.entry(source, 1, border=2), usual).words() == (
        "2 pixels cut off every side; shorter side to 256 (bicubic), centre 224 x 224"
    )
    assert view_of(Lab.entry(source, 1, native_size=32), usual).words() == (
        "as stored, 32 x 32; the model's resize and crop are not applied"
    )
