"""Images handed in: held to their budget, judged as a direct pass does, refused as a whole."""

from __future__ import annotations

import hashlib
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn

from robustboard.benchmarks.entries import External, ImagesSetting, Ladder, WorstCase
from robustboard.errors import CellError
from robustboard.registry.entries import FilePin, InputSpec, Norm
from robustboard.runners.failures import read_failures
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.procedures import measure
from robustboard.runners.profiles import Sample
from robustboard.runners.record import RunKey
from robustboard.runners.score import read_result
from robustboard.runners.store import Store
from tests.runners.handing_in import HANDED, TENTH, Originals, hand_in, originals, packed
from tests.runners.imagesets.sets import npz
from tests.runners.measuring import Labelled, flat, right
from tests.runners.readers import levels, result_file, run
from tests.runners.small import PGD, PROFILE, Place

PIN = FilePin(path="external/x.npz", sha256="0" * 64)
Pixels = NDArray[np.float32]


def external(budget: str = "1/20", norm: Norm = "linf") -> External:
    exact = Fraction(budget)
    setting = ImagesSetting(datasets=("digits",), budgets=(exact,), headline=exact, file=PIN)
    return External(kind="external", norm=norm, made_by="somebody", settings=(setting,))


def judged(
    network: nn.Module,
    images: Pixels,
    labels: NDArray[np.int64],
    attacked: dict[str, Pixels],
    *,
    key: RunKey,
    procedure: External,
    batch_size: int = 64,
) -> PredictionTable:
    """Samples are named by their row."""
    return measure(
        procedure,
        procedure.settings[0],
        classifier=network,
        classes=None,
        images=images,
        labels=labels,
        ids=[str(row) for row in range(len(images))],
        key=key,
        batch_size=batch_size,
        device="cpu",
        attacked=attacked,
    )


def test_only_images_of_the_set_are_attacked(two_class: nn.Module, run_key: RunKey) -> None:
    """B039's model: 0.52 falls to 0.47, 0.70 does not to 0.65, 0.53 is not in the set, 0.4 was wrong."""
    attacked = {"0": flat(0.47)[0], "1": flat(0.65)[0], "3": flat(0.45)[0]}
    table = judged(
        two_class,
        flat(0.52, 0.70, 0.53, 0.4),
        np.zeros(4, np.int64),
        attacked,
        key=run_key,
        procedure=external(),
    )

    rows = table.only("linf 1/20")
    assert right(table, "clean") == [True, True, True, False]
    assert right(table, "linf 1/20") == [False, True, True, False]
    assert rows.column("status").tolist() == ["ok", "ok", "ok", "already-wrong"]
    assert rows.column("attack").tolist() == ["external", "", "", ""]
    assert rows.column("distance").tolist() == pytest.approx([0.05, 0.05, 0, 0], abs=1e-6)
    clean = table.only("clean")
    assert rows.column("confidence")[2:].tolist() == clean.column("confidence")[2:].tolist()


def test_an_image_that_was_wrong_stays_wrong(two_class: nn.Module, run_key: RunKey) -> None:
    """B043: the handed-in image would put it right."""
    table = judged(
        two_class, flat(0.48), np.array([0]), {"0": flat(0.53)[0]}, key=run_key, procedure=external()
    )
    assert right(table, "linf 1/20") == [False]


def test_the_runner_itself_looks_at_the_budget(two_class: nn.Module, run_key: RunKey) -> None:
    """A set that passed its check and was exchanged since is an error, never a success."""
    with pytest.raises(CellError, match="budget: a handed-in image left its budget"):
        judged(two_class, flat(0.52), np.array([0]), {"0": flat(0.40)[0]}, key=run_key, procedure=external())


def test_nothing_handed_in_is_the_clean_accuracy(two_class: nn.Module, run_key: RunKey) -> None:
    table = judged(two_class, flat(0.52, 0.4), np.array([0, 0]), {}, key=run_key, procedure=external())
    assert right(table, "linf 1/20") == right(table, "clean") == [True, False]


