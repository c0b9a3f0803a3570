"""The set that comes with the project, built from its recipe: the hashes that the documentation states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from robustboard import commands
from robustboard.registry.testsets import find_test_set, load_test_sets
from robustboard.runners.progress import Silent
from robustboard.runners.testsets.build import build
from robustboard.runners.testsets.producing import material_of
from robustboard.runners.testsets.verify import verify
from robustboard.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
PARTS = {
    "dataset": "5159b41360bbc3b7efc49900a7e6e962f876a150d63b7bcceb81ca99ce3eed9d",
    "generator": "57701c78c46889ee493003b40c47ab56fb9b614a99667fefb7f8a4d6f62984a6",
    "oracle": "9bbb4e7ec05848201fe19da5c9d88a1a60cf2c54171274fb63248284cf5e4338",
    "model": "31b011169268b71108eba5fce0a849b29bb82bc3cc5921dcb0afc2b27d23203b",
}
"""Of digits-oracle@1.0.0, where the stated hashes were made: entries, weights trained here and data."""


@pytest.mark.long
def test_the_digits_have_the_content_that_is_stated(tmp_path: Path) -> None:
    """A minute: all networks are trained. Processors on which they come out otherwise make another set."""
    content = commands.load(Workspace(ROOT, tmp_path))
    recipe = find_test_set(dict(load_test_sets(content.workspace, content.catalog)), "digits-oracle@1.0.0")
    material = material_of(content, recipe, batch_size=32, allow_plugins=False, reporter=Silent())
    made = build(material, tmp_path / "set", tmp_path / "work")
    assert verify(tmp_path / "set").damages == ()
    found = {part.role: part.sha256 for part in made.manifest.parts}
    if found["oracle"] != PARTS["oracle"] or found["model"] != PARTS["model"]:
        pytest.skip("the networks trained on this processor have other weights")
    assert found == PARTS
    told = (ROOT / "docs/testsets.md").read_text()
    (stated,) = re.findall(r"`digits-oracle@1\.0\.0` \| content \| `([0-9a-f]{64})`", told)
    assert made.manifest.content_sha256 == stated
