"""D1: forged or malformed results are refused, each with file and field."""

from __future__ import annotations

import json
import re

import pytest

from robustboard.leaderboard import submitted
from robustboard.runners.record import RunKey
from robustboard.runners.score import result_of
from tests.leaderboard.forging import NAMES, Ground, forgeries, ground, resealed

TOLD = re.compile(r"(leaderboard/(results|outcomes)|runs)/\S+: .+")


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return ground(tmp_path_factory.mktemp("ground"))


def test_honest_results_pass(field: Ground) -> None:
    """The control: nothing is refused, by the second count neither."""
    assert field.faults(everything=True) == []


def outcome(field: Ground, step: int) -> tuple[int, list[str]]:
    """How many forgeries were tried, every `step`th, and what is wrong with the refusals."""
    wrong = []
    count = 0
    for name, spoil in list(forgeries(field))[::step]:
        count += 1
        spoil()
        faults = field.faults(everything=name.startswith("predictions"))
        field.restore()
        if not faults:
            wrong.append(f"{name}: let through")
        wrong += [f"{name}: {fault}" for fault in faults if not TOLD.fullmatch(fault)]
    assert field.faults(everything=True) == []
    return count, wrong


@pytest.mark.long
def test_d1_every_forgery_is_refused_with_file_and_field(field: Ground) -> None:
    """D1: 200 forged or malformed results, all refused."""
    count, wrong = outcome(field, 1)
    assert wrong == []
    assert count >= 200


def test_d1_every_twentieth_forgery_is_refused_with_file_and_field(field: Ground) -> None:
    """The same battery, thinned out."""
    count, wrong = outcome(field, 20)
    assert wrong == []
    assert count >= 10


def lenient(data: bytes) -> bool:
    """A check as it is often written: JSON with a few keys and a value in range."""
    try:
        values = json.loads(data)
        return values["scores"][0]["value"] is not None and values["scores"][0]["value"] <= 1
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return False


@pytest.mark.long
def test_the_control_lets_most_of_them_pass(field: Ground) -> None:
    """A lenient reader accepts more than half of the forged files: the battery has teeth."""
    accepted = seen = 0
    for _, spoil in forgeries(field):
        spoil()
        for name in NAMES:
            path = field.path(name)
            if path.is_file() and path.read_bytes() != field.kept[path]:
                seen += 1
                accepted += lenient(path.read_bytes())
        field.restore()
    assert accepted > seen / 2 > 75


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "scores.0.correct",
            r"clean-v1--digits\.json: scores\.0\.correct: expected '\d+' as the predictions give",
        ),
        ("removed", r"clean-v1--digits\.json: \(whole file\): expected the file to stay"),
        (
            "key.protocol_digest and its digest",
            r"clean-v1--digits\.json: key\.protocol_digest: expected that",
        ),
        ("key.benchmark and its digest", r"the content belongs to tiny/pgd-v2--digits\.json"),
        ("duplicate id", r"a sample stands twice in one condition"),
        (
            "other model's predictions",
            r"clean-v1--digits\.json: shards\.0: expected the stored predictions, got",
        ),
        ("NaN", r"clean-v1--digits\.json: expected a JSON number, got 'NaN'"),
        ("count as truth", r"scores\.0\.n: .*got 'True'"),
        ("value above 1", r"scores\.0: .*expected a share from 0 to 1, got 1\.5"),
        ("key twice", r"clean-v1--digits\.json: .*skipped"),
        ("labels as predicted", r"labels"),
    ],
)
def test_the_faults_of_a_pull_request_name_what_is_wrong(field: Ground, name: str, said: str) -> None:
    spoil = next(edit for what, edit in forgeries(field) if what.endswith(name))
    spoil()
    faults = field.faults(everything=True) if "id" in name or "labels" in name else field.faults()
    field.restore()
    assert re.search(said, "\n".join(faults)), faults


def test_the_second_count_alone_refuses_what_the_first_program_was_made_to_believe(
    field: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the program that writes results itself at fault, SQL would still tell."""
    name, spoil = next((n, s) for n, s in forgeries(field) if n.endswith("scores.0.correct"))
    spoil()
    forged = json.loads(field.path(name.split()[0]).read_bytes())
    honest = result_of

    def fooled(*arguments: object) -> object:
        result = honest(*arguments)  # type: ignore[arg-type]  # as called
        scores = tuple(
            score.model_copy(update={k: forged["scores"][i][k] for k in ("correct", "value", "low", "high")})
            for i, score in enumerate(result.scores)
        )
        return result.model_copy(update={"scores": scores})

    monkeypatch.setattr(submitted, "result_of", fooled)
    faults = field.faults()
    field.restore()
    assert any("scores.0.correct (clean_accuracy@clean): expected" in fault for fault in faults), faults
    assert all("as counted again" in fault for fault in faults)


def test_results_of_main_need_no_predictions_but_new_ones_do(field: Ground) -> None:
    folder = field.workspace.runs
    folder.rename(folder.with_name("away"))
    try:
        assert field.faults() == []
        faults = field.faults(everything=True)
    finally:
        folder.with_name("away").rename(folder)
    lacking = [fault for fault in faults if "expected the predictions of run" in fault]
    assert len(lacking) == len(faults) == 4 + 4


def test_predictions_under_two_names_are_the_fault_of_the_one_who_comes_later(field: Ground) -> None:
    """A copy whose name comes first in the alphabet does not put the blame on the original."""
    values = field.values("tiny/clean-v1--digits")
    key = {**values["key"], "model": "a-copy"}
    digest = RunKey.model_validate_json(json.dumps(key)).digest
    path = field.path("a-copy/clean-v1--digits")
    path.parent.mkdir()
    path.write_bytes(resealed({**values, "key": key, "key_digest": digest}))
    faults = [fault for fault in field.faults() if "predictions of its own" in fault]
    field.restore()
    told = "expected predictions of its own, got those of tiny/clean-v1--digits.json"
    assert faults == [f"leaderboard/results/a-copy/clean-v1--digits.json: shards: {told}"]
