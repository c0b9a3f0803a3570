"""Types of the entries under registry/: one YAML file each, the file's stem is the id."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard.fields import (
    Channels,
    Commit,
    Count,
    Day,
    EntryId,
    Exact,
    Flag,
    HttpsUrl,
    Index,
    Line,
    Name,
    Number,
    Prose,
    RelativePath,
    RepoId,
    Revision,
    Seed,
    Sha256,
    Word,
)
from robustboard.yamls import Frozen

Norm = Literal["linf", "l2"]
Interpolation = Literal["nearest", "bilinear", "bicubic"]
UNRESOLVED = "unresolved"


class FilePin(Frozen):
    """One file and its content."""

    path: RelativePath
    sha256: Sha256


class HubWeights(Frozen):
    """Weights in a Hugging Face model repository, at one commit."""

    kind: Literal["hub"]
    repo: RepoId
    revision: Revision
    files: tuple[FilePin, ...] = ()


class FileWeights(Frozen):
    """A weights file in a data folder of this machine."""

    kind: Literal["file"]
    path: RelativePath
    sha256: Sha256


class PackageWeights(Frozen):
    """A file inside an installed Python distribution."""

    kind: Literal["package"]
    distribution: Word
    path: RelativePath
    sha256: Sha256


class StandardTraining(Frozen):
    """Cross-entropy on clean images: AdamW, one-cycle learning rate, seeded order and initialisation."""

    method: Literal["standard"]
    dataset: EntryId
    images: Count | None = None
    """Train on the first so many images; all when absent."""
    epochs: Count
    batch_size: Count
    learning_rate: Exact
    weight_decay: Exact = Fraction(0)
    shift: Index = 0
    """Random shifts by up to so many pixels, filled with the border's value."""


class FgsmTraining(Frozen):
    """FGSM adversarial training with a random start (Wong et al. 2020, "Fast is better than free")."""

    method: Literal["fgsm-adversarial"]
    dataset: EntryId
    images: Count | None = None
    epochs: Count
    batch_size: Count
    learning_rate: Exact
    weight_decay: Exact = Fraction(0)
    shift: Index = 0
    eps: Exact
    """Linf budget, an exact fraction of the [0, 1] pixel range."""
    relative_step: Exact
    """Step size as a fraction of eps (1.25 in the paper)."""


Recipe = Annotated[StandardTraining | FgsmTraining, Field(discriminator="method")]


class TrainedWeights(Frozen):
    """Weights that this project trains on the spot from a recipe and a seed."""

    kind: Literal["trained-here"]
    recipe: Recipe
    seed: Seed


WeightsSource = Annotated[
    HubWeights | FileWeights | PackageWeights | TrainedWeights, Field(discriminator="kind")
]


class Architecture(Frozen):
    """Constructor of the network in its loader's library."""

    name: Word
    arguments: dict[Word, Index | tuple[Index, ...] | Flag | Word] = {}
    """Keyword arguments; whole numbers, lists of them, true or false, or one word."""
    state_map: Literal["name", "position"] = "name"
    """How stored tensors find their place: by name, or in order (equal count, shapes and last name part)."""


