"""The wheel holds the package with its content and nothing else, and finds it from anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, cwd: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ROBUSTBOARD_")}
    environment |= {"PYTHONPATH": str(installed), **variables}
    return subprocess.run(
        [sys.executable, "-m", "robustboard", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_wheel_holds_the_package_and_its_content_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {part for part in top if not part.endswith(".dist-info")} == {"robustboard"}
    for path in sorted((ROOT / "registry").rglob("*.yaml")) + sorted((ROOT / "benchmarks").glob("*.yaml")):
        assert f"robustboard/_content/{path.relative_to(ROOT).as_posix()}" in names
    assert any(name.startswith("robustboard/_content/site/templates/") for name in names)
    assert not [name for name in names if "_build" in name or "__pycache__" in name]
    assert "robustboard/py.typed" in names


def test_plain_wheel_reads_its_own_content_from_another_folder(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "list", "models", "--json")
    assert done.returncode == 0, done.stderr
    listed = {row["id"] for row in json.loads(done.stdout)}
    assert listed == {path.stem for path in (ROOT / "registry" / "models").glob("*.yaml")}


def test_missing_registry_is_an_error_and_never_an_empty_list(installed: Path, tmp_path: Path) -> None:
    for arguments, variables in (
        (("--workspace", str(tmp_path), "list", "models"), {}),
        (("list", "models"), {"ROBUSTBOARD_WORKSPACE": str(tmp_path)}),
    ):
        done = run(installed, tmp_path, *arguments, **variables)
        assert (done.returncode, done.stdout) == (2, "")
        assert "expected a workspace with registry/lock.yaml" in done.stderr
        assert done.stderr.count("\n") == 1


def test_workspace_option_points_at_another_tree(installed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for folder in ("registry/models", "registry/datasets", "registry/labels", "benchmarks"):
        (other / folder).mkdir(parents=True)
    (other / "registry" / "lock.yaml").write_text("{}\n")
    done = run(installed, tmp_path, "--workspace", str(other), "list", "models", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


def test_every_dependency_has_a_lower_bound_and_no_cap() -> None:
    extras = [r for name in PROJECT["optional-dependencies"].values() for r in name]
    for requirement in [*PROJECT["dependencies"], *extras]:
        assert re.fullmatch(r"[a-z0-9-]+>=\d+(\.\d+)*", requirement), requirement


def test_the_extras_that_the_readme_names_exist() -> None:
    assert set(PROJECT["optional-dependencies"]) >= {"corruptions", "slurm", "ray", "dev"}


@pytest.mark.long
def test_the_oldest_allowed_versions_run_the_demo_path(tmp_path: Path) -> None:
    """B074: lowest versions of all but torch, on top of this environment's other packages."""
    lowest = tmp_path / "lowest"
    pins = [r.replace(">=", "==") for r in PROJECT["dependencies"] if not r.startswith("torch")]
    # pydantic goes with one pydantic-core only, and old pandas wants pytz, which nothing else brings.
    alone = [pin for pin in pins if not pin.startswith("pydantic")]
    paired = [pin for pin in pins if pin.startswith("pydantic")]
    for wanted in (["--no-deps", *alone, "pytz"], paired):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(lowest), *wanted]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{lowest}{os.pathsep}{ROOT}"}
    for arguments in (
        ["--help"],
        ["check"],
        ["run", "-m", "digits-resnet", "-b", "pgd-v1", "--profile", "smoke"],
        ["board"],
        ["site"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "robustboard", *arguments],
            cwd=ROOT,
            env=environment | {"ROBUSTBOARD_OUTPUT": str(work)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
