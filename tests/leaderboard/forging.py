"""Forged and malformed results of a real run on digits: each a change of the working tree with a name."""

from __future__ import annotations

import base64
import copy
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from robustboard import jsons
from robustboard.benchmarks.metrics import wilson
from robustboard.leaderboard.submitted import Submission
from robustboard.runners.predictions import PredictionTable
from robustboard.runners.record import RunKey
from robustboard.runners.store import Store, encode
from robustboard.workspace import Workspace
from tests.runners.readers import run
from tests.runners.small import CLEAN, NOISE, PGD, Place, plant_digits

Values = dict[str, Any]
Edit = Callable[[], object]


def resealed(values: Values) -> bytes:
    """A result file of these values, with the right hash."""
    kept = {name: value for name, value in values.items() if name != jsons.SEAL}
    return jsons.canonical({**kept, jsons.SEAL: jsons.digest("robustboard.seal/1", kept)})


@dataclass
class Ground:
    """Honest results with their predictions, and a way back to them."""

    place: Place

    def __post_init__(self) -> None:
        self.kept = {path: path.read_bytes() for path in self.files()}
        self.before, self.bits = (
            {p.relative_to(root).as_posix(): d for p, d in self.kept.items() if p.is_relative_to(root)}
            for root in (self.results, self.workspace.committed_outcomes)
        )

    @property
    def workspace(self) -> Workspace:
        return self.place.workspace

    @property
    def results(self) -> Path:
        return self.workspace.committed_results

    def files(self) -> list[Path]:
        roots = (self.results, self.workspace.committed_outcomes, self.workspace.runs)
        return [
            p for root in roots for p in sorted(root.rglob("*")) if p.is_file() and "weights" not in p.parts
        ]

    def faults(self, *, everything: bool = False) -> list[str]:
        """What the check says of the working tree."""
        store = Store(self.workspace.runs)
        before = (None, None) if everything else (self.before, self.bits)
        place = self.place
        return Submission(self.workspace, place.catalog, place.benchmarks, (store,), *before).check()

    def restore(self) -> None:
        """Put every file back as it was."""
        roots = (self.results, self.workspace.committed_outcomes)
        for path in [path for root in roots for path in root.rglob("*")]:
            if (path.is_symlink() or path.is_file()) and path not in self.kept:
                path.unlink()
        for path, data in self.kept.items():
            if path.is_symlink() or not path.exists() or path.read_bytes() != data:
                path.unlink(missing_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def path(self, name: str) -> Path:
        return self.results / f"{name}.json"

    def values(self, name: str) -> Values:
        found: Values = json.loads(self.kept[self.path(name)])
        return found


def ground(root: Path) -> Ground:
    """Clean, noisy and attacked runs of one model, and a clean one of another."""
    place = Place(plant_digits(root))
    second = place.catalog.models["tiny"].source.model_copy(update={"seed": 2})
    place.model("other", source=second)
    assert run(place, CLEAN, NOISE, PGD, CLEAN._replace(model="other")).exit_code == 0
    return Ground(place)


NAMES = tuple(f"tiny/{name}--digits" for name in ("clean-v1", "noise-v1", "pgd-v1"))


def forgeries(field: Ground) -> Iterator[tuple[str, Edit]]:
    """Every forgery by name; each leaves the tree spoilt in one way."""
    for name in NAMES:
        for what, edit in _edits(field.values(name)):
            yield f"{name} {what}", partial(field.path(name).write_bytes, resealed(edit))
    for what, data in _raw(field.kept[field.path(NAMES[0])]):
        yield f"{NAMES[0]} {what}", partial(field.path(NAMES[0]).write_bytes, data)
    yield from _files(field)


def _edits(values: Values) -> Iterator[tuple[str, Values]]:
    """Edits with a right hash, the work of somebody who knows the program."""
    yield from _score_edits(values)
    yield from _key_edits(values)
    flag = {"name": "few-classes", "condition": None, "value": 1.0, "limit": 0.0, "reason": "x"}
    for name, value in (
        ("images", 99),
        ("images", 101),
        ("evaluated", 99),
        ("evaluated", True),
        ("skipped", 1),
        ("skipped", -1),
        ("headline", "balanced_accuracy@clean"),
        ("headline", "clean_accuracy@clean "),
        ("status", "reported"),
        ("format", "robustboard.result/2"),
        ("scores", []),
        ("shards", []),
        ("flags", [{}]),
        ("flags", [flag]),
        ("extra", 1),
        ("key_digest", "0" * 64),
        ("key_digest", None),
        ("facts", {}),
    ):
        if values.get(name) != value:
            yield f"{name}={value!r}", {**values, name: value}
    for name, fact in (
        ("seconds", -1.0),
        ("seconds", "fast"),
        ("parameters", 1),
        ("device", "quantum"),
        ("finished_at", "2099-01-01T00:00:00Z"),
        ("batch_size", True),
        ("macs", 1),
    ):
        yield f"facts.{name}={fact!r}", {**values, "facts": {**values["facts"], name: fact}}
    for name, value in (("rows", 1), ("sha256", "0" * 64), ("name", "s00009.parquet"), ("rows", True)):
        shards = copy.deepcopy(values["shards"])
        shards[0][name] = value
        yield f"shards.0.{name}={value!r}", {**values, "shards": shards}
    yield "a shard less", {**values, "shards": values["shards"][:-1]}
    yield "a shard twice", {**values, "shards": [*values["shards"], values["shards"][0]]}
    yield "shards in other order", {**values, "shards": values["shards"][::-1]}
    missing = dict(values)
    del missing["headline"]
    yield "no headline", missing


def _score_edits(values: Values) -> Iterator[tuple[str, Values]]:
    scores = values["scores"]
    for place, score in enumerate(scores):
        if score["correct"] is None or score["value"] is None:
            continue
        step = 1 if score["correct"] < score["n"] else -1
        correct = score["correct"] + step
        low, high = wilson(correct, score["n"])
        more = {"correct": correct, "value": correct / score["n"], "low": low, "high": high}
        yield f"scores.{place}.correct", _with(values, place, more)
    first = scores[0]
    changes: dict[str, Values] = {
        "value above 1": {"value": 1.5, "correct": None, "high": 1.6},
        "value as text": {"value": "0.9"},
        "count as truth": {"correct": True, "n": True},
        "count as real number": {"correct": float(first["correct"])},
        "more right than images": {"correct": first["n"] + 1},
        "negative count": {"correct": -1},
        "wider interval": {"low": 0.0},
        "interval beside the value": {"low": first["value"], "high": 1.0},
        "value without count": {"correct": None, "value": 0.999, "high": 1.0},
        "another metric": {"metric": "robust_accuracy"},
        "another condition": {"condition": "linf 8/255"},
        "lower is better": {"direction": "lower"},
        "undefined": {
            "status": "undefined",
            "value": None,
            "low": None,
            "high": None,
            "correct": None,
            "reason": "it was bad",
        },
        "undefined without reason": {"status": "undefined", "value": None},
        "more images": {"n": first["n"] * 2, "correct": first["correct"] * 2},
    }
    for name, change in changes.items():  # fmt: skip
        yield name, _with(values, 0, change)
    yield "a score less", {**values, "scores": scores[:-1]}
    yield "a score twice", {**values, "scores": [*scores, scores[0]]}
    yield "scores in other order", {**values, "scores": scores[::-1]}


def _with(values: Values, place: int, change: Values) -> Values:
    scores = copy.deepcopy(values["scores"])
    scores[place].update(change)
    return {**values, "scores": scores}


def _key_edits(values: Values) -> Iterator[tuple[str, Values]]:
    changes: Values = {
        "code": 1,
        "model": "other",
        "dataset": "digits-train",
        "benchmark": "pgd-v2",
        "seed": 7,
        "precision": "bfloat16",
        "shard_size": 10,
        "subset": {"count": 5, "seed": 0},
        "software": {"torch": "9.9"},
        "parts": {"x": "y"},
        "format": "robustboard.run/2",
    }
    for name in ("model_digest", "weights_sha256", "dataset_digest", "data_fingerprint", "labels_digest"):
        changes[name] = "a" * 64
    changes["protocol_digest"] = "f" * 64
    for name, value in changes.items():
        key = {**values["key"], name: value}
        yield f"key.{name}", {**values, "key": key}
        if name != "format":
            digest = RunKey.model_validate_json(json.dumps(key)).digest
            yield f"key.{name} and its digest", {**values, "key": key, "key_digest": digest}


def _raw(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Bytes that no sealed file has."""
    text = data.decode()
    value = f'"value": {json.loads(text)["scores"][0]["value"]!r}'
    assert value in text
    for what, other in {
        "NaN": "NaN",
        "infinite": "Infinity",
        "overflowing": "1e999",
        "nothing": "null",
    }.items():
        yield what, text.replace(value, f'"value": {other}', 1).encode()
    yield "key twice", text.replace('"skipped": 0', '"skipped": 0,\n  "skipped": 0', 1).encode()
    yield "trailing text", data + b"{}\n"
    yield "no last line feed", data.rstrip()
    yield "carriage returns", data.replace(b"\n", b"\r\n")
    yield "byte order mark", b"\xef\xbb\xbf" + data
    yield "UTF-16", text.encode("utf-16")
    yield "empty", b""
    yield "a list", b"[]\n"
    yield "null", b"null\n"
    yield "deep nesting", b"[" * 100_000
    yield "compact", json.dumps(json.loads(text), sort_keys=True).encode()
    for place in np.random.default_rng(0).integers(0, len(data), 20).tolist():
        yield f"byte {place}", data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def _files(field: Ground) -> Iterator[tuple[str, Edit]]:
    """Files taken away, moved, doubled, linked, and predictions that are not those of the result."""
    clean, noise = field.path(NAMES[0]), field.path(NAMES[1])
    for name in NAMES:
        yield f"{name} removed", field.path(name).unlink
    yield "moved to another cell", lambda: noise.write_bytes(clean.read_bytes())
    yield "moved to another model", lambda: _copy(clean, field.path("else/clean-v1--digits"))
    yield "other model's file", lambda: clean.write_bytes(field.path("other/clean-v1--digits").read_bytes())
    yield "other model's predictions", lambda: clean.write_bytes(_claimed(field, "shards"))
    yield "other model's run", lambda: clean.write_bytes(_claimed(field, "shards", "scores", "key_digest"))
    yield "a link", lambda: _link(clean, noise)
    yield "case twin", lambda: _copy(clean, field.path("tiny/Clean-v1--digits"))
    yield "deeper", lambda: _copy(clean, field.path("tiny/more/clean-v1--digits"))
    yield "not a result", lambda: (clean.parent / "notes.txt").write_text("trust me")
    bits = field.workspace.committed_outcomes / f"{NAMES[0]}.json"
    for what, change_bits in BITS.items():
        yield f"bits: {what}", partial(_spoil_bits, bits, change_bits)
    yield "bits: of another model", partial(_copy, bits.parents[1] / "other" / bits.name, bits)
    yield "bits: of nothing", partial(_copy, bits, bits.with_name("pgd-v9--digits.json"))
    for what, change in ROWS.items():
        yield f"predictions: {what}", partial(_rewrite, field, change)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def _claimed(field: Ground, *names: str) -> bytes:
    other = field.values("other/clean-v1--digits")
    return resealed({**field.values(NAMES[0]), **{name: other[name] for name in names}})


def _spoil_bits(path: Path, change: Callable[[Values], None]) -> None:
    values: Values = json.loads(path.read_bytes())
    change(values)
    path.write_bytes(resealed(values))


def _swap(values: Values) -> None:
    """As many right as before, but other images: a test by pairs would be moved."""
    flags = np.unpackbits(np.frombuffer(base64.b64decode(values["right"]["clean"]), np.uint8))
    wrong, right = int(np.flatnonzero(flags[: values["images"]] == 0)[0]), int(np.flatnonzero(flags)[0])
    flags[wrong], flags[right] = 1, 0
    values["right"]["clean"] = base64.b64encode(np.packbits(flags).tobytes()).decode("ascii")


BITS: dict[str, Callable[[Values], None]] = {
    "other images": _swap,
    "no condition": lambda values: values.update(right={}),
    "another run": lambda values: values.update(key_digest="0" * 64),
    "other samples": lambda values: values.update(samples="0" * 64),
}
Rows = dict[str, list[Any]]


def _duplicate(rows: Rows) -> None:
    rows["sample_id"][1] = rows["sample_id"][0]


def _unknown(rows: Rows) -> None:
    rows["sample_id"][0] = "99999"


def _less(rows: Rows) -> None:
    for values in rows.values():
        values.pop()


def _more(rows: Rows) -> None:
    for values in rows.values():
        values.append(values[-1])
    rows["sample_id"][-1] = "99999"


def _right(rows: Rows) -> None:
    wrong = next(i for i, label in enumerate(rows["label"]) if rows["predicted"][i] != label)
    rows["predicted"][wrong] = rows["label"][wrong]


def _labels(rows: Rows) -> None:
    rows["label"] = list(rows["predicted"])


def _order(rows: Rows) -> None:
    for values in rows.values():
        values.reverse()


def _skip(rows: Rows) -> None:
    rows["status"][0] = "skipped"


def _condition(rows: Rows) -> None:
    rows["condition"][0] = "cleaner"


ROWS: dict[str, Callable[[Rows], None]] = {
    "duplicate id": _duplicate, "unknown id": _unknown, "a row less": _less, "a row more": _more,
    "one made right": _right, "labels as predicted": _labels, "another order": _order, "one skipped": _skip,
    "another condition": _condition,
}  # fmt: skip


def _rewrite(field: Ground, change: Callable[[Rows], None]) -> None:
    """Change rows of the worst shard, and seal its report and the run's record again, not the result."""
    import hashlib

    digest = field.values(NAMES[0])["key_digest"]
    folder = Store(field.workspace.runs).folder(digest)
    for stem in sorted(path.stem for path in folder.glob("s0*.parquet")):
        store = Store(field.workspace.runs)
        _, table = store.read_shard(digest, int(stem[1:]))
        rows = table.table.to_pydict()
        if rows["label"] != rows["predicted"]:
            break
    change(rows)
    data = encode_any(pa.table(rows, schema=table.table.schema))
    (folder / f"{stem}.parquet").write_bytes(data)
    sha = hashlib.sha256(data).hexdigest()
    report = json.loads((folder / f"{stem}.json").read_text())
    report["shard"].update(sha256=sha, rows=len(rows["label"]))
    (folder / f"{stem}.json").write_bytes(resealed(report))
    record = json.loads((folder / "result.json").read_text())
    record["shards"][int(stem[1:])].update(sha256=sha, rows=len(rows["label"]))
    (folder / "result.json").write_bytes(resealed(record))


def encode_any(table: pa.Table) -> bytes:
    """Parquet bytes of rows that the store itself would refuse to write."""
    found = object.__new__(PredictionTable)
    object.__setattr__(found, "table", table)
    return encode(found)