class InputSpec(Frozen):
    """Everything between a dataset's [0, 1] pixels and the network."""

    size: Count
    """Height and width in pixels of the network's input."""
    crop: Exact = Fraction(1)
    """Share of the shorter side kept by the centre crop; 7/8 means resize 256, crop 224."""
    interpolation: Interpolation = "bilinear"
    channels: Channels = 3
    normalization: Literal["outside", "inside"]
    """outside: robustboard applies mean and std; inside: the network does so itself."""
    mean: tuple[Number, ...] = ()
    std: tuple[Number, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> InputSpec:
        if not 0 < self.crop <= 1:
            raise ValueError(f"expected crop above 0 and at most 1, got {self.crop}")
        wanted = self.channels if self.normalization == "outside" else 0
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != wanted:
                raise ValueError(
                    f"expected {wanted} numbers in {name} (channels {self.channels},"
                    f" normalization {self.normalization}), got {len(values)}"
                )
        if any(value <= 0 for value in self.std):
            raise ValueError("expected every number in std above 0")
        return self


class ZeroShot(Frozen):
    """Prompts of a zero-shot classifier; class names come from the label space."""

    templates: tuple[Line, ...] = Field(min_length=1)
    """Each holds `{}` once, where the class name goes; class embeddings average over templates."""

    @model_validator(mode="after")
    def _check(self) -> ZeroShot:
        for template in self.templates:
            if template.count("{}") != 1:
                raise ValueError(f"expected {{}} exactly once in each template, got {template!r}")
        return self


class AdversarialTraining(Frozen):
    """The threat model that a network was trained against."""

    norm: Norm
    eps: Exact

    @model_validator(mode="after")
    def _check(self) -> AdversarialTraining:
        if self.eps <= 0 or (self.norm == "linf" and self.eps > 1):
            raise ValueError(f"expected eps as a share of the [0, 1] pixel range, got {self.eps}")
        return self


class TrainingData(Frozen):
    """What the weights have seen."""

    datasets: tuple[Line, ...] = Field(min_length=1)
    overlap: dict[EntryId, Literal["yes", "no", "unknown"]] = {}
    """Dataset id → whether its test images, or their sources, were in training."""


class ModelEntry(Frozen):
    """One image classifier."""

    id: EntryId
    name: Name
    source: WeightsSource
    loader: Annotated[str, Field(pattern=r"^(timm|open_clip|plugin:[a-z0-9][a-z0-9_-]{0,63})$")]
    """timm, open_clip, or plugin:NAME for an entry point of the group robustboard.loaders."""
    architecture: Architecture
    label_space: EntryId
    input: InputSpec
    zero_shot: ZeroShot | None = None
    training: TrainingData
    adversarial_training: AdversarialTraining | None = None
    license: Line
    paper: HttpsUrl | None = None
    bibtex: Prose | None = None
    added: Day

    @model_validator(mode="after")
    def _check(self) -> ModelEntry:
        if (self.loader == "open_clip") != (self.zero_shot is not None):
            raise ValueError("expected zero_shot exactly when the loader is open_clip")
        return self


class HubData(Frozen):
    """A Hugging Face dataset (Parquet, webdataset, image folder or archive), at one commit."""

    kind: Literal["hub"]
    repo: RepoId
    revision: Revision
    config: Word | None = None
    split: Word
    image_column: Word
    label_column: Word
    files: tuple[FilePin, ...] = ()


class FolderData(Frozen):
    """One sub-folder a class, named by class key; only declared classes may occur."""

    kind: Literal["folder"]
    path: RelativePath


class ParquetData(Frozen):
    """Parquet files with an image column (bytes, or a struct with bytes) and a label column."""

    kind: Literal["parquet"]
    files: tuple[FilePin, ...] = Field(min_length=1)
    image_column: Word
    label_column: Word


class IdxData(Frozen):
    """MNIST's IDX format, plain or gzip; hashes are of the decompressed bytes."""

    kind: Literal["idx"]
    images: FilePin
    labels: FilePin


class NpzData(Frozen):
    """A NumPy archive with uint8 images (n, h, w) or (n, h, w, c) and integer labels (n,)."""

    kind: Literal["npz"]
    file: FilePin
    images: Word = "images"
    labels: Word = "labels"


class SklearnDigits(Frozen):
    """The 1,797 UCI digits inside scikit-learn (8 by 8, values 0 to 16), or a range of their rows."""

    kind: Literal["sklearn-digits"]
    start: Index
    stop: Count


DataSource = Annotated[
    HubData | FolderData | ParquetData | IdxData | NpzData | SklearnDigits,
    Field(discriminator="kind"),
]


class DatasetEntry(Frozen):
    """One labelled set of images."""

    id: EntryId
    name: Name
    role: Literal["test", "train", "out-of-distribution"] = "test"
    """test: labelled images to measure on. train: never measured unless a benchmark names it.
    out-of-distribution: its labels are no true classes, so accuracy on it means nothing."""
    source: DataSource
    mirrors: tuple[DataSource, ...] = ()
    """Other places of the same images, tried in order when the source is absent."""
    label_space: EntryId
    label_map: dict[Word, Index] = {}
    """Stored label → class index, where they differ (SVHN's 10 → 0)."""
    class_subset: EntryId | None = None
    """The label file of the classes that occur, in its order; absent: all classes."""
    size: Count
    """Number of images."""
    native_size: Count | None = None
    """Height and width of a fixed-size set: perturbations live at this resolution. Absent: images vary,
    and perturbations live at the model's input resolution."""
    channels: Channels = 3
    gated: Flag = False
    matched_clean: EntryId | None = None
    license: Line
    display_allowed: Flag
    """Whether the site may show the images."""
    homepage: HttpsUrl | None = None
    citation: Prose
    added: Day


class LabelSpace(Frozen):
    """The classes that a model's outputs stand for; order is index."""

    id: EntryId
    name: Name
    source: Line
    classes: dict[Line, Line] = Field(min_length=2)
    """Class key (a word, a wnid, a number) → display name, in output order."""


class ClassSubset(Frozen):
    """Some classes of a label space, in the order that masked outputs are sliced."""

    id: EntryId
    name: Name
    subset_of: EntryId
    source: Line
    classes: tuple[Line, ...] = Field(min_length=2)
    """Class keys of the label space."""


class LockedFile(Frozen):
    """Content of one file when the lock was written."""

    path: Line
    size: Index
    sha256: Sha256


class LockedEntry(Frozen):
    """What `robustboard lock` resolved for one entry."""

    commit: Commit | None = None
    version: Word | None = None
    """Version of the distribution that the file came from, where it came from one."""
    files: tuple[LockedFile, ...] = ()


class ReportedScore(Frozen):
    """A number that a paper or another board states; shown, never ranked."""

    model: Line
    dataset: Line
    metric: Word
    value: Number
    unit: Literal[
        "percent",
        "fraction",
        "percentage_points",
        "percent_of_AlexNet",
        "epoch",
        "rank",
        "count",
        "dimensionless",
    ]
    table: Line | None = None
