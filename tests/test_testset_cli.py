"""`robustboard testset` as users meet it, with a real oracle, the built-in generator and a model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from datasets import load_dataset
from typer.testing import CliRunner, Result

from robustboard import cli, commands
from robustboard.errors import RobustboardError, StoreError, UserError
from robustboard.registry.testsets import load_test_sets
from robustboard.runners.progress import Silent
from robustboard.runners.testsets.manifest import MANIFEST, read_manifest, shard_path
from robustboard.runners.testsets.producing import material_of
from robustboard.workspace import Workspace
from tests.runners.small import Place
from tests.runners.testsets.places import ORACLE, plant, recipe_text
from tests.runners.testsets.sets import files

Command = Callable[..., Result]
WANDERING, CLIMBING = recipe_text(), recipe_text("1.1.0", model="model: tiny\n", per_class=2)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose net is trained and whose two sets are built."""
    root = tmp_path_factory.mktemp("template") / "place"
    place = plant(root, v1_0_0=WANDERING, v1_1_0=CLIMBING)
    for version in ("1.0.0", "1.1.0"):
        done = run(place.workspace.content, "build", f"moved-digits@{version}", "--quiet")
        assert done.exit_code == 0, done.output
    return root


def run(root: Path, *words: object) -> Result:
    return CliRunner().invoke(
        cli.app, ["--workspace", str(root), "testset", *map(str, words)], prog_name="robustboard"
    )


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "place"))


def built(root: Path, version: str = "1.0.0") -> Path:
    return root / "runs" / "testsets" / "moved-digits" / version


def refusal(result: Result, kind: type[RobustboardError] = UserError) -> str:
    """The one line that main prints."""
    assert isinstance(result.exception, kind), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


@pytest.mark.parametrize("command", ["list", "build", "verify", "pull", "publish"])
def test_each_command_has_help_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(cli.app, ["testset", command, "--help"], prog_name="robustboard")
    assert shown.exit_code == 0
    assert f"robustboard testset {command}" in shown.output.split("Example")[1]


def test_sets_are_listed_with_their_state(root: Path) -> None:
    shutil.rmtree(built(root))
    rows = json.loads(run(root, "list", "--json").stdout)
    assert [(row["set"], row["model"], row["here"]) for row in rows] == [
        ("moved-digits@1.0.0", "", "no"),
        ("moved-digits@1.1.0", "tiny", "yes"),
    ]


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_rebuilding_from_the_manifest_gives_the_same_hashes(root: Path, tmp_path: Path, version: str) -> None:
    """Feature 6: with a model to climb and without, one image at a time, elsewhere: all files equal."""
    elsewhere = Path(shutil.copytree(root, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("testsets")))
    shutil.copytree(root / "registry" / "testsets", elsewhere / "registry" / "testsets")
    manifest = built(root, version) / MANIFEST

    done = run(
        elsewhere, "build", f"moved-digits@{version}", "--from", manifest, "--to", tmp_path / "again",
        "--batch-size", 1, "--quiet",
    )  # fmt: skip

    assert done.exit_code == 0, done.output
    assert done.stderr.strip().endswith("the same hashes as in the manifest")
    assert files(tmp_path / "again") == files(built(root, version))


def test_one_damaged_bit_is_caught_and_the_file_named(root: Path) -> None:
    path = built(root) / shard_path(0, 1)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)

    done = run(root, "verify", "moved-digits@1.0.0")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"{shard_path(0, 1)}: expected ")
    assert isinstance(run(root, "build", "moved-digits@1.0.0", "--quiet").exception, StoreError)
    assert json.loads(run(root, "verify", "moved-digits@1.1.0", "--json").stdout)["damages"] == []


def test_the_images_were_judged_by_the_real_oracle(root: Path) -> None:
    """Read back by `datasets`, each image has the label that the oracle gives it, and is not its source."""
    place = Place(plant(root, v1_0_0=WANDERING).workspace)
    recipe = load_test_sets(place.workspace, place.catalog)["moved-digits-1.0.0"]
    material = material_of(place, recipe, batch_size=16, allow_plugins=False, reporter=Silent())
    rows = load_dataset(str(built(root)), split="test", cache_dir=str(root / "cache"))

    stored = np.stack([np.asarray(row["image"], np.float32)[None] for row in rows]) / np.float32(255)
    verdict = material.producer.judge(stored)
    assert verdict.predicted.tolist() == rows["label"]
    assert np.allclose(verdict.confidence, rows["oracle_confidence"], atol=1e-3)
    sources = material.samples.pixels([material.samples.ids.index(row["source_id"]) for row in rows])
    distances = np.sqrt(((stored - sources) ** 2).sum((1, 2, 3)))
    assert np.allclose(distances, rows["distance"], atol=1e-4)
    assert distances.min() > 0


