"""F4: every workflow file of the repository is safe, and the lint finds what is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.workflows.lint import faults

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
FILES = sorted(WORKFLOWS.glob("*.y*ml"))
PIN = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683"
GOOD = f"""\
on: pull_request
permissions: {{}}
jobs:
  test:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions:
      contents: read
    steps:
      - uses: {PIN}
        with:
          persist-credentials: false
      - env:
          TITLE: ${{{{ github.event.pull_request.title }}}}
        run: echo "$TITLE"
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_f4_every_workflow_of_the_repository_is_safe(path: Path) -> None:
    assert faults(path.read_text()) == []


def test_the_robot_is_among_them() -> None:
    assert {"comment.yml", "pull-request.yml", "test.yml"} <= {path.name for path in FILES}


def test_a_safe_workflow_has_no_faults() -> None:
    """The control of the control."""
    assert faults(GOOD) == []


SPOILT = {
    "target with checkout": (("on: pull_request", "on: pull_request_target"), "pull_request_target"),
    "target among others": (("on: pull_request", "on: [push, pull_request_target]"), "pull_request_target"),
    "target as mapping": (("on: pull_request", "on:\n  pull_request_target:"), "pull_request_target"),
    "write beside contributed code": (("contents: read", "contents: write"), "may be written beside"),
    "write to issues": (("contents: read", "issues: write"), "may be written beside"),
    "tokens for publishing": (("contents: read", "id-token: write"), "may be written beside"),
    "write all": (
        ("    permissions:\n      contents: read\n", "    permissions: write-all\n"),
        "expected a list",
    ),
    "no permissions in the job": (("    permissions:\n      contents: read\n", ""), "expected a list"),
    "no permissions at the top": (("permissions: {}\njobs", "jobs"), "expected {} at the top"),
    "action by tag": ((PIN, "actions/checkout@v4"), "pinned by its commit"),
    "action by branch": ((PIN, "someone/action@main"), "pinned by its commit"),
    "action by short hash": ((PIN, PIN[:30]), "pinned by its commit"),
    "action without version": ((PIN, "actions/checkout"), "pinned by its commit"),
    "image as action": ((PIN, "docker://evil/image:latest"), "pinned by its commit"),
    "credentials kept": (("false", "true"), "persist-credentials"),
    "expression in a script": (
        ('"$TITLE"', '"${{ github.event.pull_request.title }}"'),
        "expression in the script",
    ),
    "branch name in a script": (('"$TITLE"', '"${{ github.head_ref }}"'), "expression in the script"),
    "own machine": (("ubuntu-24.04", "[self-hosted, gpu]"), "a machine of our own"),
    "no time limit": (("    timeout-minutes: 5\n", ""), "timeout-minutes"),
    "secret": (("github.event.pull_request.title", "secrets.HF_TOKEN"), "secrets beside contributed code"),
}


@pytest.mark.parametrize("name", list(SPOILT))
def test_the_lint_finds_each_fault(name: str) -> None:
    (old, new), said = SPOILT[name]
    assert old in GOOD
    found = faults(GOOD.replace(old, new))
    assert any(said in fault for fault in found), found


def test_a_workflow_that_may_write_after_a_stranger_s_has_no_checkout_and_builds_nothing() -> None:
    text = GOOD.replace("on: pull_request", "on:\n  workflow_run:\n    workflows: [test]")
    assert any("a checkout in a workflow" in fault for fault in faults(text))
    built = text.replace("contents: read", "pull-requests: write")
    assert any("where a checkout or a build runs" in fault for fault in faults(built))


def test_the_robot_measures_sixty_four_images_and_its_commands_exist() -> None:
    """Every `robustboard COMMAND` of the workflows is one of the program's."""
    import re

    from robustboard import cli

    profile = yaml.safe_load((ROOT / "runners" / "pull-request.yaml").read_text())
    assert (profile["subset"]["count"], profile["device"]) == (64, "cpu")
    known = {command.name or command.callback.__name__.replace("_", "-").strip("-")
             for command in cli.app.registered_commands if command.callback}  # fmt: skip
    used = {
        match
        for path in FILES
        for match in re.findall(r"robustboard --workspace proposed ([a-z-]+)", path.read_text())
    }
    assert used == {"check", "compare-branch", "guard", "predictions", "run", "site"}
    assert used <= known | {group.name for group in cli.app.registered_groups}


def test_the_comment_makes_any_report_harmless(tmp_path: Path) -> None:
    """A stranger can write the report: it holds no tag and calls nobody, whatever it spells as an entity."""
    (steps,) = (
        job["steps"] for job in yaml.safe_load((WORKFLOWS / "comment.yml").read_text())["jobs"].values()
    )
    script = steps[-1]["run"]
    start, end = script.index("head -c 60000"), script.index("comment.md") + len("comment.md")
    (tmp_path / "report").mkdir()
    evil = "<img src=x> @all &#64;all &#x40;all &commat;all \x1b[31m &lt;b&gt; 1 & 2\n"
    (tmp_path / "report" / "report.md").write_text(evil)
    subprocess.run(["bash", "-ec", script[start:end]], cwd=tmp_path, check=True)
    text = (tmp_path / "comment.md").read_text()
    assert text == (
        "&lt;img src=x> @\u200ball &amp;#64;all &amp;#x40;all &amp;commat;all [31m &lt;b&gt; 1 & 2\n"
    )
