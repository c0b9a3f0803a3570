"""Tiers are earned by stored runs alone: no default, no edit and no other run's check gives one."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

from robustboard import jsons
from robustboard.errors import StoreError
from robustboard.runners import verifications
from robustboard.runners.keys import Cell
from robustboard.runners.record import Result
from robustboard.runners.store import Store, StoredRun
from robustboard.runners.verifications import (
    RANKED,
    TIERS,
    WAYS,
    Check,
    How,
    Standing,
    check_of,
    note,
    note_run,
    read_checks,
    record_digest,
    standing_of,
)
from robustboard.workspace import Workspace
from tests.runners.small import FACTS, Made

DAY = date(2026, 1, 31)


@pytest.fixture
def run(made: Made, store: Store) -> StoredRun:
    return made.into(store)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    verifications.who.cache_clear()
    monkeypatch.setenv(verifications.BY, "A tester")
    return Workspace(tmp_path, tmp_path)


def result(run: StoredRun) -> Result:
    plan = run.record.plan
    return Result(
        key=plan.key,
        key_digest=plan.key_digest,
        status="verified",
        images=plan.images,
        evaluated=plan.evaluated,
        skipped=0,
        headline="clean_accuracy@clean",
        scores=(),
        shards=run.record.shards,
        facts=run.facts,
    )


def check(run: StoredRun, how: How, day: date = DAY) -> Check:
    return check_of(run, how, who="A tester", day=day, evidence={"images": 25})


def cell(run: StoredRun) -> Cell:
    key = run.record.plan.key
    return Cell(key.model, key.benchmark, key.dataset)


def test_without_a_check_a_result_is_reported_and_not_ranked(run: StoredRun) -> None:
    """No default verifies anything: a bare result file is what somebody says."""
    standing = standing_of(result(run), ())
    assert (standing.tier, standing.ranked) == ("reported", False)


@pytest.mark.parametrize("name", list(Check.model_fields))
def test_no_field_of_a_check_has_a_default(name: str, run: StoredRun) -> None:
    """Take any field away and there is no check; nor does a result have a status by itself."""
    values = json.loads(check(run, "audit").model_dump_json())
    assert Check.model_validate_json(json.dumps(values)).tier == "verified"
    del values[name]
    with pytest.raises(ValidationError):
        Check.model_validate_json(json.dumps(values))
    assert Result.model_fields["status"].is_required()


@pytest.mark.parametrize("how", list(WAYS))
@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_comes_from_what_was_done_and_from_nothing_else(how: How, tier: str, run: StoredRun) -> None:
    """A recomputation never verifies, and only a run or an audit does."""
    values = json.loads(check(run, how).model_dump_json()) | {"tier": tier}
    if tier == WAYS[how]:
        assert Check.model_validate_json(json.dumps(values)).how == how
    else:
        with pytest.raises(ValidationError):
            Check.model_validate_json(json.dumps(values))


@pytest.mark.parametrize(("how", "tier"), list(WAYS.items()))
def test_the_highest_check_of_these_very_predictions_is_the_tier(how: How, tier: str, run: StoredRun) -> None:
    below = [check(run, each) for each in WAYS if TIERS.index(WAYS[each]) <= TIERS.index(WAYS[how])]
    found = standing_of(result(run), below)
    assert found.tier == tier
    assert found.ranked == (tier in RANKED)


def test_checks_of_other_predictions_do_not_count(run: StoredRun, made: Made, tmp_path: Path) -> None:
    """The same key with other rows, or another key: neither lends its tier."""
    other = Made(made.key.model_copy(update={"seed": 5}), made.ids, made.labels).into(Store(tmp_path / "b"))
    assert standing_of(result(run), [check(other, "audit")]).tier == "reported"
    shards = (run.record.shards[0].model_copy(update={"sha256": "0" * 64}), *run.record.shards[1:])
    forged = result(run).model_copy(update={"shards": shards})
    assert standing_of(forged, [check(run, "audit")]).tier == "reported"


def test_an_invalidated_result_is_not_ranked_whatever_its_checks(run: StoredRun) -> None:
    standing = standing_of(result(run), [check(run, "adaptive-attack")], "wrong crop")
    assert (standing.tier, standing.invalid, standing.ranked) == ("adaptive", "wrong crop", False)
    assert Standing("verified").ranked


def test_a_run_is_noted_once_with_who_when_and_its_record(run: StoredRun, place: Workspace) -> None:
    note_run(place, run)
    path = place.content / "leaderboard" / "verifications" / f"{cell(run).name}.json"
    before = path.read_bytes()
    ((noted,),) = read_checks(place).values()
    assert (noted.tier, noted.how, noted.who) == ("verified", "run", "A tester")
    assert noted.day == date.fromisoformat(FACTS.finished_at[:10])
    assert noted.record_sha256 == record_digest(run.record)
    assert noted.evidence == {"images": 25, "of": 25, "device": "cpu"}
    verifications.who.cache_clear()
    note_run(place, run)
    assert path.read_bytes() == before


def test_a_part_of_a_dataset_is_a_smoke_run_and_stays_out_of_the_checkout(
    made: Made, store: Store, place: Workspace
) -> None:
    from robustboard.runners.record import Subset

    key = made.key.model_copy(update={"subset": Subset(count=25, seed=0)})
    part = Made(key, made.ids, made.labels).into(store)
    note_run(place, part)
    assert not (place.content / "leaderboard").exists()
    ((noted,),) = read_checks(place).values()
    assert (noted.tier, noted.how) == ("smoke", "smoke-run")


def test_checks_of_a_cell_stand_side_by_side_and_the_newest_of_a_kind_stays(
    run: StoredRun, place: Workspace
) -> None:
    note_run(place, run)
    note(place, run, check(run, "recomputation"))
    note(place, run, check(run, "audit"))
    note(place, run, check(run, "audit", date(2026, 2, 1)))
    (found,) = read_checks(place).values()
    assert [(each.how, each.day.isoformat()) for each in found] == [
        ("recomputation", "2026-01-31"), ("run", "2026-01-31"), ("audit", "2026-02-01"),
    ]  # fmt: skip
    assert standing_of(result(run), found).tier == "verified"


@pytest.mark.parametrize("spoil", ["tier", "seal", "place", "bytes"])
def test_an_edited_file_of_checks_is_refused(spoil: str, run: StoredRun, place: Workspace) -> None:
    path = note(place, run, check(run, "recomputation"))
    values = json.loads(path.read_bytes())
    if spoil == "tier":
        values["checks"][0]["tier"] = "verified"
        del values[jsons.SEAL]
        path.write_bytes(jsons.canonical({**values, jsons.SEAL: jsons.digest("robustboard.seal/1", values)}))
    elif spoil == "seal":
        values["checks"][0]["who"] = "Somebody else"
        path.write_bytes(jsons.canonical(values))
    elif spoil == "place":
        moved = path.with_name("pgd-v9--digits.json")
        path.rename(moved)
    else:
        path.write_bytes(path.read_bytes().replace(b"2026", b"2027"))
    with pytest.raises(StoreError, match="leaderboard/verifications/"):
        read_checks(place)


def test_nobody_is_named_where_git_and_the_environment_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(verifications.BY, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    verifications.who.cache_clear()
    assert verifications.who(tmp_path) == "unnamed"
    verifications.who.cache_clear()
