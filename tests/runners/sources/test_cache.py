from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry, Decoding, InputSpec
from robustboard.runners.samples import Samples
from robustboard.runners.sources import cache, pixels
from robustboard.runners.sources.fitting import View
from robustboard.workspace import Workspace
from tests.runners.sources.lab import Lab, as_folder, as_parquet, encode, noise, photographs

COUNT = 12
STRIDE = 8 * 8 * 3


def no_decoding(*_: object) -> None:
    raise AssertionError("decoded")


def fresh(lab: Lab, entry: DatasetEntry, spec: InputSpec | None = None) -> Samples:
    return lab.load(entry, space=lab.digits(), spec=spec)


@pytest.fixture
def files() -> list[bytes]:
    return [encode(image) for image in noise(COUNT, size=21)]


@pytest.fixture
def entry(lab: Lab, files: list[bytes]) -> DatasetEntry:
    return lab.entry(as_parquet(lab.workspace.output, files, [0] * COUNT), COUNT)


@pytest.fixture
def expected(lab: Lab, entry: DatasetEntry, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pixels without a cache."""
    with monkeypatch.context() as patch:
        patch.setenv(cache.LIMIT_VARIABLE, "0")
        found = fresh(lab, entry).pixels(range(COUNT))
    assert not (lab.workspace.runs / "cache").exists()
    return found


def stored(lab: Lab) -> list[Path]:
    return sorted((lab.workspace.runs / "cache").glob("*"))


# What is kept is what would be decoded


def test_a_set_is_decoded_once_and_then_read(
    lab: Lab, entry: DatasetEntry, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)
    monkeypatch.setattr(View, "of", no_decoding)
    again = fresh(lab, entry)

    assert np.array_equal(again.pixels(range(COUNT)), expected)
    assert np.array_equal(again.pixels([7, 3, 4, 4, 11]), expected[[7, 3, 4, 4, 11]])
    assert again.pixels([]).shape == (0, 3, 8, 8)


def test_bytes_are_kept_and_no_floats(lab: Lab, entry: DatasetEntry) -> None:
    """32 bytes of digest and one byte a channel and pixel."""
    fresh(lab, entry).pixels([0])

    assert [path.stat().st_size for path in stored(lab)] == [COUNT * (32 + STRIDE)]


def test_only_rows_that_were_asked_for_are_decoded(
    lab: Lab, entry: DatasetEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    of = View.of

    def noted(self: View, data: bytes, name: str) -> Any:
        names.append(name)
        return of(self, data, name)

    monkeypatch.setattr(View, "of", noted)
    fresh(lab, entry).pixels([2, 5])
    fresh(lab, entry).pixels([1, 2, 5, 6])

    assert sorted(names) == ["row 1", "row 2", "row 5", "row 6"]


@given(
    sizes=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=5),
    size=st.integers(1, 24),
    crop=st.sampled_from(["1", "7/8", "0.9"]),
    interpolation=st.sampled_from(["nearest", "bilinear", "bicubic"]),
    channels=st.sampled_from([1, 3]),
)
@settings(max_examples=40, deadline=None)
def test_cached_and_uncached_bytes_are_equal_for_any_sizes(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[tuple[int, int]],
    size: int,
    crop: str,
    interpolation: str,
    channels: int,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    lab = Lab(Workspace(folder, folder))
    generator = np.random.default_rng(size)
    shapes = [(height, width) if channels == 1 else (height, width, 3) for height, width in sizes]
    pictures = [encode(generator.integers(0, 256, shape, np.uint8)) for shape in shapes]
    count = len(pictures)
    entry = lab.entry(as_parquet(folder, pictures, [0] * count), count, channels=channels)
    spec = lab.input(size, crop=crop, interpolation=interpolation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.LIMIT_VARIABLE, "0")
        plain = fresh(lab, entry, spec).pixels(range(count))
    cold = fresh(lab, entry, spec).pixels(range(count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(View, "of", no_decoding)
        warm = fresh(lab, entry, spec).pixels(range(count))

    assert plain.tobytes() == cold.tobytes() == warm.tobytes()


@pytest.mark.parametrize(("size", "crop"), [(224, "0.875"), (64, "1")])
def test_cached_and_uncached_photographs_are_equal(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, size: int, crop: str
) -> None:
    pictures = {f"{number}/{path.name}": path.read_bytes() for number, path in enumerate(photographs())}
    entry = lab.entry(as_folder(lab.workspace.output, pictures), len(pictures))
    spec = lab.input(size, crop=crop, interpolation="bicubic")
    with monkeypatch.context() as patch:
        patch.setenv(cache.LIMIT_VARIABLE, "0")
        plain = fresh(lab, entry, spec).pixels(range(len(pictures)))
    fresh(lab, entry, spec).pixels(range(len(pictures)))
    monkeypatch.setattr(View, "of", no_decoding)

    assert fresh(lab, entry, spec).pixels(range(len(pictures))).tobytes() == plain.tobytes()


def test_a_changed_file_gives_its_own_pixels(lab: Lab, files: list[bytes]) -> None:
    """B016: same size, same modification time, other content."""
    entry = lab.entry(
        as_folder(lab.workspace.output, {"0/x.bmp": files[0], "1/y.png": files[1]}), 2, native_size=21
    )
    fresh(lab, entry).pixels([0, 1])
    path = lab.data / "set" / "0" / "x.bmp"
    before = path.stat()
    path.write_bytes(files[2])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = fresh(lab, entry).pixels([0])

    assert np.array_equal(found[0, 0] * 255, noise(COUNT, size=21)[2])


@pytest.mark.parametrize(
    "change",
    [
        {"size": 9},
        {"channels": 1},
        {"border": 1},
        {"decoding": Decoding(orientation="ignored")},
        {"decoding": Decoding(alpha="dropped")},
        {"spec": Lab.input(8, crop="1/2")},
        {"spec": Lab.input(8, interpolation="bicubic")},
        {"spec": None},
    ],
    ids=str,
)
def test_everything_that_shapes_pixels_is_in_the_name(change: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"channels": 3, "size": 8, "spec": Lab.input(8)}
    hashes = [b"1" * 32, b"2" * 32]

    assert cache._key(View(**usual), hashes) != cache._key(View(**{**usual, **change}), hashes)


def test_content_count_and_decoders_are_in_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    view, hashes = View(3, 8, None), [b"1" * 32, b"2" * 32]
    name = cache._key(view, hashes)

    assert cache._key(view, hashes[::-1]) != name
    assert cache._key(view, [*hashes, b"3" * 32]) != name
    monkeypatch.setattr(cache, "_decoders", lambda: ["Pillow 99"])
    assert cache._key(view, hashes) != name


def test_a_large_fixed_size_set_is_not_held_in_memory(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pixels and the same fingerprint, whichever way it is held."""
    pictures = [encode(image) for image in noise(COUNT)]
    entry = lab.entry(as_parquet(lab.workspace.output, pictures, [0] * COUNT), COUNT, native_size=8)
    held = fresh(lab, entry)
    monkeypatch.setattr(pixels, "IN_MEMORY", 0)
    streamed = fresh(lab, entry)

    assert (type(held.images), type(streamed.images)) == (pixels.ArrayImages, pixels.FileImages)
    assert streamed.fingerprint == held.fingerprint
    assert streamed.images.content == held.images.content == "pixels"
    assert streamed.pixels(range(COUNT)).tobytes() == held.pixels(range(COUNT)).tobytes()


# Damage


@pytest.fixture
def filled(lab: Lab, entry: DatasetEntry, expected: Any) -> Path:
    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)
    (path,) = stored(lab)
    return path


