"""Exported images are those that the run judges, and the file's own number stands beside the run's."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustboard import durable
from robustboard.benchmarks.entries import AttackSetting, Cascade, CascadeStep, Ladder
from robustboard.errors import DiskFullError, UserError
from robustboard.runners.export import Exported, encoding_for, export_images
from robustboard.runners.imagesets.image_set import Encoding
from robustboard.runners.keys import Cell
from robustboard.runners.profiles import Sample
from robustboard.runners.score import read_result
from robustboard.runners.store import Store
from tests.runners.handing_in import HANDED, hand_in, originals
from tests.runners.readers import SPEC, levels, result_file, run, start
from tests.runners.small import CLEAN, NOISE, PGD, PROFILE, Place

FILES: list[tuple[str, Encoding]] = [("x.npz", "float32"), ("x.npz", "8-bit"), ("x.parquet", "8-bit")]


def export(place: Place, path: Path, encoding: Encoding, cell: Cell = PGD, **options: Any) -> Exported:
    return export_images(start(place), cell, path, encoding, **options)


def stored_rows(place: Place, cell: Cell, condition: str = "linf 1/10") -> Any:
    stored = Store(place.workspace.runs).read(read_result(result_file(place, cell)).key_digest)
    assert stored is not None
    return stored.predictions.only(condition)


def test_float32_images_are_those_of_the_run(place: Place, tmp_path: Path) -> None:
    """The same key, so the same draws: handed in again they give each image the run's prediction."""
    run(place, PGD)
    path = tmp_path / "x.npz"
    found = export(place, path, "float32")
    hand_in(place, path.read_bytes())
    run(place, HANDED)

    ours, theirs = stored_rows(place, PGD), stored_rows(place, HANDED)
    assert ours.column("predicted").tolist() == theirs.column("predicted").tolist()
    assert ours.column("distance").tolist() == theirs.column("distance").tolist()
    assert ours.column("status").tolist() == theirs.column("status").tolist()
    right = int((ours.column("predicted") == ours.column("label")).sum())
    assert found.manifest.robust_in_memory == found.manifest.robust_from_file == right
    assert found.manifest.evaluated == 100
    attacked = ours.column("status") != "already-wrong"
    assert found.attacked.images.ids == tuple(ours.column("sample_id")[attacked])
    assert found.manifest.key_digest == read_result(result_file(place, PGD)).key_digest
    assert 0 < right < int(attacked.sum())


@pytest.mark.parametrize(("name", "encoding"), FILES)
def test_the_number_from_the_file_is_that_of_the_files_pixels(
    place: Place, tmp_path: Path, name: str, encoding: Encoding
) -> None:
    """Counted by hand: the file's pixels through the network, clean errors counted wrong."""
    path = tmp_path / name
    found = export(place, path, encoding)

    digits = originals(place)
    again = digits.read(path)
    session = start(place)
    classifier = session.model("tiny").classifier
    labels = digits.samples.labels
    with torch.no_grad():
        clean = classifier(torch.from_numpy(digits.samples.pixels(range(100)))).argmax(1).numpy()
        moved = clean.copy()
        for each, image in again.of(again.places).items():
            moved[int(each)] = int(classifier(torch.from_numpy(image[None])).argmax())
    assert found.manifest.robust_from_file == int(((clean == labels) & (moved == labels)).sum())
    assert again.images.manifest == found.manifest
    assert again.images.encoding == found.manifest.encoding == encoding
    assert (found.held_pixels == 0) == (encoding == "float32")


class Threshold(nn.Module):
    """Class 0 where the mean pixel is above 127.7/255, else class 1; the other eight never."""

    def forward(self, images: Tensor) -> Tensor:
        score = images.double().mean((1, 2, 3)).float() - 127.7 / 255
        rest = (score * 0 - 100).unsqueeze(1).expand(-1, 8)
        return torch.cat([torch.stack([score, -score], 1) * 255, rest], 1)


