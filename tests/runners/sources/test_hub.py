"""Every load runs in a process of its own: the Hub's client reads its environment when it is imported."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from robustboard.workspace import Workspace
from tests.runners.sources.lab import Lab, as_npz, encode

A, B, C = "a" * 40, "b" * 40, "c" * 40
FILE = "data/test-00000-of-00001.parquet"
Encode = Callable[..., bytes]

CLIENT = """
import json, sys
from pathlib import Path
from robustboard.errors import CellError
from robustboard.registry.entries import DatasetEntry, InputSpec, LockedEntry
from robustboard.registry.labels import LabelSpace
from robustboard.runners.samples import load_samples
from robustboard.workspace import Workspace
spec = InputSpec.model_validate({"size": 8, "normalization": "inside"})
for given in json.load(sys.stdin):
    entry = DatasetEntry.model_validate_json(json.dumps(given["entry"]))
    space = LabelSpace.model_validate_json(json.dumps(given["space"]))
    lock = {key: LockedEntry.model_validate_json(json.dumps(value)) for key, value in given["lock"].items()}
    workspace = Workspace(Path(given["folder"]), Path(given["folder"]))
    try:
        found = load_samples(entry, space, workspace=workspace, lock=lock, input=spec)
        pixels = found.pixels(range(len(found.ids))).round(6).tolist()
        print(json.dumps({
            "labels": found.labels.tolist(), "fingerprint": found.fingerprint, "facts": found.facts,
            "pixels": pixels,
        }))
    except CellError as error:
        print(json.dumps({"kind": error.kind, "reason": error.reason}))
