"""Every committed result of which single images can be compared has them beside it, and they add up."""

from __future__ import annotations

from pathlib import Path

import pytest

from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.leaderboard.outcomes import read_outcomes
from robustboard.leaderboard.results import read_results
from robustboard.registry.catalog import load_catalog
from robustboard.runners.per_image import shared_conditions, shares
from robustboard.site.releases import read_releases
from robustboard.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
PLACE = Workspace(ROOT, ROOT)


def test_committed_results_have_the_outcomes_of_their_images() -> None:
    """`robustboard score` writes them; every share they make up is the mean of what its images give."""
    catalog = load_catalog(PLACE)
    benchmarks = load_benchmarks(PLACE, catalog)
    results = read_results([PLACE.committed_results])
    outcomes = read_outcomes([PLACE.committed_outcomes], results)
    for cell, result in results.items():
        setting = benchmarks[cell.benchmark].setting_for(catalog.dataset(cell.dataset))
        assert setting is not None
        conditions = shared_conditions(benchmarks[cell.benchmark], setting)
        if not conditions:
            continue
        assert cell in outcomes, f"{cell.name}: commit leaderboard/outcomes with leaderboard/results"
        right = outcomes[cell].flags()
        assert list(right) == sorted(conditions)
        for score in result.scores:
            found = shares(right, score.metric, score.condition)
            if found is not None and score.value is not None:
                assert found.mean() == pytest.approx(score.value, abs=1e-9), (cell.name, score.metric)


def test_outcomes_lie_beside_results_alone() -> None:
    results = {path.relative_to(PLACE.committed_results) for path in PLACE.committed_results.glob("*/*.json")}
    outcomes = {
        path.relative_to(PLACE.committed_outcomes) for path in PLACE.committed_outcomes.glob("*/*.json")
    }
    assert outcomes <= results


def test_models_on_one_dataset_saw_the_same_images() -> None:
    results = read_results([PLACE.committed_results])
    found: dict[str, set[str]] = {}
    for cell, outcomes in read_outcomes([PLACE.committed_outcomes], results).items():
        found.setdefault(cell.dataset, set()).add(outcomes.samples)
    assert {dataset: len(samples) for dataset, samples in found.items()} == dict.fromkeys(found, 1)


def test_committed_releases_were_never_edited() -> None:
    """Each file has the hash that its release states, and the order of releases is that of their days."""
    found = read_releases(PLACE.releases)
    days = [release.record.date for release in found]
    assert days == sorted(days)
    assert all(release.numbers for release in found)
