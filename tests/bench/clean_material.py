"""Networks and image files of the clean benchmark: all made here or installed, nothing fetched."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from robustboard import workspace as places
from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.registry.catalog import Catalog, load_catalog
from robustboard.registry.entries import DatasetEntry, FolderData, InputSpec, ModelEntry
from robustboard.registry.lock import read_lock
from robustboard.runners.batching import fastest_rows
from robustboard.runners.classifier import Classifier
from robustboard.runners.folding import fold
from robustboard.runners.keys import Cell
from robustboard.runners.loaders import load_classifier
from robustboard.runners.profiles import load_profile
from robustboard.runners.samples import load_samples
from robustboard.runners.session import LoadedModel, Session
from robustboard.runners.weights import Weights
from robustboard.workspace import Workspace

WIDTHS = (16, 32, 64)
BLOCKS = 3
"""He et al. 2016, section 4.2: three stages of n blocks, n = 3 for 20 layers."""
SMALL = 32
"""Pixels of the small images, as CIFAR-10 has them."""
PHOTO = (500, 375)
"""Width and height of the photographs: the usual size of ImageNet's validation images."""
LITE = "efficientnet-lite0"
BENCHMARK = "clean-v1"
TRAIN = 1_500
"""Fashion-MNIST images that the small network is trained on, twice."""


class Block(nn.Module):
    """Two convolutions beside a shortcut, which takes every other pixel where they shrink (option A)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride, self.added = (1, 0) if before == after else (2, after - before)
        self.conv1 = nn.Conv2d(before, after, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)

    def forward(self, images: Tensor) -> Tensor:
        """(n, before, h, w) → (n, after, h / stride, w / stride)."""
        found = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(images)))))
        short = images[:, :, :: self.stride, :: self.stride]
        return functional.relu(found + functional.pad(short, (0, 0, 0, 0, 0, self.added)))


def resnet20(classes: int) -> nn.Sequential:
    """The 20-layer residual network for 32 x 32 images, untrained."""
    before = WIDTHS[0]
    layers: list[nn.Module] = [nn.Conv2d(3, before, 3, 1, 1, bias=False), nn.BatchNorm2d(before), nn.ReLU()]
    for width in WIDTHS:
        for _ in range(BLOCKS):
            layers.append(Block(before, width))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


@dataclass(frozen=True)
class Setting:
    """One network on one folder of image files, for all contenders."""

    id: str
    about: str
    root: Path
    """Holds one folder a class."""
    classes: dict[str, int]
    """Folder → class."""
    spec: InputSpec
    plain: nn.Module
    """As people have it who load it themselves: normalised images in, PyTorch's own memory layout."""
    session: Session
    model: LoadedModel
    cell: Cell
    images: int
    batch: int
    """Images a pass of ours: what the runner's probe finds, which a set of 50,000 images is worth."""


def scale(pixels: npt.NDArray[np.uint8]) -> Tensor:
    """Grey images (n, h, w) as 32 x 32 colour images (n, 3, 32, 32) in [0, 1]."""
    grown = [np.asarray(Image.fromarray(each).resize((SMALL, SMALL))) for each in pixels]
    return torch.from_numpy(np.stack(grown)[:, None]).float().div(255).expand(-1, 3, -1, -1)


