"""D2: forged predictions that agree with each other are found by measuring a sample again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from robustboard.errors import StoreError, UserError
from robustboard.runners import remeasuring
from robustboard.runners.evaluate import Session
from robustboard.runners.keys import Cell
from robustboard.runners.predictions import SCHEMA, PredictionTable
from robustboard.runners.record import Subset
from robustboard.runners.recount import recount
from robustboard.runners.remeasuring import audit, compare
from robustboard.runners.samples import choose_subset
from robustboard.runners.score import result_of
from robustboard.runners.store import Store, StoredRun
from tests.runners.readers import run, start
from tests.runners.small import NOISE, PGD, PROFILE, Place, plant_digits

IMAGES = 1797
FORGED = 9
"""Half a percent of them."""


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A small net measured on all digits, clean; and attacked and noisy on a hundred of them."""
    place = Place(plant_digits(tmp_path_factory.mktemp("field")))
    whole = place.catalog.dataset("digits")
    source = whole.source.model_copy(update={"start": 0, "stop": IMAGES})
    place.catalog = replace(
        place.catalog,
        datasets={
            **place.catalog.datasets,
            "all-digits": whole.model_copy(update={"id": "all-digits", "source": source, "size": IMAGES}),
        },
    )
    assert run(place, ALL, NOISE, PGD).exit_code == 0
    return place


ALL = Cell("tiny", "clean-v1", "all-digits")


def stored(place: Place, cell: Cell) -> StoredRun:
    store = Store(place.workspace.runs)
    found = store.read(store.current_key(store.current()[cell.name]).digest)
    assert found is not None
    return found


def session(place: Place, rows: int = 16) -> Session:
    return start(place, PROFILE.model_copy(update={"batch_size": rows}))


def changed(table: PredictionTable, ids: Sequence[str], *, to: str = "label") -> PredictionTable:
    """The table with some images said to be classified as their label, or as the class after it."""
    rows = table.table.to_pydict()
    chosen = set(ids)
    for place, name in enumerate(rows["sample_id"]):
        if name in chosen:
            label = rows["label"][place]
            rows["predicted"][place] = label if to == "label" else (label + 1) % 10
    return PredictionTable(pa.table(rows, schema=SCHEMA))


def wrong(table: PredictionTable) -> list[str]:
    """Ids of the images that are classified wrong."""
    missed = table.column("predicted") != table.column("label")
    return [str(name) for name in table.column("sample_id")[missed]]


@pytest.mark.parametrize("cell", [ALL, NOISE, PGD])
@pytest.mark.parametrize("rows", [pytest.param(16, marks=pytest.mark.long), 48])
def test_an_honest_run_passes_whatever_the_batch_size(field: Place, cell: Cell, rows: int) -> None:
    found = audit(session(field, rows), stored(field, cell), images=60, seed=rows)
    assert (found.passed, found.differing, found.near_ties) == (True, (), 0)
    assert found.images == 60
    assert found.rows == 60 * len(stored(field, cell).record.plan.conditions)


def test_a_forged_run_that_every_other_check_believes_is_found(field: Place, tmp_path: Path) -> None:
    """Rows, shards, record and result agree with each other, and SQL counts the same: only a look tells."""
    honest = stored(field, ALL)
    cheats = wrong(honest.predictions)[:FORGED]
    plan = honest.record.plan
    ids = [str(each) for each in honest.predictions.column("sample_id")]
    table = changed(honest.predictions, cheats)
    store = Store(tmp_path / "runs")
    with store.open(plan, ids, honest.predictions.column("label")) as open_run:
        for index, part in enumerate(plan.shards):
            piece = table.table.slice(part.start, len(part)).combine_chunks()
            open_run.put(index, PredictionTable(piece), honest.facts)
        forged = open_run.commit()
    setting = field.benchmarks["clean-v1"].setting_for(field.catalog.dataset("all-digits"))
    assert setting is not None
    before, after = (result_of(each, field.benchmarks["clean-v1"], setting) for each in (honest, forged))
    assert (after.scores[0].correct or 0) - (before.scores[0].correct or 0) == FORGED
    assert store.read(plan.key_digest) is not None
    assert recount(store, after).sound
    found = audit(session(field), forged, images=IMAGES, seed=0)
    assert not found.passed
    assert {each.sample_id for each in found.differing} == set(cheats)
    assert {each.column for each in found.differing} == {"predicted"}