def test_a_weak_oracle_is_refused_with_its_number(root: Path) -> None:
    """Feature 7: the gate stands before any image is made."""
    path = root / "registry" / "oracles" / "judge.yaml"
    path.write_text(ORACLE.replace("accuracy: 0.4", "accuracy: 0.999"))
    shutil.rmtree(built(root))
    told = refusal(run(root, "build", "moved-digits@1.0.0", "--quiet"))
    assert "of the 100 images of digits right, below the 99.9 %" in told
    assert not built(root).exists()


def test_an_entry_that_changed_since_is_named(root: Path, tmp_path: Path) -> None:
    path = root / "registry" / "generators" / "built-in.yaml"
    path.write_text(path.read_text().replace("[affine, colour]", "[affine]"))
    told = refusal(
        run(root, "build", "moved-digits@1.0.0", "--from", built(root) / MANIFEST, "--to", tmp_path / "x")
    )
    assert "generator built-in is not what the set was made with" in told
    again = refusal(run(root, "build", "moved-digits@1.0.0", "--quiet"))
    assert "made with other entries: a version is never rewritten" in again


def test_released_content_is_demanded_unless_any_will_do(root: Path, tmp_path: Path) -> None:
    """A machine that makes other images says so; for study they may be built elsewhere, not published."""
    path = root / "registry" / "testsets" / "moved-digits-1.0.0.yaml"
    path.write_text(WANDERING + f"content_sha256: '{'0' * 64}'\n")
    to = tmp_path / "other"
    assert "as released, got" in refusal(
        run(root, "build", "moved-digits@1.0.0", "--to", to, "--quiet"), StoreError
    )
    done = run(root, "build", "moved-digits@1.0.0", "--to", to, "--any-content", "--quiet")
    assert done.exit_code == 0, done.output
    told = refusal(run(root, "publish", "moved-digits@1.0.0", "--at", to, "--repo", "org/x"), StoreError)
    assert f"content_sha256: expected {'0' * 64} as released" in told


def test_too_few_images_end_with_exit_code_1(root: Path) -> None:
    """B059: said on the last line, kept under another name, refused by publish and verify."""
    plant(root, v1_2_0=recipe_text("1.2.0", per_class=30))
    done = run(root, "build", "moved-digits@1.2.0", "--quiet")
    assert done.exit_code == 1
    assert "incomplete, so not to be published; too few images of 0, 1" in done.stderr
    assert not built(root, "1.2.0").exists()
    beside = built(root, "1.2.0-incomplete")
    manifest = read_manifest(beside / MANIFEST, MANIFEST)
    for each in manifest.classes:
        assert each.attempted <= 2 * 30
    assert "is incomplete" in refusal(
        run(root, "publish", "moved-digits@1.2.0", "--at", beside, "--repo", "org/x")
    )
    assert run(root, "verify", "moved-digits@1.2.0", "--at", beside).exit_code == 1
    assert f"an incomplete one lies in {beside}" in refusal(run(root, "verify", "moved-digits@1.2.0"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("build", "moved-digit"), "unknown test set 'moved-digit' (did you mean moved-digits?)"),
        (("build", "moved-digits@2.0.0"), "unknown version of moved-digits '2.0.0'"),
        (("verify", "moved-digits@"), "expected NAME or NAME@VERSION, got 'moved-digits@'"),
        (("publish", "moved-digits@1.0.0"), "names no Hub dataset: add --repo ORG/NAME"),
        (("build", "moved-digits", "--from", "x.json"), "expected --to DIR beside --from"),
    ],
)
def test_slips_are_one_line(root: Path, words: tuple[str, ...], told: str) -> None:
    assert told in refusal(run(root, *words))


# Entries


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("version: 1.0.0", "version: 1.0"), "version: expected a version of three whole numbers"),
        (("version: 1.0.0", "version: 01.0.0"), "version: expected a version of three whole numbers"),
        (("version: 1.0.0", "version: 1.0.1"), "version: expected moved-digits-1.0.0, the file's name"),
        (("oracle: judge", "oracle: judges"), "oracle: expected a known oracle, got 'judges' (did you mean"),
        (("generator: built-in", "generator: gan"), "generator: expected a known generator, got 'gan'"),
        (("dataset: digits", "dataset: digit"), "dataset: expected a known dataset, got 'digit'"),
        (("dataset: digits", "dataset: digits-train"), "dataset: expected a dataset of role test"),
        (("budget: 4", "budget: 4\nmodel: tin"), "model: expected a known model, got 'tin'"),
        (("per_class: 4", "per_class: 0"), "per_class: expected a whole number from 1"),
        (("step_size: 0.02", "step_size: 0"), "step_size: expected a number above 0"),
        (("seed: 1", "seeds: 1"), "seeds: "),
    ],
)
def test_faults_of_entries_are_found_by_check(
    root: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], told: str
) -> None:
    """File, line, field, what was expected."""
    path = root / "registry" / "testsets" / "moved-digits-1.0.0.yaml"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))

    (root / "leaderboard" / "boards").mkdir(parents=True)
    code = commands.check(Workspace(root, root), as_json=False)

    shown = capsys.readouterr().err
    assert code == 2
    assert "registry/testsets/moved-digits-1.0.0.yaml:" in shown
    assert told in shown