def test_flipped_bits_never_reach_a_pixel(lab: Lab, entry: DatasetEntry, expected: Any, filled: Path) -> None:
    """E3: 300 bits, one at a time, anywhere in the file."""
    data = filled.read_bytes()
    generator = np.random.default_rng(0)
    samples = fresh(lab, entry)
    for place in generator.integers(0, len(data), 300):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(generator.integers(8))
        with filled.open("r+b") as file:
            file.write(flipped)
        assert np.array_equal(samples.pixels(range(COUNT)), expected)


@pytest.mark.parametrize("length", [0, 1, 100, 32 * COUNT, 32 * COUNT + 7 * STRIDE + 3, 10**6])
def test_a_file_cut_short_or_too_long_is_filled_again(
    lab: Lab, entry: DatasetEntry, expected: Any, filled: Path, length: int
) -> None:
    opened = fresh(lab, entry)
    os.truncate(filled, length)
    assert np.array_equal(opened.pixels(range(COUNT)), expected)
    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)
    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)
    assert filled.stat().st_size == COUNT * (32 + STRIDE)


def test_another_sets_file_under_this_name_is_worthless(
    lab: Lab, entry: DatasetEntry, expected: Any, filled: Path
) -> None:
    """Rows moved by one: each is whole, and none belongs where it stands."""
    data = filled.read_bytes()
    head = COUNT * 32
    filled.write_bytes(data[32:head] + data[:32] + data[head + STRIDE :] + data[head : head + STRIDE])

    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)


def test_a_file_deleted_meanwhile_changes_nothing(
    lab: Lab, entry: DatasetEntry, expected: Any, filled: Path
) -> None:
    opened = fresh(lab, entry)
    filled.unlink()

    assert np.array_equal(opened.pixels(range(COUNT)), expected)
    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)


def test_damaged_images_are_never_kept(lab: Lab, files: list[bytes]) -> None:
    """B008: the same nine images and the same complaint, cold and warm."""
    files[7] = files[7][: len(files[7]) // 2]
    entry = lab.entry(as_parquet(lab.workspace.output, files, [0] * COUNT), COUNT)
    for _ in range(2):
        skipped = lab.load(entry, space=lab.digits(), skip_damaged=True)
        assert skipped.skipped == ("00007",)
        assert np.isfinite(skipped.pixels(range(COUNT - 1))).all()
        with pytest.raises(CellError, match="row 7: damaged image"):
            fresh(lab, entry).pixels(range(COUNT))


# Several processes, and those that die


def forked(work: Callable[[], None]) -> int:
    """Run in a child; it exits with 0 when the work succeeded."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_several_processes_fill_and_read_at_once(lab: Lab, entry: DatasetEntry, expected: Any) -> None:
    def work() -> None:
        for _ in range(5):
            assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)
            for path in stored(lab):
                os.truncate(path, COUNT * (32 + STRIDE) // 2)

    children = [forked(work) for _ in range(4)]

    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_kill_leaves_nothing_wrong_behind(lab: Lab, entry: DatasetEntry, expected: Any) -> None:
    """Killed at 30 moments, with writes cut to pieces of 50 bytes so that many fall inside a row."""
    pwrite = os.pwrite

    def slow(handle: int, data: Any, offset: int) -> int:
        time.sleep(0.0002)
        return pwrite(handle, data[:50], offset)

    def work() -> None:
        os.pwrite = slow
        fresh(lab, entry).pixels(range(COUNT))

    begun = 0
    for moment in range(30):
        child = forked(work)
        time.sleep(0.002 * moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for path in stored(lab):
            begun += any(path.read_bytes())
        assert np.array_equal(fresh(lab, entry).pixels(range(COUNT)), expected)
        shutil.rmtree(lab.workspace.runs / "cache")
    assert begun, "no child lived long enough to write"
