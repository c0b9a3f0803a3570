from __future__ import annotations

import io
import struct
import time
from importlib import resources
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry
from robustboard.runners.samples import Samples
from robustboard.runners.sources.fitting import View
from robustboard.runners.sources.pixels import FileImages
from robustboard.workspace import Workspace
from tests.runners.sources.lab import Grey, Lab, as_folder, as_npz, as_parquet, encode, noise


def load(
    folder: Path, wanted: DatasetEntry, *, size: int = 8, skip_damaged: bool = False, **spec: Any
) -> Samples:
    lab = Lab(Workspace(folder, folder))
    return lab.load(wanted, space=lab.digits(), spec=lab.input(size, **spec), skip_damaged=skip_damaged)


def bordered() -> Grey:
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    pixels[[0, -1], :] = pixels[:, [0, -1]] = (255, 0, 0)
    return pixels


def test_ready_made_images_are_neither_resized_nor_cropped(tmp_path: Path) -> None:
    """B026: native_size 224 under a model that crops 7/8 of 256: pixels / 255, border present."""
    source = as_folder(tmp_path, {"0/x.png": encode(bordered())})
    samples = load(
        tmp_path, Lab.entry(source, 1, native_size=224), size=224, crop="7/8", interpolation="bicubic"
    )

    assert np.array_equal(samples.pixels([0])[0], bordered().transpose(2, 0, 1).astype(np.float32) / 255)
    assert "as stored, 224 x 224" in samples.facts["preprocessing"]


def test_images_of_the_model_size_with_nothing_to_crop_are_unchanged(tmp_path: Path) -> None:
    """B026: no native_size, crop 1 and size 224."""
    source = as_folder(tmp_path, {"0/x.png": encode(bordered())})
    samples = load(tmp_path, Lab.entry(source, 1), size=224)

    assert np.array_equal(samples.pixels([0])[0], bordered().transpose(2, 0, 1).astype(np.float32) / 255)
    assert "passes unchanged" in samples.facts["preprocessing"]