def sampled(table: PredictionTable, rows: Sequence[int]) -> PredictionTable:
    return PredictionTable(table.table.take(list(rows)).combine_chunks())


def caught(field: Place, fresh: PredictionTable, count: int) -> int:
    """Of 100 planted forgeries, how many a sample of `count` images finds."""
    honest = stored(field, ALL).predictions
    generator = np.random.default_rng(5)
    labels = np.asarray(honest.column("label"), np.int64)
    found = 0
    for trial in range(100):
        cheats = generator.choice(wrong(honest), FORGED, replace=False).tolist()
        rows = choose_subset(labels, Subset(count=count, seed=trial))
        found += bool(compare(changed(honest, cheats), sampled(fresh, rows)))
    return found


@pytest.fixture(scope="module")
def fresh(field: Place) -> PredictionTable:
    """Every image measured again, at another batch size."""
    again = run(field, ALL, profile=PROFILE.model_copy(update={"batch_size": 48}))
    assert again.exit_code == 0
    parts = []

    class Keeper:
        """Keeps what an audit of everything measures."""

        def __call__(self, old: PredictionTable, new: PredictionTable) -> list[remeasuring.Different]:
            parts.append(new)
            return compare(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remeasuring, "compare", Keeper())
        audit(session(field, 48), stored(field, ALL), images=IMAGES, seed=0)
    table = PredictionTable.concat(parts)
    order = np.argsort(table.column("sample_id").astype(str))
    return sampled(table, order.tolist())


def test_d2_six_hundred_images_find_half_a_percent(field: Place, fresh: PredictionTable) -> None:
    """D2: at least 90 of 100 forgeries of 0.5 % are caught with n = 600, and 0 of 100 honest flagged."""
    assert caught(field, fresh, 600) >= 90
    honest = stored(field, ALL).predictions
    labels = np.asarray(honest.column("label"), np.int64)
    for seed in range(100):
        rows = choose_subset(labels, Subset(count=600, seed=seed))
        assert compare(honest, sampled(fresh, rows)) == []


@pytest.mark.long
def test_the_control_with_sixty_images_misses_most(field: Place, fresh: PredictionTable) -> None:
    assert caught(field, fresh, 60) < 60


def test_the_control_that_looks_at_stored_rows_again_finds_none(field: Place) -> None:
    honest = stored(field, ALL).predictions
    forged = changed(honest, wrong(honest)[:FORGED])
    assert compare(forged, forged) == []


@pytest.mark.long
def test_d2_in_full(field: Place) -> None:
    """D2 with a new measurement each time: 100 forged, 100 honest at three batch sizes."""
    honest = stored(field, ALL)
    generator = np.random.default_rng(7)
    found = alarms = 0
    for trial in range(100):
        cheats = generator.choice(wrong(honest.predictions), FORGED, replace=False).tolist()
        forged = replace(honest, predictions=changed(honest.predictions, cheats))
        found += not audit(session(field, 16), forged, images=600, seed=trial).passed
        rows = (16, 48, 128)[trial % 3]
        alarms += not audit(session(field, rows), honest, images=600, seed=1000 + trial).passed
    assert (found >= 90, alarms) == (True, 0)


def runners_up(field: Place) -> dict[str, tuple[int, float]]:
    """Image → second class, and how far its share is behind, by the network itself."""
    model = session(field).model("tiny")
    samples = session(field).samples("all-digits", model.entry.input)
    with torch.no_grad():
        shares = torch.softmax(model.classifier(torch.from_numpy(samples.pixels(range(IMAGES)))).double(), 1)
    top = shares.topk(2, dim=1)
    return {
        name: (int(top.indices[row, 1]), float(top.values[row, 0] - top.values[row, 1]))
        for row, name in enumerate(samples.ids)
    }