def train(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Two epochs of Adam on images normalised by 0.5."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    generator = torch.Generator().manual_seed(0)
    network.train()
    for _ in range(2):
        for rows in torch.split(torch.randperm(len(images), generator=generator), 50):
            optimizer.zero_grad()
            loss = functional.cross_entropy(network((images[rows] - 0.5) / 0.5), labels[rows])
            torch.autograd.backward(loss)
            optimizer.step()


def small(catalog: Catalog, folder: Path, *, images: int, progress: Callable[[str], None]) -> Setting:
    """A 20-layer network on JPEG files of Fashion-MNIST, enlarged to 32 pixels.

    Raises CellError where Fashion-MNIST is not on this machine.
    """
    content = places.find()
    entry = catalog.dataset("fashion-mnist")
    space = catalog.label_space(entry.label_space)
    spec = InputSpec(size=28, channels=1, normalization="inside")
    lock = read_lock(content)
    sets = [
        load_samples(catalog.dataset(name), space, workspace=content, lock=lock, input=spec, catalog=catalog)
        for name in ("fashion-mnist-train", "fashion-mnist")
    ]
    progress("training the small network")
    torch.manual_seed(0)
    network = resnet20(len(space.classes))
    chosen, shown = range(TRAIN), range(images)
    bytes_of = [
        np.rint(each.pixels(rows)[:, 0] * 255).astype(np.uint8)
        for each, rows in zip(sets, (chosen, shown), strict=True)
    ]
    train(network, scale(bytes_of[0]), torch.from_numpy(sets[0].labels[:TRAIN].copy()))
    keys = list(space.classes)
    for row, pixels in zip(shown, bytes_of[1], strict=True):
        grown = Image.fromarray(pixels).resize((SMALL, SMALL)).convert("RGB")
        write(folder / "data" / "small" / keys[int(sets[1].labels[row])] / f"{row:05d}.jpg", grown)
    half = (0.5, 0.5, 0.5)
    spec = InputSpec.model_validate({"size": SMALL, "normalization": "outside", "mean": half, "std": half})
    return setting(
        catalog,
        folder,
        "small",
        f"ResNet-20, {images} JPEG files of {SMALL} x {SMALL} pixels",
        entry=catalog.model("fashion-std").model_copy(update={"id": "small", "input": spec}),
        dataset=entry.model_copy(update={"id": "small", "channels": 3, "native_size": None, "size": images}),
        network=network,
    )


def write(path: Path, image: Image.Image) -> None:
    """Save as a JPEG file of quality 90."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    path.write_bytes(buffer.getvalue())


def photos(catalog: Catalog, folder: Path, *, images: int, progress: Callable[[str], None]) -> Setting:
    """EfficientNet-Lite0 with its published weights on photographs of ImageNet classes, in various crops."""
    progress("cutting photographs")
    entry = catalog.model(LITE)
    keys = list(catalog.label_space(entry.label_space).classes)
    shelf = resources.files("foolbox").joinpath("data")
    names = sorted(each.name for each in shelf.iterdir() if each.name.startswith("imagenet_"))
    generator = np.random.default_rng(0)
    for number in range(images):
        name = names[number % len(names)]
        label = int(name.removesuffix(".jpg").rsplit("_", 1)[1])
        with Image.open(io.BytesIO(shelf.joinpath(name).read_bytes())) as image:
            side = 600 + int(generator.integers(100))
            whole = image.convert("RGB").resize((side, side * image.height // image.width))
        spare = [max(1, have - want + 1) for have, want in zip(whole.size, PHOTO, strict=True)]
        left, top = (int(generator.integers(each)) for each in spare)
        cut = whole.crop((left, top, left + PHOTO[0], top + PHOTO[1]))
        write(folder / "data" / "photos" / keys[label] / f"{number:05d}.jpg", cut)
    dataset = catalog.dataset("imagenet-1k").model_copy(
        update={"id": "photos", "gated": False, "size": images, "mirrors": ()}
    )
    return setting(
        catalog,
        folder,
        "photos",
        f"EfficientNet-Lite0, {images} JPEG files of {PHOTO[0]} x {PHOTO[1]} pixels",
        entry=entry,
        dataset=dataset,
        network=None,
    )


def setting(
    catalog: Catalog,
    folder: Path,
    name: str,
    about: str,
    *,
    entry: ModelEntry,
    dataset: DatasetEntry,
    network: nn.Module | None,
) -> Setting:
    """Entries, session and network of one folder data/NAME of files."""
    content = places.find().content
    dataset = dataset.model_copy(update={"source": FolderData(kind="folder", path=name)})
    catalog = replace(
        catalog,
        models={**catalog.models, entry.id: entry},
        datasets={**catalog.datasets, name: dataset},
    )
    workspace = Workspace(content, folder)
    session = Session(
        workspace=workspace,
        catalog=catalog,
        benchmarks=load_benchmarks(workspace, catalog),
        lock=read_lock(workspace),
        profile=load_profile(workspace, "cpu").model_copy(update={"threads": torch.get_num_threads()}),
        use_committed=False,
    )
    space = catalog.label_space(entry.label_space)
    if network is None:
        model = session.model(entry.id)
        plain = plain_copy(session, entry)
    else:
        model = LoadedModel(session, entry, Weights(Path("made here"), "0" * 64))
        plain = network.eval()
        classifier = Classifier(resnet20(len(space.classes)), entry.input, len(space.classes))
        classifier.network.load_state_dict(network.state_dict())
        fold(classifier)
        # The network was trained in memory; from here on all is as for any other model.
        model.__dict__["classifier"] = classifier
    keys = list(space.classes)
    root = folder / "data" / name
    return Setting(
        id=name,
        about=about,
        root=root,
        classes={each.name: keys.index(each.name) for each in root.iterdir()},
        spec=entry.input,
        plain=plain,
        session=session,
        model=model,
        cell=Cell(entry.id, BENCHMARK, name),
        images=dataset.size,
        batch=fastest_rows(
            model.classifier,
            (3, entry.input.size, entry.input.size),
            session.profile.batch_size,
            session.device,
        ),
    )


def plain_copy(session: Session, entry: ModelEntry) -> nn.Module:
    """The network of a registered model as timm's users have it: not folded, PyTorch's own memory layout."""
    space = session.catalog.label_space(entry.label_space)
    loaded = load_classifier(entry, space, session.model(entry.id).weights)
    return loaded.network.to(memory_format=torch.contiguous_format)


def load(folder: Path, *, only: str | None, quick: bool, progress: Callable[[str], None]) -> list[Setting]:
    """Both settings or one of them, their files under `folder`. Raises CellError for what is missing."""
    catalog = load_catalog(places.find())
    makers = {"small": (small, 100 if quick else 1_000), "photos": (photos, 16 if quick else 96)}
    return [
        make(catalog, folder, images=images, progress=progress)
        for name, (make, images) in makers.items()
        if only in (None, name)
    ]
