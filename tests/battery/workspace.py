"""A workspace whose model, datasets and test set come from the Hub on loopback and go out to it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.battery.local_hub import ROOT, A, Asker, LocalHub
from tests.runners.sources.lab import encode
from tests.runners.testsets.places import plant

HUB_MODEL = """\
name: Net from the Hub
source:
  kind: hub
  repo: {repo}
  revision: unresolved
loader: timm
architecture:
  name: resnet18
  arguments:
    layers: [1, 1, 1, 1]
    channels: [8, 8, 16, 16]
    stem_width: 8
label_space: digits
input:
  size: 16
  channels: 1
  normalization: outside
  mean: [0.306]
  std: [0.377]
training:
  datasets: [digits-train]
license: MIT
added: 2026-01-31
"""
HUB_SET = """\
name: {name} from the Hub
source:
  kind: hub
  repo: {repo}
  revision: unresolved
  split: test
  image_column: image
  label_column: label
label_space: digits
size: 60
native_size: 8
channels: 1
gated: {gated}
license: CC-BY-4.0
display_allowed: true
citation: UCI digits
added: 2026-01-31
"""
BOARD = """\
name: Digits
summary: Digits of the Hub.
label_space: digits
datasets: [hub-set, closed-set]
columns:
  - id: clean
    title: Clean
    group: Natural
    benchmark: clean-v1
    dataset: hub-set
  - id: closed
    title: Closed
    group: Natural
    benchmark: clean-v1
    dataset: closed-set
order: clean
"""
TABLE = "data/test-00000-of-00001.parquet"
MODEL, SET, CLOSED, OUT = "org/net", "org/digits", "org/closed-digits", "org/moved-digits"


def digits_table(start: int = 1197) -> bytes:
    """Sixty digits as PNG in Parquet."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = slice(start, start + 60)
    images = (found.images[rows] * 255 / 16).astype(np.uint8)
    column = [{"bytes": encode(image), "path": None} for image in images]
    buffer = io.BytesIO()
    pq.write_table(pa.table({"image": column, "label": found.target[rows].astype(np.int64)}), buffer)
    return buffer.getvalue()


def furnish(root: Path, hub: LocalHub, asker: Asker) -> None:
    """Plant the workspace and the repositories; the Hub's model is the one that is trained here."""
    plant(root)
    for name in ("templates", "static", "pages"):
        if (ROOT / "site" / name).is_dir():
            shutil.copytree(ROOT / "site" / name, root / "site" / name)
    texts = {
        "registry/models/hub-net.yaml": HUB_MODEL.format(repo=MODEL),
        "registry/datasets/hub-set.yaml": HUB_SET.format(name="Digits", repo=SET, gated="false"),
        "leaderboard/boards/digits.yaml": BOARD,
        "registry/datasets/closed-set.yaml": HUB_SET.format(name="Closed digits", repo=CLOSED, gated="true"),
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    asker.value(
        "command",
        ["--workspace", str(root), "run", "-m", "tiny", "-b", "clean-v1", "-d", "digits", "--quiet"],
    )
    (weights,) = (root / "runs" / "weights").glob("*.safetensors")
    hub.plant({"model.safetensors": weights.read_bytes(), "config.json": b"{}"}, MODEL)
    hub.plant({TABLE: digits_table(), "README.md": b"# digits\n"}, SET, "datasets")
    hub.plant({TABLE: digits_table(1297)}, CLOSED, "datasets")
    assert (hub.root / "models" / MODEL / "main").read_text() == A
