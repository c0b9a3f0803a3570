from __future__ import annotations

import gzip
import hashlib
import importlib.util
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from robustboard.errors import CellError, LockError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.entries import DatasetEntry, HubData, HubWeights, LockedEntry, ModelEntry
from robustboard.registry.generators import HubFolder
from robustboard.registry.lock import Lock
from robustboard.registry.resolve import Resolver, digest_file, digest_folder

Plant = Any


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def find_in(root: Path) -> Any:
    def find(path: str) -> Path:
        found = root / "data" / path
        if not found.exists():
            raise CellError("missing", f"{path} is in no data folder")
        return found

    return find


def resolve(plant: Plant, source: str, *, kind: str = "dataset") -> LockedEntry | None:
    """Resolve the planted dataset or model with another source."""
    entry: ModelEntry | DatasetEntry
    if kind == "dataset":
        path, old = "registry/datasets/shapes.yaml", "  kind: folder\n  path: shapes/test\n"
    else:
        path = "registry/models/net.yaml"
        text = (plant.root / path).read_text()
        old = text[text.index("  kind: hub") : text.index("loader:")]
    plant.edit(path, old, source)
    catalog = load_catalog(plant.workspace)
    entry = catalog.dataset("shapes") if kind == "dataset" else catalog.model("net")
    locked = Resolver(find_in(plant.root)).resolve(entry)
    if locked is not None:
        assert Lock({f"{kind}/{entry.id}": locked}).pin(entry) == locked
    return locked


def test_parquet_and_npz_files_are_hashed_as_they_lie(plant: Plant) -> None:
    data = b"PAR1 of a test"
    plant.write("data/a/x.parquet", data)
    columns = "  image_column: image\n  label_column: label\n"
    files = f"  files:\n    - path: a/x.parquet\n      sha256: {sha(data)}\n"
    locked = resolve(plant, "  kind: parquet\n" + files + columns)
    assert locked is not None
    assert [(f.path, f.size, f.sha256) for f in locked.files] == [("a/x.parquet", len(data), sha(data))]


def test_idx_files_are_hashed_unpacked_so_that_packing_anew_changes_nothing(plant: Plant) -> None:
    images, labels = b"\0\0\x08\x03 images", b"\0\0\x08\x01 labels"
    plant.write("data/i.gz", gzip.compress(images, 9))
    plant.write("data/l", labels)
    source = (
        f"  kind: idx\n  images:\n    path: i.gz\n    sha256: {sha(images)}\n"
        f"  labels:\n    path: l\n    sha256: {sha(labels)}\n"
    )
    locked = resolve(plant, source)
    assert locked is not None
    assert [(f.size, f.sha256) for f in locked.files] == [
        (len(images), sha(images)),
        (len(labels), sha(labels)),
    ]


def test_a_folder_has_the_hash_of_what_sha256sum_prints(plant: Plant) -> None:
    for name, data in (("b/two.png", b"two"), ("a/one.png", b"one"), ("a-b/z.png", b"")):
        plant.write(f"data/shapes/test/{name}", data)
    locked = resolve(plant, "  kind: folder\n  path: shapes/test\n")
    assert locked is not None
    listed = subprocess.run(
        "find . -type f | LC_ALL=C sed 's,^./,,' | LC_ALL=C sort | xargs sha256sum",
        shell=True,
        cwd=plant.root / "data/shapes/test",
        capture_output=True,
        check=True,
    ).stdout
    assert [(f.path, f.size, f.sha256) for f in locked.files] == [("shapes/test", 6, sha(listed))]


