"""An image is robust in the worst case when it survives every run, and its row says what broke it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard.benchmarks.entries import (
    BenchmarkEntry,
    External,
    ImagesSetting,
    Ladder,
    WorstCase,
)
from robustboard.errors import CellError, StoreError
from robustboard.registry.entries import FilePin
from robustboard.runners.keys import Cell, Keys
from robustboard.runners.predictions import SCHEMA, PredictionTable
from robustboard.runners.score import read_result
from robustboard.runners.worst_case import worst_case
from tests.runners.readers import result_file, run
from tests.runners.small import CLEAN, PGD, Place

TENTH = Fraction(1, 10)
SETTING = Ladder(datasets=("digits",), budgets=(TENTH,), headline=TENTH)
PROCEDURE = WorstCase(kind="worst-case", norm="linf", of=("one-v1", "two-v1"), settings=(SETTING,))
IMAGE = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans())
WORST = Cell("tiny", "worst-v1", "digits")


def part(
    clean: list[bool],
    stands: list[bool],
    attack: str,
    *,
    confidence: float = 0.5,
    status: str = "ok",
    condition: str = "linf 1/10",
) -> PredictionTable:
    """A run over images of class 0, whose wrong answers are class 1."""
    count = len(clean)
    ids = [f"s{number}" for number in range(count)]
    zeros = np.zeros(count)
    survived = np.array(clean) & np.array(stands)
    broken = np.array(clean) & ~np.array(stands)
    return PredictionTable.concat(
        [
            PredictionTable.of(
                sample_id=ids,
                condition="clean",
                label=zeros,
                predicted=~np.array(clean, bool),
                confidence=zeros + 0.9,
                distance=zeros,
                status=["ok"] * count,
            ),
            PredictionTable.of(
                sample_id=ids,
                condition=condition,
                label=zeros,
                predicted=~survived,
                confidence=zeros + confidence,
                distance=zeros + 0.1,
                status=[status if right else "already-wrong" for right in clean],
                attack=[attack if fell else "" for fell in broken],
            ),
        ]
    )


def joined(parts: dict[str, PredictionTable], count: int) -> PredictionTable:
    ids = [f"s{number}" for number in range(count)]
    return worst_case(PROCEDURE, SETTING, parts, ids).only("linf 1/10")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=9)
)
def test_an_image_stands_exactly_when_it_stands_in_every_run(images: list[tuple[bool, ...]]) -> None:
    clean, first, second, third = (list(column) for column in zip(*images, strict=True))
    parts = {
        "one-v1": part(clean, first, "pgd"),
        "two-v1": part(clean, second, "square"),
        "three-v1": part(clean, third, "external"),
    }
    rows = joined(parts, len(images))
    standing = (rows.column("predicted") == 0).tolist()
    assert standing == [all(image) for image in images]
    names = ["one-v1 pgd", "two-v1 square", "three-v1 external"]
    expected = [
        next((name for name, stood in zip(names, image[1:], strict=True) if not stood), "")
        if image[0]
        else ""
        for image in images
    ]
    assert rows.column("attack").tolist() == expected


def test_a_standing_image_carries_the_row_of_the_run_that_left_it_least_sure() -> None:
    parts = {
        "one-v1": part([True], [True], "pgd", confidence=0.8),
        "two-v1": part([True], [True], "square", confidence=0.6),
    }
    assert joined(parts, 1).column("confidence").tolist() == [pytest.approx(0.6)]


def test_a_set_without_an_image_of_a_sample_does_not_say_that_it_was_attacked() -> None:
    """A blind model gains no robust accuracy by a set handed in that leaves its images out."""
    blind = part([True, True], [True, True], "pgd", status="no-gradient")
    other = part([True, True], [True, True], "external")
    names = other.table.schema.names
    unmoved = pa.array(np.array([0, 0, 0, 0.1], np.float32))  # the set holds the second image only
    other = PredictionTable(
        other.table.set_column(names.index("distance"), SCHEMA.field("distance"), unmoved)
    )
    found = joined({"one-v1": blind, "external-v1": other}, 2)
    assert found.column("status").tolist() == ["no-gradient", "ok"]


@pytest.mark.parametrize(("second", "status"), [("no-gradient", "no-gradient"), ("ok", "ok")])
def test_only_an_image_that_no_run_could_attack_has_no_gradient(second: str, status: str) -> None:
    parts = {
        "one-v1": part([True], [True], "pgd", confidence=0.1, status="no-gradient"),
        "two-v1": part([True], [True], "fgsm", status=second),
    }
    assert joined(parts, 1).column("status").tolist() == [status]


def test_runs_that_disagree_on_clean_images_are_not_joined() -> None:
    parts = {
        "one-v1": part([True, True], [True, True], "a"),
        "two-v1": part([True, False], [True, True], "b"),
    }
    with pytest.raises(StoreError, match="two-v1: clean predictions are not those of one-v1"):
        joined(parts, 2)


def test_a_budget_that_no_run_has_is_refused() -> None:
    parts = {"one-v1": part([True], [True], "pgd", condition="linf 1/20")}
    with pytest.raises(CellError, match="none of one-v1 has the budget 1/10"):
        joined(parts, 1)


def test_a_lacking_sample_is_refused() -> None:
    with pytest.raises(StoreError, match="1 samples have no row for clean"):
        joined({"one-v1": part([True], [True], "pgd")}, 2)


def protocol(place: Place) -> None:
    """Add a second, stronger PGD and the worst case over both."""
    pgd = place.benchmarks["pgd-v1"]
    stronger = pgd.procedure.model_copy(update={"restarts": 2, "loss": "margin"})
    place.benchmarks["margin-v1"] = pgd.model_copy(update={"id": "margin-v1", "procedure": stronger})
    place.benchmarks["worst-v1"] = BenchmarkEntry.model_validate(
        {
            **pgd.model_dump(),
            "id": "worst-v1",
            "procedure": WorstCase(
                kind="worst-case",
                norm="linf",
                of=("pgd-v1", "margin-v1"),
                settings=(Ladder(label_spaces=("digits",), budgets=(TENTH,), headline=TENTH),),
            ),
        }
    )


def test_a_run_joins_what_it_attacked_just_before(place: Place) -> None:
    """All wanted cells in one go: the worst case comes last and is at most each of its parts."""
    protocol(place)
    summary = run(place)
    assert summary.text() == "5 ok, 0 skipped (already done), 0 failed"
    worst, pgd, margin = (
        read_result(result_file(place, Cell("tiny", name, "digits")))
        for name in ("worst-v1", "pgd-v1", "margin-v1")
    )
    assert worst.key.parts == {"pgd-v1": pgd.key_digest, "margin-v1": margin.key_digest}
    right = {result.key.benchmark: result.scores[1].correct for result in (worst, pgd, margin)}
    assert right["worst-v1"] is not None
    assert right["worst-v1"] <= min(right["pgd-v1"] or 0, right["margin-v1"] or 0)
    assert run(place, WORST).text() == "0 ok, 1 skipped (already done), 0 failed"


def test_without_its_parts_it_fails_with_the_command_that_makes_them(place: Place) -> None:
    protocol(place)
    summary = run(place, CLEAN, PGD, WORST)
    outcome = summary.outcomes[WORST]
    assert (outcome.state, outcome.kind) == ("failed", "missing")
    assert outcome.reason.endswith("run: robustboard run -m tiny -b margin-v1 -d digits")


def test_an_external_set_of_the_same_budget_counts_and_others_do_not(place: Place) -> None:
    protocol(place)
    worst = place.key(WORST)

    def hand_in(name: str, norm: str, eps: str, models: tuple[str, ...] = ()) -> None:
        setting = ImagesSetting(
            datasets=("digits",),
            budgets=(Fraction(eps),),
            headline=Fraction(eps),
            file=FilePin(path="x.npz", sha256="0" * 64),
        )
        procedure = External.model_validate(
            {"kind": "external", "norm": norm, "made_by": "someone", "models": models, "settings": (setting,)}
        )
        own = {**place.benchmarks["pgd-v1"].model_dump(), "id": name, "procedure": procedure}
        place.benchmarks[name] = BenchmarkEntry.model_validate(own)

    hand_in("l2-v1", "l2", "1/10")
    hand_in("wide-v1", "linf", "1/5")
    hand_in("other-v1", "linf", "1/10", ("another",))
    assert place.key(WORST) == worst
    hand_in("mine-v1", "linf", "1/10", ("tiny",))
    assert list(place.key(WORST).parts) == ["pgd-v1", "margin-v1", "mine-v1"]
    keys = Keys(place.catalog, place.benchmarks)
    assert keys.changed(worst) == ("parts",)
    assert keys.changed(place.key(WORST)) == ()


def test_other_libraries_alone_do_not_make_a_worst_case_old(place: Place) -> None:
    protocol(place)
    keys = Keys(place.catalog, place.benchmarks)
    elsewhere = keys.key(
        WORST,
        weights_sha256="1" * 64,
        data_fingerprint="2" * 64,
        precision="float32",
        subset=None,
        software={"torch": "9.9"},
    )
    assert keys.changed(elsewhere, frozenset({"software"})) == ()
    assert "software" in keys.changed(elsewhere)
