"""`robustboard new` against a Hub on loopback: the real client, configs as the real libraries write them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustboard.benchmarks.catalog import check as check_benchmarks
from robustboard.registry.check import check
from robustboard.registry.reported import load_reported
from tests.conftest import Plant

ROOT = Path(__file__).resolve().parent.parent
COMMIT = "0123456789" * 4
CARD = "---\nlicense: apache-2.0\ndatasets:\n- org/shapes\nlibrary_name: timm\n---\n# A card\n"
RESULTS = """\
- dataset:
    id: org/shapes
    task_id: clean-v1
    revision: "0123456789012345678901234567890123456789"
  value: 0.931
  date: "2026-01-31"
  notes: "own run"
"""
MIT = b"---\nlicense: mit\n---\n"
ANCHOR = b"---\nlicense: &x mit\n---\n"
DATA_CARD = """\
---
pretty_name: Shapes again
license: cc0-1.0
dataset_info:
  features:
  - name: image
    dtype: image
  - name: label
    dtype:
      class_label:
        names:
          '0': square
          '1': circle
          '2': triangle
  splits:
  - name: test
    num_bytes: 1000
    num_examples: 12
---
"""


@dataclass
class Hub:
    """A Hub's folder, and a process in which commands run against it."""

    root: Path
    driver: subprocess.Popen[str]

    def repository(self, kind: str, name: str, files: dict[str, bytes]) -> None:
        folder = self.root / kind / name
        for path, content in files.items():
            place = folder / COMMIT / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        (folder / "main").write_text(COMMIT)

    def run(self, workspace: Path, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one command."""
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(["--workspace", str(workspace), *words]) + "\n")
        self.driver.stdin.flush()
        code, out, told = json.loads(self.driver.stdout.readline())
        assert "Traceback" not in told, told
        return code, out.strip(), told.strip()


def configs(folder: Path) -> tuple[bytes, bytes]:
    """The config files that timm and open_clip write for a small network of theirs."""
    import timm
    from open_clip.push_to_hf_hub import save_config_for_hf as save_open_clip
    from timm.models._hub import save_config_for_hf as save_timm
    from torch import nn

    save_timm(timm.create_model("test_resnet", num_classes=3), str(folder / "timm.json"))
    tower, clip = nn.Identity(), nn.Identity()
    for name, value in (("image_mean", (0.5,) * 3), ("image_std", (0.25,) * 3)):
        setattr(tower, name, value)
    clip.visual = tower
    shape = {"embed_dim": 16, "vision_cfg": {"image_size": 32}, "text_cfg": {"vocab_size": 10}}
    save_open_clip(clip, folder / "open_clip.json", shape)
    return (folder / "timm.json").read_bytes(), (folder / "open_clip.json").read_bytes()


def repositories(hub: Hub, timm: bytes, clip: bytes) -> None:
    """A timm, an open_clip, an unknown and a gated model, and a dataset."""
    small = {"config.json": timm, "model.safetensors": b"weights", "README.md": CARD.encode()}
    small[".eval_results/shapes.yaml"] = RESULTS.encode()
    tiny = {"open_clip_config.json": clip, "open_clip_model.safetensors": b"w", "README.md": MIT}
    odd = {"pytorch_model.bin": b"pickle", "config.json": b'{"model_type": "bert"}', "README.md": ANCHOR}
    hub.repository("models", "org/Test_ResNet.small", small)
    hub.repository("models", "org/clip-tiny", tiny)
    hub.repository("models", "org/mystery", odd)
    hub.repository("models", "org/locked", {"config.json": b"{}", "model.safetensors": b"weights"})
    (hub.root / "models/org/locked/gated").touch()
    data = {"README.md": DATA_CARD.encode(), "data/test-0.parquet": b"x"}
    hub.repository("datasets", "org/more-shapes", data)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub that serves those repositories."""
    folder = tmp_path_factory.mktemp("hub")
    timm, clip = configs(folder)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    serving = [sys.executable, str(ROOT / "tests/runners/sources/hub_server.py"), str(folder)]
    server = subprocess.Popen(serving, **pipes)
    assert server.stdout is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ROBUSTBOARD_"))}
    driver = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/runners/testsets/command_driver.py")],
        env={
            **kept,
            "PYTHONPATH": str(ROOT),
            "HF_ENDPOINT": server.stdout.readline().strip(),
            "HF_HOME": str(folder / "cache"),
            "HF_HUB_DISABLE_XET": "1",
            "PYTHONWARNINGS": "ignore",
        },
        **pipes,
    )
    found = Hub(folder, driver)
    repositories(found, timm, clip)
    yield found
    for process in (driver, server):
        process.communicate("")


def blanks_of(plant: Plant) -> dict[str, int]:
    """Field → line of everything that `check` names."""
    problems = [*check(plant.workspace), *check_benchmarks(plant.workspace)]
    assert all("TODO" in problem.message for problem in problems), problems
    return {problem.field: problem.line for problem in problems}


