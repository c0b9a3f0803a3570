"""Sets are built as recipes say: bounded attempts, counted reasons, the same bytes, never rewritten."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import load_dataset

from robustboard import jsons
from robustboard.errors import StoreError, UserError
from robustboard.registry.entries import DatasetEntry, FilePin, InputSpec, ParquetData
from robustboard.registry.labels import LabelSpace
from robustboard.runners.samples import load_samples
from robustboard.runners.testsets import attempts
from robustboard.runners.testsets.attempts import Outcomes
from robustboard.runners.testsets.build import INCOMPLETE, Built, build
from robustboard.runners.testsets.judging import Floats, Produced, judge_batch, to_bytes
from robustboard.runners.testsets.manifest import MANIFEST, Manifest, read_manifest, seed_of
from robustboard.runners.testsets.shards import Row, decode_rows, encode_rows
from robustboard.runners.testsets.verify import verify
from robustboard.workspace import Workspace
from tests.runners.testsets.sets import KEYS, Digits, blank, files, material, noisy, part, recipe


def rows_of(folder: Path) -> list[Row]:
    manifest = read_manifest(folder / MANIFEST, MANIFEST)
    return [
        row
        for shard in manifest.shards
        for row in decode_rows((folder / shard.path).read_bytes(), shard.path, manifest.shape, shard.rows)
    ]


def made(tmp_path: Path, name: str = "set", producer: Digits | None = None, **changes: Any) -> Built:
    return build(material(producer, **changes), tmp_path / name, tmp_path / "work")


def test_a_set_holds_what_its_manifest_says(tmp_path: Path) -> None:
    """Six images a class, each one judged as its source; counts add up; two shards; no complaint."""
    built = made(tmp_path, shard_rows=40)

    assert built.state == "built"
    assert verify(tmp_path / "set").damages == ()
    rows = rows_of(tmp_path / "set")
    assert [sum(row.label == label for row in rows) for label in range(10)] == [6] * 10
    assert len({row.source_id for row in rows}) == len({row.seed for row in rows}) == 60
    assert [each.rows for each in built.manifest.shards] == [40, 20]
    judged = Digits().judge(np.stack([row.pixels for row in rows]).astype(np.float32) / np.float32(255))
    assert list(judged.predicted) == [row.label for row in rows]
    assert built.manifest.rejected["oracle wrong on source"] > 0
    for each in built.manifest.classes:
        assert each.attempted == each.kept + sum(each.rejected.values())
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == []


def test_the_files_are_opened_by_load_dataset(tmp_path: Path) -> None:
    """Pictures, labels and class names as they went in; the card's front matter is understood."""
    made(tmp_path)

    found = load_dataset(str(tmp_path / "set"), split="test", cache_dir=str(tmp_path / "cache"))

    assert found.features["label"].names == list(KEYS)
    for row, item in zip(rows_of(tmp_path / "set"), found, strict=True):
        assert np.array_equal(np.asarray(item["image"]), row.pixels[0])
        assert (item["label"], item["id"], item["seed"]) == (row.label, row.id, row.seed)


def test_a_set_is_read_as_a_dataset_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/testsets.md says: models are measured on it like on any Parquet dataset."""
    built = made(tmp_path)
    shard = built.manifest.shards[0]
    monkeypatch.setenv("ROBUSTBOARD_DATA", str(tmp_path))
    pin = FilePin(path=f"set/{shard.path}", sha256=shard.sha256)
    source = ParquetData(kind="parquet", files=(pin,), image_column="image", label_column="label")
    entry = DatasetEntry(
        id="noisy-digits",
        name="Noisy digits",
        source=source,
        label_space="digits",
        size=60,
        native_size=8,
        channels=1,
        license="CC BY 4.0",
        display_allowed=True,
        citation="none",
        added=date(2026, 1, 31),
    )
    space = LabelSpace(id="digits", name="Digits", source="a test", classes={key: key for key in KEYS})
    spec = InputSpec(size=8, channels=1, normalization="inside")

    found = load_samples(entry, space, workspace=Workspace(tmp_path, tmp_path), lock={}, input=spec)

    rows = rows_of(tmp_path / "set")
    assert found.labels.tolist() == [row.label for row in rows]
    stored = np.stack([row.pixels for row in rows]).astype(np.float32) / np.float32(255)
    assert np.array_equal(found.pixels(range(60)), stored)


def test_a_second_build_elsewhere_gives_the_same_bytes(tmp_path: Path) -> None:
    """Feature 6: every file, from nothing."""
    made(tmp_path, "one")
    made(tmp_path, "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_images_do_not_depend_on_how_many_are_tried_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B058: pixels and seeds are those of the id alone."""
    made(tmp_path, "one")
    monkeypatch.setattr(attempts, "PART", 1)
    made(tmp_path, "two")

    assert files(tmp_path / "one") == files(tmp_path / "two")
    row = rows_of(tmp_path / "one")[3]
    place = int(row.source_id)
    source = material().samples.pixels([place])
    assert row.seed == seed_of(recipe(), row.source_id, row.attempt)
    alone = Digits().produce(source, np.array([row.label]), [row.seed])
    assert np.array_equal(to_bytes(alone.images)[0], row.pixels)