"""


def rows(seed: int, count: int = 4) -> list[bytes]:
    """PNG files of random colours."""
    return [
        encode(image) for image in np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), np.uint8)
    ]


def pixels(files: list[bytes]) -> Any:
    arrays = [np.asarray(Image.open(io.BytesIO(data))).transpose(2, 0, 1) for data in files]
    return (np.stack(arrays).astype(np.float32) / 255).round(6)


@dataclass(frozen=True)
class Hub:
    root: Path
    folder: Path
    address: str

    def put(self, commit: str, files: list[bytes], labels: list[int], *, name: str = "org/tiny") -> bytes:
        """Write one commit of a dataset whose classes are dog, cat, in this order."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = {"names": ["dog", "cat"], "_type": "ClassLabel"}
        features = {"image": {"_type": "Image"}, "label": names}
        table = pa.table({"image": [{"bytes": data, "path": None} for data in files], "label": labels})
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        path = self.root / "datasets" / name / commit / FILE
        path.parent.mkdir(parents=True)
        pq.write_table(table.replace_schema_metadata(metadata), path)
        return path.read_bytes()

    def line(self, commit: str) -> dict[str, Any]:
        """The lock of the tiny set at a commit; of made-up bytes where the commit was never put."""
        path = self.root / "datasets" / "org" / "tiny" / commit / FILE
        data = path.read_bytes() if path.exists() else b"made up"
        file = {"path": FILE, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        return {"dataset/tiny": {"commit": commit, "files": [file]}}

    def case(self, revision: str = A, *, lock: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """What the client is given for one load; locked as it lies here unless `lock` says otherwise."""
        lock = self.line(revision) if lock is None else lock
        source = {"kind": "hub", "repo": "org/tiny", "revision": revision, "split": "test"}
        source |= {"image_column": "image", "label_column": "label", **fields.pop("source", {})}
        entry = {
            "id": "tiny",
            "name": "Tiny",
            "source": source,
            "label_space": "animals",
            "size": 4,
            "native_size": 8,
            "license": "MIT",
            "display_allowed": True,
            "citation": "made up",
            "added": "2026-01-01",
            **fields,
        }
        classes = {"cat": "Cat", "dog": "Dog"}
        space = {"id": "animals", "name": "Animals", "source": "made up", "classes": classes}
        return {"entry": entry, "space": space, "lock": lock, "folder": str(self.folder)}

    def load(
        self, *cases: dict[str, Any], online: bool = True, environment: dict[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Load one case after another in one new process."""
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        run = subprocess.run(
            [sys.executable, "-W", "error::DeprecationWarning:robustboard", "-c", CLIENT],
            input=json.dumps(cases),
            env={
                **kept,
                "HF_HOME": str(self.folder / "home"),
                "HF_ENDPOINT": self.address if online else "http://127.0.0.1:9",
                **(environment or {}),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert run.returncode == 0, run.stderr
        assert run.stderr == ""
        return [json.loads(line) for line in run.stdout.splitlines()]

    def requests(self) -> list[str]:
        return (self.root / "requests.log").read_text().splitlines()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    root = tmp_path / "hub"
    root.mkdir()
    server = Path(__file__).with_name("hub_server.py")
    with subprocess.Popen(
        [sys.executable, str(server), str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Hub(root, tmp_path, process.stdout.readline().strip())
        process.stdin.close()


def test_a_commit_is_read_and_stays_readable_without_network(hub: Hub) -> None:
    """B023: images by pixels, labels by name; another commit in the cache is never taken for this one."""
    first, second = rows(1), rows(2)
    hub.put(A, first, [0, 1, 1, 0])
    hub.put(B, second, [1, 1, 1, 1])
    found, later = hub.load(hub.case(A), hub.case(B), environment={"HF_TOKEN": "hf_canary"})

    lab = Lab(Workspace(hub.folder, hub.folder))
    arrays = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in first])
    archive = lab.entry(as_npz(hub.folder, arrays, [1, 0, 0, 1]), 4, native_size=8)

    assert found["labels"] == [1, 0, 0, 1]
    assert np.array_equal(np.asarray(found["pixels"], np.float32), pixels(first))
    assert found["fingerprint"] == lab.load(archive).fingerprint
    assert A in found["facts"]["source"]
    assert hub.address in found["facts"]["source"]
    assert [line for line in hub.requests() if line.endswith(" token")] == [], "no token on a public read"
    assert later["labels"] == [0, 0, 0, 0]
    assert later["fingerprint"] != found["fingerprint"]

    asked = len(hub.requests())
    again, absent = hub.load(hub.case(A), hub.case(C), online=False)
    assert again["fingerprint"] == found["fingerprint"]
    assert absent["kind"] == "unavailable"
    assert "org/tiny is not in the cache, and the Hub at http://127.0.0.1:9 is" in absent["reason"]
    assert "\n" not in absent["reason"]
    assert len(hub.requests()) == asked


def test_what_another_program_cached_is_used_if_it_is_the_commit(hub: Hub) -> None:
    """B004 (d): cached by the Hub's client itself, then read without network; config not given."""
    hub.put(A, rows(1), [0, 1, 1, 0])
    home = {"HF_HOME": str(hub.folder / "home"), "HF_ENDPOINT": hub.address, "PATH": os.environ["PATH"]}
    code = (
        "import huggingface_hub as client;"
        f" client.snapshot_download('org/tiny', repo_type='dataset', revision={A!r})"
    )
    subprocess.run([sys.executable, "-c", code], env=home, check=True, capture_output=True)
    other = hub.case(B, lock={})
    other["entry"]["mirrors"] = [other["entry"]["source"]]
    other["entry"]["source"] = {"kind": "npz", "file": {"path": "absent.npz", "sha256": "0" * 64}}
    found, mirrored = hub.load(hub.case(A), other, online=False)

    assert found["labels"] == [1, 0, 0, 1]
    assert mirrored["kind"] == "missing", "the library `datasets` would have handed over commit A"
    assert "mirror 1: org/tiny is not in the cache" in mirrored["reason"]


@pytest.mark.parametrize("line", [None, {"commit": A}], ids=["no line", "a line without files"])
def test_bytes_that_nobody_hashed_are_not_fetched(hub: Hub, line: dict[str, Any] | None) -> None:
    """A commit alone does not say which bytes it means: nothing is asked of the Hub before the lock."""
    hub.put(A, rows(1), [0, 1, 1, 0])
    (refused,) = hub.load(hub.case(A, lock={"dataset/tiny": line} if line else {}))

    assert refused["kind"] == "unlocked"
    assert "run `robustboard lock dataset/tiny` on a machine with network" in refused["reason"]
    assert not (hub.root / "requests.log").exists() or hub.requests() == []


def test_an_unresolved_revision_asks_for_the_lock_and_then_follows_it(hub: Hub) -> None:
    hub.put(A, rows(1), [0, 1, 1, 0])
    refused, follows, contradicts = hub.load(
        hub.case("unresolved", lock={}),
        hub.case("unresolved", lock=hub.line(A)),
        hub.case(A, lock=hub.line(B)),
    )

    assert refused["kind"] == "unlocked"
    assert "run `robustboard lock dataset/tiny` on a machine with network" in refused["reason"]
    assert follows["labels"] == [1, 0, 0, 1]
    assert contradicts["kind"] == "unlocked"


def test_pinned_files_are_hashed_before_they_are_read(hub: Hub) -> None:
    """Right pins load; a byte changed in the cache, or another hash in the lock, is refused."""
    data = hub.put(A, rows(1), [0, 1, 1, 0])
    right = {"path": FILE, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    lock = {"dataset/tiny": {"commit": A, "files": [right]}}
    wrong = {"dataset/tiny": {"commit": A, "files": [right | {"sha256": "0" * 64}]}}
    refused, accepted = hub.load(hub.case(lock=wrong), hub.case(lock=lock))

    assert accepted["labels"] == [1, 0, 0, 1]
    assert refused["kind"] == "hash-mismatch"

    (cached,) = (hub.folder / "home" / "hub").rglob("snapshots/*/data/*.parquet")
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    cached.resolve().write_bytes(damaged)
    (healed,) = hub.load(hub.case(lock=lock))
    assert healed["fingerprint"] == accepted["fingerprint"]
    aside: list[bytes] = [
        path.read_bytes() for path in (hub.folder / "home" / "hub" / "robustboard-quarantine").iterdir()
    ]
    assert sorted(aside) == sorted([data, data, bytes(damaged)]), (
        "twice for the wrong lock, once for the damage"
    )

    cached.resolve().write_bytes(damaged)
    (refused,) = hub.load(hub.case(lock=lock), online=False)
    assert refused["kind"] == "unavailable", "what is damaged is never used"


def test_a_gated_set_says_how_to_get_in_and_takes_a_token(hub: Hub) -> None:
    hub.put(A, rows(1), [0, 1, 1, 0])
    (hub.root / "datasets" / "org" / "tiny" / "gated").touch()
    (refused,) = hub.load(hub.case(gated=True), environment={"HF_TOKEN": "hf_canary"})

    assert refused["kind"] == "gated"
    assert f"accept its terms at {hub.address}/datasets/org/tiny, then log in" in refused["reason"]
    assert any(line.endswith(" token") for line in hub.requests())


def test_wrong_names_are_refused_in_one_line(hub: Hub) -> None:
    """B004: no traceback, the bad value is named."""
    hub.put(A, rows(1), [0, 1, 1, 0])
    cases = [
        ({"repo": "org/tinny"}, "missing", "org/tinny"),
        ({"image_column": "img"}, "decode", "expected a column img, got image, label"),
        ({"label_column": "labels"}, "labels", "did you mean label?"),
    ]
    answers = hub.load(*(hub.case(source=source) for source, _, _ in cases))

    for refused, (_, kind, said) in zip(answers, cases, strict=True):
        assert refused["kind"] == kind, refused
        assert said in refused["reason"]
        assert "\n" not in refused["reason"]


def test_a_damaged_image_of_the_hub_is_named(hub: Hub) -> None:
    """B008: the library does not decode for us, so the row is known."""
    files = rows(1)
    files[2] = files[2][: len(files[2]) // 2]
    hub.put(A, files, [0, 1, 1, 0])
    (refused,) = hub.load(hub.case())

    assert refused["kind"] == "decode"
    assert "row 2: damaged image" in refused["reason"]


def test_code_from_the_hub_never_runs(hub: Hub) -> None:
    """A repository with a loading script under its own name."""
    hub.put(A, rows(1), [0, 1, 1, 0])
    canary = hub.folder / "canary"
    script = hub.root / "datasets" / "org" / "tiny" / A / "tiny.py"
    script.write_text(f"open({str(canary)!r}, 'w')\n")
    (found,) = hub.load(hub.case())

    assert not canary.exists()
    assert found["labels"] == [1, 0, 0, 1], "the locked Parquet file is what counts"
    assert not [line for line in hub.requests() if line.endswith("tiny.py")]


def test_another_count_of_rows_is_refused(hub: Hub) -> None:
    hub.put(A, rows(1, 3), [0, 1, 1])
    (refused,) = hub.load(hub.case())

    assert refused["kind"] == "missing"
    assert "expected 4 images as the entry's size says, got 3" in refused["reason"]