def test_images_of_various_sizes_get_the_models_resize_and_crop(tmp_path: Path) -> None:
    """The same pixels as torchvision's Resize and CenterCrop, on real photographs."""
    transforms = pytest.importorskip("torchvision.transforms")
    pytest.importorskip("foolbox")
    pictures = [
        path.read_bytes()
        for path in sorted(resources.files("foolbox").joinpath("data").iterdir(), key=lambda path: path.name)
        if path.name.startswith(("imagenet_0", "imagenet_1"))
    ]
    source = as_parquet(tmp_path, pictures, [0] * 20)
    samples = load(tmp_path, Lab.entry(source, 20), size=96, crop="7/8", interpolation="bicubic")
    steps = [transforms.Resize(109, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(96)]
    theirs = transforms.Compose([*steps, transforms.ToTensor()])
    expected = np.stack([theirs(Image.open(io.BytesIO(data)).convert("RGB")).numpy() for data in pictures])

    assert samples.shape == (3, 96, 96)
    assert np.array_equal(samples.pixels(range(20)), expected)
    assert "shorter side to 109 (bicubic), centre 96 x 96" in samples.facts["preprocessing"]


def test_real_cifar_pictures_come_back_bit_for_bit(tmp_path: Path) -> None:
    """The first 20 CIFAR-10 test images (foolbox), as Parquet and as class folders."""
    pytest.importorskip("foolbox")
    pictures = {
        path.name: path.read_bytes()
        for path in sorted(resources.files("foolbox").joinpath("data").iterdir(), key=lambda path: path.name)
        if path.name.startswith("cifar10_")
    }
    labels = [int(name.removesuffix(".png").rsplit("_", 1)[1]) for name in pictures]
    expected = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in pictures.values()])
    rows = load(
        tmp_path, Lab.entry(as_parquet(tmp_path, list(pictures.values()), labels), 20, native_size=32)
    )
    files = {f"{label}/{name}": data for label, (name, data) in zip(labels, pictures.items(), strict=True)}
    folders = load(tmp_path, Lab.entry(as_folder(tmp_path, files), 20, native_size=32))

    assert rows.labels.tolist() == labels
    assert np.array_equal(rows.pixels(range(20)), expected.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    assert sorted(folders.digests) == sorted(rows.digests)
    assert dict(zip(folders.ids, folders.labels.tolist(), strict=True)) == {
        name: int(name.split("/")[0]) for name in files
    }


def test_number_of_threads_and_batches_never_changes_a_pixel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [encode(image) for image in noise(30, size=21)]
    samples = load(tmp_path, Lab.entry(as_parquet(tmp_path, files, [0] * 30), 30))
    expected = samples.pixels(range(30))

    for workers, chunk in ((1, 1), (1, 7), (8, 3), (8, 64)):
        monkeypatch.setattr("robustboard.runners.sources.pixels.MAX_WORKERS", workers)
        monkeypatch.setattr("robustboard.runners.sources.pixels.CHUNK", chunk)
        assert np.array_equal(samples.pixels(range(30)), expected)
        assert np.array_equal(np.concatenate([samples.pixels([row]) for row in range(30)]), expected)


def test_a_wrong_size_in_a_fixed_size_set_is_named_even_when_skipping(tmp_path: Path) -> None:
    """It is no damage: the entry or the file is wrong."""
    files = [encode(image) for image in noise(3)]
    files[1] = encode(noise(1, size=9)[0])
    wanted = Lab.entry(as_parquet(tmp_path, files, [0] * 3), 3, native_size=8)

    for skip in (False, True):
        with pytest.raises(CellError, match="row 1: expected 8 x 8 pixels as the entry's native_size says"):
            load(tmp_path, wanted, skip_damaged=skip)


@pytest.mark.parametrize(("stored", "declared"), [(1, 1), (1, 3), (3, 3)])
def test_channels_delivered_equal_channels_declared(tmp_path: Path, stored: int, declared: int) -> None:
    """B025: grey is repeated for three channels and this is recorded."""
    images = np.repeat(noise(2)[..., None], stored, axis=3)
    samples = load(tmp_path, Lab.entry(as_npz(tmp_path, images, [0, 1]), 2, native_size=8, channels=declared))

    assert samples.pixels([0, 1]).shape == (2, *samples.shape)
    assert samples.shape == (declared, 8, 8)
    assert ("repeated" in samples.facts["channels"]) == (stored < declared)


def test_colours_in_a_grey_set_are_refused_with_the_row(tmp_path: Path) -> None:
    """B025: three equal channels become one; colours are never averaged away."""
    images = np.repeat(noise(3)[..., None], 3, axis=3)
    grey = load(tmp_path, Lab.entry(as_npz(tmp_path, images, [0, 1, 2]), 3, native_size=8, channels=1))
    assert np.array_equal(grey.pixels(range(3))[:, 0], noise(3).astype(np.float32) / 255)
    images[2, 0, 0, 1] ^= 1

    with pytest.raises(CellError, match="row 2: expected a grey image"):
        load(tmp_path, Lab.entry(as_npz(tmp_path, images, [0, 1, 2]), 3, native_size=8, channels=1))


@pytest.fixture(params=[None, 8], ids=["any size", "fixed size"])
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> DatasetEntry:
    """B008: ten images, number 7 cut to half its bytes."""
    files = [encode(image) for image in noise(10)]
    files[7] = files[7][: len(files[7]) // 2]
    return Lab.entry(as_parquet(tmp_path, files, range(10)), 10, native_size=request.param)


def test_a_damaged_image_stops_by_default(tmp_path: Path, damaged: DatasetEntry) -> None:
    """B008 (a): the row is named."""
    with pytest.raises(CellError, match="row 7: damaged image") as caught:
        load(tmp_path, damaged).pixels(range(10))

    assert caught.value.kind == "decode"


def test_a_damaged_image_is_left_out_when_asked_and_never_replaced(
    tmp_path: Path, damaged: DatasetEntry
) -> None:
    """B008 (b): nine images and one skipped; no neighbour twice."""
    samples = load(tmp_path, damaged, skip_damaged=True)
    kept = [row for row in range(10) if row != 7]

    assert samples.skipped == ("00007",)
    assert samples.ids == tuple(f"{row:05d}" for row in kept)
    assert samples.labels.tolist() == kept
    assert np.array_equal(samples.pixels(range(9))[:, 0], noise(10)[kept].astype(np.float32) / 255)
    assert samples.facts["damaged images"] == "left out and listed"


def test_bombs_and_animations_count_as_damaged(tmp_path: Path) -> None:
    frames = [Image.fromarray(image) for image in noise(2)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:])
    bomb = bytearray(encode(noise(1)[0]))
    bomb[16:24] = struct.pack(">II", 60_000, 60_000)
    files = [encode(noise(1)[0]), buffer.getvalue(), bytes(bomb), b""]
    samples = load(tmp_path, Lab.entry(as_parquet(tmp_path, files, range(4)), 4), skip_damaged=True)

    assert samples.ids == ("00000",)
    assert samples.skipped == ("00001", "00002", "00003")


def test_a_set_without_one_good_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CellError, match="no image can be decoded; the first: row 0"):
        load(tmp_path, Lab.entry(as_parquet(tmp_path, [b"", b"x"], [0, 1]), 2), skip_damaged=True)