def test_a_built_version_is_not_built_again(tmp_path: Path) -> None:
    """The generator is not even asked."""
    made(tmp_path)
    producer = Digits()

    assert made(tmp_path, producer=producer).state == "already built"
    assert producer.calls == 0


@pytest.mark.parametrize(
    ("changes", "version", "words"),
    [
        ({"seed": 2}, 1, "recipe"),
        ({"summary": "Other words."}, 1, "recipe"),
        ({}, 2, "entries"),
        ({"count": 190}, 1, "source images"),
    ],
)
def test_a_version_is_never_rewritten(
    tmp_path: Path, changes: dict[str, Any], version: int, words: str
) -> None:
    """Another recipe, generator or source under the same version is refused, and nothing is touched."""
    made(tmp_path)
    before = files(tmp_path / "set")

    with pytest.raises(UserError, match=f"made with other {words}: a version is never rewritten"):
        made(tmp_path, producer=Digits(version=version), **changes)

    assert files(tmp_path / "set") == before


def test_a_release_that_cannot_be_made_again_is_refused(tmp_path: Path) -> None:
    """The registry states the content of the released set; other pixels are not written."""
    content = made(tmp_path, "first").manifest.content_sha256
    assert made(tmp_path, "second", content_sha256=content).state == "built"

    with pytest.raises(StoreError, match=f"expected content {'0' * 64} as released"):
        made(tmp_path, "third", content_sha256="0" * 64)

    assert not (tmp_path / "third").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"expected a new folder or one of this set, got 'thesis\.tex'"):
        made(tmp_path)
    assert (tmp_path / "set" / "thesis.tex").read_text() == "years of work"


# Reasons


def only_good(label: int) -> Digits:
    def maker(image: Floats, own: int, seed: int) -> Floats:
        return noisy(image, own, seed) if own == label else blank(image, own, seed)

    return Digits(maker)


def test_a_class_with_nothing_left_makes_the_set_incomplete(tmp_path: Path) -> None:
    """B059: 0 kept, all attempts bounded and rejected as blank; the folder is not that of the version."""
    built = made(tmp_path, producer=only_good(3), per_class=4)

    assert built.state == "incomplete"
    assert built.folder == tmp_path / f"set{INCOMPLETE}"
    assert not (tmp_path / "set").exists()
    manifest = built.manifest
    assert not manifest.complete
    assert manifest.lacking == [key for key in KEYS if key != "3"]
    assert manifest.classes[3].kept == 4
    known = Digits().judge(material().samples.pixels(range(200))).predicted == material().samples.labels
    for label, each in enumerate(manifest.classes):
        if label == 3:
            continue
        mine = material().samples.labels == label
        right, wrong = int((known & mine).sum()), int((~known & mine).sum())
        expected = {"blank": 3 * right, "oracle wrong on source": wrong}
        assert each.rejected == {name: count for name, count in expected.items() if count}
        assert each.kept == 0
    assert verify(built.folder).damages == ()
    assert "**Incomplete**" in (built.folder / "README.md").read_text()


def test_an_incomplete_set_may_be_made_again(tmp_path: Path) -> None:
    made(tmp_path, producer=only_good(3), per_class=4)
    built = made(tmp_path, producer=only_good(4), per_class=4)
    assert built.manifest.classes[4].kept == 4
    assert verify(built.folder).damages == ()


def test_all_black_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    """B059: one line with the counts; no division by zero anywhere."""
    with pytest.raises(StoreError, match=r"no attempt gave an image \(\d+ blank, .*nothing is written"):
        made(tmp_path, producer=Digits(blank))
    assert not list(tmp_path.glob("set*"))


