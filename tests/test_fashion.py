"""The whole way on real input: Fashion-MNIST from the Debian package, a standard and a robust net."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
IMAGES = Path("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")
MODELS = ("fashion-std", "fashion-adv")
EPS = 0.1

pytestmark = pytest.mark.skipif(
    not IMAGES.exists(), reason="needs the Debian package dataset-fashion-mnist: sh tests/system-packages.sh"
)


def run(output: Path, *arguments: str, content: Path = ROOT) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ROBUSTBOARD_")}
    environment |= {"ROBUSTBOARD_OUTPUT": str(output), "ROBUSTBOARD_WORKSPACE": str(content)}
    models = [part for model in MODELS for part in ("-m", model)]
    command = [sys.executable, "-m", "robustboard", "run", *models, "-b", "clean-v1", "-b", "pgd-v1"]
    done = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4 ok" in done.stderr


def value(folder: Path, model: str, benchmark: str, metric: str, condition: str) -> float:
    (path,) = (folder / model).glob(f"{benchmark}--fashion-mnist*.json")
    result: dict[str, Any] = json.loads(path.read_text())
    (score,) = [s for s in result["scores"] if (s["metric"], s["condition"]) == (metric, condition)]
    return float(score["value"])


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both nets trained here and measured on the same thousand test images."""
    output = tmp_path_factory.mktemp("fashion")
    run(output, "--profile", "quick", "--quiet")
    return output


def check_order(folder: Path) -> None:
    """The robust net is at least 30 points above the standard one under PGD, and below it on clean images."""
    standard, robust = (value(folder, model, "pgd-v1", "robust_accuracy", "linf 1/10") for model in MODELS)
    assert robust >= standard + 0.30
    clean, clean_robust = (value(folder, model, "clean-v1", "clean_accuracy", "clean") for model in MODELS)
    assert clean > clean_robust > 0.7


def test_the_robust_net_wins_under_pgd_and_loses_on_clean_images(quick: Path) -> None:
    check_order(quick / "runs" / "partial")


def textbook_pgd(network: Any, images: Any, labels: Any) -> Any:
    """Forty sign steps of eps/30 from a random start, judged at the last iterate; no robustboard in it."""
    import torch

    generator = torch.Generator().manual_seed(7)
    moved = images + (torch.rand(images.shape, generator=generator) * 2 - 1) * EPS
    for _ in range(40):
        moved = moved.clamp(0, 1).detach().requires_grad_()
        (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(network(moved), labels), moved)
        moved = moved + EPS / 30 * slope.sign()
        moved = images + (moved - images).clamp(-EPS, EPS)
    right = network(images).argmax(1) == labels
    return right & (network(moved.clamp(0, 1)).argmax(1) == labels)


@pytest.mark.parametrize("model", MODELS)
def test_numbers_agree_with_an_independent_loop(quick: Path, model: str) -> None:
    """Weights from the stored safetensors, images from the raw file, attack and count spelled out here.

    Ours counts an image as broken at any iterate, so it may only be lower, and by little.
    """
    import gzip

    import timm
    import torch
    import yaml
    from safetensors.torch import load_file

    entry = yaml.safe_load((ROOT / "registry" / "models" / f"{model}.yaml").read_text())
    (result,) = (quick / "runs" / "partial" / model).glob("pgd-v1--*.json")
    run_key = json.loads(result.read_text())
    sidecars = [(p, json.loads(p.read_text())) for p in (quick / "runs" / "weights").glob("*.json")]
    wanted = run_key["key"]["weights_sha256"]
    (path,) = [p.with_suffix(".safetensors") for p, s in sidecars if s["sha256"] == wanted]
    spec, architecture = entry["input"], entry["architecture"]
    network = timm.create_model(
        architecture["name"], num_classes=10, in_chans=1, **architecture.get("arguments", {})
    )
    network.load_state_dict(load_file(path))
    network.eval()
    raw = np.frombuffer(gzip.decompress(IMAGES.read_bytes())[16:], np.uint8).reshape(-1, 1, 28, 28)
    labels_file = IMAGES.with_name("t10k-labels-idx1-ubyte.gz")
    raw_labels = np.frombuffer(gzip.decompress(labels_file.read_bytes())[8:], np.uint8)

    import pyarrow.parquet as pq

    key = run_key["key_digest"]
    shards = sorted((quick / "runs" / key[:2] / key).glob("*.parquet"))
    rows = pq.ParquetDataset([str(shard) for shard in shards]).read().to_pandas()
    attacked = rows[rows["condition"] == "linf 1/10"].head(300)
    chosen = attacked["sample_id"].str.extract(r"(\d+)$")[0].astype(int).to_numpy()
    images = torch.from_numpy(raw[chosen].astype(np.float32) / 255)
    labels = torch.from_numpy(raw_labels[chosen].astype(np.int64))
    assert (attacked["label"].to_numpy() == raw_labels[chosen]).all()

    def normalised(pixels: Any) -> Any:
        if pixels.shape[-1] != int(spec["size"]):
            pytest.fail("this loop has no resize; give the fashion nets their native size")
        return network((pixels - float(spec["mean"][0])) / float(spec["std"][0]))

    expected = float(textbook_pgd(normalised, images, labels).float().mean())
    ours = float((attacked["predicted"] == attacked["label"]).mean())

    assert expected - 0.03 <= ours <= expected + 0.01


@pytest.mark.long
def test_all_ten_thousand_images(tmp_path: Path) -> None:
    """Measured anew, from content without the committed results."""
    for name in ("registry", "benchmarks", "runners"):
        shutil.copytree(ROOT / name, tmp_path / "content" / name)
    run(tmp_path / "out", "--quiet", content=tmp_path / "content")
    check_order(tmp_path / "out" / "leaderboard" / "results")