@pytest.fixture
def b050(place: Place, readers: dict[str, nn.Module]) -> Cell:
    """B050's model, its image of 128/255, and PGD at 0.4/255."""
    readers["threshold"] = Threshold()
    place.model("threshold", input=SPEC)
    levels(place, [0], [0])
    root = place.workspace.content / "data" / "levels"
    from PIL import Image

    Image.fromarray(np.full((8, 8), 128, np.uint8)).save(root / "0" / "000.png")
    setting = AttackSetting(
        datasets=("levels",),
        budgets=(Fraction(2, 1275),),
        headline=Fraction(2, 1275),
        steps=10,
        relative_step=Fraction(1, 4),
    )
    benchmark = place.benchmarks["pgd-v1"]
    procedure = benchmark.procedure.model_copy(update={"settings": (setting,)})
    place.benchmarks["pgd-v1"] = benchmark.model_copy(update={"procedure": procedure})
    return Cell("threshold", "pgd-v1", "levels")


@pytest.mark.parametrize(("name", "encoding"), FILES)
def test_b050_broken_in_memory_and_not_from_an_eight_bit_file(
    place: Place, b050: Cell, tmp_path: Path, name: str, encoding: Encoding
) -> None:
    """B050: both numbers are said, with the file's encoding; 8 bits give the original 128 back."""
    found = export(place, tmp_path / name, encoding, b050)

    assert found.manifest.evaluated == 1
    assert found.manifest.robust_in_memory == 0
    assert found.manifest.robust_from_file == (0 if encoding == "float32" else 1)
    assert found.manifest.encoding == encoding
    if encoding == "8-bit":
        assert (found.attacked.images.values == 128).all()
        assert found.attacked.distances.tolist() == [0]


class Wavering(nn.Module):
    """Reads the class off the grey level, give or take what each pass draws once."""

    def forward(self, images: Tensor) -> Tensor:
        level = images.mean((1, 2, 3)) * 255 / 25
        wave = torch.randn(1)
        return -((level[:, None] + wave - torch.arange(10.0)) ** 2)


def test_a_model_that_draws_is_exported_as_it_was_run(
    place: Place, readers: dict[str, nn.Module], tmp_path: Path
) -> None:
    """B049: its draws belong to the key, also where the profile's batches are larger."""
    readers["wavering"] = Wavering()
    place.model("wavering", input=SPEC)
    levels(place, list(range(10)) * 4, list(range(10)) * 4)
    cell = Cell("wavering", "pgd-v1", "levels")
    profile = PROFILE.model_copy(update={"batch_size": 64})
    run(place, cell, profile=profile)
    rows = stored_rows(place, cell)
    found = export_images(start(place, profile), cell, tmp_path / "x.npz", "float32")
    assert found.manifest.robust_in_memory == int((rows.column("predicted") == rows.column("label")).sum())
    distance = dict(zip(rows.column("sample_id"), rows.column("distance"), strict=True))
    ids = found.attacked.images.ids
    assert found.attacked.distances.tolist() == pytest.approx([distance[each] for each in ids], abs=1e-7)


def test_pixels_without_an_eight_bit_value_stop_the_export(place: Place, tmp_path: Path) -> None:
    """Digits are multiples of 1/16; most have no multiple of 1/255 within 1/100000."""
    benchmark = place.benchmarks["pgd-v1"]
    tiny = Fraction(1, 100_000)
    setting = benchmark.procedure.settings[0].model_copy(update={"budgets": (tiny,), "headline": tiny})
    procedure = benchmark.procedure.model_copy(update={"settings": (setting,)})
    place.benchmarks["pgd-v1"] = benchmark.model_copy(update={"procedure": procedure})
    path = tmp_path / "x.npz"
    with pytest.raises(UserError, match=r"\d+ pixels of \d+ images have no 8-bit value within linf 1/100000"):
        export(place, path, "8-bit")
    assert list(tmp_path.glob("*.npz")) == []
    assert export(place, path, "float32").manifest.robust_from_file is not None


