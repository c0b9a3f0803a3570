"""Sound documents of every kind, and the judge of what is said about spoilt ones."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from robustboard import yamls
from robustboard.benchmarks.entries import BenchmarkEntry
from robustboard.errors import ContentError, Problem
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.labels import LabelSpace

SHA = "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
COMMIT = "0b2714987fa478483af9968de7c934580d0bb9a2"
MODEL = f"""\
name: Small net
source:
  kind: hub
  repo: timm/test_vit.r160_in1k
  revision: {COMMIT}
  files:
    - path: model.safetensors
      sha256: {SHA}
loader: open_clip
architecture:
  name: test_vit
  arguments:
    depth: 6
  state_map: name
label_space: shapes
input:
  size: 160
  crop: 7/8
  interpolation: bicubic
  channels: 3
  normalization: outside
  mean: [0.5, 0.5, 0.5]
  std: [0.5, 0.5, 0.5]
zero_shot:
  templates:
    - a photo of a {{}}.
training:
  datasets:
    - Shapes
  overlap:
    shapes: unknown
adversarial_training:
  norm: linf
  eps: 4/255
license: Apache-2.0
paper: https://arxiv.org/abs/1412.6572
bibtex: "@misc{{x}}"
added: 2026-01-31
"""
TRAINED = """\
name: Trained net
source:
  kind: trained-here
  seed: 7
  recipe:
    method: fgsm-adversarial
    dataset: shapes-train
    images: 100
    epochs: 3
    batch_size: 32
    learning_rate: 1e-3
    weight_decay: 0
    shift: 1
    eps: 1/10
    relative_step: 1.25
loader: timm
architecture:
  name: resnet18
label_space: shapes
input:
  size: 24
  channels: 1
  normalization: inside
training:
  datasets: [shapes-train]
license: Apache-2.0
added: 2026-01-31
"""
DATASET = f"""\
name: Shapes
role: test
source:
  kind: idx
  images:
    path: shapes/images.gz
    sha256: {SHA}
  labels:
    path: shapes/labels.gz
    sha256: {SHA}
mirrors:
  - kind: hub
    repo: org/shapes
    revision: unresolved
    config: default
    split: test
    image_column: image
    label_column: label
label_space: shapes
label_map:
  square: 1
class_subset: round
size: 10000
native_size: 28
channels: 1
gated: false
matched_clean: other
license: MIT
display_allowed: true
homepage: https://example.org/shapes
citation: "@misc{{y}}"
added: 2026-01-31
"""
PROTOCOL = """\
name: PGD
summary: An attack.
procedure:
  kind: attack
  attack: pgd
  norm: linf
  loss: cross-entropy
  random_start: true
  restarts: 1
  settings:
    - datasets: [shapes]
      label_spaces: [shapes]
      budgets: [1/255, 8/255]
      headline: 8/255
      steps: 10
      relative_step: 1/4
seed: 0
shard_size: 250
source: a test
paper: https://arxiv.org/abs/1706.06083
added: 2026-01-31
"""
LABELS = """\
name: Shapes
source: a test
classes:
  sq: square
  ci: circle
"""

WORDING = re.compile(r"[a-z/0-9.-]+:[0-9]+: (.{1,120}: )?expected .+, got .+", re.ASCII)
FOREIGN = re.compile(r"Input should|String should|Value error|pydantic|type=|function-|\bNone\b")
"""What pydantic or Python would have said."""


@dataclass(frozen=True)
class Sound:
    """A sound document of one kind."""

    text: str = field(repr=False)
    model: type[Any]
    name: str

    def problems(self, document: str | bytes) -> tuple[Problem, ...]:
        """What is wrong with a document of this kind, once each line of it was found readable."""
        return self.timed(document)[0]

    def timed(self, document: str | bytes) -> tuple[tuple[Problem, ...], float]:
        """The problems, and the processor seconds that finding them took."""
        data = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
        identity = self.name.rsplit("/", 1)[-1].removesuffix(".yaml")
        found: tuple[Problem, ...] = ()
        start = time.process_time()
        try:
            yamls.build(yamls.parse(data, self.name), self.model, self.name, identity)
        except ContentError as error:
            found = error.problems
        seconds = time.process_time() - start
        for problem in found:
            assert_readable(problem, data)
        return found, seconds


def assert_readable(problem: Problem, data: bytes) -> None:
    """One printable ASCII line of bounded length, in our own words, that names a line of the file."""
    line = str(problem)
    assert WORDING.fullmatch(line), line
    assert not FOREIGN.search(line), line
    assert line.isprintable()
    assert len(line) < 400, line
    assert 1 <= problem.line <= data.count(b"\n") + data.count(b"\r") + 1, line


@pytest.fixture(scope="session")
def sound() -> Mapping[str, Sound]:
    """A sound document of every kind."""
    return MappingProxyType(
        {
            "model": Sound(MODEL, ModelEntry, "registry/models/net.yaml"),
            "trained": Sound(TRAINED, ModelEntry, "registry/models/trained.yaml"),
            "dataset": Sound(DATASET, DatasetEntry, "registry/datasets/shapes.yaml"),
            "protocol": Sound(PROTOCOL, BenchmarkEntry, "benchmarks/pgd-v1.yaml"),
            "labels": Sound(LABELS, LabelSpace, "registry/labels/shapes.yaml"),
        }
    )


@pytest.fixture
def unhurried() -> Iterator[None]:
    """Keep the collector of the test run's own garbage out of times."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