@pytest.mark.parametrize("batch_size", [1, 16, 64])
def test_predictions_are_those_of_a_direct_pass(
    standard_net: nn.Module, digits_test: Labelled, run_key: RunKey, batch_size: int
) -> None:
    """B044: each flag equals that of the network asked directly, at every batch size."""
    images, labels = digits_test[0][:60], digits_test[1][:60]
    noise = np.random.default_rng(3).choice([-0.1, 0.1], images.shape).astype(np.float32)
    moved = np.clip(images + noise, 0, 1)
    chosen = {str(row): moved[row] for row in range(0, 60, 2)}
    table = judged(
        standard_net, images, labels, chosen, key=run_key, procedure=external("1/10"), batch_size=batch_size
    )
    with torch.no_grad():
        clean, direct = (standard_net(torch.from_numpy(x)).argmax(1).numpy() for x in (images, moved))
    expected = np.where((np.arange(60) % 2 == 0) & (clean == labels), direct, clean)
    assert table.only("linf 1/10").column("predicted").tolist() == expected.tolist()
    assert (direct != clean).any()


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_image_in_the_budget_is_taken_and_one_outside_refuses_the_set(
    data: st.DataObject, place: Place, tmp_path: Path, standard_net: nn.Module, run_key: RunKey
) -> None:
    """Any norm, budget and direction: inside it is judged like a direct pass, outside nothing counts."""
    digits = originals(place)
    norm: Norm = data.draw(st.sampled_from(["linf", "l2"]))
    budget = Fraction(data.draw(st.integers(1, 200)), 1000)
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = sorted(data.draw(st.sets(st.integers(0, 99), min_size=1, max_size=4)))
    clean = digits.samples.pixels(rows)
    away = generator.standard_normal(clean.shape)
    sizes = np.abs(away).max((1, 2, 3)) if norm == "linf" else np.sqrt((away**2).sum((1, 2, 3)))
    unit = away / sizes[:, None, None, None]
    inside = np.clip(clean + unit * float(budget) * 0.999999, 0, 1).astype(np.float32)
    ids = [digits.samples.ids[row] for row in rows]
    path = tmp_path / "set.npz"

    path.write_bytes(packed(ids, inside))
    found = digits.read(path, norm=norm, budget=budget)
    assert found.distances.max() <= float(budget) + 1e-6
    table = judged(
        standard_net,
        clean,
        digits.samples.labels[rows].copy(),
        {str(row): image for row, image in enumerate(found.of(ids).values())},
        key=run_key,
        procedure=external(str(budget), norm),
    ).only(f"{norm} {budget}")
    with torch.no_grad():
        direct = standard_net(torch.from_numpy(inside)).argmax(1).numpy()
    attacked = table.column("status") == "ok"
    assert np.array_equal(table.column("predicted")[attacked], direct[attacked])

    outside = inside.copy()
    victim = data.draw(st.integers(0, len(rows) - 1))
    pixel = (victim, 0, data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7)))
    step = float(budget) + data.draw(st.floats(3e-6, 0.2))
    outside[pixel] = clean[pixel] + step if clean[pixel] < 0.5 else clean[pixel] - step
    path.write_bytes(packed(ids, outside))
    with pytest.raises(CellError) as caught:
        digits.read(path, norm=norm, budget=budget)
    assert caught.value.kind == "budget"
    assert f"1 of {len(rows)} outside: '{ids[victim]}' at" in caught.value.reason
    assert "\n" not in caught.value.reason


def refusal(digits: Originals, path: Path, **claim: Any) -> CellError:
    with pytest.raises(CellError) as caught:
        digits.read(path, **claim)
    assert "\n" not in caught.value.reason
    return caught.value


def test_all_offenders_are_counted_and_the_first_named(place: Place, tmp_path: Path) -> None:
    digits = originals(place)
    images = digits.samples.pixels(range(6))
    moved = np.clip(images + 0.2, 0, 1)
    moved[4] = images[4]
    path = tmp_path / "set.npz"
    path.write_bytes(packed(digits.samples.ids[:6], moved))
    error = refusal(digits, path)
    assert "within linf 1/10 (to 1e-06) of its original, got 5 of 6 outside: '00000' at 0.2" in error.reason
    assert "'00002' at" in error.reason
    assert "'00003'" not in error.reason
    assert "the whole set is refused" in error.reason


