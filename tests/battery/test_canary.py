"""F1: a token in the environment, all that can go wrong, and not one byte of it anywhere afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.battery.local_hub import CANARY, Asker, LocalHub
from tests.battery.workspace import CLOSED, OUT, furnish

SET = "moved-digits@1.0.0"
PUBLISH = ("testset", "publish", SET, "--repo", OUT, "--yes")
CLOSED_RUN = ("run", "-m", "hub-net", "-b", "clean-v1", "-d", "closed-set", "--quiet")
LOCK = ("lock", "dataset/closed-set")
PLACES = {
    "create": "POST /api/repos/create",
    "refs": f"GET /api/datasets/{OUT}/refs",
    "preupload": f"POST /api/datasets/{OUT}/preupload/.*",
    "large files": f"POST /datasets/{OUT}.git/info/lfs/objects/batch",
    "upload": "PUT /blobs/.*",
    "commit": f"POST /api/datasets/{OUT}/commit/.*",
    "tag": f"POST /api/datasets/{OUT}/tag/.*",
}
"""Where a publication can be refused; each time the server repeats the token in its answer."""
STATUSES = (400, 401, 403, 500)
FAILURES: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    *(
        (PUBLISH, {"match": place, "do": "echo", "status": status})
        for place in PLACES.values()
        for status in STATUSES
    ),
    *(
        (LOCK, {"match": f".* /api/datasets/{CLOSED}.*", "do": "echo", "status": status})
        for status in STATUSES
    ),
    *(
        (CLOSED_RUN, {"match": f".* /datasets/{CLOSED}/resolve/.*", "do": "echo", "status": status})
        for status in STATUSES
    ),
]
assert len(FAILURES) >= 30


def found_in(*places: Path) -> list[str]:
    """Files whose bytes or names hold the token."""
    token = CANARY.encode()
    return [
        path.as_posix()
        for place in places
        for path in sorted(place.rglob("*"))
        if token in path.as_posix().encode() or (path.is_file() and token in path.read_bytes())
    ]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    found = LocalHub(tmp_path_factory.mktemp("hub") / "root")
    (found.root / "writable").touch()
    yield found
    found.stop()


def fail_everywhere(hub: LocalHub, asker: Asker, root: Path) -> tuple[str, int]:
    """Everything that is said over all failures, and how many commands failed; half of them with --debug."""
    told, failed = "", 0
    asker.value("patient", 1.5, 16_384)
    for number, (words, rule) in enumerate(FAILURES):
        shutil.rmtree(hub.root / "datasets" / OUT, ignore_errors=True)
        shutil.rmtree(hub.root / "blobs", ignore_errors=True)
        hub.script(rule)
        debug = ["--debug"] if number % 2 else []
        answer = asker.ask("command", [*debug, "--workspace", str(root), *words])
        code, out, errors = answer.get("value", [1, "", answer.get("text", "")])
        told += out + errors
        failed += code != 0 or "withheld" in errors
    hub.script()
    return told, failed


@pytest.mark.long
def test_after_thirty_failures_the_token_is_nowhere(
    hub: LocalHub, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Store, results, site, caches, logs and output; the control without redaction shows it many times."""
    words: tuple[str, ...]
    asker = Asker(hub, tmp_path / "home")
    root = tmp_path / "place"
    furnish(root, hub, asker)
    for words in (
        ("lock",),
        ("run", "-m", "hub-net", "-b", "clean-v1", "--quiet"),
        ("testset", "build", SET, "--quiet"),
    ):
        asker.value("command", ["--workspace", str(root), *words])
    told, failed = fail_everywhere(hub, asker, root)
    for words in (
        ("board",),
        ("site",),
        ("verify",),
        ("score",),
        ("check",),
        PUBLISH,
        ("plan", "-m", "hub-net"),
    ):
        _, out, errors = asker.value("command", ["--workspace", str(root), *words])
        told += out + errors
    asker.stop()

    assert failed >= 30
    assert CANARY not in told
    assert found_in(root, tmp_path / "home") == []
    assert CANARY not in asker.errors.read_text()
    assert [line for line in hub.requests() if line.endswith(" token")], "it was sent where it had to be"
    careless = Asker(hub, tmp_path_factory.mktemp("careless") / "home")
    careless.value("careless")
    told, _ = fail_everywhere(hub, careless, root)
    careless.stop()
    assert told.count(CANARY) >= 10, "the control"