@pytest.mark.long
def test_a_near_tie_is_excused_and_another_class_never(field: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = stored(field, ALL)
    behind = runners_up(field)
    name = min(behind, key=lambda each: behind[each][1])
    second, gap = behind[name]
    monkeypatch.setattr(remeasuring, "TIE", gap * 1.01)

    def told(predicted: int) -> PredictionTable:
        rows = honest.predictions.table.to_pydict()
        rows["predicted"][rows["sample_id"].index(name)] = predicted
        return PredictionTable(pa.table(rows, schema=SCHEMA))

    other = audit(session(field), replace(honest, predictions=told(second)), images=IMAGES, seed=0)
    assert (other.passed, other.near_ties, other.differing) == (True, 1, ())
    first = int(honest.predictions.column("predicted")[list(behind).index(name)])
    third = next(each for each in range(10) if each not in (first, second))
    forged = audit(session(field), replace(honest, predictions=told(third)), images=IMAGES, seed=0)
    assert not forged.passed
    monkeypatch.setattr(remeasuring, "TIE", gap * 0.99)
    assert not audit(session(field), replace(honest, predictions=told(second)), images=IMAGES, seed=0).passed


@pytest.mark.long
def test_too_many_near_ties_are_a_choice_and_no_accident(
    field: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were every second class a tie, a forger could choose among them: at most 1 % of the rows may be."""
    honest = stored(field, ALL)
    monkeypatch.setattr(remeasuring, "TIE", 1.0)
    cheats = wrong(honest.predictions)[:20]
    forged = replace(honest, predictions=changed(honest.predictions, cheats))
    found = audit(session(field), forged, images=IMAGES, seed=0)
    assert found.near_ties == 20 > found.rows / 100
    assert not found.passed


@pytest.mark.long
def test_forged_confidences_and_labels_are_found_too(field: Place) -> None:
    honest = stored(field, ALL)
    rows = honest.predictions.table.to_pydict()
    rows["confidence"][3] = rows["confidence"][3] / 2
    shown = audit(
        session(field),
        replace(honest, predictions=PredictionTable(pa.table(rows, schema=SCHEMA))),
        images=IMAGES,
        seed=0,
    )
    assert [each.column for each in shown.differing] == ["confidence"]
    plan = honest.record.plan.model_copy(update={"samples_digest": "0" * 64})
    other = replace(honest, record=honest.record.model_copy(update={"plan": plan}))
    with pytest.raises(StoreError, match="samples: the stored ids or labels are not those of the dataset"):
        audit(session(field), other, images=10, seed=0)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"weights_sha256": "0" * 64}, "of another weights_sha256 than"), ({"seed": 9}, "of another seed than"),
     ({"subset": Subset(count=5, seed=0)}, "a partial run is never ranked")],
)  # fmt: skip
def test_a_run_of_something_else_is_not_audited(field: Place, change: dict[str, object], said: str) -> None:
    honest = stored(field, ALL)
    key = honest.record.plan.key.model_copy(update=change)
    plan = honest.record.plan.model_copy(update={"key": key})
    other = replace(honest, record=honest.record.model_copy(update={"plan": plan}))
    with pytest.raises(UserError, match=said):
        audit(session(field), other, images=10, seed=0)


def test_a_model_that_answers_otherwise_each_time_is_not_audited(field: Place) -> None:
    honest = stored(field, ALL)
    assert honest.facts.checks is not None
    checks = honest.facts.checks.model_copy(update={"flips": 3})
    other = replace(honest, facts=honest.facts.model_copy(update={"checks": checks}))
    with pytest.raises(UserError, match="change from pass to pass: nothing to compare"):
        audit(session(field), other, images=10, seed=0)