def filled(path: Path, answers: dict[str, str]) -> None:
    """Write answers over the blanks whose line holds a word."""
    lines = path.read_text().splitlines()
    for place, line in enumerate(lines):
        for word, answer in answers.items():
            if "TODO" in line and word in line:
                lines[place] = line.split("TODO")[0] + answer
    path.write_text("\n".join(lines) + "\n")


def test_a_timm_repository_becomes_an_entry_with_one_kind_of_blank(hub: Hub, plant: Plant) -> None:
    code, out, told = hub.run(plant.root, "new", "model", "org/Test_ResNet.small")
    assert (code, out) == (0, "registry/models/test_resnet.small.yaml")
    assert (
        "next: robustboard check; robustboard lock model/test_resnet.small; robustboard run -m test" in told
    )
    path = plant.root / out
    assert list(blanks_of(plant)) == ["training.overlap.shapes"]
    filled(path, {"were its test": "no"})
    assert blanks_of(plant) == {}
    text = path.read_text()
    assert f"revision: {COMMIT}" in text
    assert "  name: test_resnet\n" in text
    assert "  size: 160\n" in text
    assert "license: Apache-2.0\n" in text
    assert "label_space: shapes\n" in text


def test_the_entry_of_a_timm_repository_builds_the_network_that_its_own_library_configures(
    hub: Hub, plant: Plant
) -> None:
    """Input and normalisation are those that timm resolves from the same config."""
    import timm
    from timm.data.config import resolve_model_data_config

    from robustboard.registry.catalog import load_catalog

    hub.run(plant.root, "new", "model", "org/Test_ResNet.small")
    filled(plant.root / "registry/models/test_resnet.small.yaml", {"were its test": "no"})
    entry = load_catalog(plant.workspace).model("test_resnet.small")
    config = json.loads((hub.root / "timm.json").read_text())["pretrained_cfg"]
    wanted = resolve_model_data_config(timm.create_model(entry.architecture.name), {}, config)  # type: ignore[no-untyped-call]  # timm leaves it untyped
    assert (3, entry.input.size, entry.input.size) == tuple(wanted["input_size"])
    assert (entry.input.mean, entry.input.std) == (tuple(wanted["mean"]), tuple(wanted["std"]))
    assert (float(entry.input.crop), entry.input.interpolation) == (
        wanted["crop_pct"],
        wanted["interpolation"],
    )


def test_an_open_clip_repository_gets_prompts_and_blanks_for_what_only_people_know(
    hub: Hub, plant: Plant
) -> None:
    code, out, _ = hub.run(plant.root, "new", "model", "org/clip-tiny")
    assert (code, out) == (0, "registry/models/clip-tiny.yaml")
    assert set(blanks_of(plant)) == {"label_space", "training.datasets.0", "training.overlap"}
    text = (plant.root / out).read_text()
    assert "loader: open_clip" in text
    assert '    - "a photo of a {}."' in text
    assert "  std: [0.25, 0.25, 0.25]" in text
    assert "license: MIT" in text


def test_an_unknown_repository_is_all_blanks_and_says_why_it_cannot_run(hub: Hub, plant: Plant) -> None:
    code, out, told = hub.run(plant.root, "new", "model", "org/mystery")
    assert code == 0
    assert (
        "it cannot be run as it is: expected safetensors weights in org/mystery, found only pickle, which"
        in told
    )
    assert {"loader", "architecture.name", "input", "label_space", "license"} <= set(blanks_of(plant))
    assert (plant.root / out).is_file()


@pytest.mark.parametrize(
    ("repo", "said"),
    [
        ("org/nobody", "the Hub has no public repository org/nobody"),
        ("org/locked", "org/locked is gated: terms must be accepted"),
        ("https://huggingface.co/org/x", "expected a Hub repository such as timm/resnet18.a1_in1k"),
    ],
)
def test_a_repository_that_cannot_be_read_is_one_line_and_writes_nothing(
    hub: Hub, plant: Plant, repo: str, said: str
) -> None:
    before = sorted(plant.root.rglob("*"))
    code, out, told = hub.run(plant.root, "new", "model", repo)
    assert (code, out) == (2, "")
    assert said in told
    assert "\n" not in told
    assert sorted(plant.root.rglob("*")) == before


def test_an_entry_that_is_there_is_never_touched(hub: Hub, plant: Plant) -> None:
    before = (plant.root / "registry/models/net.yaml").read_bytes()
    code, _, told = hub.run(plant.root, "new", "model", "org/clip-tiny", "--id", "net")
    assert code == 2
    assert told.startswith("registry/models/net.yaml is there already: nothing was written; --id NAME")
    assert (plant.root / "registry/models/net.yaml").read_bytes() == before