def test_a_folder_with_a_link_or_without_files_is_refused(plant: Plant) -> None:
    folder = plant.root / "data/shapes/test"
    folder.mkdir(parents=True)
    with pytest.raises(LockError, match="expected files in the folder, got none"):
        digest_folder(folder)
    (folder / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(LockError, match="expected files and folders only, got a link"):
        digest_folder(folder)


def test_the_digits_are_hashed_unpacked_and_without_a_version(plant: Plant) -> None:
    """Every release of scikit-learn ships the same table, packed by another zlib perhaps."""
    plant.edit("registry/datasets/shapes.yaml", "size: 4", "size: 5")
    locked = resolve(plant, "  kind: sklearn-digits\n  start: 0\n  stop: 5\n")
    assert locked is not None
    assert locked.version is None
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    assert locked.files[0].sha256 == sha(gzip.decompress(path.read_bytes()))


def test_a_file_of_a_package_is_locked_with_the_version(plant: Plant) -> None:
    distribution = metadata.distribution("pydantic")
    data = Path(str(distribution.locate_file("pydantic/py.typed"))).read_bytes()
    source = f"  kind: package\n  distribution: pydantic\n  path: pydantic/py.typed\n  sha256: {sha(data)}\n"
    locked = resolve(plant, source, kind="model")
    assert locked is not None
    assert locked.version == distribution.version
    assert locked.files[0].size == len(data)


@pytest.mark.parametrize(
    ("name", "path", "said"),
    [
        ("no-such-distribution", "x.pth", "run: pip install no-such-distribution"),
        ("pydantic", "pydantic/none.pth", "holds no file pydantic/none.pth"),
        ("pydantic", "pydantic/py.typed", "expected SHA-256 " + "0" * 64),
    ],
)
def test_a_package_that_is_absent_or_other_is_refused(plant: Plant, name: str, path: str, said: str) -> None:
    source = f"  kind: package\n  distribution: {name}\n  path: {path}\n  sha256: {'0' * 64}\n"
    with pytest.raises(LockError) as caught:
        resolve(plant, source, kind="model")
    assert said in str(caught.value)


def test_other_bytes_than_the_entry_names_are_refused(plant: Plant) -> None:
    plant.write("data/w.safetensors", b"weights")
    with pytest.raises(LockError) as caught:
        resolve(plant, f"  kind: file\n  path: w.safetensors\n  sha256: {'0' * 64}\n", kind="model")
    assert f"expected SHA-256 {'0' * 64}, got {sha(b'weights')}" in str(caught.value)
    assert str(caught.value).startswith("model/net: w.safetensors:")


def test_an_absent_file_is_named_with_its_entry(plant: Plant) -> None:
    with pytest.raises(LockError, match=r"^model/net: w\.safetensors is in no data folder"):
        resolve(plant, f"  kind: file\n  path: w.safetensors\n  sha256: {'0' * 64}\n", kind="model")


def test_a_damaged_gzip_is_refused(plant: Plant) -> None:
    path = plant.write("data/i.gz", gzip.compress(b"x" * 10_000)[:-9])
    with pytest.raises(LockError, match="expected a readable file"):
        digest_file(path, unpack=True)


def test_weights_that_are_trained_here_have_no_line(plant: Plant) -> None:
    source = (
        "  kind: trained-here\n  seed: 0\n  recipe:\n    method: standard\n    dataset: shapes-train\n"
        "    epochs: 1\n    batch_size: 8\n    learning_rate: 0.1\n"
    )
    assert resolve(plant, source, kind="model") is None


def test_the_hub_is_asked_through_the_callable_alone(plant: Plant) -> None:
    entry = load_catalog(plant.workspace).model("net")
    with pytest.raises(LockError, match="lies on the Hub"):
        Resolver(find_in(plant.root)).resolve(entry)
    asked: list[tuple[str, str]] = []

    def hub(kind: str, source: HubWeights | HubData | HubFolder) -> LockedEntry:
        asked.append((kind, source.repo))
        return LockedEntry(commit="0123456789" * 4)

    assert Resolver(find_in(plant.root), hub).resolve(entry) == LockedEntry(commit="0123456789" * 4)
    assert asked == [("model", "timm/test_vit.r160_in1k")]
