"""Workflows hold to their own rules: pinned actions, no rights by default, secrets apart from code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / ".github" / "workflows"
WORKFLOWS = sorted(path.name for path in FOLDER.glob("*.yml"))


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((FOLDER / name).read_text(), Loader=yaml.BaseLoader)
    return found


def jobs(name: str) -> list[dict[str, Any]]:
    return list(read(name)["jobs"].values())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_by_commit_and_says_its_version(name: str) -> None:
    lines = [line.strip() for line in (FOLDER / name).read_text().splitlines() if "uses:" in line]
    for line in lines:
        assert re.fullmatch(r"(?:- )?uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("name", WORKFLOWS)
def test_rights_are_given_job_by_job_and_every_job_ends(name: str) -> None:
    assert read(name)["permissions"] in ({}, "{}")
    assert "pull_request_target" not in read(name)["on"]
    for job in jobs(name):
        assert job["timeout-minutes"]
        assert "permissions" in job


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_job_holds_both_code_of_the_repository_and_a_right_or_a_secret(name: str) -> None:
    for job in jobs(name):
        text = yaml.safe_dump(job)
        powers = "secrets." in text or "write" in yaml.safe_dump(job["permissions"])
        assert not (powers and "actions/checkout" in text)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_text_from_outside_never_stands_in_a_script(name: str) -> None:
    """Titles and branch names reach scripts through the environment alone."""
    for job in jobs(name):
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if "actions/checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] == "false"


def test_the_pages_come_from_the_main_branch_alone() -> None:
    assert read("pages.yml")["on"]["push"]["branches"] == ["main"]
    assert "pull_request" not in read("pages.yml")["on"]