def test_eight_bits_get_no_room_beyond_the_budget(place: Place, tmp_path: Path) -> None:
    """Digits are multiples of 1/16: 1/16 + 10/255 is stored as 26/255, 0.0397 away, never 'about' 10/255."""
    digits = originals(place)
    row = int(np.argmax((digits.samples.pixels(range(100)) == 1 / 16).any((1, 2, 3))))
    clean = digits.samples.pixels([row])[0]
    stored = np.rint(clean * 255).astype(np.uint8)
    stored[clean == 1 / 16] = 26
    path = tmp_path / "set.npz"
    path.write_bytes(npz(sample_id=np.array([digits.samples.ids[row]]), images=stored[None]))
    exact = Fraction(26, 255) - Fraction(1, 16)
    assert digits.read(path, budget=exact).images.encoding == "8-bit"
    assert refusal(digits, path, budget=Fraction(10, 255)).kind == "budget"


def test_ids_are_those_of_the_dataset(place: Place, tmp_path: Path) -> None:
    digits = originals(place)
    path = tmp_path / "set.npz"
    path.write_bytes(packed(["00000", "x\n\x1b[31m"], digits.samples.pixels([0, 1])))
    error = refusal(digits, path)
    assert error.reason == (
        "set.npz: row 1: sample_id: expected an id of the dataset such as '00000', got 'x\\n\\x1b[31m'"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xd8\xff\xe0" + bytes(50), "got JPEG, which loses small changes"),
        (b"\x80\x04\x95", "got bytes that start with 800495"),
        (b"", "got bytes that start with nothing"),
        (bytes(3 * 2**20), "expected at most"),
    ],
    ids=["JPEG", "pickle", "empty", "too large"],
)
def test_any_other_file_is_refused_by_its_content(
    place: Place, tmp_path: Path, data: bytes, said: str
) -> None:
    """B050: a JPEG named .npz is a JPEG."""
    path = tmp_path / "set.npz"
    path.write_bytes(data)
    assert said in refusal(originals(place), path).reason


def test_folders_and_pipes_are_no_files(place: Place, tmp_path: Path) -> None:
    digits = originals(place)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        assert "expected a file, got a folder or a device" in refusal(digits, path).reason
    assert refusal(digits, tmp_path / "absent.npz").kind == "missing"


def test_images_of_sets_without_a_native_size_have_the_models_input_size(
    place: Place, tmp_path: Path
) -> None:
    levels(place, [0, 1], [0, 1])
    entry = place.catalog.datasets["levels"].model_copy(update={"native_size": None})
    place.catalog = type(place.catalog)(
        **{
            **{field: getattr(place.catalog, field) for field in place.catalog.__dataclass_fields__},
            "datasets": {**place.catalog.datasets, "levels": entry},
        }
    )
    grey = originals(place, "levels", InputSpec(size=12, channels=1, normalization="inside"))
    path = tmp_path / "set.npz"
    path.write_bytes(packed(grey.samples.ids, np.zeros((2, 1, 8, 8), np.float32)))
    assert (
        "(2,1,12,12) (the model's input, where perturbations live, as levels has no native size),"
        " got (2,1,8,8)"
    ) in refusal(grey, path).reason
    path.write_bytes(packed(grey.samples.ids, grey.samples.pixels([0, 1])))
    assert len(grey.read(path).places) == 2


def near(place: Place, count: int, *, step: float = 0.1) -> bytes:
    """Images of the first digits, each pixel moved away from where it is by the step."""
    digits = originals(place)
    clean = digits.samples.pixels(range(count))
    return packed(digits.samples.ids[:count], np.where(clean < 0.5, clean + step, clean - step).astype("f4"))


def test_a_handed_in_set_is_a_cell_like_any_other(place: Place) -> None:
    hand_in(place, near(place, 60))
    assert run(place, HANDED).exit_code == 0

    result = read_result(result_file(place, HANDED))
    robust = next(score for score in result.scores if score.metric == "robust_accuracy")
    assert result.headline == "robust_accuracy@linf 1/10"
    assert robust.n == 100
    assert result.facts.preparation["encoding"] == "float32 from file"
    assert result.facts.preparation["attacked images"].startswith("60 from external/handed-v1.npz, SHA-256 ")
    stored = Store(place.workspace.runs).read(result.key_digest)
    assert stored is not None
    rows = stored.predictions.only("linf 1/10")
    assert (rows.column("distance")[60:] == 0).all()
    clean = stored.predictions.only("clean")
    assert rows.column("predicted")[60:].tolist() == clean.column("predicted")[60:].tolist()
    assert set(rows.column("attack")) == {"", "external"}
    assert run(place, HANDED).text() == "0 ok, 1 skipped (already done), 0 failed"


