"""Faults of GitHub workflows that hand the repository to a stranger, found without any service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

PINNED = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+@[0-9a-f]{40}")
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


def faults(text: str) -> list[str]:
    """What is wrong with a workflow file, one line each."""
    document = yaml.safe_load(text)
    if not isinstance(document, dict):
        return ["expected a workflow"]
    # YAML 1.1 takes the word `on` for true.
    events = document.get("on", document.get(True))
    names = [events] if isinstance(events, str) else list(events or ())
    jobs = document.get("jobs") or {}
    return [*_events(names, jobs), *_permissions(document, names, jobs), *_steps(jobs)]


def _events(names: list[str], jobs: dict[str, Any]) -> Iterator[str]:
    if "pull_request_target" in names:
        yield "pull_request_target: it runs with secrets on what a stranger proposes"
    for name, job in jobs.items():
        for step in job.get("steps", ()):
            if "workflow_run" in names and str(step.get("uses", "")).startswith("actions/checkout"):
                yield f"{name}: a checkout in a workflow that runs after a stranger's"
        if "self-hosted" in str(job.get("runs-on")):
            yield f"{name}: runs-on: a machine of our own for a stranger's code"


def _permissions(document: dict[str, Any], names: list[str], jobs: dict[str, Any]) -> Iterator[str]:
    if document.get("permissions") != {}:
        yield "permissions: expected {} at the top, so that each job says what it needs"
    for name, job in jobs.items():
        granted = job.get("permissions")
        if not isinstance(granted, dict):
            yield f"{name}: permissions: expected a list of them, got {granted!r}"
            continue
        writes = [right for right, level in granted.items() if level not in {"read", "none"}]
        if writes and "pull_request" in names:
            yield f"{name}: permissions: {', '.join(writes)} may be written beside contributed code"
        if writes and _runs_contributed(job):
            yield f"{name}: permissions: {', '.join(writes)} may be written where a checkout or a build runs"
        if job.get("secrets") == "inherit" or ("pull_request" in names and "secrets." in yaml.safe_dump(job)):
            yield f"{name}: secrets beside contributed code"


def _runs_contributed(job: dict[str, Any]) -> bool:
    words = ("pip install", "make ", "npm ", "python ", "robustboard ", "bash ")
    return any(
        str(step.get("uses", "")).startswith("actions/checkout")
        or any(word in str(step.get("run", "")) for word in words)
        for step in job.get("steps", ())
    )


def _steps(jobs: dict[str, Any]) -> Iterator[str]:
    for name, job in jobs.items():
        if "timeout-minutes" not in job:
            yield f"{name}: timeout-minutes: expected a limit"
        for place, step in enumerate(job.get("steps", ())):
            where = f"{name}: step {place}"
            uses = step.get("uses")
            if uses is not None and not PINNED.fullmatch(str(uses)):
                yield f"{where}: uses: expected an action pinned by its commit, got {uses}"
            if (
                str(uses).startswith("actions/checkout")
                and (step.get("with") or {}).get("persist-credentials") is not False
            ):
                yield f"{where}: persist-credentials: expected false"
            if EXPRESSION.search(str(step.get("run", ""))):
                yield f"{where}: run: expected values in env, got an expression in the script"
            script = str((step.get("with") or {}).get("script", ""))
            if EXPRESSION.search(script):
                yield f"{where}: script: expected values in env, got an expression in the script"