def test_a_dataset_card_becomes_an_entry(hub: Hub, plant: Plant) -> None:
    code, out, told = hub.run(plant.root, "new", "dataset", "org/more-shapes")
    assert (code, out) == (0, "registry/datasets/more-shapes.yaml")
    assert "robustboard lock dataset/more-shapes" in told
    assert set(blanks_of(plant)) == {"display_allowed", "citation"}
    filled(plant.root / out, {"true only": "false", "BibTeX": "nobody"})
    assert blanks_of(plant) == {}


def test_protocols_get_the_next_free_version_and_handed_in_files_their_hash(hub: Hub, plant: Plant) -> None:
    assert hub.run(plant.root, "new", "benchmark", "pgd", "--kind", "attack")[1] == "benchmarks/pgd-v2.yaml"
    assert "summary" in blanks_of(plant)
    (plant.root / "benchmarks/pgd-v2.yaml").unlink()
    plant.write("benchmarks/external/mine.npz", b"images")
    code, out, told = hub.run(
        plant.root, "new", "external", str(plant.root / "benchmarks/external/mine.npz"), "-d", "shapes",
        "--norm", "linf", "--budget", "8/255",
    )  # fmt: skip
    assert (code, out) == (0, "benchmarks/external-mine-v1.yaml")
    text = (plant.root / out).read_text()
    assert "path: external/mine.npz" in text
    assert "sha256: 60f5ccd0c2f3b4fe4a9a9a1b9b2be83f6e0a" not in text
    assert "robustboard external check" in told
    assert "external/mine.npz" in told
    assert "put mine.npz into" not in told
    (plant.root / out).unlink()
    outside = plant.write("mine.npz", b"images")
    told = hub.run(plant.root, "new", "external", str(outside), "-d", "shapes", "--norm", "linf", "--budget",
                   "8/255", "--name", "outside")[2]  # fmt: skip
    assert "put mine.npz into benchmarks/external/ and say so under path, or into a data folder" in told


def test_result_files_of_the_hub_are_imported_as_reported_numbers(hub: Hub, plant: Plant) -> None:
    code, out, told = hub.run(plant.root, "new", "reported", "org/Test_ResNet.small")
    assert (code, out) == (0, "registry/reported/org-test_resnet.small.yaml")
    assert "1 numbers from 1 files" in told
    table = (plant.root / "registry/reported/org-test_resnet.small.csv").read_text().splitlines()
    assert (
        table[1]
        == 'shapes,org/Test_ResNet.small,"org/shapes, task clean-v1, own run",value,0.931,dimensionless'
    )
    assert len(load_reported(plant.workspace)["org-test_resnet.small"].scores) == 1
    code, _, told = hub.run(plant.root, "new", "reported", "org/clip-tiny")
    assert (code, told) == (2, "org/clip-tiny has no results in .eval_results/")


def test_an_import_never_replaces_a_table_nor_leaves_an_entry_without_one(hub: Hub, plant: Plant) -> None:
    table = plant.write("registry/reported/org-test_resnet.small.csv", b"mine\n")
    code, out, told = hub.run(plant.root, "new", "reported", "org/Test_ResNet.small")
    assert (code, out) == (2, "")
    assert told == "registry/reported/org-test_resnet.small.csv is there already: nothing was written"
    assert table.read_bytes() == b"mine\n"
    table.unlink()
    table.mkdir()
    assert hub.run(plant.root, "new", "reported", "org/Test_ResNet.small")[:2] == (1, "")
    assert sorted(table.parent.iterdir()) == [table]


@pytest.mark.parametrize("budget", ["", "x", "nan", "0", "-1/10", "8/0", "1e999"])
def test_a_budget_that_is_no_positive_number_writes_no_protocol(hub: Hub, plant: Plant, budget: str) -> None:
    file = plant.write("benchmarks/external/mine.npz", b"images")
    before = sorted(plant.root.rglob("*"))
    code, out, told = hub.run(
        plant.root, "new", "external", str(file), "-d", "shapes", "--norm", "linf", f"--budget={budget}"
    )
    assert (code, out) == (2, "")
    assert told.startswith("--budget: expected")
    assert "\n" not in told
    assert sorted(plant.root.rglob("*")) == before


@pytest.mark.parametrize("command", ["model", "dataset", "benchmark", "external", "reported"])
def test_each_command_has_help_with_an_example(command: str) -> None:
    from typer.testing import CliRunner

    from robustboard import cli

    shown = CliRunner().invoke(cli.app, ["new", command, "--help"], prog_name="robustboard")
    assert f"robustboard new {command}" in shown.output.split("Example")[1]


def test_no_token_goes_along(hub: Hub) -> None:
    log = (hub.root / "requests.log").read_text()
    assert " token" not in log
    assert {line.split()[0] for line in log.splitlines()} <= {"GET", "HEAD"}
    shutil.rmtree(hub.root / "cache", ignore_errors=True)
