"""B2: sixty scripted faults of the Hub: no wrong byte used, no traceback, at most seven requests a file."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.battery.local_hub import A, Asker, B, LocalHub, fresh, locked

WEIGHTS = random.Random(0).randbytes(200_000)
TABLE = random.Random(1).randbytes(150_000)
TARGETS = {
    "weights": ("models", "org/net", "model.safetensors", WEIGHTS),
    "table": ("datasets", "org/set", "data/test-00000-of-00001.parquet", TABLE),
}
HTML = "<!DOCTYPE html><html><body>Are you sure that you want to download this file?</body></html>"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 200000\n"
GOOD = "good"


def status(code: int, method: str = "HEAD", **rule: Any) -> dict[str, Any]:
    return {"method": method, "do": "status", "status": code, **rule}


SCRIPTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "429 once": ([status(429, times=1, headers={"Retry-After": "1"})], GOOD),
    "429 thrice on the body": ([status(429, "GET", times=3)], GOOD),
    "429 for ever": ([status(429, "(GET|HEAD)")], "unavailable"),
    "429 for a day": ([status(429, "(GET|HEAD)", headers={"Retry-After": "86400"})], "unavailable"),
    "500 once": ([status(500, times=1)], GOOD),
    "503 thrice": ([status(503, times=3)], GOOD),
    "502 for ever": ([status(502)], "unavailable"),
    "500 on the body": ([status(500, "GET")], "unavailable"),
    "504 on the body": ([status(504, "GET", body="<html>gateway</html>")], "unavailable"),
    "hang once": ([{"method": "HEAD", "do": "hang", "seconds": 3, "times": 1}], GOOD),
    "hang on the body": ([{"method": "GET", "do": "hang", "seconds": 3, "times": 1}], GOOD),
    "hang for ever": ([{"method": "(GET|HEAD)", "do": "hang", "seconds": 3}], "unavailable"),
    "cut once": ([{"method": "GET", "do": "cut", "bytes": 0.5, "times": 1}], GOOD),
    "cut thrice": ([{"method": "GET", "do": "cut", "bytes": 0.5, "times": 3}], GOOD),
    "cut at once, for ever": ([{"method": "GET", "do": "cut", "bytes": 0}], "unavailable"),
    "cut, then the whole again": (
        [
            {"method": "GET", "do": "cut", "bytes": 0.5, "times": 1},
            {"method": "GET", "do": "whole", "skip": 0},
        ],
        GOOD,
    ),
    "one bit once": ([{"method": "GET", "do": "flip", "at": 0.3, "times": 1}], GOOD),
    "one bit always": ([{"method": "GET", "do": "flip", "at": 0.9}], "hash-mismatch"),
    "a web page": ([{"method": "(GET|HEAD)", "do": "body", "body": HTML}], "hash-mismatch"),
    "a pointer": ([{"method": "(GET|HEAD)", "do": "body", "body": POINTER}], "hash-mismatch"),
    "nothing at all": ([{"method": "(GET|HEAD)", "do": "body", "body": ""}], "hash-mismatch"),
    "half a file": ([{"method": "(GET|HEAD)", "do": "short", "bytes": 0.5}], "hash-mismatch"),
    "half a file once": ([{"method": "(GET|HEAD)", "do": "short", "bytes": 0.5, "times": 2}], GOOD),
    "another commit": (
        [{"method": "(GET|HEAD)", "do": "headers", "headers": {"X-Repo-Commit": B}}],
        "hash-mismatch",
    ),
    "no commit": (
        [{"method": "(GET|HEAD)", "do": "headers", "headers": {"X-Repo-Commit": None}}],
        "unavailable",
    ),
    "a hostile tag": (
        [{"method": "(GET|HEAD)", "do": "headers", "headers": {"ETag": '"../../../../../escaped"'}}],
        "hash-mismatch",
    ),
    "gated": (
        [status(403, "(GET|HEAD)", headers={"X-Error-Code": "GatedRepo", "X-Repo-Commit": A})],
        "gated",
    ),
    "gone": ([status(401, "(GET|HEAD)", headers={"X-Error-Code": "RepoNotFound"})], "missing"),
    "no such file": (
        [status(404, "(GET|HEAD)", headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": A})],
        "missing",
    ),
    "no such commit": ([status(404, "(GET|HEAD)", headers={"X-Error-Code": "RevisionNotFound"})], "missing"),
}
RESUMED = ("cut once", "cut thrice")
CASES = [(script, target) for script in SCRIPTS for target in TARGETS]
assert len(CASES) == 60


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    for kind, repo, name, data in TARGETS.values():
        found.plant({name: data}, repo, kind)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asker(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    found = Asker(hub, tmp_path_factory.mktemp("asker") / "home")
    found.value("patient", 1.5, 16_384)
    yield found
    found.stop()


def play(hub: LocalHub, asker: Asker, script: str, target: str, folder: Path, *, how: str = "fetch") -> Any:
    """The answer to one request for a file under a script."""
    kind, repo, name, data = TARGETS[target]
    prefix = "/datasets/" if kind == "datasets" else "/"
    match = rf" {prefix}{repo}/resolve/.*"
    rules = [{**rule, "match": rule["method"] + match} for rule in SCRIPTS[script][0]]
    hub.script(*rules)
    hub.forget()
    asker.value("cache", str(fresh(folder / "cache")))
    try:
        return asker.ask(how, repo, kind.removesuffix("s"), A, [locked(name, data)])
    finally:
        hub.script()


def check(hub: LocalHub, asker: Asker, script: str, target: str, folder: Path) -> None:
    """One script: the right bytes or a refusal of the right kind, and what it cost."""
    _, _, name, data = TARGETS[target]
    before = asker.errors.read_text()
    answer = play(hub, asker, script, target, folder)
    expected = SCRIPTS[script][1]
    if expected == GOOD:
        assert Path(answer["value"][name]).read_bytes() == data, answer
    else:
        assert answer.get("kind") == expected, answer
        assert "\n" not in answer["text"]
        assert len(answer["text"]) < 500
    asked = [line for line in hub.requests() if "/resolve/" in line]
    assert len(asked) <= 7, asked
    assert not [line for line in hub.requests() if "token" in line]
    told = asker.errors.read_text().removeprefix(before)
    assert "Traceback" not in told, told
    for path in (folder / "cache").glob("*--*/snapshots/*/**/*"):
        if path.is_file():
            assert path.read_bytes() == data, "only good bytes bear the name of the file"
    assert [path.name for path in folder.iterdir()] == ["cache"], "nothing beside the cache"
    if script in RESUMED:
        bodies = hub.sent()
        assert sum(int(size) for _, _, size, _ in bodies) < 1.5 * len(data), bodies
        assert any(part.startswith("bytes=") for _, _, _, part in bodies)


@pytest.mark.parametrize(("script", "target"), CASES)
def test_a_fault_ends_in_the_right_bytes_or_in_one_line(
    script: str, target: str, hub: LocalHub, asker: Asker, tmp_path: Path
) -> None:
    check(hub, asker, script, target, tmp_path)


def test_control_the_client_alone_uses_wrong_bytes(hub: LocalHub, asker: Asker, tmp_path: Path) -> None:
    """Without the lock at least six scripts end in other bytes, and one in a file outside the cache."""
    wrong = []
    for script in (
        "one bit once",
        "one bit always",
        "a web page",
        "a pointer",
        "half a file",
        "another commit",
    ):
        answer = play(hub, asker, script, "weights", tmp_path / script, how="naive_fetch")
        path = Path(answer["value"]["model.safetensors"])
        if hashlib.sha256(path.read_bytes()).hexdigest() != locked("", WEIGHTS)["sha256"] or B in path.parts:
            wrong.append(script)
    play(hub, asker, "a hostile tag", "weights", tmp_path / "deep" / "down" / "here", how="naive_fetch")
    assert len(wrong) == 6, wrong
    assert list(tmp_path.rglob("escaped")), "the client writes where the server's ETag leads"