def test_an_attack_here_says_that_its_images_were_in_memory(place: Place) -> None:
    """B050: the record says which number it is."""
    run(place, PGD)
    assert read_result(result_file(place, PGD)).facts.preparation["encoding"] == "float32 in memory"


def test_a_part_of_the_dataset_meets_its_part_of_the_set(place: Place) -> None:
    hand_in(place, near(place, 60))
    profile = PROFILE.model_copy(update={"subset": Sample(count=20, seed=0)})
    assert run(place, HANDED, profile=profile).exit_code == 0


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("budget", "budget"), ("pin", "hash-mismatch"), ("gone", "missing"), ("cut", "decode")],
)
def test_a_refused_set_fails_its_cell_and_stores_nothing(place: Place, fault: str, kind: str) -> None:
    """Exit code 1, the failure kept as data, no plan, no shard, no result."""
    data = near(place, 60, step=0.100002 if fault == "budget" else 0.1)
    hand_in(place, data[:-30] if fault == "cut" else data)
    path = place.workspace.benchmarks / "external" / "handed-v1.npz"
    if fault == "pin":
        path.write_bytes(near(place, 59))
    if fault == "gone":
        path.unlink()

    summary = run(place, HANDED)

    assert summary.exit_code == 1
    assert summary.outcomes[HANDED].kind == kind
    assert "external/handed-v1.npz" in summary.outcomes[HANDED].reason
    assert Store(place.workspace.runs).digests() == []
    assert not result_file(place, HANDED).exists()
    assert read_failures(place.workspace)[HANDED].kind == kind


def test_a_large_set_may_lie_in_a_data_folder(place: Place) -> None:
    data = near(place, 10)
    hand_in(place, data)
    beside = place.workspace.benchmarks / "external" / "handed-v1.npz"
    away = place.workspace.content / "data" / "external" / "handed-v1.npz"
    away.parent.mkdir(parents=True)
    beside.rename(away)
    assert run(place, HANDED).exit_code == 0


def test_another_file_is_another_run(place: Place) -> None:
    hand_in(place, near(place, 10))
    first = place.key(HANDED)
    hand_in(place, near(place, 11))
    assert place.key(HANDED).digest != first.digest


def test_models_that_a_set_was_not_made_for_are_left_out(place: Place) -> None:
    entry = hand_in(place, near(place, 10), models=("other",))
    place.model("other")
    planned = {(p.cell.model, p.cell.benchmark) for p in place.plan().cells}
    assert ("other", entry.id) in planned
    assert ("tiny", entry.id) not in planned


def test_a_handed_in_image_counts_in_the_worst_case(place: Place) -> None:
    """The worst case is right exactly where both are, and names the set where it alone broke the image."""
    hand_in(place, near(place, 60))
    setting = Ladder(datasets=("digits",), budgets=(TENTH,), headline=TENTH)
    procedure = WorstCase(kind="worst-case", norm="linf", of=("pgd-v1",), settings=(setting,))
    worst = Cell("tiny", "worst-v1", "digits")
    place.benchmarks["worst-v1"] = place.benchmarks["pgd-v1"].model_copy(
        update={"id": "worst-v1", "procedure": procedure}
    )

    assert run(place, PGD, HANDED, worst).exit_code == 0

    tables = {}
    for cell in (PGD, HANDED, worst):
        stored = Store(place.workspace.runs).read(read_result(result_file(place, cell)).key_digest)
        assert stored is not None
        tables[cell] = stored.predictions
    flags = {cell: np.array(right(table, "linf 1/10")) for cell, table in tables.items()}
    assert np.array_equal(flags[worst], flags[PGD] & flags[HANDED])
    alone = flags[PGD] & ~flags[HANDED]
    named = tables[worst].only("linf 1/10").column("attack")
    assert set(named[alone]) <= {"handed-v1 external"}


def test_hashes_are_of_whole_files(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(near(place, 3))
    assert originals(place).read(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