def test_a_cascade_writes_what_its_last_attack_left(place: Place, tmp_path: Path) -> None:
    """An image that the first attack breaks is never attacked again; all others carry the last one's."""
    steps = (CascadeStep(attack="apgd-ce", steps=3), CascadeStep(attack="square", queries=5))
    setting = Ladder(datasets=("digits",), budgets=(Fraction(1, 10),), headline=Fraction(1, 10))
    benchmark = place.benchmarks["pgd-v1"]
    place.benchmarks["two-v1"] = benchmark.model_copy(
        update={
            "id": "two-v1",
            "procedure": Cascade(kind="cascade", norm="linf", attacks=steps, settings=(setting,)),
        }
    )
    cell = Cell("tiny", "two-v1", "digits")
    run(place, cell)
    path = tmp_path / "x.npz"
    export(place, path, "float32", cell)
    hand_in(place, path.read_bytes())
    run(place, HANDED)
    ours, theirs = stored_rows(place, cell), stored_rows(place, HANDED)
    assert ours.column("predicted").tolist() == theirs.column("predicted").tolist()
    assert ours.column("distance").tolist() == theirs.column("distance").tolist()


@pytest.mark.parametrize(
    ("cell", "options", "said"),
    [
        (CLEAN, {}, "expected a benchmark that attacks, got clean-v1, which is of kind clean"),
        (NOISE, {}, "got noise-v1, which is of kind noise"),
        (PGD, {"budget": Fraction(1, 3)}, r"expected a budget of pgd-v1 on digits \(1/10\), got 1/3"),
    ],
)
def test_what_cannot_be_exported_is_said_before_anything_runs(
    place: Place, tmp_path: Path, cell: Cell, options: Any, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        export(place, tmp_path / "x.npz", "float32", cell, **options)
    assert not (tmp_path / "x.npz").exists()


def test_an_existing_file_is_never_replaced(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_text("mine")
    with pytest.raises(UserError, match="expected the name of a new file, got one that exists"):
        export(place, path, "float32")
    assert path.read_text() == "mine"


def test_a_full_disk_leaves_no_half_file(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise DiskFullError(path.as_posix(), len(data), 0)

    monkeypatch.setattr(durable, "write", full)
    with pytest.raises(DiskFullError):
        export(place, tmp_path / "x.npz", "float32")
    assert list(tmp_path.glob("x*")) == []


def test_where_all_are_wrong_there_is_nothing_to_write(
    place: Place, readers: dict[str, nn.Module], tmp_path: Path
) -> None:
    levels(place, [1, 2], [3, 4])
    cell = Cell("reader", "pgd-v1", "levels")
    with pytest.raises(UserError, match="no image was right before the attack"):
        export(place, tmp_path / "x.npz", "float32", cell)
    assert "reader" in readers


def test_a_sample_of_the_dataset_is_exported_as_such(place: Place, tmp_path: Path) -> None:
    profile = PROFILE.model_copy(update={"subset": Sample(count=20, seed=0)})
    found = export_images(start(place, profile), PGD, tmp_path / "x.npz", "float32")
    assert found.manifest.evaluated == 20
    assert len(found.attacked.places) <= 20


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("x.npz", None, "float32"),
        ("x.parquet", None, "8-bit"),
        ("x.npz", "8-bit", "8-bit"),
        ("x.parquet", "float32", "PNG images in Parquet hold 8 bits a pixel"),
        ("x.jpg", None, "expected a file name that ends in .npz or .parquet"),
    ],
)
def test_the_file_name_says_what_it_can_hold(name: str, wanted: Encoding | None, found: str) -> None:
    try:
        assert encoding_for(Path(name), wanted) == found
    except UserError as error:
        assert found in str(error)  # noqa: PT017 - one table of answers and refusals
