"""A workspace with a test set of digits: the model trained there is the oracle, the generator built in."""

from __future__ import annotations

from pathlib import Path

from robustboard.workspace import Workspace
from tests.runners.small import DIGITS_MODEL, Place, plant_digits

ORACLE = """\
name: The tiny net
summary: A test.
judge:
  kind: classifier
  model: tiny
label_space: digits
competence:
  - dataset: digits
    accuracy: 0.4
license: MIT
added: 2026-01-31
"""
GENERATOR = """\
name: Built-in
summary: A test.
method:
  kind: transformations
  transformations: [affine, colour]
license: Apache-2.0
added: 2026-01-31
"""
TESTSET = """\
set: moved-digits
version: {version}
name: Moved digits
summary: Digits moved until the oracle objects.
dataset: digits
generator: built-in
oracle: judge
{model}budget: 4
step_size: 0.02
per_class: {per_class}
attempts: 2
seed: {seed}
license: CC BY 4.0
added: 2026-01-31
{more}"""


def recipe_text(
    version: str = "1.0.0", *, per_class: int = 4, seed: int = 1, model: str = "", more: str = ""
) -> str:
    return TESTSET.format(version=version, per_class=per_class, seed=seed, model=model, more=more)


def plant(root: Path, **recipes: str) -> Place:
    """The workspace; recipes are texts by their version with _ for dots, moved-digits 1.0.0 when none."""
    plant_digits(root)
    texts = {
        "registry/oracles/judge.yaml": ORACLE,
        "registry/generators/built-in.yaml": GENERATOR,
        "registry/models/tiny.yaml": DIGITS_MODEL.replace("epochs: 4", "epochs: 12"),
    }
    for version, text in (recipes or {"v1_0_0": recipe_text()}).items():
        name = version.removeprefix("v").replace("_", ".")
        texts[f"registry/testsets/moved-digits-{name}.yaml"] = text
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Place(Workspace(root, root))