class Scripted(Digits):
    """Answers with prepared images, all accepted."""

    def __init__(self, images: Floats, statuses: list[str]) -> None:
        super().__init__()
        self.images = images
        self.statuses = statuses

    def produce(self, images: Floats, labels: object, seeds: object) -> Produced:
        del images, labels, seeds
        return Produced(self.images, self.statuses, [1] * len(self.images))


def test_every_reason_is_told_apart() -> None:
    """One image for each; the stored 8-bit image is what is judged (B050)."""
    found = material().samples
    known = np.flatnonzero(Digits().judge(found.pixels(range(200))).predicted == found.labels)[:9]
    source = found.pixels(list(known))
    images = source.copy()
    images[0] += np.where(source[0] < 0.5, 0.1, -0.1)
    images[1, 0, 0, 0] = np.nan
    images[2] = 0.5
    images[3] = 1 - np.round(source[3])
    images[5] = source[(known != known[5]) & (found.labels[known] != found.labels[known[5]])][0] + 0.01
    images[7] += 0.1 * (source[7] < 0.5)
    images[8] += 1e-5
    statuses = ["accepted"] * 9
    statuses[4], statuses[6], statuses[7] = "rejected-at-0", "source-rejected", "reconstruction-only"

    judged = judge_batch(Scripted(images, statuses), source, found.labels[known], [0] * 9, Fraction(1, 2))

    assert [each.reason for each in judged] == [
        None,
        "NaN",
        "blank",
        "clipped",
        "rejected at 0",
        "rejected by oracle",
        "oracle wrong on source",
        "no accepted step",
        "unchanged",
    ]
    assert judged[0].distance == pytest.approx(0.8, abs=0.02)  # sqrt(64 * 0.1**2)


# Parts


def test_damaged_parts_are_made_again(tmp_path: Path) -> None:
    """A part with one flipped bit, and one of another recipe, are not believed."""
    made(tmp_path, "clean")
    whole = material()
    place = tmp_path / "work" / whole.work_sha256[:32]

    class Stops(Digits):
        def produce(self, images: Floats, labels: object, seeds: object) -> Produced:
            if self.calls == 2:
                raise KeyboardInterrupt
            return super().produce(images, labels, seeds)  # type: ignore[arg-type]  # as given

    with pytest.raises(KeyboardInterrupt):
        build(material(Stops()), tmp_path / "set", tmp_path / "work")
    stored = sorted(place.glob("*.json"))
    assert len(stored) == 2
    data = bytearray(stored[0].read_bytes())
    data[len(data) // 2] ^= 1
    stored[0].write_bytes(data)
    other = jsons.unseal(stored[1].read_bytes(), Outcomes, "part").model_copy(
        update={"work_sha256": "0" * 64}
    )
    stored[1].write_bytes(jsons.seal(other))

    assert made(tmp_path).state == "built"
    assert files(tmp_path / "set") == files(tmp_path / "clean")


def test_no_time_and_no_place_is_in_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built under another clock, name of machine and folder: equal bytes."""
    made(tmp_path, "one")
    monkeypatch.setattr("time.time", lambda: 1.0)
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    made(tmp_path / "another", "two")
    assert files(tmp_path / "one") == files(tmp_path / "another" / "two")
    everything = b"".join(files(tmp_path / "one").values())
    assert str(tmp_path).encode() not in everything


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """Colour images too, with values that only lossless storage keeps."""
    del tmp_path
    pixels = np.random.default_rng(1).integers(0, 256, (5, 3, 7, 9), dtype=np.uint8)
    rows = [
        Row(
            source_id=f"a/b{number}.png",
            attempt=number,
            seed=2**60 - 1 - number,
            label=number,
            class_name="x",
            pixels=pixels[number],
            status="accepted",
            steps=1,
            distance=0.5,
            oracle_confidence=0.25,
            oracle_margin=0.125,
        )
        for number in range(5)
    ]
    back = list(decode_rows(encode_rows(rows, list("vwxyz")), "file", (3, 7, 9), 5))
    for one, two in zip(rows, back, strict=True):
        assert np.array_equal(one.pixels, two.pixels)
        assert (one.id, one.seed, one.distance) == (two.id, two.seed, two.distance)


def test_a_manifest_names_every_entry_and_licence(tmp_path: Path) -> None:
    manifest: Manifest = made(tmp_path).manifest
    assert [(each.role, each.id) for each in manifest.parts] == [
        ("dataset", "digits"),
        ("generator", "noise"),
        ("oracle", "centroids"),
    ]
    assert manifest.part("generator") == part("generator", "noise")
    card = (tmp_path / "set" / "README.md").read_text()
    assert "| generator | `noise` | MIT |" in card