def test_a_pillow_that_fills_in_damage_stops_everything(
    tmp_path: Path, damaged: DatasetEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when damaged images may be skipped: they would not look damaged."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)

    for skip in (False, True):
        with pytest.raises(CellError, match="LOAD_TRUNCATED_IMAGES"):
            load(tmp_path, damaged, skip_damaged=skip).pixels([0])


def test_policies_are_recorded(tmp_path: Path) -> None:
    """B005, B006, B008: what is done about rotation, alpha and damage stands in the record."""
    facts = load(tmp_path, Lab.entry(as_parquet(tmp_path, [encode(noise(1)[0])], [0]), 1)).facts

    assert "EXIF rotation applied" in facts["orientation"]
    assert facts["alpha"] == "composited on black"
    assert facts["damaged images"] == "an error"
    assert facts["channels"] == "3, grey files repeated"
    assert facts["source"] == "Parquet set.parquet"


# Working ahead


@pytest.fixture
def ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Samples:
    """Thirty files, and no cache that could answer in place of the thread that works ahead."""
    monkeypatch.setenv("ROBUSTBOARD_CACHE_GB", "0")
    files = [encode(image) for image in noise(30, size=21)]
    return load(tmp_path, Lab.entry(as_parquet(tmp_path, files, [0] * 30), 30))


def test_what_was_prepared_is_what_is_given(ahead: Samples) -> None:
    expected = ahead.pixels(range(30))
    for start in range(0, 30, 10):
        ahead.prepare(range(start, start + 10))
        ahead.prepare(range(start, start + 10))
        assert np.array_equal(ahead.pixels(range(start, start + 10)), expected[start : start + 10])

    ahead.prepare([3, 1])
    assert np.array_equal(ahead.pixels([1, 3]), expected[[1, 3]]), "another order is another wish"
    assert np.array_equal(ahead.pixels([3, 1]), expected[[3, 1]])
    ahead.prepare([5])
    ahead.prepare([6])
    assert np.array_equal(ahead.pixels([5]), expected[[5]])
    assert np.array_equal(ahead.pixels([6]), expected[[6]])


def test_files_are_decoded_while_the_caller_does_something_else(
    ahead: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller holds everything up until the decoder has run; without a thread that is for ever."""
    decoded = Event()
    of = View.of

    def noted(self: View, data: bytes, name: str) -> Any:
        decoded.set()
        return of(self, data, name)

    monkeypatch.setattr(View, "of", noted)
    ahead.prepare(range(10))
    assert decoded.wait(timeout=20)
    ahead.pixels(range(10))


def test_a_damaged_image_found_ahead_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    """B008: the same message as without working ahead."""
    files = [encode(image) for image in noise(10)]
    files[7] = files[7][: len(files[7]) // 2]
    samples = load(tmp_path, Lab.entry(as_parquet(tmp_path, files, range(10)), 10))
    samples.prepare(range(10))
    with pytest.raises(CellError, match="row 7: damaged image"):
        samples.pixels(range(10))
    samples.prepare(range(6))
    assert samples.pixels(range(6)).shape == (6, 3, 8, 8)


class OnePlace:
    """A source that remembers where it is, as a Parquet file does, and is slow to read."""

    def __init__(self, files: list[bytes]) -> None:
        self.files = files
        self.row = 0

    def read(self, row: int) -> bytes:
        self.row = row
        time.sleep(0.002)
        return self.files[self.row]


def test_two_threads_never_move_a_source_under_each_other() -> None:
    files = [encode(np.full((8, 8, 3), row, np.uint8)) for row in range(40)]
    images = FileImages(OnePlace(files), str, View(3, 8, None))
    images.examine(40, skip_damaged=False)
    images.prepare(range(39, -1, -1))
    expected = np.arange(40, dtype=np.float32) / np.float32(255)

    assert np.array_equal(images.pixels(range(40))[:, 0, 0, 0], expected)
    assert np.array_equal(images.pixels(range(39, -1, -1))[:, 0, 0, 0], expected[::-1])
